"""Data files, configurations and folders of runs, damaged at random, are given to the commands that
read them: one line each says what is wrong, soon, and in little memory."""

from __future__ import annotations

import random
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from chaos.both_ways import BothWays, environment
from chaos.campaign import Case, Fault
from chaos.results_told import ResultsTold
from chaos.values_read import can_be_judged, wrong_values
from chaos.verdict import Verdict
from tests.kit.damaged_files import DAMAGES
from tests.kit.fixtures.trained import TRAINS, write_data
from tests.kit.forked_commands import Did, ForkedCommands
from tests.kit.hostile.runs import unfinished
from tests.kit.hostile.table import DATA_COMMANDS, RUN_COMMANDS, Place

REPETITIONS: Final = 10
HOW_MANY: Final = {"npz": 50, "zarr": 45, "toml": 35, "run": 20}
"""In each repetition: 500 NPZ, 450 Zarr, 350 TOML and 200 runs in all."""
# An empty file asks for the demo data set: minutes, were it not for these files.
SMALL: Final = "--pairs pairs.npz --bank bank.npz --in-process --steps 1 --out again"
TOML_COMMANDS: Final = (
    "train bad.toml --plan",
    "config show bad.toml",
    f"train bad.toml {SMALL}",
)
COMMANDS: Final = "commands"
ACCEPTED: Final = "damaged data accepted, and compared"
STORES: Final = {"npz": ("bank.npz", "pairs.npz"), "zarr": ("v2.zarr", "v3.zarr", "pairs.zarr")}


def run(case: Case) -> Verdict:
    verdict = Verdict()
    with ForkedCommands() as commands:
        good = _good(case, commands)
        judge = _Judge(
            commands=BothWays(commands, random.Random(f"{case.rng.random()}"), verdict),
            told=ResultsTold(commands, good),
            verdict=verdict,
        )
        for kind, count in HOW_MANY.items():
            for number in range(count):
                rng = random.Random(f"{case.rng.random()}")
                place = case.folder / f"{kind}-{number}"
                shutil.copytree(good, place)
                bad = _damage(kind, place, rng)
                found = list(judge.problems(kind, bad, place))
                verdict.problems += found
                verdict.deaths += 1
                verdict.phases[kind] += 1
                if not found:
                    shutil.rmtree(place)
    verdict.finished = not verdict.problems
    return verdict


def _good(case: Case, commands: ForkedCommands) -> Path:
    folder = case.folder / "good"
    folder.mkdir()
    write_data(folder)
    for words in (
        [*TRAINS, "run", "--in-process"],
        ["data", "convert", "bank.npz", "v3.zarr"],
        ["data", "convert", "pairs.npz", "pairs.zarr"],
    ):
        did = commands.run(words, folder, environment(folder))
        assert did.code == 0, did.err
    _write_v2(folder)
    return folder


def _write_v2(folder: Path) -> None:
    import numpy as np
    import zarr

    with np.load(folder / "bank.npz") as bank:
        group = zarr.open_group(str(folder / "v2.zarr"), mode="w", zarr_format=2)
        made = group.create_array("vectors", shape=(40, 8), chunks=(16, 8), dtype="<f4")
        made[:] = bank["vectors"]


def _damage(kind: str, place: Path, rng: random.Random) -> str:
    """Returns the name of what is damaged."""
    if kind in STORES:
        source = place / rng.choice(STORES[kind])
        bad = place / f"bad{source.suffix}"
        (place / "good").symlink_to(place.parent / "good" / source.name)
        source.rename(bad)
        if source.name in ("bank.npz", "pairs.npz"):  # the good one is needed beside it
            shutil.copy(bad, source)
    elif kind == "toml":
        bad = place / "bad.toml"
        shutil.copy(place / "run" / "run.toml", bad)
    else:
        bad = place / "run"
        if rng.random() < 0.5:  # one that is resumed goes on
            unfinished(Place(root=place, outside=place, home=place))
    DAMAGES[kind](bad, rng)
    return bad.name


@dataclass(frozen=True, kw_only=True)
class _Judge:
    commands: BothWays
    told: ResultsTold
    verdict: Verdict

    def problems(self, kind: str, bad: str, place: Path) -> Iterator[str]:
        for words in _commands(kind, bad):
            did, otherwise = self.commands.run(words.split(), place)
            self.verdict.phases[COMMANDS] += 1
            self.verdict.saw(seconds=did.seconds, MB=did.peak_bytes >> 20)
            problem = did.problem or otherwise or self._misread(kind, words, did, place)
            if problem:
                yield f"{place.name}: ttf {words}: {problem}"

    def _misread(self, kind: str, words: str, did: Did, place: Path) -> str:
        if did.code:
            return ""
        if kind == "run" and self.told.can_be_judged(words, place):
            self.verdict.phases[ACCEPTED] += 1
            return self.told.wrong_results(words, did, place)
        if kind in STORES and can_be_judged(words):
            self.verdict.phases[ACCEPTED] += 1
            return wrong_values(words, place, place / "good")
        return ""


def _commands(kind: str, bad: str) -> Iterator[str]:
    if kind == "toml":
        yield from TOML_COMMANDS
    elif kind == "run":
        yield from (words.replace("--out again --in-process", SMALL) for words in RUN_COMMANDS)
    else:
        yield from (words.replace("bad", bad) for words in DATA_COMMANDS)


FAULT: Final = Fault(
    name="damaged-files",
    title="NPZ, Zarr, TOML and run folders damaged at random, given to every reading command",
    runs=REPETITIONS,
    quick=1,
    run=run,
)
