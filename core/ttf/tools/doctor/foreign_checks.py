"""The checks of `ttf doctor --python PATH`: an environment of anybody's, without ttf."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from ttf.errors import UnknownName
from ttf.hookspecs import Verdict
from ttf.supervise.isolated_tasks import Ended
from ttf.tools.doctor import known_bad, openmp, task_failures
from ttf.tools.doctor.check import Check, fail, ok, skip, warn
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.foreign import ForeignPython
from ttf.tools.doctor.interpreter import look_at_environment

# Modules that start native threads, and the distributions that bring them.
_MODULES: Final[Mapping[str, Sequence[str]]] = {
    "torch": ("torch",),
    "numpy": ("numpy",),
    "faiss": ("faiss-cpu", "faiss-gpu", "faiss"),
    "hnswlib": ("hnswlib",),
    "sklearn": ("scikit-learn",),
    "lightgbm": ("lightgbm",),
    "xgboost": ("xgboost",),
    "tensorflow": ("tensorflow",),
}
_SHOWN: Final = ("torch", "numpy", "faiss-cpu", "hnswlib", "scikit-learn", "lightgbm", "xgboost")
_SEPARATE: Final = (
    "Do not import both in one process, or install both from one source that shares the runtime "
    "(conda-forge). Never set KMP_DUPLICATE_LIB_OK. To find out whether one thread is enough: "
    "ttf bisect --command --vary remedy:threads -- COMMAND."
)


def checks_of(python: ForeignPython, ids: Sequence[str]) -> list[Check]:
    """Those with these ids, or all. Raises UnknownName."""
    made = _Checks(python)
    every = [
        Check("python", "does this Python work?", made.look_at_python),
        Check("versions", "do the installed versions have known faults?", made.look_at_versions),
        Check(
            "environment",
            "do environment variables hide faults or slow down the training?",
            look_at_environment,
        ),
        Check(
            "openmp-duplicates",
            "do several packages contain an OpenMP runtime?",
            made.look_for_duplicates,
        ),
        Check("imports", "does each native library work alone in a process?", made.look_at_each),
        Check("coload", "does torch work in one process with each of them?", made.look_at_coload),
    ]
    known = {check.id for check in every}
    for name in ids:
        if name not in known:
            raise UnknownName("check of another Python", name, known)
    return [replace(check, python=python.path) for check in every if not ids or check.id in ids]


class _Checks:
    def __init__(self, python: ForeignPython) -> None:
        self.python = python
        self._alone: dict[str, Ended] = {}

    @property
    def modules(self) -> list[str]:
        """Those that are installed there."""
        here = self.python.versions
        return [name for name, owners in _MODULES.items() if any(o in here for o in owners)]

    def look_at_python(self, _: Examination) -> Verdict:
        facts = self.python.facts
        about = f"{facts['implementation']} {facts['version']}, {facts['bits']} bit"
        evidence = (f"interpreter: {facts['executable']}", f"system: {facts['platform']}")
        has = "" if "twotower" in self.python.versions else "; ttf is not installed there"
        return ok(f"{about}, {facts['machine']}{has}", *evidence)

    def look_at_versions(self, _: Examination) -> Verdict:
        facts, here = self.python.facts, self.python.versions
        rows = list(
            known_bad.fired(
                here,
                python=facts["version"],
                system=facts["system"],
                machine=facts["machine"],
            )
        )
        bad = [row for row in rows if row.severity != "guarded"]
        lines = [_fault_line(row, here) for row in rows]
        shown = ", ".join(f"{name} {here[name]}" for name in _SHOWN if name in here)
        if not bad:
            more = f"; {len(rows)} known fault(s) that ttf avoids in its own runs" if rows else ""
            return ok(f"{shown or 'no numeric library'}: no known problem{more}", *lines)
        first = _fault_line(bad[0], here) + (f", and {len(bad) - 1} more" if len(bad) > 1 else "")
        remedy = " ".join(dict.fromkeys(row.remedy for row in bad))
        judge = fail if any(row.severity == "fail" for row in bad) else warn
        return judge(f"{first}.", *lines, remedy=remedy)

    def look_for_duplicates(self, _: Examination) -> Verdict:
        facts = self.python.facts
        found = openmp.find(self.python.distributions, Path(facts["prefix"]))
        verdict = openmp.judged(found, facts["system"].lower())
        return verdict if verdict.status == "ok" else replace(verdict, remedy=_SEPARATE)

    def look_at_each(self, exam: Examination) -> Verdict:
        modules = self.modules
        if not modules:
            return skip("none of the native libraries that this check knows is installed")
        exam.say(f"imports: {', '.join(modules)}, each alone in a process")
        ends = {name: self._alone_in_a_process(name) for name in modules}
        sick = {name: ended for name, ended in ends.items() if not ended.well}
        if not sick:
            return ok(f"each works alone in a process: {', '.join(modules)}")
        first, ended = next(iter(sick.items()))
        return fail(
            f"{first} does not work, even alone in a process: {task_failures.in_a_word(ended)}.",
            *task_failures.evidence(ended),
            *(f"{name}: {task_failures.in_a_word(e)}" for name, e in sick.items()),
            remedy=f"Reinstall {first} in this environment, in a build for this machine.",
        )

    def look_at_coload(self, exam: Examination) -> Verdict:
        others = [name for name in self.modules if name not in ("torch", "numpy")]
        if "torch" not in self.modules:
            return skip("torch is not installed in this environment")
        well = [name for name in others if self._alone_in_a_process(name).well]
        if not self._alone_in_a_process("torch").well or not well:
            return skip(
                "either torch does not work alone, or no other library is installed that works alone"
            )
        exam.say(f"coload: torch with {', '.join(well)} in one process, in both orders")
        ends = {
            order: self.python.use(*order)
            for name in well
            for order in ((name, "torch"), ("torch", name))
        }
        dead = {order: ended for order, ended in ends.items() if not ended.well}
        if not dead:
            return ok(f"torch works in one process with {', '.join(well)}, in both orders")
        order, ended = next(iter(dead.items()))
        maps = [note["openmp"] for note in ended.notes if note.get("openmp")]
        runtimes = [f"OpenMP runtimes in the process: {', '.join(maps[-1])}"] if maps else []
        return fail(
            f"{order[0]} and then {order[1]} in one process: {task_failures.in_a_word(ended)}.",
            *task_failures.evidence(ended),
            *runtimes,
            *(f"{a}, then {b}: {task_failures.in_a_word(e)}" for (a, b), e in dead.items()),
            remedy=_SEPARATE,
        )

    def _alone_in_a_process(self, name: str) -> Ended:
        if name not in self._alone:
            self._alone[name] = self.python.use(name)
        return self._alone[name]


def _fault_line(row: known_bad.Row, here: Mapping[str, str]) -> str:
    named = " with ".join(f"{name} {here[name]}" for name in row.versions)
    return f"{named}: {row.what} ({row.issue}, {row.date})"
