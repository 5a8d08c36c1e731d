"""Is the word "exact" true for a run that is resumed in another environment?

Three configurations are trained once without a fault, and once until a real SIGKILL of the trainer
in the middle. Copies of the killed run are resumed, each in another environment: other variables,
another number of processors, other limits. A cell is right if the weights are bitwise those of the
run without a fault, or if the run says `exact: false` and names the variable; where the variable
has no effect, the run must stay exact.

The second table is about another processor. To emulate it, the killed run's manifest is made to
say that it began with the same variables, so that none is set again: now the products alone show
the difference. Here a cell is right if the weights are equal or the run says that they may differ.

    nice python benchmarks/exact_resume.py          # 15 minutes, less on a quiet machine
    python benchmarks/exact_resume.py --only MKL    # rows whose name contains this

Exit code 1 if a cell is wrong.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttf.data.synth import SynthShape, write_synth

SHAPE: Final = SynthShape(pairs=1500, val=200, seq_len=8, dim=48, bank=1200, seed=3)
COMMON: Final = (
    *("--batch-size", "16", "--accum", "2", "--steps", "60", "--threads", "2"),
    *("--set", "miner.negatives=4", "--set", "miner.refresh=20", "--set", "miner.k=50"),
    *("--set", "evaluate.every=20", "--set", "checkpoint.every_steps=10"),
    *("--set", "supervise.max_restarts=0"),
    # The last weights, not the best: those may be of a step before the kill.
    *("--set", "evaluate.keep_best=false", "--set", "evaluate.patience=0"),
)
# While the third checkpoint is written; the second is complete.
KILL: Final = {"TTF_FAILPOINT": "checkpoint.rename:3:kill"}
CONFIGURATIONS: Final[Mapping[str, Sequence[str]]] = {
    "gru, exact miner": ("--tower", "gru", "--miner", "exact", "--set", "loss.memory_bank=500"),
    "trainable documents, faiss": ("--tower", "gru", "--doc-tower", "linear", "--miner", "faiss"),
    "linear, hnswlib": ("--tower", "linear", "--miner", "hnswlib"),
}


@dataclass(frozen=True, kw_only=True)
class Row:
    """One environment of the resumed process."""

    name: str
    variables: Mapping[str, str] = field(default_factory=dict)
    start: Mapping[str, str] = field(default_factory=dict)  # variables of the first process
    prefix: Sequence[str] = ()  # a command that becomes ours by exec
    empty: bool = False  # only PATH is inherited
    harmless: bool = False  # the run must stay exact, with equal weights


def _variables(harmless: bool, *given: str) -> Row:
    values = dict(one.split("=", 1) for one in given)
    return Row(name=", ".join(given), variables=values, harmless=harmless)


def _shell(name: str, before: str) -> Row:
    return Row(name=name, prefix=("sh", "-c", f'{before}\nexec "$@"', "sh"), harmless=True)


FORCED: Final = {
    "OPENBLAS_CORETYPE": "Prescott",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_CBWR": "COMPATIBLE",
}
ROWS: Final = (
    _variables(False, "OPENBLAS_CORETYPE=Prescott"),
    _variables(False, "OPENBLAS_CORETYPE=SkylakeX"),
    _variables(False, "ONEDNN_MAX_CPU_ISA=AVX2"),
    _variables(False, "ONEDNN_MAX_CPU_ISA=SSE41"),
    _variables(False, "MKL_CBWR=COMPATIBLE"),
    _variables(False, "ATEN_CPU_CAPABILITY=default"),
    _variables(False, "OMP_DYNAMIC=true", "OMP_THREAD_LIMIT=1"),
    _variables(False, "GLIBC_TUNABLES=glibc.cpu.hwcaps=-AVX2,-FMA,-FMA4"),
    Row(name="env -i", empty=True),
    Row(name=f"began with {', '.join(FORCED)}; env -i", start=FORCED, empty=True),
    _variables(True, "OMP_NUM_THREADS=1"),
    _variables(True, "MKL_ENABLE_INSTRUCTIONS=AVX2", "MKL_DEBUG_CPU_TYPE=5"),
    _variables(True, "MKL_DYNAMIC=TRUE"),
    _variables(True, "NPY_DISABLE_CPU_FEATURES=AVX512_ICL"),
    _variables(True, "FAISS_OPT_LEVEL=generic"),
    _variables(True, "ONEDNN_DEFAULT_FPMATH_MODE=BF16"),
    _variables(True, "ONEDNN_MAX_CPU_ISA=AVX512_CORE"),
    _variables(True, "PYTHONHASHSEED=7", "PYTHONOPTIMIZE=1"),
    _variables(True, "MALLOC_ARENA_MAX=1", "MALLOC_PERTURB_=165"),
    _shell("one processor (taskset)", "taskset -p -c 0 $$ >/dev/null"),
    _shell("ulimit -n 256, -s 2048", "ulimit -n 256; ulimit -s 2048"),
)
KERNELS: Final = tuple(
    row for row in ROWS if len(row.variables) == 1 and "NUM_THREADS" not in row.name
)


@dataclass(frozen=True, kw_only=True)
class Outcome:
    equal: bool
    exact: bool
    said: Sequence[str]

    def __str__(self) -> str:
        return f"{'equal' if self.equal else 'other'}, {'exact' if self.exact else 'not exact'}"


class Bench:
    def __init__(self, root: Path) -> None:
        self.root = root
        self._made: dict[tuple[str, tuple[str, ...]], tuple[str, Path]] = {}
        paths = write_synth(root / "data", SHAPE)
        self._files = ("--pairs", str(paths["pairs"]), "--bank", str(paths["bank"]))

    def resumed(self, name: str, row: Row, *, other_processor: bool) -> Outcome:
        expected, killed = self._runs(name, row.start)
        run = self.root / "resumed"
        shutil.rmtree(run, ignore_errors=True)
        shutil.copytree(killed, run)
        if other_processor:
            manifest = json.loads((run / "manifest.json").read_text())
            manifest["numeric"]["variables"] |= row.variables
            (run / "manifest.json").write_text(json.dumps(manifest))
        inherited = {"PATH": os.environ["PATH"]} if row.empty else os.environ
        summary = self._ttf(
            [*row.prefix, sys.executable, "-m", "ttf", "resume", str(run)],
            {**inherited, "TTF_HOME": str(self.root / "home"), **row.variables},
            run,
        )
        return Outcome(
            equal=summary["weights_sha256"] == expected,
            exact=summary["exact"],
            said=summary["deviations"],
        )

    def _runs(self, name: str, start: Mapping[str, str]) -> tuple[str, Path]:
        """The weights of the run without a fault, and the folder of the killed one."""
        key = (name, tuple(start))
        if key not in self._made:
            number = len(self._made)
            whole, killed = self.root / f"whole-{number}", self.root / f"killed-{number}"
            variables = {**os.environ, **start, "TTF_HOME": str(self.root / "home")}
            words = [sys.executable, "-m", "ttf", "train", *self._files, *COMMON]
            words += CONFIGURATIONS[name]
            summary = self._ttf([*words, "--out", str(whole)], variables, whole)
            self._ttf([*words, "--out", str(killed)], {**variables, **KILL}, killed, code=5)
            self._made[key] = summary["weights_sha256"], killed
        return self._made[key]

    def _ttf(
        self, words: Sequence[str], variables: Mapping[str, str], run: Path, code: int = 0
    ) -> dict[str, Any]:
        done = subprocess.run(
            words,
            env=dict(variables),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != code:
            raise SystemExit(f"{' '.join(words)} ended with {done.returncode}:\n{done.stderr}")
        found: dict[str, Any] = json.loads((run / "summary.json").read_text())
        return found


def is_right(row: Row, found: Outcome, *, other_processor: bool) -> bool:
    if other_processor:
        return found.equal or not found.exact
    if row.harmless:
        return found.equal and found.exact
    named = any(name in said for name in row.variables for said in found.said)
    return (found.equal and found.exact) or (not found.exact and named)


def table(bench: Bench, rows: Sequence[Row], *, other_processor: bool) -> int:
    """Prints one line for each run, then the table; returns the number of wrong cells."""
    wrong = 0
    lines = [f"| resumed with | {' | '.join(CONFIGURATIONS)} |", "|---" * 4 + "|"]
    for row in rows:
        cells = []
        for name in CONFIGURATIONS:
            found = bench.resumed(name, row, other_processor=other_processor)
            right = is_right(row, found, other_processor=other_processor)
            wrong += not right
            cells.append(str(found) if right else f"**WRONG**: {found}")
            print(f"{row.name} | {name} | {cells[-1]} | {'; '.join(found.said)}", flush=True)
        lines.append(f"| {row.name} | {' | '.join(cells)} |")
    print("\n" + "\n".join(lines) + "\n", flush=True)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="", help="rows whose name contains this")
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory() as temp:
        bench = Bench(Path(temp))
        print("The variables of the start are set again:\n")
        rows = [row for row in ROWS if only in row.name]
        wrong = table(bench, rows, other_processor=False)
        print("As on another processor:\n")
        kernels = [row for row in KERNELS if only in row.name]
        wrong += table(bench, kernels, other_processor=True)
    print(f"{wrong} of {3 * (len(rows) + len(kernels))} cells are wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
