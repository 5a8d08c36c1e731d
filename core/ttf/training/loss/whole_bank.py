"""The whole bank for an optimizer step: its losses, and counts from the same pass."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ttf.config.loss_schema import NegativesConfig
from ttf.contracts import Precision
from ttf.data.loader import StepHead
from ttf.training.documents import Documents
from ttf.training.loss.bank_blocks import Blocks, HalfBlocks, StoredBlocks
from ttf.training.loss.infonce import Block, Excluded, loss_in_one_pass
from ttf.training.loss.rank_counts import RankCounter, RankCounts

# Ranks and suspects of a training query are counted up to here; it bounds the cost with an
# untrained tower.
DEEPEST = 100


class FullBank:
    """Every document of the bank is a negative of every query, except its known positives.

    The bank is opened at the first step: a frozen tower's vectors are written when the run begins.
    """

    def __init__(
        self,
        documents: Documents,
        negatives: NegativesConfig,
        ks: Sequence[int],
        cache: Path | None = None,
        say: Callable[[str], None] = lambda _: None,
    ) -> None:
        """`ks` are those of evaluation. In bfloat16 a copy of the bank is kept in `cache`; `say`
        gets messages about it."""
        self._documents = documents
        self._negatives = negatives
        self._cache = cache
        self._say = say
        self._ks = tuple(k for k in ks if k <= DEEPEST)
        self._opened: dict[str, Blocks] = {}

    def losses(
        self,
        q_SD: Tensor,
        docs_KD: Tensor,
        head: StepHead,
        *,
        scale: Tensor,
        precision: Precision,
        beat: Callable[[], None] = lambda: None,
    ) -> tuple[Tensor, RankCounts]:
        """The losses (S,) of a step, and the counts; `docs_KD` are the step's documents."""
        device = q_SD.device
        place = torch.from_numpy(np.searchsorted(head.doc_ids, head.targets)).to(device)
        counters: list[RankCounter] = []

        def make_look(target_logit_S: Tensor) -> RankCounter:
            line_S = self._line(target_logit_S, float(scale.detach()))
            counters.append(RankCounter(target_logit_S, line_S, deepest=DEEPEST))
            return counters[0]

        losses_S = loss_in_one_pass(
            q_SD,
            scale,
            docs_KD[place],
            _with_heartbeat(self._blocks(precision, beat)(device), beat),
            Excluded(np.concatenate([head.targets[:, None], head.known], axis=1)),
            make_look=make_look,
        )
        return losses_S, counters[0].counts()

    def record_of(self, counts: RankCounts) -> Mapping[str, float]:
        """For a step's record: `train_recall@k`, the share of targets among the k best documents of
        the bank (without the query's other positives), and `above_positive`, the average number (up
        to 100) of documents per query that the filter of [negatives] would suspect as positives."""
        ranks_S = counts.ranks_B
        out = {f"train_recall@{k}": float((ranks_S < k).float().mean()) for k in self._ks}
        return out | {"above_positive": float(counts.above_B.float().mean())}

    def _line(self, target_logit_S: Tensor, scale: float) -> Tensor:
        # The filter's line in logits: documents that reach it are suspects.
        relative, absolute = self._negatives.relative_margin, self._negatives.absolute_margin
        return torch.minimum(
            target_logit_S - (relative or 0.0) * target_logit_S.abs(),
            target_logit_S - (absolute or 0.0) * scale,
        )

    def _blocks(self, precision: Precision, beat: Callable[[], None]) -> Blocks:
        name = precision.name
        if name not in self._opened:
            documents = self._documents
            blame = documents.raise_if_inputs_not_finite
            if name == "bf16":
                self._opened[name] = HalfBlocks(
                    documents.source, blame, self._cache, self._say, beat
                )
            else:
                self._opened[name] = StoredBlocks(documents.source, blame)
        return self._opened[name]


def _with_heartbeat(blocks: Iterator[Block], beat: Callable[[], None]) -> Iterator[Block]:
    for block in blocks:
        beat()
        yield block
