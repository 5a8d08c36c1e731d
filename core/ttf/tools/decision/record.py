"""The folder of a decision: what was to be tried, in which order, and what came of it.

decision.json  the files, what applies to all of them, and the outcome of each that has ended
a/, b/, ...    their runs
report.html    all of them on one page
"""

from __future__ import annotations

import string
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal, Self

from filelock import FileLock

from ttf.errors import ArtifactDamaged, ConfigError, DataMissing
from ttf.rundir.confined import read_json, refuse_foreign_entries
from ttf.rundir.documents import DECISION, GateResult, Summary
from ttf.rundir.durable import write_json
from ttf.rundir.incident_files import incident_folders
from ttf.rundir.new_folder import make_next, refuse_taken
from ttf.rundir.removing import remove_if_there
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.run_record import RunRecord
from ttf.rundir.typed_json import dataclass_from
from ttf.text.shell import quoted
from ttf.tools.studies.study import claim, release, sha256_of

MOST: Final = len(string.ascii_lowercase)
_FOLDERS: Final = Path("runs")
_KIND: Final = "else"  # runs/else-001

# What came of a configuration; empty while that is open.
Outcome = Literal["", "finished", "gate", "died"]


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A configuration, and how its run ended."""

    name: str  # "a", "b", ...: also the folder of its run
    file: str
    sha256: str
    outcome: Outcome = ""
    exit_code: int = 0
    why: str = ""  # What it died of, or which gate it missed.
    time: float = 0.0  # When that was known, in Unix seconds.

    @property
    def fell(self) -> bool:
        return self.outcome in ("gate", "died")

    @property
    def title(self) -> str:
        return f"{self.name} ({Path(self.file).name})"


@dataclass(frozen=True, kw_only=True)
class Terms:
    """What applies to every configuration: the flags of the command, and where it was started."""

    cwd: str
    sets: tuple[str, ...] = ()
    flags: Mapping[str, Any] = field(default_factory=dict)
    safe: bool = False
    remedies: bool | None = None  # False: --no-remedies


@dataclass(kw_only=True)
class Decision:
    """`begin` and `open` lock the folder until `close`; `read` does not."""

    folder: Path
    candidates: tuple[Candidate, ...]
    terms: Terms
    _lock: FileLock | None = None
    _begun: bool = False  # by this object, not by a command before
    _made: list[Path] = field(default_factory=list)  # folders that `begin` made

    # --- begun, found, continued ----------------------------------------------------------------

    @classmethod
    def begin(cls, out: Path | None, files: Sequence[Path], terms: Terms) -> Self:
        """Makes the folder. Raises ConfigError if it holds a decision or a run."""
        candidates = named(files)
        if out is not None:
            _refuse_taken(out, candidates)
        made = [each for each in (out, _FOLDERS) if each is not None and not each.exists()]
        folder = make_next(_FOLDERS, _KIND) if out is None else out
        decision = cls(folder=folder, candidates=candidates, terms=terms)
        decision._made = [folder, *made] if out is None else made
        decision._lock = claim(folder, (DECISION,))
        decision._begun = True
        decision._write()
        return decision

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Raises ConfigError if the file of a configuration that was not begun has changed."""
        cls.read(folder)  # before claiming would make a folder
        lock = claim(folder, (DECISION,))
        try:
            decision = cls.read(folder)
            decision._lock = lock
            decision._refuse_changed()
        except BaseException:
            release(folder, lock)
            raise
        return decision

    @classmethod
    def read(cls, folder: Path) -> Self:
        """The current state, also while another process is at it."""
        try:
            found = read_json(folder / DECISION, folder)
            candidates = tuple(dataclass_from(Candidate, one) for one in found["candidates"])
            if [c.name for c in candidates] != list(string.ascii_lowercase[: len(candidates)]):
                raise ValueError("names")  # they are folders
            if not candidates:
                raise ValueError("it names no configuration")
            terms = dataclass_from(Terms, found["terms"])
        except (OSError, ArtifactDamaged, LookupError, TypeError, ValueError) as error:
            raise DataMissing(
                f"{folder / DECISION} cannot be read ({type(error).__name__}: {error}).",
                hint=f"Its runs are still there: ttf runs list {quoted(folder)}",
            ) from None
        # A link there would lead everything that reads, writes and removes in a run elsewhere.
        refuse_foreign_entries(folder, (candidate.name for candidate in candidates))
        return cls(folder=folder, candidates=candidates, terms=terms)

    def close(self) -> None:
        if self._lock is not None:
            release(self.folder, self._lock)

    def abandon(self) -> None:
        """Removes what `begin` made, if no run began in it."""
        if not self._begun or any(self.run_of(c).exists() for c in self.candidates):
            return
        for name in (DECISION, ".owner", ".lock"):
            remove_if_there(self.folder / name, self.folder)
        for made in self._made:
            _remove_empty(made)

    # --- what it knows ----------------------------------------------------------------------------

    @property
    def chosen(self) -> Candidate | None:
        return next((c for c in self.candidates if c.outcome == "finished"), None)

    @property
    def current(self) -> Candidate | None:
        """The one that is trained now or next; None if nothing is left to do."""
        if self.chosen is not None:
            return None
        return next((c for c in self.candidates if not c.fell), None)

    @property
    def shown(self) -> Candidate:
        """The one that a person means by the whole: chosen, running, or the last that began."""
        begun = [c for c in self.candidates if self.has_begun(c)]
        return self.chosen or (begun or [self.candidates[0]])[-1]

    @property
    def exists(self) -> bool:
        """False after `abandon`."""
        return (self.folder / DECISION).is_file()

    @property
    def owner(self) -> int | None:
        """The living process that is at it."""
        return RunRecord(self.folder).owner()

    @property
    def status(self) -> str:
        if self.chosen is not None:
            return "finished"
        if self.current is None:
            return "failed"
        return "running" if self.owner is not None else "unfinished"

    def run_of(self, candidate: Candidate) -> Path:
        return self.folder / candidate.name

    def has_begun(self, candidate: Candidate) -> bool:
        return RunFolder(self.run_of(candidate)).config.is_file()

    def summary_of(self, candidate: Candidate) -> Summary:
        return RunFolder(self.run_of(candidate)).read_summary()

    def document(self) -> dict[str, Any]:
        """For --json of the commands that show it."""
        return {
            "folder": str(self.folder),
            "chosen": None if self.chosen is None else self.chosen.name,
            "candidates": [self._one(candidate) for candidate in self.candidates],
        }

    def _one(self, candidate: Candidate) -> dict[str, Any]:
        summary = self.summary_of(candidate)
        gates: list[GateResult] = summary.get("gates") or []
        return {
            "name": candidate.name,
            "file": candidate.file,
            "run_dir": str(self.run_of(candidate)) if self.has_begun(candidate) else None,
            "outcome": candidate.outcome or None,
            "exit_code": candidate.exit_code if candidate.outcome else None,
            "why": candidate.why,
            "gates": gates,
            "incidents": [found.get("class") for found in summary.get("incidents") or ()],
        }

    # --- what becomes known ---------------------------------------------------------------------

    def note(
        self, candidate: Candidate, outcome: Outcome, exit_code: int, why: str = ""
    ) -> Candidate:
        """Durable when this returns."""
        code, now = int(exit_code), time.time()
        known = replace(candidate, outcome=outcome, exit_code=code, why=why, time=now)
        self.candidates = tuple(known if c.name == known.name else c for c in self.candidates)
        self._write()
        return known

    def _write(self) -> None:
        candidates = [asdict(candidate) for candidate in self.candidates]
        document = {"format": 1, "candidates": candidates, "terms": asdict(self.terms)}
        write_json(self.folder / DECISION, document, "decision")

    def _refuse_changed(self) -> None:
        # A run that began has its own run.toml.
        for candidate in self.candidates:
            if candidate.fell or self.chosen is not None or self.has_begun(candidate):
                continue
            if sha256_of(Path(candidate.file)) != candidate.sha256:
                raise ConfigError(
                    f"{candidate.file} has changed since the decision in {self.folder} began.",
                    hint="Restore it, or start a new decision: ttf train A.toml --else B.toml",
                )


def named(files: Sequence[Path]) -> tuple[Candidate, ...]:
    """Raises ConfigError if there are too many, one is given twice or cannot be read."""
    if len(files) > MOST:
        raise ConfigError(f"{len(files)} configurations are too many: at most {MOST}.")
    missing = [str(file) for file in files if not file.is_file()]
    if missing:
        raise ConfigError(
            f"There is no file {', '.join(missing)}.", hint="Nothing was trained. Check the path."
        )
    whole = [file.absolute() for file in files]
    twice = next((file for file in whole if whole.count(file) > 1), None)
    if twice is not None:
        raise ConfigError(
            f"{twice} is given twice: what made it fail would make it fail again.",
            hint="To restart the same configuration after crashes: --set supervise.max_restarts=N",
        )
    return tuple(
        Candidate(name=name, file=str(file), sha256=sha256_of(file))
        for name, file in zip(string.ascii_lowercase, whole, strict=False)
    )


def last_incident(run: Path) -> str:
    """Its number; empty if there is none."""
    return max((folder.name for folder in incident_folders(run / "incidents")), default="")


def _refuse_taken(out: Path, candidates: Sequence[Candidate]) -> None:
    for folder in (out, *(out / candidate.name for candidate in candidates)):
        if (folder / DECISION).exists():
            kind = "a decision of ttf train --else"
        elif RunFolder(folder).is_run():
            kind = "a run"
        else:
            continue
        raise ConfigError(
            f"{folder} already contains {kind}.",
            hint=f"To continue it: ttf resume {quoted(folder)}. For a new decision, choose "
            "another --out.",
        )
    names = [candidate.name for candidate in candidates]
    refuse_taken(out, (*names, "run.toml", "report.html"), "decision")


def _remove_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:  # it holds another file: it stays
        return
