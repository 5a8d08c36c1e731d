"""Small runs with the built-in observers, and what TensorBoard and other readers find of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from ttf import EvalRecord, StepRecord

STEPS: Final = 150
EVALUATED: Final = list(range(0, STEPS + 1, 50))
CONFIG: Final[Mapping[str, Any]] = {"checkpoint": {"retry_s": 0.0}}
"""As much of a configuration as the sinks look at."""
WAITS: Final = "waits"
"""An observer that holds a run at step 60 until it has a checkpoint, however slow the disk is."""
_WAITING: Final = """
import time
from ttf import hookimpl

@hookimpl
def ttf_run_started(run_dir):
    global CHECKPOINTS
    CHECKPOINTS = run_dir / "checkpoints"

@hookimpl
def ttf_step(record):
    while record.step == 60 and not list(CHECKPOINTS.glob("step-*")):
        time.sleep(0.002)
"""


@dataclass(frozen=True, kw_only=True)
class Place:
    """A data set, and a folder for runs."""

    root: Path
    data: Mapping[str, Path]

    def train(self, observers: Sequence[str], *argv: str, out: Path, failpoint: str = "") -> str:
        """`ttf train` to its end, which must be a good one; what it said on standard error."""
        code, err = self.ttf(*self.words(observers, *argv), "--out", str(out), failpoint=failpoint)
        assert code == 0, err
        return err

    def words(self, observers: Sequence[str], *argv: str) -> list[str]:
        files = [word for name, path in self.data.items() for word in (f"--{name}", str(path))]
        small = ["--steps", str(STEPS), "--batch-size", "16", "--tower", "linear", "--threads", "1"]
        sets = [f"observers={json.dumps(observers)}", "miner.negatives=0", "evaluate.every=50"]
        sets += ["checkpoint.every_steps=20", "device.name='cpu'"]
        return ["train", *files, *small, *(f"--set={text}" for text in sets), *argv]

    def ttf(self, *argv: str, failpoint: str = "") -> tuple[int, str]:
        """Exit code and standard error. `failpoint`: see `ttf.rundir.failpoints`."""
        paths = os.pathsep.join([str(self.root / "site"), os.environ.get("PYTHONPATH", "")])
        fault = {"TTF_FAILPOINT": failpoint} if failpoint else {}
        done = subprocess.run(
            [sys.executable, "-m", "ttf", *argv],
            env=os.environ | fault | {"PYTHONPATH": paths},
            cwd=self.root,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        return done.returncode, done.stderr


def install_waiting(site: Path) -> None:
    """Where `site` is on the path, it is found as any distribution is."""
    info = site / "waits-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: waits\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[ttf.v1]\nobserver.{WAITS} = waits_until_saved\n")
    (site / "waits_until_saved.py").write_text(_WAITING)


# --- what readers find ------------------------------------------------------------------------


def read(folder: Path) -> Any:
    """As TensorBoard reads it."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    found.Reload()
    return found


def steps(found: Any, tag: str) -> list[int]:
    return [event.step for event in found.Scalars(tag)]


def texts(found: Any, tag: str) -> list[tuple[int, str]]:
    """(step, Markdown) of each."""
    return [(e.step, e.tensor_proto.string_val[0].decode()) for e in found.Tensors(tag)]


def lines(run: Path, event: str = "") -> list[dict[str, Any]]:
    """Of events.jsonl, as far as they are finished; all of them, or those of one event."""
    whole = (run / "events.jsonl").read_text().split("\n")[:-1]
    found = [json.loads(line) for line in whole]
    return [line for line in found if event in ("", line["event"])]


# --- what hooks are called with ---------------------------------------------------------------


def step_record(step: int, **extra: float) -> StepRecord:
    from ttf import StepRecord

    return StepRecord(
        step=step,
        epoch=1,
        loss=1 / step,
        lr=0.001,
        grad_norm=0.5,
        samples_per_s=1000.0,
        seconds=0.016,
        extra=extra,
    )


def eval_record(step: int, **metrics: float) -> EvalRecord:
    from ttf import EvalRecord

    return EvalRecord(step=step, epoch=1, metrics=metrics or {"recall@10": 0.5}, seconds=0.1)


def begin(run: Path, *checkpoints: int) -> Path:
    """A run's folder with checkpoints of these steps, as far as an observer sees it."""
    for name in ("checkpoints", "incidents"):
        (run / name).mkdir(parents=True, exist_ok=True)
    for step in checkpoints:
        (run / "checkpoints" / f"step-{step:09d}").mkdir(exist_ok=True)
    return run
