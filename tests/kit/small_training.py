"""Everything an optimizer step needs, on a small data set."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from tests.kit.data_files import config

from ttf.config.loss_schema import LossConfig
from ttf.config.schema import RunConfig, TowerConfig
from ttf.config.train_schema import TrainConfig
from ttf.contracts import Precision, TowerShape
from ttf.data.dataset import Dataset
from ttf.data.loader import MicroBatch, StepHead, head_of
from ttf.data.open_dataset import open_dataset
from ttf.data.order import Order, key
from ttf.host import plugins
from ttf.training.documents import Documents
from ttf.training.memory_bank import MemoryBank
from ttf.training.optimizer import make_optimizer
from ttf.training.step import StepGradients, Stepper, StepResult
from ttf.training.towers import TowerSpec, TwoTower, build

DIM, DOCUMENTS, PAIRS, SAMPLES = 6, 60, 80, 32
RNG = np.random.default_rng(7)
BANK = RNG.standard_normal((DOCUMENTS, DIM)).astype(np.float32)
POSITIVES = np.stack([np.arange(PAIRS) % DOCUMENTS, np.full(PAIRS, -1)], axis=1)
POSITIVES[::3, 1] = (POSITIVES[::3, 0] + 5) % DOCUMENTS
QUERIES = (BANK[POSITIVES[:, 0]] + RNG.standard_normal((PAIRS, DIM))).astype(np.float32)

LINEAR: dict[str, Any] = {"name": "linear"}
IDENTITY: dict[str, Any] = {"name": "identity"}
MLP: dict[str, Any] = {"name": "mlp", "hidden": 16, "dropout": 0.0, "residual": "none"}
FP32 = Precision(name="fp32", reason="test")


def arrays(
    queries: NDArray[np.float32] = QUERIES, positives: NDArray[np.int64] = POSITIVES
) -> dict[str, NDArray[Any]]:
    return {
        "X_train": queries,
        "X_val": queries[:20],
        "pos_train": positives,
        "pos_val": positives[:20],
    }


def open_small(
    folder: Path,
    queries: NDArray[np.float32] = QUERIES,
    bank: NDArray[np.float32] = BANK,
) -> Dataset:
    return open_dataset(config(folder, arrays(queries), {"vectors": bank}))


@dataclass
class World:
    """One run's parts, seeded; `run` takes steps."""

    data: Dataset
    query: dict[str, Any] = dataclasses.field(default_factory=lambda: LINEAR)
    doc: dict[str, Any] = dataclasses.field(default_factory=lambda: IDENTITY)
    micro_batch: int = 32
    grad_cache: bool = False
    memory_bank: int = 20
    mined: int = 2
    lr: float = 1e-2
    seed: int = 0
    loss: dict[str, Any] = dataclasses.field(default_factory=dict)

    def __post_init__(self) -> None:
        torch.manual_seed(key(self.seed, "weights"))
        self.policy = plugins.usable("device", "cpu").create(
            plugins.usable("device", "cpu").options_type(), 1
        )
        settings = LossConfig(memory_bank=self.memory_bank, **self.loss)
        shape = TowerShape(in_dim=DIM, length=1, sequence=False, out_dim=DIM)
        self.specs = (
            TowerSpec("query", TowerConfig(**self.query), shape),
            TowerSpec("doc", TowerConfig(**self.doc), shape),
        )
        self.model: TwoTower = build(*self.specs, settings)
        self.documents = Documents(self.data, self.model, self.policy, DIM, 1 << 20)
        self.bank = MemoryBank(
            capacity=self.memory_bank,
            num_documents=DOCUMENTS,
            dim=DIM,
            room=SAMPLES * (1 + self.mined),
            device=torch.device("cpu"),
        )
        self.optimizer = make_optimizer(self.model, self.lr, 0.01)
        self.order = Order(
            size=len(self.data.train), samples_per_step=SAMPLES, seed=0, fingerprint="w"
        )
        gradients = StepGradients(
            model=self.model,
            bank=self.bank,
            documents=self.documents,
            policy=self.policy,
            precision=FP32,
            config=RunConfig(
                loss=settings,
                train=TrainConfig(seed=self.seed, clip=1.0, grad_cache=self.grad_cache),
            ),
            micro_batch=self.micro_batch,
        )
        self.stepper = Stepper(gradients, self.optimizer, self.data)

    def head(self, step: int) -> StepHead:
        def draw(step: int, rows: NDArray[np.int64], known: NDArray[np.int64]) -> NDArray[np.int64]:
            return (rows[:, None] * 7 + step + np.arange(self.mined)) % DOCUMENTS

        return head_of(step, self.data.train, self.order, self.documents.read, draw)

    def micro_batches(self, head: StepHead) -> list[MicroBatch]:
        return [
            MicroBatch(
                start=start,
                stop=start + self.micro_batch,
                queries=self.data.train.batch(head.rows[start : start + self.micro_batch]),
            )
            for start in range(0, SAMPLES, self.micro_batch)
        ]

    def step(self, number: int, lr: float | None = None) -> StepResult:
        head = self.head(number)
        micros = iter(self.micro_batches(head))
        return self.stepper(head, micros, self.lr if lr is None else lr)

    def run(self, steps: int) -> list[StepResult]:
        return [self.step(number) for number in range(steps)]

    def weights(self) -> dict[str, torch.Tensor]:
        return {name: value.clone() for name, value in self.model.state_dict().items()}
