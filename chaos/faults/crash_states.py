"""The power goes at any operation of a checkpoint; whatever may then be on disk is recovered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Final

from chaos.campaign import Case, Fault
from chaos.verdict import Verdict
from chaos.world import ROOT

MOST: Final = 40_000
"""More than there are of a new run; of a resumed one, so many are drawn."""


def run(case: Case) -> Verdict:
    kind = ("NEW", "RESUMED")[case.number % 2]
    seed = case.rng.randrange(10**6)
    words = [sys.executable, "-m", "chaos.states", str(seed), str(MOST), kind]
    done = subprocess.run(
        words,
        cwd=ROOT,
        env=os.environ | {"TTF_CHAOS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return Verdict(problems=[done.stderr[-2000:]])
    found = json.loads(done.stdout)
    verdict = Verdict(finished=not found["problems"], deaths=found["states"])
    verdict.problems += found["problems"][:10]
    verdict.phases[f"{kind.lower()} run"] = found["states"]
    return verdict


FAULT: Final = Fault(
    name="crash-states",
    title="every state a power cut may leave of a checkpoint's folder (enumerated)",
    runs=2,
    quick=1,
    run=run,
)
