"""The peers' loops: a training loop written by hand, as users write it, and two libraries around
it.

They train the same tower as ours on the same rows, in memory. None of them uses `ttf`. Shapes: B
samples, L steps, D width, N candidates, M documents of the memory bank.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

TEMPERATURE = 0.05


@dataclass(frozen=True, kw_only=True)
class Rows:
    """Training rows in memory: queries, the vectors of their documents, and a full memory bank."""

    x: Tensor
    y_ND: Tensor
    bank_MD: Tensor


class PlainTower(nn.Module):
    """`nn.GRU`, pooled, projected, at unit length."""

    def __init__(
        self, in_dim: int, hidden: int, out_dim: int, pool: Literal["mean", "last"]
    ) -> None:
        super().__init__()
        self.gru = nn.GRU(in_dim, hidden, batch_first=True, bidirectional=True)
        self.head = nn.Linear(2 * hidden, out_dim)
        self.pool = pool

    def forward(self, x: Tensor) -> Tensor:
        out, _ = self.gru(x if x.dim() == 3 else x[:, None])
        pooled = out.mean(1) if self.pool == "mean" else out[:, -1]
        return functional.normalize(self.head(pooled), dim=-1)


class Contrast(nn.Module):
    """Cross entropy over the documents of the micro-batch and the last M before them."""

    def __init__(self, bank_MD: Tensor, capacity: int | None = None) -> None:
        """`capacity`: M, if the bank begins with fewer."""
        super().__init__()
        self.bank_MD = bank_MD.clone()
        self.capacity = len(bank_MD) if capacity is None else capacity

    def forward(self, q_BD: Tensor, doc_BD: Tensor) -> Tensor:
        cand_ND = torch.cat([doc_BD, self.bank_MD])
        self.bank_MD = cand_ND[: self.capacity]
        logits = q_BD @ cand_ND.T / TEMPERATURE
        return functional.cross_entropy(logits, torch.arange(len(q_BD)))


class LibraryContrast(nn.Module):
    """pytorch-metric-learning's memory bank around its loss; only documents enter the bank."""

    def __init__(self, bank_MD: Tensor) -> None:
        super().__init__()
        from pytorch_metric_learning.losses import CrossBatchMemory, NTXentLoss

        size, dim = bank_MD.shape
        self.memory = CrossBatchMemory(
            NTXentLoss(temperature=TEMPERATURE), embedding_size=dim, memory_size=size
        )
        self.memory.embedding_memory[:] = bank_MD
        self.memory.label_memory[:] = torch.arange(size)
        self.memory.has_been_filled = True
        self.next_label = size

    def forward(self, q_BD: Tensor, doc_BD: Tensor) -> Tensor:
        count = len(q_BD)
        labels = torch.arange(self.next_label, self.next_label + count)
        self.next_label += count
        loss: Tensor = self.memory(
            torch.cat([q_BD, doc_BD]),
            torch.cat([labels, labels]),
            enqueue_mask=torch.arange(2 * count) >= count,
        )
        return loss


def adamw(tower: nn.Module, lr: float) -> torch.optim.Optimizer:
    return torch.optim.AdamW(tower.parameters(), lr=lr, weight_decay=0.01, fused=True)


@dataclass
class HandLoop:
    """Micro-batches, with an optimizer step after every `accumulate` of them."""

    tower: PlainTower
    contrast: nn.Module
    rows: Rows
    micro_batch: int
    accumulate: int
    lr: float = 1e-3
    done: int = 0

    def __post_init__(self) -> None:
        self.optimizer = adamw(self.tower, self.lr)

    def turn(self, micro_batches: int) -> float:
        """Returns the loss of the last micro-batch."""
        value = 0.0
        for _ in range(micro_batches):
            x, doc_BD = batch_of(self.rows, self.done, self.micro_batch)
            loss = self.contrast(self.tower(x), doc_BD)
            (loss / self.accumulate).backward()
            value = loss.item()
            self.done += 1
            if self.done % self.accumulate == 0:
                self.optimizer.step()
                self.optimizer.zero_grad(set_to_none=True)
        return value


def batch_of(rows: Rows, number: int, size: int) -> tuple[Tensor, Tensor]:
    """The micro-batch of this number; starts again after the last row."""
    start = number * size % (len(rows.x) - size + 1)
    return rows.x[start : start + size], rows.y_ND[start : start + size]


@dataclass
class LightningLoop:
    """A Lightning Trainer in its own thread, which waits for permission for each micro-batch: its
    `fit` runs only once, and its start is in no turn."""

    tower: PlainTower
    contrast: nn.Module
    rows: Rows
    micro_batch: int
    accumulate: int
    threads: int

    def __post_init__(self) -> None:
        self._granted = threading.Semaphore(0)
        self._asked = threading.Semaphore(0)
        self._over = False
        self._error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="lightning", daemon=True)
        self._thread.start()
        self._asked.acquire()  # it is ready for its first micro-batch

    def turn(self, micro_batches: int) -> None:
        for _ in range(micro_batches):
            if self._error is not None:
                raise self._error
            self._granted.release()
            self._asked.acquire()
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        self._over = True
        self._granted.release()
        self._thread.join()

    def _run(self) -> None:
        try:
            self._fit()
        except BaseException as error:  # noqa: BLE001 - `turn` raises it again
            self._error = error
            self._asked.release()

    def _fit(self) -> None:
        import lightning
        from lightning.pytorch.utilities import disable_possible_user_warnings

        disable_possible_user_warnings()
        tower, contrast = self.tower, self.contrast
        torch.set_num_threads(self.threads)

        class Module(lightning.LightningModule):  # type: ignore[misc, unused-ignore]
            def __init__(self) -> None:
                super().__init__()
                self.tower, self.contrast = tower, contrast

            def training_step(self, batch: Any, number: int) -> Tensor:
                x, doc_BD = batch
                loss: Tensor = self.contrast(self.tower(x), doc_BD)
                self.log("loss", loss)
                return loss

            def configure_optimizers(self) -> torch.optim.Optimizer:
                return adamw(self.tower, 1e-3)

        trainer = lightning.Trainer(
            accelerator="cpu",
            devices=1,
            max_steps=-1,
            max_epochs=1,
            accumulate_grad_batches=self.accumulate,
            logger=False,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(Module(), _Gate(self._batches()))

    def _batches(self) -> Iterator[tuple[Tensor, Tensor]]:
        number = 0
        while True:
            self._asked.release()
            self._granted.acquire()
            if self._over:
                return
            yield batch_of(self.rows, number, self.micro_batch)
            number += 1


class _Gate:
    """An iterable that Lightning accepts as data loader."""

    def __init__(self, batches: Iterator[tuple[Tensor, Tensor]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[tuple[Tensor, Tensor]]:
        return self._batches
