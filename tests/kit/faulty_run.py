"""A run of a second, whose plugins make faults at the moment a test names."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.kit.live_run import LiveRun, Place

Settings = Mapping[str, Any]


class FaultyRun(LiveRun):
    """A command that is running."""

    place: FaultyPlace

    def held(self, step: int) -> None:
        """Waits until the run is held at that step (see `FaultyPlace.hold`)."""
        self.until((self.place.faults / f"held-{step}").exists, f"step {step}")

    def go(self, step: int) -> None:
        (self.place.faults / f"go-{step}").touch()


@dataclass(kw_only=True)
class FaultyPlace(Place):
    """Where a test's runs live: data, and a folder that tells the plugins what to do."""

    data: Mapping[str, Path]
    leave_out: Sequence[str] = ()
    """Keys of `SMALL` that a test says otherwise."""
    _started: list[FaultyRun] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.faults.mkdir()

    @property
    def faults(self) -> Path:
        return self.root / "faults"

    def hold(self, *steps: int) -> None:
        """Runs are held when they have done these steps, until `FaultyRun.go`."""
        for step in steps:
            (self.faults / f"hold-{step}").touch()

    def words(self, settings: Settings = {}) -> list[str]:  # noqa: B006 - only read
        small = {key: value for key, value in SMALL.items() if key not in self.leave_out}
        merged = {**small, **settings}
        sets = [f"--set={key}={_toml(value)}" for key, value in merged.items()]
        files = [word for name, path in self.data.items() for word in (f"--{name}", str(path))]
        return [*files, *sets]

    def train(self, *argv: str, out: str | Path = "run", **given: Any) -> FaultyRun:
        settings = given.pop("settings", {})
        run = self.root / out
        return self.start(
            "train", *self.words(settings), "--out", str(run), *argv, run=run, **given
        )

    def resume(self, run: Path, *argv: str, **given: Any) -> FaultyRun:
        return self.start("resume", str(run), *argv, run=run, **given)

    def start(
        self, *argv: str, run: Path, env: Mapping[str, str] | None = None, before: str = ""
    ) -> FaultyRun:
        """`before`: a line of shell that the process begins with (limits, groups)."""
        prefix = ["sh", "-c", f'{before}\nexec "$@"', "sh"] if before else []
        self._started.append(FaultyRun(self, argv, run, env=env, prefix=prefix))
        return self._started[-1]

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        return super().environment({"FAULTS": str(self.faults), **extra})

    def close(self) -> list[str]:
        """Ends every process of the test; those that were left."""
        left = self.end_all()
        for started in self._started:
            started.close()
        return left


SMALL: Settings = {
    "tower.query.hidden": 16,
    "negatives.min_yield": 0,
    "miner.negatives": 0,
    "train.batch_size": 16,
    "train.accumulate": 2,
    "train.steps": 40,
    "device.threads": 1,
    "evaluate.every": "end",
    "checkpoint.every_steps": 10,
    "observers": ["faulty"],
}
"""A run of a second: no mining, forty steps; of its checkpoints only the first is sure to begin at
its step: later ones wait until the one before is written."""

MINED: Settings = {"miner.name": "faulty", "miner.negatives": 2, "miner.refresh": 10}
"""The same with four rounds of mining, by a miner whose process does not load torch."""


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)
