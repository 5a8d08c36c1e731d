"""A search that is killed at random moments: does it end as one that nobody disturbed?"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from chaos.campaign import Case, Fault
from chaos.verdict import Verdict

DEATHS: Final = 4
"""In each study."""
_TRIALS: Final = 7
_LONGEST_LIFE: Final = 0.6
"""As a share of the time that an undisturbed study takes."""
_WORDS: Final = (
    *("tune", "--trials", str(_TRIALS), "--budget", "10h", "--out", "study", "--threads", "1"),
    *("--steps", "24", "--miner", "exact", "--device", "cpu", "--set", "miner.k=20"),
    *("--set", "evaluate.above_chance=false", "--json"),
)
# Of a trial: all but how long it took.
_TIMES: Final = {"seconds", "evaluating_s"}


@dataclass(frozen=True, kw_only=True)
class _Study:
    trials: list[dict[str, Any]]
    best: Mapping[str, Any]
    weights_sha256: str
    seconds: float


def _start(case: Case, folder: Path) -> subprocess.Popen[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    data = case.world.data
    files = ("--pairs", str(data / "pairs.npz"), "--bank", str(data / "bank.npz"))
    with (folder / "said.txt").open("ab") as said:
        return subprocess.Popen(
            [sys.executable, "-m", "ttf", *_WORDS, *files],
            cwd=folder,
            env={**os.environ, "TTF_HOME": str(folder / "home")},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=said,
        )


def _journal(folder: Path) -> list[dict[str, Any]]:
    lines: list[str] = []
    with contextlib.suppress(FileNotFoundError):
        lines = (folder / "study" / "trials.jsonl").read_text().splitlines()
    return [{k: v for k, v in json.loads(x).items() if k not in _TIMES} for x in lines]


def _read(folder: Path) -> _Study:
    study = folder / "study"
    summary = json.loads((study / "best" / "summary.json").read_text())
    return _Study(
        trials=_journal(folder),
        best=tomllib.loads((study / "best.toml").read_text()),
        weights_sha256=summary["weights_sha256"],
        seconds=json.loads((study / "clock.json").read_text())["used_s"],
    )


def _undisturbed(case: Case) -> _Study:
    folder = case.world.folder / "reference-tune"
    code = _start(case, folder).wait()
    if code:
        raise RuntimeError(f"The undisturbed study failed: {(folder / 'said.txt').read_text()}")
    return _read(folder)


def _run(case: Case) -> Verdict:
    reference = case.world.once("reference tune", lambda: _undisturbed(case))
    verdict = Verdict()
    before: list[dict[str, Any]] = []
    for _ in range(DEATHS):
        process = _start(case, case.folder)
        try:
            process.wait(case.rng.uniform(0, _LONGEST_LIFE * reference.seconds))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGKILL)
            verdict.deaths += 1
        process.wait()
        after = _journal(case.folder)
        verdict.require(after[: len(before)] == before, "a finished trial was lost or changed")
        verdict.phases[_where(case.folder, after)] += 1
        if (case.folder / "study" / "result.json").exists():  # The same command would begin anew.
            break
        before = after
    else:
        code = _start(case, case.folder).wait()
        verdict.require(code == 0, f"the study ended with exit code {code}")
    found = _read(case.folder)
    numbers = [line["number"] for line in found.trials]
    verdict.require(numbers == list(range(1, _TRIALS + 1)), f"trials {numbers}")
    verdict.require(found.trials == reference.trials, "other trials, or other scores")
    verdict.require(found.best == reference.best, "another best configuration")
    verdict.equal = found.weights_sha256 == reference.weights_sha256
    verdict.require(verdict.equal, "the last run has other weights")
    verdict.finished = True
    return verdict


def _where(folder: Path, trials: list[dict[str, Any]]) -> str:
    if (folder / "study" / "result.json").exists():
        return "finished"
    if (folder / "study" / "best").exists():
        return "in the last run"
    return f"after {len(trials)} trials" if trials else "before the first trial ended"


FAULT: Final = Fault(
    name="tune-death",
    title="`ttf tune` killed at random moments: the same trials, the same winner, the same weights",
    runs=10,
    quick=1,
    run=_run,
)
