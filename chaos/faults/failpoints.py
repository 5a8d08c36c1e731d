"""Every N-th operation on a run's files fails, in each way it can: through the whole of a run."""

from __future__ import annotations

import os
import subprocess
import sys
from fnmatch import fnmatchcase
from typing import Final

from chaos.campaign import RESUMED, Case, Fault, resumed_until_finished
from chaos.running import Running
from chaos.verdict import Verdict, judge_classes, judge_end
from chaos.world import ROOT

HOOK: Final = ROOT / "chaos" / "hook"
KINDS: Final = (
    ("*", "kill"),
    ("checkpoint.*", "kill"),
    ("calibration.*", "kill"),
    ("*", "enospc"),
    ("checkpoint.*", "enospc"),
    ("*", "eio"),
    ("checkpoint.*", "eio"),
    ("*.write", "short"),
    ("checkpoint.write", "lie"),
    ("candidates.write", "lie"),
)
"""Operations, and what happens to one of them."""
_COUNT: Final = """
import sys
from tests.kit.recorded_disk import recorded
from ttf import cli
with recorded() as operations:
    code = cli.run(sys.argv[1:])
print(code, *(operation.name for operation in operations), sep="\\n")
"""


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    names = case.world.once(f"operations {case.configuration}", lambda: _operations(case))
    reference = case.reference
    pattern, fault = KINDS[case.number % len(KINDS)]
    of_the_kind = sum(_matches(name, pattern) for name in names)
    # The repetitions of a kind lie evenly over the run, from a random one on.
    share = of_the_kind / max(1, case.total // len(KINDS))
    at = 1 + int((case.number // len(KINDS) + case.rng.random()) * share) % of_the_kind
    failpoint = f"{pattern}:{at}:{fault}"
    verdict.phases[f"{pattern} {fault}"] += 1
    struck = place.root / "struck"
    with Running(place, case.words(place), more=armed(struck, failpoint)) as running:
        code = running.ended()
    if pattern == "*" and fault in ("enospc", "eio"):
        # Only checkpoints and metrics are waited for: without its configuration, its table or its
        # last weights there is no run.
        code = resumed_until_finished(case, place, code, verdict)
    verdict.deaths = int(struck.exists())
    judge_end(verdict, place, code, reference)
    wanted = {"kill": [("trainer", "killed")]}.get(fault, [])
    if verdict.phases[RESUMED]:
        wanted = [("trainer", "disk-full"), ("trainer", "python-error")]
    judge_classes(verdict, place, wanted, at_least=0)
    if pattern == "checkpoint.*" and fault in ("enospc", "eio"):
        told = any(text in place.said() for text in ("IS NOT WRITTEN", "while removing"))
        verdict.require(told or at == of_the_kind, "nothing was said of the disk")
    if not verdict.ok:
        verdict.problems.append(f"TTF_FAILPOINT was {failpoint} of {of_the_kind}")
    return verdict


def armed(struck: object, failpoint: str) -> dict[str, str]:
    """The environment in which the first trainer, and no other process, has a failpoint."""
    path = os.pathsep.join(filter(None, [str(HOOK), os.environ.get("PYTHONPATH", "")]))
    return {"PYTHONPATH": path, "CHAOS_FAILPOINT": failpoint, "CHAOS_STRUCK": str(struck)}


def _matches(name: str, pattern: str) -> bool:
    return fnmatchcase(name, pattern)


def _operations(case: Case) -> list[str]:
    """Of an undisturbed run, by name, in order."""
    place = case.place("counted")
    words = [*case.words(place), "--in-process", "--json"]
    done = subprocess.run(
        [sys.executable, "-c", _COUNT, *words],
        cwd=ROOT,
        env=place.environment({}),
        capture_output=True,
        text=True,
        check=True,
    )
    case.world.remember(case.configuration, place.run)
    return [line for line in done.stdout.splitlines() if _is_name(line)]


def _is_name(line: str) -> bool:
    area, dot, verb = line.partition(".")
    return bool(dot) and area.isidentifier() and verb.isidentifier()


FAULT: Final = Fault(
    name="failpoint",
    title="killed, no space, I/O error, short or lying write at every N-th file operation",
    runs=30,
    quick=10,
    run=run,
)
