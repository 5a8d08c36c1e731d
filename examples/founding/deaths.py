"""What the absence of deaths in studies says: counts micro-batches, and compares with the crash report.

    python examples/founding/deaths.py runs/founding/crashes runs/founding/consultant ...

Takes the folders of `ttf ab` and `ttf bisect`. Assumes, like every such figure, that each micro-batch
is as dangerous as the next: a death that needs an hour is not seen in a minute.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# The crash table of the first report: the batch of each death.
THEIR_DEATHS = (117, 464, 472, 927, 951)


@dataclass(kw_only=True)
class Arm:
    name: str
    runs: int = 0
    deaths: int = 0
    batches: int = 0

    def line(self) -> str:
        if self.deaths:
            said = f"look at ttf runs incidents; one death in about {self.batches // self.deaths:,}"
        else:
            # No death in n: at 95%, the rate is below -ln(0.05) / n.
            rarest = self.batches / -math.log(0.05)
            said = (
                f"rarer than one in {rarest:,.0f} is not excluded; chance of this at their rate: "
                f"{chance_at_their_rate(self.batches):.1g}"
            )
        return f"{self.name:<34} {self.runs:>4} {self.deaths:>6} {self.batches:>13,}  {said}"


def chance_at_their_rate(batches: int) -> float:
    """Of no death, if deaths come at the rate of the crash table, which five deaths show roughly.

    >>> round(chance_at_their_rate(2400), 2)
    0.05
    """
    seen = sum(THEIR_DEATHS)
    return float((seen / (seen + batches)) ** len(THEIR_DEATHS))


def arms(study: Path) -> Iterator[Arm]:
    setup = json.loads((study / "study.json").read_text())["setup"]
    if (study / "samples.csv").is_file():
        yield from _of_ab(study, setup)
    else:
        yield _of_bisect(study, setup)


def _of_ab(study: Path, setup: dict[str, list[dict[str, str]]]) -> Iterator[Arm]:
    parts = {arm["name"]: _accumulate(Path(arm["toml"])) for arm in setup["arms"]}
    found = {name: Arm(name=f"{study.name}: {name}") for name in parts}
    with (study / "samples.csv").open(newline="") as file:
        for row in csv.DictReader(file):
            arm = found[row["arm"]]
            arm.runs += 1
            arm.deaths += int(row["crashed"])
            arm.batches += int(row["steps"]) * parts[row["arm"]]
    yield from found.values()


def _of_bisect(study: Path, setup: dict[str, str]) -> Arm:
    # Of the unchanged configuration alone.
    lines = map(json.loads, (study / "bisect.jsonl").read_text().splitlines())
    plain = [line for line in lines if not line["ablated"] and line["result"] in ("clean", "crash")]
    steps = int(setup["steps"]) * _accumulate(Path(setup["toml"]))
    deaths = sum(line["result"] == "crash" for line in plain)
    clean = len(plain) - deaths
    name = f"{study.name}: unchanged"
    return Arm(name=name, runs=len(plain), deaths=deaths, batches=clean * steps)


def _accumulate(toml: Path) -> int:
    return int(tomllib.loads(toml.read_text())["train"].get("accumulate", 1))


def main(folders: list[str]) -> int:
    if not folders:
        print(__doc__)
        return 2
    print(f"{'':<34} {'runs':>4} {'deaths':>6} {'micro-batches':>13}")
    for folder in folders:
        for arm in arms(Path(folder)):
            print(arm.line())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
