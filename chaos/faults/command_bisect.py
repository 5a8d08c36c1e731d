"""Commands of strangers with one planted cause each: does `ttf bisect --command` name it?"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any, Final

from chaos.campaign import Case, Fault
from chaos.verdict import Verdict
from tests.kit.planted_commands import ENVIRONMENT, TEN, Planted, vary


def named(found: dict[str, Any]) -> frozenset[str]:
    """What the study names, without the path of an interpreter."""
    names = [found["culprit"]] if found["verdict"] == "culprit" else []
    if found["verdict"] == "pair":
        names = found["pairs"][0]
    return frozenset("python" if name.startswith("python:") else name for name in names)


def _studied(planted: Planted, case: Case) -> dict[str, Any]:
    command = planted.write(case.folder / "script", salt=str(case.rng.random()))
    chosen = [word for text in vary(case.folder / "script") for word in ("--vary", text)]
    words = ["bisect", "--command", *chosen, "--json", "--out", "study", "--", *command]
    made = subprocess.run(
        [sys.executable, "-m", "ttf", *words],
        cwd=case.folder,
        env={**os.environ, **ENVIRONMENT},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        check=True,
    )
    return dict(json.loads(made.stdout))


def _run(case: Case) -> Verdict:
    name = list(TEN)[case.number % len(TEN)]
    planted, verdict = TEN[name], Verdict()
    found = _studied(planted, case)
    answer = named(found)
    verdict.finished = answer in planted.answers
    verdict.deaths = sum(found["classes"].values())
    verdict.redone, verdict.bounds = [found["runs_total"]], [found["most_runs"]]
    told = " with ".join(sorted(answer)) or found["verdict"]
    verdict.phases[
        f"{name}: {told}, {found['runs_total']} runs of at most {found['most_runs']}"
    ] = 1
    silent = found["verdict"] == "unsure"
    verdict.require(verdict.finished or silent, f"{name}: {found['verdict']}, {told}")
    verdict.require(found["runs_total"] <= found["most_runs"], f"{name}: over its bound")
    return verdict


FAULT: Final = Fault(
    name="command-bisect",
    title="a cause planted in anybody's command: named by `ttf bisect` (runs used, not steps redone)",
    runs=10,
    quick=2,
    run=_run,
)
