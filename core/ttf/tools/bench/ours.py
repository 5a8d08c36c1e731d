"""Our own training, opened as `ttf train` opens it and driven step by step."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ttf.machine import devices
from ttf.tools.bench.sizes import Size

if TYPE_CHECKING:
    from ttf.data.loader import MicroBatch, StepHead
    from ttf.training.session import Session

LR = 1e-3


@dataclass(frozen=True, kw_only=True)
class Course:
    pool: str
    precision: str
    sets: tuple[str, ...] = ()  # further keys of the configuration


class TorchSettings:
    """Global settings of torch that differ between ours and a loop by hand."""

    def __init__(self) -> None:
        self._matmul = torch.get_float32_matmul_precision()
        self._deterministic = torch.are_deterministic_algorithms_enabled()
        self._fill = torch.utils.deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]

    def __call__(self) -> None:
        torch.set_float32_matmul_precision(self._matmul)
        torch.use_deterministic_algorithms(self._deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = self._fill  # type: ignore[attr-defined]

    def around(self, turn: Callable[[], object]) -> Callable[[], object]:
        """The turn under these settings."""

        def under_these() -> object:
            self()
            return turn()

        return under_these


class OurLoop:
    """A real run with a full memory bank; a turn is one optimizer step from the loader."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.settings = TorchSettings()
        self.samples = session.decided.plan.samples
        self._steps = _steps_of(session)
        self._kept: list[tuple[StepHead, list[MicroBatch]]] = []

    def step(self) -> float:
        """One step from the files; returns its loss."""
        head, micro_batches = next(self._steps)
        return self.session.parts.stepper(head, micro_batches, LR).loss

    def keep(self, steps: int) -> None:
        """Reads some steps into memory, for `replay`."""
        for _ in range(steps):
            head, micro_batches = next(self._steps)
            self._kept.append((head, [_copied(micro) for micro in micro_batches]))

    def replay(self) -> float:
        """The next step that is in memory; returns its loss."""
        head, micro_batches = self._kept.pop(0)
        self._kept.append((head, micro_batches))
        return self.session.parts.stepper(head, iter(micro_batches), LR).loss

    def fill_bank(self) -> None:
        """Fills every slot, as after the first steps of a run."""
        parts = self.session.parts
        ids = np.arange(min(parts.bank.capacity, parts.documents.rows), dtype=np.int64)
        for start in range(0, len(ids), 4096):
            part = ids[start : start + 4096]
            vectors = parts.documents.encode(parts.documents.read(part))
            parts.bank.commit(part, vectors.detach(), refresh=False)


def _copied(micro: MicroBatch) -> MicroBatch:
    # The loader reuses its buffers.
    queries = replace(micro.queries, x=micro.queries.x.copy())
    return replace(micro, queries=queries)


def _steps_of(session: Session) -> Iterator[Any]:
    with session.load(0, session.decided.total_steps, None) as loader:
        yield from loader


@contextlib.contextmanager
def opened(
    folder: Path,
    size: Size,
    courses: Sequence[Course],
    paths: Mapping[str, Path | str],
    *,
    filled: bool = True,
) -> Iterator[list[OurLoop]]:
    """A loop for each course, all on the same files, in this process."""
    from ttf.config.resolve import resolve
    from ttf.rundir.run_folder import RunFolder
    from ttf.text.progress import Reporter
    from ttf.training.session import open_session

    with contextlib.ExitStack() as stack:
        loops = []
        for number, course in enumerate(courses):
            resolved = resolve(
                sets=[*_sets(size, course), *course.sets],
                flags={name: str(path) for name, path in paths.items()},
            )
            policy = policy_of(resolved.config)
            run = RunFolder.new(folder / f"run-{number}")
            stack.callback(run.close)
            session = stack.enter_context(open_session(resolved, run, policy, Reporter()))
            loop = OurLoop(session)
            if filled:
                loop.fill_bank()
            stack.callback(loop._steps.close)  # type: ignore[attr-defined]
            loops.append(loop)
        yield loops


def policy_of(config: Any) -> Any:
    threads = None if config.device.threads == "auto" else config.device.threads
    name = config.device.name
    policy = devices.choose(name, {name: config.device.options_of(name)}, threads)
    devices.prepare(policy)
    return policy


def _sets(size: Size, course: Course) -> list[str]:
    return [
        "device.name=cpu",
        f"device.precision={course.precision}",
        "tower.query.name=gru",
        f"tower.query.hidden={size.hidden}",
        f"tower.query.pool={course.pool}",
        "tower.query.residual=none",
        "tower.query.dropout=0",
        "miner.negatives=0",
        f"loss.memory_bank={size.memory_bank}",
        f"train.batch_size={size.micro_batch}",
        f"train.accumulate={size.accumulate}",
        "train.epochs=1000000",
        "evaluate.every=end",
    ]
