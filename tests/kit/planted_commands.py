"""Scripts of anybody's with one planted cause each: they really die, at a given rate.

The coin of a run is drawn from its seed (TTF_STUDY_SEED), so that a study can be made again.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_SCRIPT: Final = """\
import argparse, faulthandler, os, random, sys
parser = argparse.ArgumentParser()
parser.add_argument("--bs", type=int, default=64)
parser.add_argument("--accum", type=int, default=1)
parser.add_argument("--workers", type=int, default=0)
parser.add_argument("--amp", action="store_true")
args = parser.parse_args()
var = os.environ.get
old = os.path.basename(os.path.dirname(sys.executable)) == "old"
seed = var("TTF_STUDY_SEED", "0")
if ({when}) and random.Random("{salt}/" + seed).random() < {rate}:
    print("dying", flush=True)
    {death}
print("loss: %.3f" % (args.bs / 100))
"""
DEATHS: Final = {
    "abort": "os.abort()",
    "segfault": "faulthandler._sigsegv()",
    "bus-error": "os.kill(os.getpid(), 7)",
    "python-error": "raise RuntimeError('the device was lost')",
    "heap-corruption": "os.write(2, b'double free or corruption (out)\\n'); os.abort()",
}
# What is varied; the first word of each is the kind of cause.
VARIED: Final = {
    "variable": "env:FAST_PATH",
    "threads": "remedy:threads",
    "bs": "flag:--bs=16",
    "accum": "flag:--accum=1",
    "amp": "flag:--amp",
    "workers": "flag:--workers=0",
}


@dataclass(frozen=True, kw_only=True)
class Planted:
    """A script, and which ingredient makes it die."""

    when: str  # an expression of the script
    rate: float
    death: str = "abort"
    # Any of these sets of ingredients is a right answer.
    answers: tuple[frozenset[str], ...]

    def write(self, folder: Path, salt: str = "") -> list[str]:
        """The command; `interpreter` is the other one."""
        for name in ("old", "new"):
            (folder / name).mkdir(parents=True)
            (folder / name / "python").symlink_to(sys.executable)
        text = _SCRIPT.format(when=self.when, rate=self.rate, death=DEATHS[self.death], salt=salt)
        (folder / "train.py").write_text(text)
        flags = ["--bs", "64", "--accum=16", "--amp", "--workers", "4"]
        return [str(folder / "old/python"), str(folder / "train.py"), *flags]


def interpreter(folder: Path) -> str:
    return f"python:{folder / 'new/python'}"


def vary(folder: Path) -> list[str]:
    return [*VARIED.values(), interpreter(folder)]


def _answer(*names: str) -> frozenset[str]:
    return frozenset(VARIED.get(name, name) for name in names)


_ENV, _THREADS = "var('FAST_PATH') == '1'", "var('OMP_NUM_THREADS') != '1'"
TEN: Final = {
    "a variable, always": Planted(when=_ENV, rate=1.0, answers=(_answer("variable"),)),
    "a variable, at 0.3": Planted(
        when=_ENV, rate=0.3, death="segfault", answers=(_answer("variable"),)
    ),
    "threads, at 0.5": Planted(when=_THREADS, rate=0.5, answers=(_answer("threads"),)),
    "a flag, always": Planted(
        when="args.accum > 4", rate=1.0, death="python-error", answers=(_answer("accum"),)
    ),
    "a flag, at 0.6": Planted(
        when="args.bs > 32", rate=0.6, death="bus-error", answers=(_answer("bs"),)
    ),
    "a flag, at 0.3": Planted(when="args.amp", rate=0.3, answers=(_answer("amp"),)),
    "an interpreter, always": Planted(
        when="old", rate=1.0, death="segfault", answers=(_answer("python"),)
    ),
    "an interpreter, at 0.4": Planted(
        when="old", rate=0.4, death="heap-corruption", answers=(_answer("python"),)
    ),
    "two that only together kill, at 0.5": Planted(
        when=f"{_ENV} and args.accum > 4",
        rate=0.5,
        death="segfault",
        answers=(_answer("variable"), _answer("accum")),
    ),
    "two of which each kills, at 0.8": Planted(
        when=f"{_ENV} or args.amp", rate=0.8, answers=(_answer("variable", "amp"),)
    ),
}
ENVIRONMENT: Final = {"FAST_PATH": "1"}
