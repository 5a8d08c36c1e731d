"""An input is cut, or rewritten in place, while it is mapped; put back, the run goes on."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Final

from chaos.campaign import Case, Fault
from chaos.running import Running
from chaos.verdict import Verdict, incidents, judge_end, last_words
from chaos.world import STEPS

from ttf.rundir.verified_folders import newest_step

BAD_DATA: Final = 3
KINDS: Final = (("pairs.npz", "cut"), ("bank.npz", "cut"), ("bank.npz", "rewritten"))
_LATEST: Final = STEPS - 40


def run(case: Case) -> Verdict:
    verdict, place = Verdict(), case.place()
    reference = case.reference
    # Its own copy, which keeps its times when it is put back.
    data = case.folder / "data"
    shutil.copytree(case.world.data, data)
    name, how = KINDS[case.number // 3 % len(KINDS)]
    file = data / name
    with Running(place, case.words(place, data=data)) as running:
        least = case.rng.randrange(15, _LATEST)
        running.when(lambda flight: flight.step >= least)
        _spoil(file, how)
        code = running.ended()
    verdict.deaths = 1
    verdict.phases[f"{name} {how}"] += 1
    verdict.require(code == BAD_DATA, f"exit code {code}: {last_words(place)}")
    verdict.require(name in place.said(), f"{name} is not named: {last_words(place)}")
    saved = newest_step(place.run / "checkpoints")
    verdict.require(saved > 0, "no checkpoint was kept")
    got = [(i["class"], name in i["explanation"] + str(i["evidence"])) for i in incidents(place)]
    verdict.incidents_right = bool(got) and set(got) <= {
        ("bus-error", True),
        ("data-changed", True),
    }
    verdict.require(verdict.incidents_right, f"incidents (class, names the file): {got}")
    shutil.copy2(case.world.data / name, file)
    with Running(place, ["resume", str(place.run)]) as running:
        code = running.ended()
    judge_end(verdict, place, code, reference)
    return verdict


def _spoil(file: Path, how: str) -> None:
    size = file.stat().st_size
    if how == "cut":
        os.truncate(file, size // 3)
    else:
        with file.open("r+b") as opened:
            opened.seek(size // 2)
            opened.write(os.urandom(4096))


FAULT: Final = Fault(
    name="data-cut",
    title="pairs or bank cut or rewritten while mapped: exit 3 names it; put back, resumed",
    runs=6,
    quick=3,
    run=run,
)
