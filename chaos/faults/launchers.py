"""A training script that dies below a launcher, under `ttf guard`: the class that the death has when the
script is started directly, its last words, and the exit code of the command as without a guard."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.campaign import Case, Fault
from chaos.verdict import Verdict

SCRIPT: Final = """\
import ctypes, os, sys, time
import torch
torch.manual_seed(0)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(8, 16)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step)
print("the last line before the end")
"""


@dataclass(frozen=True, kw_only=True)
class Death:
    name: str
    code: str
    expected: str
    words: str = "the last line before the end"
    """Must be in the incident, beside what the script printed."""
    options: tuple[str, ...] = ()
    exception: bool = False
    """Ends with an exception: no incident if the command ends with 0."""

    @property
    def ours(self) -> bool:
        """The guard ends it: without a guard it would not end."""
        return bool(self.options)


DEATHS: Final = (
    Death(name="segfault", code="ctypes.string_at(0)", expected="segfault"),
    Death(
        name="two OpenMP runtimes",
        code="for path in {openmp}:\n    ctypes.CDLL(path).omp_get_max_threads()\n",
        expected="omp-duplicate",
        words="OMP: Error #15",
    ),
    Death(
        name="memory limit",
        code="keep = []\nwhile True:\n    keep.append(bytearray(8 << 20))\n    time.sleep(0.02)\n",
        expected="memory-limit",
        options=("--memory-limit", "1500M"),
    ),
    Death(
        name="NaN stop",
        code="raise ValueError('loss is nan at step 12')",
        expected="non-finite",
        words="loss is nan at step 12",
        exception=True,
    ),
    Death(
        name="hang",
        code="import threading\nlock = threading.Lock()\nlock.acquire()\nlock.acquire()\n",
        expected="hang",
        options=("--hang-timeout", "5"),
    ),
)
LAUNCHERS: Final = {
    "direct": [sys.executable, "train.py"],
    "> log 2>&1": ["bash", "-c", "{python} train.py > run.log 2>&1"],
    "| tee log": ["bash", "-c", "{python} train.py 2>&1 | tee run.log"],
    "pipefail": ["bash", "-c", "set -o pipefail; {python} train.py 2>&1 | tee run.log"],
    "nohup &, wait": [
        *("bash", "-c", "nohup {python} train.py > run.log 2>&1 & wait $!"),
    ],
    "make": ["make", "train"],
    "torchrun": [
        *(sys.executable, "-m", "torch.distributed.run", "--standalone"),
        *("--nproc-per-node", "1", "train.py"),
    ],
}
CELLS: Final = [(launcher, death) for launcher in LAUNCHERS for death in DEATHS]


def run(case: Case) -> Verdict:
    launcher, death = CELLS[case.number % len(CELLS)]
    place = case.folder
    (place / "tmp").mkdir()
    (place / "train.py").write_text(SCRIPT + _code(death, place))
    (place / "Makefile").write_text(f"train:\n\t{sys.executable} train.py\n")
    words = [word.replace("{python}", sys.executable) for word in LAUNCHERS[launcher]]
    bare = None if death.ours else _ended(words, place)
    options = ("--out", "watch", *death.options)
    code = _ended([sys.executable, "-m", "ttf", "guard", *options, "--", *words], place)
    verdict = Verdict(deaths=1)
    verdict.phases[launcher] += 1
    if bare is not None:
        _same_code(verdict, bare, code)
    _judge(verdict, place / "watch", death, code)
    if not verdict.ok:
        verdict.problems.append(f"the cell: {launcher}, {death.name}")
    return verdict


def _code(death: Death, place: Path) -> str:
    if "{openmp}" not in death.code:
        return death.code
    library = openmp()
    assert library is not None
    copies = [place / name / library.name for name in "ab"]
    for copy in copies:  # of one file, links would be recognised as the same
        copy.parent.mkdir()
        copy.write_bytes(library.read_bytes())
    return death.code.replace("{openmp}", repr([str(copy) for copy in copies]))


def _ended(words: list[str], place: Path) -> int:
    """As a shell tells it."""
    environment = {**os.environ, "TMPDIR": str(place / "tmp"), "OMP_NUM_THREADS": "1"}
    with (place / "said").open("ab") as said:
        done = subprocess.run(
            words, cwd=place, stdout=said, stderr=said, env=environment, timeout=180, check=False
        )
    return done.returncode if done.returncode >= 0 else 128 - done.returncode


def _same_code(verdict: Verdict, bare: int, guarded: int) -> None:
    verdict.require(guarded == bare, f"exit code {guarded}; without a guard {bare}")


def _judge(verdict: Verdict, watch: Path, death: Death, code: int) -> None:
    summary = json.loads((watch / "summary.json").read_text())
    verdict.finished = summary["exit_code"] == code
    verdict.require(verdict.finished, f"summary.json has exit code {summary['exit_code']}")
    found = [_incident(path) for path in sorted((watch / "incidents").glob("[0-9]*"))]
    classes = [each["class"] for each in found]
    wanted = [] if death.exception and code == 0 else [death.expected]
    verdict.incidents_right = classes == wanted
    verdict.require(classes == wanted, f"incidents {classes} where {wanted} was to be expected")
    hidden = code == 0 and bool(found)
    told = bool(summary["hidden"])
    verdict.require(told == hidden, f"summary.json has hidden incidents: {summary['hidden']}")
    for each in found:
        for words in ("the last line before the end", death.words):
            verdict.require(words in each["said"], f"{words!r} is not in {each['said'][-400:]!r}")


def _incident(folder: Path) -> dict[str, Any]:
    said = "".join(
        path.read_text(errors="replace")
        for name in ("stderr.txt", "stdout.txt")
        if (path := folder / name).is_file()
    )
    return {**json.loads((folder / "incident.json").read_text()), "said": said}


def openmp() -> Path | None:
    """A real runtime that refuses a second one: TTF_LIBIOMP5, or that of intel-openmp."""
    from importlib.metadata import PackageNotFoundError, files

    named = os.environ.get("TTF_LIBIOMP5")
    if named is not None:
        return Path(named)
    try:
        installed = files("intel-openmp") or []
    except PackageNotFoundError:
        return None
    return next((Path(str(f.locate())) for f in installed if f.name == "libiomp5.so"), None)


def why_not() -> str:
    if sys.platform != "linux":
        return "the deaths are made for Linux"
    return "" if openmp() else "no libiomp5.so: pip install intel-openmp, or set TTF_LIBIOMP5"


FAULT: Final = Fault(
    name="launchers",
    title="a guarded script dies below a launcher (7) in one of five ways: the class of a direct start",
    runs=len(CELLS),
    quick=5,
    run=run,
    why_not=why_not,
)
