"""One optimizer step: micro-batches through the towers and the loss, then the weight update.

Every micro-batch sees the candidates of the whole step, so the cut of a step changes rounding only
(and the values that dropout drops). Dropout is seeded for each forward pass by (seed, step, side,
place): a step's numbers depend neither on earlier steps nor on the use of GradCache.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import torch

from ttf.config.schema import RunConfig
from ttf.contracts import DevicePolicy, Precision, StepPacing
from ttf.data.dataset import Dataset, Split
from ttf.data.finite import require_finite_queries
from ttf.data.loader import MicroBatch, StepHead, needed_by
from ttf.data.order import key
from ttf.errors import NumericFailure
from ttf.rundir.flight_record import FlightRecorder, Phase
from ttf.training.documents import Documents
from ttf.training.gradcache import cached_step
from ttf.training.loss.infonce import info_nce
from ttf.training.loss.rank_counts import RankCounts
from ttf.training.loss.teacher import goals_of
from ttf.training.loss.whole_bank import FullBank
from ttf.training.memory_bank import Columns, MemoryBank
from ttf.training.tables import Tables
from ttf.training.towers import TwoTower


@dataclass(frozen=True, kw_only=True)
class StepResult:
    loss: float
    grad_norm: float
    extra: Mapping[str, float] = field(default_factory=dict)  # More figures for the step's record.


@dataclass(frozen=True, kw_only=True)
class Computed:
    """Results of a step besides gradients; everything detached."""

    losses_S: torch.Tensor
    docs_KD: torch.Tensor
    queries_SD: torch.Tensor | None = None  # Only if a mining round will use them.
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class StepGradients:
    """Computes loss and gradients of one optimizer step; changes no weight and no memory bank."""

    model: TwoTower
    bank: MemoryBank
    documents: Documents
    policy: DevicePolicy
    precision: Precision
    config: RunConfig
    micro_batch: int
    flight: FlightRecorder = field(default_factory=lambda: FlightRecorder(None))
    # Set if every document is a negative (loss.negatives = "bank").
    full_bank: FullBank | None = None

    def __call__(self, head: StepHead, micro_batches: Iterable[MicroBatch]) -> Computed:
        """Adds the gradients of the mean loss to the parameters."""
        self.flight.divides(micro_batches=-(-len(head.rows) // self.micro_batch))
        if self.full_bank is not None:
            return self._against_bank(self.full_bank, head, list(micro_batches))
        if self.config.train.grad_cache:
            return self._cached(head, list(micro_batches))
        return self._accumulated(head, micro_batches)

    def _against_bank(
        self, full_bank: FullBank, head: StepHead, micro_batches: list[MicroBatch]
    ) -> Computed:
        # One pass over the bank for the whole step, however it is cut. Without GradCache the graphs
        # of all micro-batches are kept for it, which saves a second forward pass.
        docs_KD = self.documents.encode(head.docs)
        counted: list[RankCounts] = []

        def loss(q_SD: torch.Tensor, _: torch.Tensor | None) -> torch.Tensor:
            losses_S, counts = self.loss_beside_bank(full_bank, q_SD, docs_KD, head)
            counted.append(counts)
            return losses_S

        losses_S = self.whole_step(head, micro_batches, loss)
        return Computed(losses_S=losses_S, docs_KD=docs_KD, extra=full_bank.record_of(counted[0]))

    def whole_step(
        self,
        head: StepHead,
        micro_batches: list[MicroBatch],
        loss: Callable[[torch.Tensor, torch.Tensor | None], torch.Tensor],
    ) -> torch.Tensor:
        """Losses (S,) with fixed documents, all queries of the step at once."""
        if self.config.train.grad_cache:
            return cached_step(
                micro_batches,
                lambda micro: self.encode(head, micro),
                None,
                loss,
                self.policy,
                self.enter_backward,
                self.leave_backward,
            )
        losses_S = loss(torch.cat([self.encode(head, micro) for micro in micro_batches]), None)
        self.enter_backward()
        losses_S.mean().backward()  # type: ignore[no-untyped-call]
        self.leave_backward()
        return losses_S.detach()

    def _accumulated(self, head: StepHead, micro_batches: Iterable[MicroBatch]) -> Computed:
        parts = -(-len(head.rows) // self.micro_batch)
        docs_KD = torch.cat([self.encode_documents(head, *part) for part in _slices(head, parts)])
        # Documents are encoded once; their gradient gathers at a leaf, then goes through at once.
        leaf_KD = docs_KD.detach().requires_grad_() if docs_KD.requires_grad else docs_KD
        columns = self.columns(head, leaf_KD)
        losses = []
        queries: list[torch.Tensor] = []
        for micro in micro_batches:
            q_BD = self.encode(head, micro)
            if self.keeps_queries:
                queries.append(q_BD.detach())
            loss_B = self.loss_of(q_BD, columns, micro.start, micro.stop)
            self.enter_backward()
            (loss_B.sum() / len(head.rows)).backward()  # type: ignore[no-untyped-call]
            losses.append(loss_B.detach())
            self.leave_backward()
            self.flight.enter(Phase.DATA)
        if docs_KD.requires_grad:
            assert leaf_KD.grad is not None
            docs_KD.backward(leaf_KD.grad)  # type: ignore[no-untyped-call]
        return Computed(
            losses_S=torch.cat(losses),
            docs_KD=docs_KD.detach(),
            queries_SD=torch.cat(queries) if queries else None,
        )

    @property
    def keeps_queries(self) -> bool:
        return self.config.miner.keeps_queries

    def _cached(self, head: StepHead, micro_batches: list[MicroBatch]) -> Computed:
        if self.documents.fixed:
            return self._cached_with_fixed_documents(head, micro_batches)
        docs: list[torch.Tensor] = []

        def loss(q_SD: torch.Tensor, d_KD: torch.Tensor | None) -> torch.Tensor:
            assert d_KD is not None
            docs.append(d_KD.detach())
            return self.loss_of(q_SD, self.columns(head, d_KD), 0, len(head.rows))

        losses_S = cached_step(
            list(zip(micro_batches, _slices(head, len(micro_batches)), strict=True)),
            lambda chunk: self.encode(head, chunk[0]),
            lambda chunk: self.encode_documents(head, *chunk[1]),
            loss,
            self.policy,
            self.enter_backward,
            self.leave_backward,
        )
        return Computed(losses_S=losses_S, docs_KD=docs[0])

    def _cached_with_fixed_documents(
        self, head: StepHead, micro_batches: list[MicroBatch]
    ) -> Computed:
        fixed_KD = self.documents.encode(head.docs)
        columns = self.columns(head, fixed_KD)
        queries: list[torch.Tensor] = []

        def loss(q_SD: torch.Tensor, _: torch.Tensor | None) -> torch.Tensor:
            queries.append(q_SD.detach())
            return self.loss_of(q_SD, columns, 0, len(head.rows))

        losses_S = self.whole_step(head, micro_batches, loss)
        kept = queries[0] if self.keeps_queries else None
        return Computed(losses_S=losses_S, docs_KD=fixed_KD, queries_SD=kept)

    def enter_backward(self) -> None:
        self.flight.enter(Phase.BACKWARD)

    def leave_backward(self) -> None:
        if isinstance(self.policy, StepPacing):
            self.policy.micro_batch_ended()

    def encode(self, head: StepHead, micro: MicroBatch) -> torch.Tensor:
        x = self.policy.to_device(torch.from_numpy(micro.queries.x))
        lengths = micro.queries.lengths
        self.flight.enter(Phase.FORWARD, micro_batch=micro.start // self.micro_batch)
        self._seed_dropout(head.step, "query", micro.start)
        with self.policy.autocast(self.precision):
            return self.model.encode_queries(
                x, None if lengths is None else torch.from_numpy(lengths)
            )

    def encode_documents(self, head: StepHead, start: int, stop: int) -> torch.Tensor:
        self.flight.enter(Phase.FORWARD)
        self._seed_dropout(head.step, "doc", start)
        return self.documents.encode(head.docs[start:stop])

    def _seed_dropout(self, step: int, side: str, place: int) -> None:
        seed = key(self.config.train.seed, "dropout", step, side, place)
        if self.policy.torch_device().type == "cpu":
            # torch.manual_seed formats the stack for each kind of device there is none of: a fifth
            # of a small step.
            torch.default_generator.manual_seed(seed)
        else:
            torch.manual_seed(seed)

    def columns(self, head: StepHead, docs_KD: torch.Tensor) -> Columns:
        columns = self.bank.columns(
            head.doc_ids,
            docs_KD,
            head.targets,
            head.known,
            use_bank=head.step >= self.config.loss.memory_bank_start,
        )
        goals = goals_of(head, self.config.loss, docs_KD.device)
        return columns if goals is None else replace(columns, goals=goals)

    def loss_of(self, q_BD: torch.Tensor, columns: Columns, start: int, stop: int) -> torch.Tensor:
        scale = self.model.temperature.scale()
        loss_B = info_nce(
            q_BD,
            columns.trained or columns.cand_ND,
            columns.target_S[start:stop],
            scale=scale,
            known_BP=columns.known_SP[start:stop],
            dead_K=columns.dead_K,
            symmetric=self.config.loss.symmetric,
            half_ND=columns.half_ND,
        )
        if columns.goals is None:
            return loss_B
        docs_ND = columns.cand_ND if columns.trained is None else columns.trained.docs_KD
        return columns.goals.mixed(loss_B, q_BD, docs_ND, scale, start, stop)

    def loss_beside_bank(
        self, full_bank: FullBank, q_SD: torch.Tensor, docs_KD: torch.Tensor, head: StepHead
    ) -> tuple[torch.Tensor, RankCounts]:
        """The losses of all queries of a step with the whole bank as negatives, and counts."""
        scale = self.model.temperature.scale()
        losses_S, counts = full_bank.losses(
            q_SD,
            docs_KD,
            head,
            scale=scale,
            precision=self.precision,
            beat=self.flight.beat,
        )
        goals = goals_of(head, self.config.loss, docs_KD.device)
        if goals is not None:
            losses_S = goals.mixed(losses_S, q_SD, docs_KD, scale, 0, len(head.rows))
        return losses_S, counts


class Stepper:
    """Owns what an optimizer step changes: towers, optimizer, memory bank."""

    def __init__(
        self,
        gradients: StepGradients,
        optimizer: torch.optim.Optimizer,
        data: Dataset,
        tables: Tables | None = None,
        temperature: Callable[[int], float] | None = None,
        compute: Callable[[StepHead, Iterator[MicroBatch]], Computed] | None = None,
    ) -> None:
        """`temperature`: of each step, where it is neither learned nor always the same. `compute`:
        how the gradients of a whole step are added up; without it, `gradients` does."""
        self.gradients = gradients
        self._compute = compute
        self._tables = tables
        self.optimizer = optimizer
        self.model = gradients.model
        self.bank = gradients.bank
        self._data = data
        self._temperature = temperature
        # Gets the step and its query vectors, if the gradients keep them.
        self.keep_queries: Callable[[int, torch.Tensor], None] = lambda step, queries_SD: None
        self._parameters = [p for p in self.model.parameters() if p.requires_grad]

    def __call__(
        self, head: StepHead, micro_batches: Iterator[MicroBatch], lr: float
    ) -> StepResult:
        self.model.train()
        if self._tables:
            self._tables.begin(needed_by(head, self._data.train), head.coming)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        if self._temperature is not None:
            self.model.temperature.set_to(self._temperature(head.step))
        computed = (self._compute or self.gradients)(head, micro_batches)
        self.gradients.flight.enter(Phase.OPTIMIZER)
        loss = float(computed.losses_S.mean())
        norm = float(
            torch.nn.utils.clip_grad_norm_(
                [*self._parameters, *self._leaves()],
                self.gradients.config.train.clip or math.inf,
            )
        )
        if not (math.isfinite(loss) and math.isfinite(norm)):
            self._explain(head, computed.losses_S, norm)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self._tables:
            self._tables.finish(lr / self.gradients.config.train.lr)
        self._commit(head, computed.docs_KD)
        if computed.queries_SD is not None:
            self.keep_queries(head.step, computed.queries_SD)
        policy = self.gradients.policy
        if isinstance(policy, StepPacing):
            policy.step_ended()
        else:
            policy.synchronize()
        return StepResult(loss=loss, grad_norm=norm, extra=computed.extra)

    def _leaves(self) -> list[torch.Tensor]:
        return self._tables.leaves if self._tables else []

    def _commit(self, head: StepHead, docs_KD: torch.Tensor) -> None:
        # Only targets enter the bank: a document that is no query's positive is no fair negative.
        targets = np.unique(head.targets)
        place = torch.from_numpy(np.searchsorted(head.doc_ids, targets)).to(docs_KD.device)
        self.bank.commit(targets, docs_KD[place], refresh=not self.gradients.documents.fixed)

    def _explain(self, head: StepHead, losses_S: torch.Tensor, norm: float) -> None:
        """Raises BadData if an input is not finite, else NumericFailure that names the rows."""
        self.optimizer.zero_grad(set_to_none=True)
        if self._tables:
            self._tables.drop()
        train = self._data.train
        self.gradients.documents.raise_if_inputs_not_finite(head.doc_ids, head.docs)
        wrong = (~torch.isfinite(losses_S)).nonzero().flatten().tolist()
        for start in range(0, len(head.rows), 256):
            rows = head.rows[start : start + 256]
            require_finite_queries(train, rows, train.batch(rows).x)
        names = _first_rows(train, head, wrong)
        what = "loss" if wrong else "gradient"
        raise NumericFailure(
            f"The {what} of step {head.step + 1} is not finite (loss {float(losses_S.mean())}, "
            f"gradient norm {norm}), but the inputs are finite. Training rows of this batch: "
            f"{names}.",
            hint=(
                "The weights are those from before this step. Try a lower --lr, a higher "
                "temperature (--set loss.temperature=0.1), or --precision fp32."
            ),
        )


def _first_rows(train: Split, head: StepHead, wrong: list[int]) -> str:
    rows = train.keep[head.rows[wrong] if wrong else head.rows]
    shown = ", ".join(str(r) for r in rows[:8])
    return f"{shown} and {len(rows) - 8} more" if len(rows) > 8 else shown


def _slices(head: StepHead, parts: int) -> list[tuple[int, int]]:
    """The step's documents, in as many parts as it has micro-batches."""
    edges = np.linspace(0, len(head.doc_ids), parts + 1).astype(int).tolist()
    return list(itertools.pairwise(edges))
