"""What the campaign trains: one small set, three configurations, an undisturbed run of each."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

T = TypeVar("T")
ROOT: Final = Path(__file__).parents[1]
STEPS: Final = 150
INTERVAL: Final = 10
"""Steps between checkpoints."""
CONFIGURATIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "gru-exact": ("--miner", "exact", "--accum", "2", "--batch-size", "32"),
    "trainable-faiss": (
        *("--miner", "faiss", "--doc-tower", "linear", "--accum", "2", "--batch-size", "32"),
    ),
    "gru-hnswlib": (
        *("--miner", "hnswlib", "--batch-size", "64", "--set", "miner.queries='reuse'"),
    ),
}
"""A frozen document tower and a trainable one; one miner each, the exact one with accumulation, one
with query vectors from the training."""
_COMMON: Final = {
    "tower.query.hidden": 64,
    "tower.query.dropout": 0.1,
    "miner.k": 20,
    "miner.negatives": 2,
    "miner.refresh": 25,
    "evaluate.every": 30,
    # The last weights, not the best: a fault after the best evaluation must show in the hash.
    "evaluate.keep_best": False,
    "checkpoint.every_steps": INTERVAL,
    "checkpoint.every_s": 3600,
}
_DATA: Final = (
    "--pairs",
    "2000",
    "--val",
    "200",
    "--seq-len",
    "6",
    "--dim",
    "32",
    "--bank",
    "1500",
)


@dataclass(frozen=True, kw_only=True)
class Reference:
    """What a run comes to when nothing happens to it."""

    weights_sha256: str
    steps: Mapping[int, tuple[float, float]]
    """Loss and gradient norm of each."""
    evaluations: Mapping[int, Mapping[str, float]]
    calibration: Mapping[str, Any]
    seconds: float


@dataclass(kw_only=True)
class World:
    """Folders of one campaign. References are made when they are first asked for."""

    folder: Path
    seed: int
    _made: dict[str, Any] = field(default_factory=dict)
    _making: threading.RLock = field(default_factory=threading.RLock)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What many repetitions need and the first one makes."""
        with self._making:
            if name not in self._made:
                self._made[name] = make()
            made: T = self._made[name]
            return made

    @property
    def data(self) -> Path:
        """`pairs.npz` and `bank.npz`."""
        return self.once("data", self._make_data)

    def _make_data(self) -> Path:
        folder = self.folder / "data"
        words = [sys.executable, "-m", "ttf", "data", "synth", "--out", str(folder)]
        subprocess.run([*words, *_DATA, "--seed", "1"], cwd=ROOT, check=True, capture_output=True)
        return folder

    def words(self, configuration: str, run: Path, data: Path | None = None) -> list[str]:
        """`ttf train` of that configuration into that folder."""
        data = data or self.data
        words = ["train", "--pairs", str(data / "pairs.npz"), "--bank", str(data / "bank.npz")]
        words += ["--out", str(run), "--steps", str(STEPS), "--threads", "1", "--device", "cpu"]
        words += ["--memory-bank", "256", "--seed", "3", *CONFIGURATIONS[configuration]]
        for key, value in _COMMON.items():
            words += ["--set", f"{key}={json.dumps(value)}"]
        return words

    def remember(self, configuration: str, run: Path) -> None:
        """A finished run that nothing happened to is the reference, if there is none yet."""
        self.once(f"reference {configuration}", lambda: reference_of(run))

    def reference(self, configuration: str) -> Reference:
        return self.once(f"reference {configuration}", lambda: self._undisturbed(configuration))

    def _undisturbed(self, configuration: str) -> Reference:
        root = self.folder / f"reference-{configuration}"
        words = [sys.executable, "-m", "ttf", *self.words(configuration, root / "run")]
        environment = os.environ | {"TTF_HOME": str(root / "home")}
        done = subprocess.run(
            words, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"The undisturbed run failed: {done.stderr}")
        return reference_of(root / "run")


def reference_of(run: Path) -> Reference:
    """Of a finished run."""
    summary = json.loads((run / "summary.json").read_text())
    lines = records(run)
    return Reference(
        weights_sha256=summary["weights_sha256"],
        steps={r["step"]: (r["loss"], r["grad_norm"]) for r in lines if r["type"] == "step"},
        evaluations={r["step"]: r["metrics"] for r in lines if r["type"] == "eval"},
        calibration=summary.get("calibration", {}),
        seconds=summary["wall_s"],
    )


def records(run: Path) -> list[dict[str, Any]]:
    """The lines of metrics.jsonl."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
