"""The gradients of a step whose samples are cut into shards, perhaps on several processes.

Each shard's gradient is one flat vector; `World.total` adds them in the order of a tree, so the sum
has the same bits for any number of ranks. A rank computes its own shards only. What needs all
queries of a step (the symmetric loss, GradCache) is computed by every rank from the same vectors.

Shapes: as in `ttf.training.step`; P is the number of trained values, n the samples of a shard.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from ttf.data.loader import MicroBatch, StepHead
from ttf.rundir.flight_record import Phase
from ttf.training.loss.rank_counts import RankCounts
from ttf.training.loss.whole_bank import FullBank
from ttf.training.step import Computed, StepGradients
from ttf.world.tree import Fold, Node, parts, samples_of, shards_of
from ttf.world.vouching import SHARD_EVERY, digest, refuse_other_shards
from ttf.world.word import Word
from ttf.world.world import World, plus


class ComputesStep(Protocol):
    """Adds the gradients of the mean loss of a step to the parameters."""

    def __call__(self, head: StepHead, micro_batches: Iterable[MicroBatch]) -> Computed: ...


def own_samples(world: World, samples: int) -> range:
    """The samples of a step that this rank computes."""
    own = world.own_shards
    return range(
        samples_of(own.start, samples, world.shards)[0],
        samples_of(own.stop - 1, samples, world.shards)[1],
    )


@dataclass(frozen=True, kw_only=True)
class _Documents:
    """The documents of a step, on every rank; of a trained tower, with the graphs of own parts."""

    docs_KD: Tensor
    # Own parts of a trained tower: shard, first document, vectors with their graph.
    parts: tuple[tuple[int, int, Tensor], ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Shard:
    """What one shard gives: its gradient, and figures of its samples in their order."""

    flat: Tensor
    losses: list[Tensor] = field(default_factory=list)
    queries: list[Tensor] = field(default_factory=list)
    counts: list[RankCounts] = field(default_factory=list)


class ShardedGradients:
    """`StepGradients` by shards; changes no weight and no memory bank."""

    def __init__(
        self,
        gradients: StepGradients,
        world: World,
        read: Callable[[StepHead, int, int], MicroBatch],
        leaves: Callable[[], list[Tensor]] = list,
    ) -> None:
        """`read`: reads samples of a step that are another rank's. `leaves`: tensors outside the
        model that get gradients, such as rows of tables."""
        self._read = read
        self._gradients = gradients
        self._world = world
        self._leaves = leaves
        self._exchange_s = 0.0

    def __call__(self, head: StepHead, micro_batches: Iterable[MicroBatch]) -> Computed:
        gradients, samples = self._gradients, len(own_samples(self._world, len(head.rows)))
        gradients.flight.divides(micro_batches=-(-samples // gradients.micro_batch))
        self._exchange_s = 0.0
        if gradients.full_bank is not None:
            computed = self._against_bank(gradients.full_bank, head, micro_batches)
        elif gradients.config.train.grad_cache:
            computed = self._cached(head, list(micro_batches))
        else:
            computed = self._accumulated(head, micro_batches)
        if self._world.size == 1:
            return computed
        return replace(computed, extra={**computed.extra, "exchange_s": self._exchange_s})

    # --- the three ways of a step ---------------------------------------------------------

    def _accumulated(self, head: StepHead, micro_batches: Iterable[MicroBatch]) -> Computed:
        gradients, samples = self._gradients, len(head.rows)
        found = self._documents(head, graphs=True)
        leaf_KD = found.docs_KD.detach().requires_grad_(bool(found.parts))
        columns = gradients.columns(head, leaf_KD)

        def shard_of(micros: Iterable[MicroBatch]) -> _Shard:
            losses, queries = [], []
            for micro in micros:
                q_BD = gradients.encode(head, micro)
                queries.append(q_BD.detach())
                loss_B = gradients.loss_of(q_BD, columns, micro.start, micro.stop)
                gradients.enter_backward()
                (loss_B.sum() / samples).backward()  # type: ignore[no-untyped-call]
                losses.append(loss_B.detach())
                gradients.leave_backward()
                gradients.flight.enter(Phase.DATA)
            flat = self._taken([leaf_KD] if found.parts else [])
            return _Shard(flat=flat, losses=losses, queries=queries)

        total, shards = self._summed(head, micro_batches, lambda _, micros: shard_of(micros))
        if found.parts:
            count = leaf_KD.numel()
            total, grads_KD = total[:-count], total[-count:].view_as(leaf_KD).to(leaf_KD.device)
            total = total + self._through_documents(found, grads_KD)
        self._put(total)
        return self._computed(head, shards, found.docs_KD)

    def _cached(self, head: StepHead, micro_batches: list[MicroBatch]) -> Computed:
        gradients = self._gradients
        with torch.no_grad():
            found = self._documents(head, graphs=False)
            q_own = torch.cat([gradients.encode(head, micro) for micro in micro_batches])
        q_SD = self._joined(q_own, len(head.rows)).requires_grad_()
        d_KD = found.docs_KD.detach().requires_grad_(not gradients.documents.fixed)
        losses_S = gradients.loss_of(q_SD, gradients.columns(head, d_KD), 0, len(head.rows))
        losses_S.mean().backward()  # type: ignore[no-untyped-call]
        # Every rank has these (a learned temperature's): they are added once, not by each shard.
        common = self._taken([])

        def shard_of(shard: int, micros: Iterable[MicroBatch]) -> _Shard:
            for micro in micros:
                again_BD = gradients.encode(head, micro)
                gradients.enter_backward()
                again_BD.backward(_grad(q_SD)[micro.start : micro.stop])  # type: ignore[no-untyped-call]
                gradients.leave_backward()
            self._again_through_documents(head, shard, d_KD)
            return _Shard(flat=self._taken([]))

        total, _ = self._summed(head, micro_batches, shard_of)
        self._put(total.add_(common))
        kept = q_SD.detach() if gradients.keeps_queries else None
        return Computed(losses_S=losses_S.detach(), docs_KD=d_KD.detach(), queries_SD=kept)

    def _against_bank(
        self, full_bank: FullBank, head: StepHead, micro_batches: Iterable[MicroBatch]
    ) -> Computed:
        gradients = self._gradients
        docs_KD = gradients.documents.encode(head.docs)

        def shard_of(shard: int, micros: Iterable[MicroBatch]) -> _Shard:
            own = _part(head, *samples_of(shard, len(head.rows), self._world.shards))
            counted: list[RankCounts] = []

            def loss(q_BD: Tensor, _: Tensor | None) -> Tensor:
                losses_B, counts = gradients.loss_beside_bank(full_bank, q_BD, docs_KD, own)
                counted.append(counts)
                return losses_B

            losses_B = gradients.whole_step(own, list(micros), loss)
            # Of the shard's mean. V is a power of two, so this division is exact.
            flat = self._taken([]).div_(self._world.shards)
            return _Shard(flat=flat, losses=[losses_B], counts=counted)

        total, shards = self._summed(head, micro_batches, shard_of)
        self._put(total)
        counts = torch.cat(
            [torch.stack([c.ranks_B, c.above_B], dim=1) for each in shards for c in each.counts]
        )
        counts = self._joined(counts, len(head.rows))
        record = full_bank.record_of(RankCounts(ranks_B=counts[:, 0], above_B=counts[:, 1]))
        return replace(self._computed(head, shards, docs_KD), extra=record)

    # --- the sum --------------------------------------------------------------------------

    def _summed(
        self,
        head: StepHead,
        micro_batches: Iterable[MicroBatch],
        shard_of: Callable[[int, Iterable[MicroBatch]], _Shard],
    ) -> tuple[Tensor, list[_Shard]]:
        """The sum over all shards, and what own shards computed besides."""
        checked = self._world.size > 1 and head.step % SHARD_EVERY == 0
        fold, shards, first = Fold[Tensor](plus), list[_Shard](), 0
        for shard, micros in self._by_shard(micro_batches, len(head.rows)):
            found = shard_of(shard, micros)
            if checked and not shards:
                first = digest([found.flat])
            # The sum of two shards is written into the first one.
            shards.append(replace(found, flat=found.flat[:0]))
            fold.add(Node(shard, 1), found.flat)
        if checked:
            self._check_neighbour(head, first, shard_of)
        return self._total(fold), shards

    def _check_neighbour(
        self,
        head: StepHead,
        first: int,
        shard_of: Callable[[int, Iterable[MicroBatch]], _Shard],
    ) -> None:
        """Computes the first shard of the next rank once more. Raises RanksDrifted."""
        world = self._world
        shard = self._shards_of((world.rank + 1) % world.size).start
        start, stop = samples_of(shard, len(head.rows), world.shards)
        size = self._gradients.micro_batch
        micros = [self._read(head, at, at + size) for at in range(start, stop, size)]
        again = digest([shard_of(shard, micros).flat])
        told = [world.agree(Word(step=head.step, weights=each)).words for each in (first, again)]
        refuse_other_shards(
            world.place, head.step, *([word.weights for word in words] for words in told)
        )

    # --- documents ------------------------------------------------------------------------

    def _documents(self, head: StepHead, *, graphs: bool) -> _Documents:
        gradients = self._gradients
        if gradients.documents.fixed:
            return _Documents(docs_KD=gradients.documents.encode(head.docs))
        cut = list(parts(len(head.doc_ids), self._world.shards))
        own = [(shard, *cut[shard]) for shard in self._world.own_shards]
        encoded = [
            (shard, start, gradients.encode_documents(head, start, stop))
            for shard, start, stop in own
            if stop > start
        ]
        rows = torch.cat([part.detach() for _, _, part in encoded]) if encoded else None
        if rows is None:
            rows = torch.zeros(0, gradients.documents.dim)
        counts = [
            sum(stop - start for start, stop in cut[shards.start : shards.stop])
            for shards in map(self._shards_of, range(self._world.size))
        ]
        docs_KD = self._timed(lambda: self._world.joined(rows, counts))
        return _Documents(docs_KD=docs_KD, parts=tuple(encoded) if graphs else ())

    def _shards_of(self, rank: int) -> range:
        return shards_of(rank, self._world.size, self._world.shards)

    def _through_documents(self, found: _Documents, grads_KD: Tensor) -> Tensor:
        """The sum over all shards of the gradients by way of their documents."""
        by_shard = {shard: (start, part) for shard, start, part in found.parts}
        fold = Fold[Tensor](plus)
        for shard in self._world.own_shards:
            if shard in by_shard:
                start, part = by_shard[shard]
                part.backward(grads_KD[start : start + len(part)])  # type: ignore[no-untyped-call]
            fold.add(Node(shard, 1), self._taken([]))
        return self._total(fold)

    def _again_through_documents(self, head: StepHead, shard: int, d_KD: Tensor) -> None:
        if d_KD.grad is None:
            return
        start, stop = list(parts(len(head.doc_ids), self._world.shards))[shard]
        if stop > start:
            part = self._gradients.encode_documents(head, start, stop)
            part.backward(d_KD.grad[start:stop])  # type: ignore[no-untyped-call]

    # --- gradients ------------------------------------------------------------------------

    def _by_shard(
        self, micro_batches: Iterable[MicroBatch], samples: int
    ) -> Iterator[tuple[int, Iterator[MicroBatch]]]:
        each = samples // self._world.shards
        return itertools.groupby(micro_batches, lambda micro: micro.start // each)

    def _trained(self) -> list[Tensor]:
        model = self._gradients.model
        return [p for p in model.parameters() if p.requires_grad] + self._leaves()

    def _taken(self, others: list[Tensor]) -> Tensor:
        """Takes the gradients away from the parameters: one flat vector, in the memory of the CPU."""
        trained = [*self._trained(), *others]
        taken = [torch.zeros_like(each) if each.grad is None else each.grad for each in trained]
        for each in trained:
            each.grad = None
        return torch.cat([grad.reshape(-1) for grad in taken]).cpu()

    def _put(self, flat: Tensor) -> None:
        trained = self._trained()
        for each, piece in zip(
            trained, torch.split(flat, [p.numel() for p in trained]), strict=True
        ):
            each.grad = piece.view_as(each).to(each.device)

    def _total(self, fold: Fold[Tensor]) -> Tensor:
        return self._timed(lambda: self._world.total(fold))

    def _joined(self, rows: Tensor, samples: int) -> Tensor:
        """Own rows of each rank's samples, those of all of them in their order."""
        each = samples // self._world.shards
        counts = [len(self._shards_of(rank)) * each for rank in range(self._world.size)]
        return self._timed(lambda: self._world.joined(rows.cpu(), counts).to(rows.device))

    def _timed(self, exchange: Callable[[], Tensor]) -> Tensor:
        flight, began = self._gradients.flight, time.perf_counter()
        flight.enter(Phase.EXCHANGE)
        found = exchange()
        self._exchange_s += time.perf_counter() - began
        flight.enter(Phase.FORWARD)
        return found

    def _computed(self, head: StepHead, shards: list[_Shard], docs_KD: Tensor) -> Computed:
        samples = len(head.rows)
        losses = torch.cat([loss for each in shards for loss in each.losses])
        queries = [q for each in shards for q in each.queries]
        kept = self._gradients.keeps_queries and queries
        return Computed(
            losses_S=self._joined(losses, samples),
            docs_KD=docs_KD.detach(),
            queries_SD=self._joined(torch.cat(queries), samples) if kept else None,
        )


def _part(head: StepHead, start: int, stop: int) -> StepHead:
    return replace(
        head,
        rows=head.rows[start:stop],
        known=head.known[start:stop],
        targets=head.targets[start:stop],
        taught=None if head.taught is None else head.taught.part(start, stop),
    )


def _grad(tensor: Tensor) -> Tensor:
    return torch.zeros_like(tensor) if tensor.grad is None else tensor.grad
