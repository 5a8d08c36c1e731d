"""What a disturbed run came to, held against the undisturbed one."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from chaos.running import Death, Place, wait_until
from chaos.world import STEPS, Reference, records, reference_of

from ttf.rundir.durable import TEMP_PREFIX

LEAVE_S: Final = 2.0
"""What is left of a run must be gone by then."""
CLASSES: Final = {
    signal.SIGKILL: "killed",
    signal.SIGSEGV: "segfault",
    signal.SIGABRT: "abort",
    signal.SIGBUS: "bus-error",
}
IDLE: Final = "idle"
"""The phase of a miner's worker that has nothing to do."""
STORAGE: Final = 8
"""The exit code of a run whose disk failed."""
FATAL: Final = tuple(CLASSES)


@dataclass(kw_only=True)
class Verdict:
    """Of one run. None: that does not apply to this fault."""

    finished: bool = False
    equal: bool | None = None
    incidents_right: bool | None = None
    deaths: int = 0
    """Faults that struck."""
    redone: list[int] = field(default_factory=list)
    bounds: list[int] = field(default_factory=list)
    phases: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    """Whatever is not as promised, in words; empty: all is well."""
    most: dict[str, float] = field(default_factory=dict)
    """The largest value of each measure that was seen."""
    seconds: float = 0.0

    @property
    def ok(self) -> bool:
        return not self.problems

    def died(self, deaths: Iterable[Death]) -> None:
        """Counts them, and holds each against its bound."""
        for death in deaths:
            self.deaths += 1
            self.phases[death.phase] += 1
            if death.writing:
                self.phases["a checkpoint being written"] += 1
            self.redone.append(death.redone)
            self.bounds.append(death.bound)
            if death.redone > death.bound:
                self.problems.append(f"{death.redone} steps redone, at most {death.bound}: {death}")

    def saw(self, **measured: float) -> None:
        for name, value in measured.items():
            self.most[name] = max(value, self.most.get(name, 0.0))

    def require(self, holds: bool, problem: str) -> bool:
        if not holds:
            self.problems.append(problem)
        return holds


def summary_of(place: Place) -> dict[str, Any]:
    path = place.run / "summary.json"
    return dict(json.loads(path.read_text())) if path.is_file() else {}


def judge_end(verdict: Verdict, place: Place, code: int, reference: Reference) -> None:
    """A run that must have finished, exactly, and left nothing behind."""
    summary = summary_of(place)
    verdict.finished = code == 0 and summary.get("status") == "finished"
    if not verdict.require(verdict.finished, f"exit code {code}: {last_words(place)}"):
        verdict.equal = False
    else:
        judge_numbers(verdict, place, reference)
        verdict.require(
            summary["exact"], f"not exact: {summary['deviations']}, {summary['incidents']}"
        )
    judge_leftovers(verdict, place)


def judge_numbers(verdict: Verdict, place: Place, reference: Reference) -> None:
    """Weights, and every step's loss, gradient norm and every evaluation, to the last bit."""
    steps = [r["step"] for r in records(place.run) if r["type"] == "step"]
    verdict.require(
        steps == list(range(1, STEPS + 1)), f"metrics.jsonl has not each step once: {steps}"
    )
    found = reference_of(place.run)
    verdict.equal = found.weights_sha256 == reference.weights_sha256
    verdict.require(verdict.equal, f"other weights: {found.weights_sha256}")
    other = [s for s, value in reference.steps.items() if found.steps.get(s) != value]
    verdict.require(not other, f"other losses or gradients at steps {other[:5]} of {len(other)}")
    verdict.require(found.evaluations == reference.evaluations, "other evaluations")
    same = found.calibration == reference.calibration
    verdict.require(same, f"another calibration: {found.calibration}")


def judge_leftovers(verdict: Verdict, place: Place) -> None:
    """No process, and no half-written file."""
    gone = wait_until(lambda: not place.living(), LEAVE_S)
    verdict.require(gone, f"processes are left: {place.living()}")
    left = [str(p.relative_to(place.run)) for p in place.run.rglob(f"{TEMP_PREFIX}*")]
    verdict.require(not left, f"unfinished files are left: {left}")


def incidents(place: Place) -> list[dict[str, Any]]:
    """Every incident.json, in order; `remedy` is what was done about it, where that is told."""
    folder = place.run / "incidents"
    found = []
    for path in sorted(folder.glob("[0-9]*"), key=lambda p: int(p.name)):
        about = path / "incident.json"
        incident = json.loads(about.read_text()) if about.is_file() else {"class": "(unfinished)"}
        applied = path / "applied.json"
        remedy = json.loads(applied.read_text())["remedy"] if applied.is_file() else None
        found.append({**incident, "remedy": remedy, "id": path.name})
    return found


def judge_deaths(
    verdict: Verdict,
    place: Place,
    deaths: Sequence[Death],
    process: str = "trainer",
) -> None:
    """One incident for each death, in order, with its signal and class; no remedy for any."""
    wanted = [(CLASSES[signal.Signals(d.signum)], d.signum, d) for d in deaths]
    found = incidents(place)
    # After its last word a process is missed by nobody.
    while wanted and len(wanted) > len(found) and wanted[-1][2].phase in ("end", IDLE):
        wanted.pop()
    got = [(i["class"], i.get("signal")) for i in found if i.get("process") == process]
    others = [i["class"] for i in found if i.get("process") != process]
    verdict.incidents_right = got == [(w[0], int(w[1])) for w in wanted] and not others
    verdict.require(
        verdict.incidents_right, f"incidents {got} {others} for {[w[:2] for w in wanted]}"
    )
    if process == "trainer":
        remedies = [i["remedy"] for i in found if i["remedy"] is not None]
        verdict.require(not remedies, f"remedies were applied: {remedies}")


def judge_classes(
    verdict: Verdict, place: Place, wanted: Sequence[tuple[str, str]], *, at_least: int = 1
) -> None:
    """Every incident is one of `wanted`, (process, class), and there are at least so many."""
    got = [(i.get("process", ""), i["class"]) for i in incidents(place)]
    verdict.incidents_right = len(got) >= at_least and set(got) <= set(wanted)
    verdict.require(verdict.incidents_right, f"incidents {got} where {wanted} was to be expected")


def last_words(place: Place, length: int = 600) -> str:
    """The end of what the commands said."""
    return place.said()[-length:].replace("\n", " | ")
