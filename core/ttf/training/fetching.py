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
_WORTH_SHOWING: Final = 10 * _MB


class Fetch:
    """`how` is for the opening of the data, which reads positions and lengths; then `bring_here`."""

    def __init__(self, config: DataConfig, reporter: Reporter, link: Link) -> None:
        self._reporter = reporter
        self._link = link
        self._shown = 0  # Bytes that the stage counts to; 0: none is shown.
        self._before = 0
        self.how = Fetching(
            limit=config.cache_limit_bytes,
            say=reporter.note,
            progress=self._advance,
            check=self._check,
        )

    def bring_here(self, data: Dataset) -> None:
        """Returns when all rows of steps are in files of this machine. Raises ConfigError if a step
        would have to ask a server."""
        refuse_over_network(data.step_sources)
        missing = bytes_to_fetch(data.step_sources)
        if missing:
            self._show(missing)
        for fetched in fetch_all(data.step_sources):  # also maps and leases what is here
            self._before += fetched

    def _advance(self, done: int, total: int) -> None:
        if not self._shown and total >= _WORTH_SHOWING:
            self._show(total)
        if self._shown:
            self._reporter.advance((self._before + done) // _MB, self._shown // _MB)

    def _show(self, total: int) -> None:
        self._shown = total
        self._reporter.stage(_STAGE, total // _MB)

    def _check(self) -> None:
        """A stop asked for meanwhile ends the run: there is no step to save yet."""
        try:
            self._link.check_stop()
        except StopAsked as asked:
            raise Stopped(
                asked.signum,
                "The run was stopped while its data was fetched, before its first step.",
                hint="What was fetched is kept: the next start goes on behind it.",
            ) from None


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
