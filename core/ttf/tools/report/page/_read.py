"""A run's files for the page. Missing or damaged parts are left out and counted."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from ttf.errors import EntryRefused
from ttf.rundir.confined import end_of
from ttf.rundir.documents import (
    CheckpointLine,
    EvalLine,
    FiledIncident,
    Manifest,
    MemoryLine,
    MiningLine,
    StepLine,
    Summary,
)
from ttf.rundir.flight_record import Flight
from ttf.rundir.run_record import RunRecord, Setting
from ttf.rundir.supervision import Sitting
from ttf.tools.report.page._phase_seconds import PhaseSeconds

MOST_LINES: Final = 4000  # Lines of a kind to keep; of longer files every n-th.
# A folder with one of these can have a report.
MARKS: Final = ("run.toml", "summary.json", "environment.json", "manifest.json", "metrics.jsonl")

_STDERR_BYTES: Final = 2000


class ShownIncident(FiledIncident, total=False):
    # with the end of the standard error
    stderr: str


@dataclass(kw_only=True)
class RunFiles:
    name: str
    summary: Summary = field(default_factory=Summary)
    manifest: Manifest = field(default_factory=Manifest)
    steps: list[StepLine] = field(default_factory=list)
    evals: list[EvalLine] = field(default_factory=list)
    mining: list[MiningLine] = field(default_factory=list)
    checkpoints: list[CheckpointLine] = field(default_factory=list)
    memory: list[MemoryLine] = field(default_factory=list)
    spent: PhaseSeconds = field(default_factory=PhaseSeconds)
    incidents: list[ShownIncident] = field(default_factory=list)
    config: list[Setting] = field(default_factory=list)
    flight: Flight | None = None
    checkpoint: int = -1  # step of the newest checkpoint, intact or not
    owner: int | None = None  # the living process that holds the folder
    sittings: tuple[Sitting, ...] = ()  # its starts by a person or a script
    problems: list[str] = field(default_factory=list)

    @property
    def guarded(self) -> bool:
        # The folder of a command under `ttf guard`: nothing inside it is known.
        return not self.config and not self.steps and "steps" not in self.summary

    def setting(self, key: str) -> tuple[str, str]:
        """(value, origin) of a configuration key; empty if missing."""
        found = next((row for row in self.config if row.key == key), Setting("", "", ""))
        return found.text.strip('"'), found.origin


class Strikes(Protocol):
    """What makes a run fit to be shown to others."""

    def text(self, text: str) -> str: ...

    def value(self, value: Any) -> Any: ...

    def entry(self, key: str, value: Any) -> Any: ...


def struck(run: RunFiles, strikes: Strikes) -> RunFiles:
    """The run as a page may show it. Steps and memory are only numbers and stay."""
    config = [
        Setting(strikes.text(key), strikes.entry(key, text), strikes.text(origin))
        for key, text, origin in run.config
    ]
    return replace(
        run,
        name=strikes.text(run.name),
        summary=strikes.value(dict(run.summary)),
        manifest=strikes.value(dict(run.manifest)),
        evals=strikes.value(run.evals),
        mining=strikes.value(run.mining),
        incidents=strikes.value(run.incidents),
        config=config,
        problems=strikes.value(run.problems),
    )


def is_reportable(folder: Path) -> bool:
    return any((folder / name).is_file() for name in MARKS) or (folder / "incidents").is_dir()


def read_run(run_dir: Path) -> RunFiles:
    record = RunRecord(run_dir)
    run = RunFiles(
        name=run_dir.resolve().name,
        summary=record.summary(),
        manifest=record.manifest(),
        config=record.settings(),
        flight=record.flight(),
        checkpoint=record.newest_checkpoint(),
        owner=record.owner(),
        sittings=record.sittings(),
        problems=record.problems,
    )
    _read_metrics(record, run)
    memory = EveryNth[MemoryLine](MOST_LINES)
    for line in record.memory():
        memory.add(line)
    run.memory = memory.items
    run.incidents = [
        {**found, "stderr": _last_words(run_dir / "incidents", found["id"])}
        for found in record.incidents()
    ]
    return run


def _read_metrics(record: RunRecord, run: RunFiles) -> None:
    # Every line counts for the sums; only some lines are kept.
    steps, evals = EveryNth[StepLine](MOST_LINES), EveryNth[EvalLine](MOST_LINES)
    mining, checkpoints = EveryNth[MiningLine](MOST_LINES), EveryNth[CheckpointLine](MOST_LINES)
    for line in record.metrics():
        run.spent.add(line)
        match line["type"]:
            case "step":
                steps.add(line)
            case "eval":
                evals.add(line)
            case "mining":
                mining.add(line)
            case "checkpoint":
                checkpoints.add(line)
    run.steps, run.evals = steps.items, evals.items
    run.mining, run.checkpoints = mining.items, checkpoints.items


def _last_words(incidents: Path, number: str) -> str:
    if not number.isdigit():  # from the summary: it may be any text, also "../.."
        return ""
    for name in ("stderr.txt", "stdout.txt"):  # of a guarded command that said all there
        try:
            words, before = end_of(incidents / number / name, incidents.parent, _STDERR_BYTES)
        except (OSError, EntryRefused):
            continue
        text = words.decode(errors="replace")
        if text.strip():
            return text.partition("\n")[2] if before else text
    return ""


T = TypeVar("T")


class EveryNth(Generic[T]):
    """Keeps every n-th of what is added, and always the last; n doubles when they become too many.

    >>> some = EveryNth[int](4)
    >>> for number in range(10):
    ...     some.add(number)
    >>> some.items
    [0, 4, 8, 9]
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._stride = 1
        self._seen = 0
        self._kept: list[T] = []
        self._last: list[T] = []

    def add(self, item: T) -> None:
        self._last = [item]
        if self._seen % self._stride == 0:
            if len(self._kept) == self._most:
                self._kept = self._kept[::2]
                self._stride *= 2
            if self._seen % self._stride == 0:
                self._kept.append(item)
                self._last = []
        self._seen += 1

    @property
    def items(self) -> list[T]:
        """At most `most` + 1."""
        return [*self._kept, *self._last]
