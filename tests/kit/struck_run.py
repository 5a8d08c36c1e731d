"""A small run that is struck while it trains, and what it must be in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from tests.kit.live_run import Place, summary_of

from ttf.rundir.run_folder import RunFolder
from ttf.rundir.verified_folders import newest_step
from ttf.training.checkpoint import load_newest

STEPS: Final = 150
EVERY: Final = 20
"""Steps between checkpoints."""


class World(Place):
    """The data and plugins that all these runs share."""

    def config(self, run: Path, *sets: str, steps: int = STEPS) -> list[str]:
        """The words of a `ttf train` that saves often and needs little."""
        always = [f"checkpoint.every_steps={EVERY}", "miner.refresh=60", "evaluate.every=60"]
        always += ["miner.k=40", "evaluate.keep_best=false", 'observers=["sabotaged"]']
        words: list[Any] = ["train", "--json", "--out", run, "--steps", steps]
        words += ["--pairs", self.root / "pairs.npz", "--bank", self.root / "bank.npz"]
        words += ["--tower", "sabotaged", "--miner", "sabotaged", "--device", "cpu"]
        words += ["--threads", 1, "--batch-size", 64]
        for text in (*always, *sets):
            words += ["--set", text]
        return [str(word) for word in words]


def incidents_of(run: Path) -> list[dict[str, Any]]:
    """Each incident.json, in order."""
    found = sorted((run / "incidents").glob("*/incident.json"))
    return [json.loads(path.read_text()) for path in found]


def assert_undisturbed(run: Path, weights: str, *, restarts: int, lost: int = EVERY + 1) -> None:
    """It finished as if nothing had happened, and tells what happened. `lost`: steps redone per
    death; the interval, and the step after which a write is waited for."""
    summary = summary_of(run)
    assert summary["status"] == "finished" and summary["exit_code"] == 0
    assert summary["weights_sha256"] == weights
    assert summary["exact"] is True and summary["deviations"] == []
    assert summary["restarts"] == restarts
    assert [i["remedy"] for i in summary["incidents"]] == [None] * len(summary["incidents"])
    assert all(i["lost_steps"] <= lost for i in incidents_of(run))
    assert_each_step_once(run, summary["steps"])
    assert litter(run) == []


def assert_can_go_on(run: Path) -> None:
    """What `ttf resume` begins with is there: nobody holds the folder, its newest checkpoint (if it
    came so far) is whole, and what was left unfinished is cleared away."""
    said: list[str] = []
    with RunFolder.existing(run) as folder, folder.writing():
        newest = newest_step(folder.checkpoints)
        assert newest < 0 or load_newest(folder.checkpoints, said.append).step == newest
    assert said == [] and litter(run) == []


def assert_each_step_once(run: Path, steps: int = STEPS) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [m["step"] for m in lines if m["type"] == "step"] == list(range(1, steps + 1))
    for kind in ("eval", "mining"):
        found = [m["step"] for m in lines if m["type"] == kind]
        assert len(found) == len(set(found)), f"{kind}: {found}"


def litter(run: Path) -> list[str]:
    """Unfinished writes that were not cleaned up; `.owner` is the note of who holds the lock."""
    stay = (".lock", ".writer", ".owner")
    return [str(p.relative_to(run)) for p in run.rglob(".*") if p.name not in stay]
