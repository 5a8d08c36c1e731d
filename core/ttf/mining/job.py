"""Mining jobs: what is asked and answered, as JSON that crosses a process border, and running
them: isolated or not, once more after a death, then with the next miner."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, Self

from ttf.contracts import MinerContext, Progress
from ttf.data.refs import VectorRef
from ttf.errors import GaveUp, MinerFailed, PluginUnavailable, TtfError
from ttf.mining.choose import EXACT
from ttf.mining.index_cache import IndexRecord

Say = Callable[[str], None]
Isolation = Literal["process", "none"]
ATTEMPTS: Final = 2


@dataclass(frozen=True, kw_only=True)
class MinerChoice:
    """A miner and its options, e.g. one that may take over."""

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class MiningJob:
    """The k nearest bank rows of every query of a file."""

    bank: VectorRef
    queries: str
    """A .npy file, float32 (Q, D)."""
    k: int
    miner: str
    options: Mapping[str, Any] = field(default_factory=dict)
    context: MinerContext
    out: str
    """Folder for ids.npy and scores.npy; what an equal job left there unfinished is continued."""
    cache: str | None = None
    """Folder of the index cache; None: an index is built and thrown away."""
    chunk: int = 8192
    """Queries between two durable points."""
    keep_logs: str | None = None
    """Folder for `miner-<n>.stderr.txt` of workers that failed; None: only the end is quoted."""

    def with_miner(self, choice: MinerChoice) -> MiningJob:
        return replace(self, miner=choice.name, options=choice.options)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        return cls(
            **{
                **values,
                "bank": VectorRef.from_json(values["bank"]),
                "context": MinerContext(**values["context"]),
            }
        )


@dataclass(frozen=True, kw_only=True)
class MiningReport:
    """How a job went; the numbers themselves are in the two files."""

    miner: str
    bank_rows: int
    queries: int
    k: int
    build_s: float
    search_s: float
    continued_from: int
    """Queries that an earlier attempt had already answered."""
    index: IndexRecord | None
    key: str
    """A hash of everything the answers follow from."""
    ids_path: str
    scores_path: str
    deaths: tuple[str, ...] = ()
    """What was survived on the way, one message each."""

    @property
    def reused_index(self) -> bool:
        return self.index is not None and self.index.origin == "reused"

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        index = values["index"]
        return cls(
            **{
                **values,
                "index": None if index is None else IndexRecord(**index),
                "deaths": tuple(values["deaths"]),
            }
        )


def run_job(
    job: MiningJob, *, isolation: Isolation, deadline_s: float, say: Say, progress: Progress
) -> MiningReport:
    """One attempt. Raises MinerFailed when the miner is to blame, another TtfError when not.

    What `progress` raises ends the attempt: at once in a process, else after a chunk of queries.
    The deadline holds for isolation = "process" only: nothing can stop native code in our own.
    """
    if isolation == "process":
        from ttf.mining.isolated import run_isolated

        return run_isolated(job, deadline_s, say, progress)
    from ttf.mining.work import do_job

    try:
        return do_job(job, say, progress)
    except TtfError:
        raise
    except Exception as error:
        raise MinerFailed(
            job.miner, f"The miner {job.miner!r} raised {type(error).__name__}: {error}"
        ) from error


def mine_with_fallback(
    job: MiningJob,
    fallback: Sequence[MinerChoice],
    *,
    isolation: Isolation,
    deadline_s: Callable[[MiningJob], float],
    say: Say,
    progress: Progress,
) -> MiningReport:
    """The job's miner, a second time in a fresh process, then each of `fallback` likewise.

    Every death is said. Raises GaveUp when none is left.
    """
    deaths: list[str] = []
    miners = [MinerChoice(name=job.miner, options=job.options)]
    miners += [choice for choice in fallback if choice.name != job.miner]
    for place, choice in enumerate(miners):
        if place:
            say(f"MINER REPLACED: {choice.name!r} takes over from {miners[place - 1].name!r}.")
        now = job.with_miner(choice)
        for attempt in range(1, ATTEMPTS + 1):
            try:
                report = run_job(
                    now,
                    isolation=isolation,
                    deadline_s=deadline_s(now),
                    say=say,
                    progress=progress,
                )
            except MinerFailed as error:
                deaths.append(str(error))
                again = " Trying once more." if attempt < ATTEMPTS else ""
                say(f"MINER FAILED ({choice.name}, attempt {attempt}): {error}{again}")
            except PluginUnavailable as error:
                if not place:
                    raise
                say(f"{error} {error.hint}")
                break
            else:
                return replace(report, deaths=tuple(deaths))
    tried = ", ".join(choice.name for choice in miners)
    raise GaveUp(
        f"No miner could answer; tried: {tried}. The last failure: {deaths[-1]}",
        hint=_without_them(miners),
    )


def _without_them(tried: Sequence[MinerChoice]) -> str:
    if any(choice.name == EXACT for choice in tried):
        return "The exact scan failed too: look at the failures above for what they share."
    return "Search without them: --miner exact, or name it in miner.fallback to take over."
