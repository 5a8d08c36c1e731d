"""How a run fetches what is in an object store, before its first step."""

from __future__ import annotations

from typing import Final

from ttf.config.schema import DataConfig
from ttf.data.dataset import Dataset
from ttf.data.elsewhere import bytes_to_fetch, fetch_all, refuse_over_network
from ttf.data.shards import Fetching
from ttf.errors import Stopped
from ttf.process.signals import StopAsked
from ttf.text.numbers import size
from ttf.text.progress import Reporter
from ttf.training.supervisor_link import Link

_STAGE: Final = "fetch MB"
_MB: Final = 1_000_000


def fetching(config: DataConfig, reporter: Reporter, link: Link) -> Fetching:
    """A stop asked for meanwhile ends the run: there is no step to save yet."""
    stages: list[int] = []

    def advance(done: int, total: int) -> None:
        if stages[-1:] != [total]:
            stages.append(total)
            reporter.stage(_STAGE, total // _MB)
        reporter.advance(done // _MB, total // _MB)

    def check() -> None:
        try:
            link.check_stop()
        except StopAsked as asked:
            raise Stopped(
                asked.signum,
                "The run was stopped while its data was fetched, before its first step.",
                hint="What was fetched is kept: the next start goes on behind it.",
            ) from None

    return Fetching(
        limit=config.cache_limit_bytes, say=reporter.note, progress=advance, check=check
    )


def bring_here(data: Dataset) -> None:
    """Returns when all rows of steps are in files of this machine. Raises ConfigError if a step would
    have to ask a server."""
    refuse_over_network(data.step_sources)
    fetch_all(data.step_sources)


def to_fetch(data: Dataset) -> str:
    """A note for a plan; empty if all rows are here."""
    refuse_over_network(data.step_sources)
    missing = bytes_to_fetch(data.step_sources)
    if not missing:
        return ""
    return (
        f"{size(missing)} of the data are not on this machine: a run fetches and checks them before "
        "its first step."
    )
