"""What a user should know about the configuration of a run before its first step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ttf.data.items import Items

if TYPE_CHECKING:
    from ttf.data.dataset import Dataset
    from ttf.training.auto_settings import Decided

_FEW_QUERIES: Final = 20
_WORTH_SAYING: Final = 0.05  # Share of the training pairs that an epoch leaves out.


def remarks(decided: Decided, data: Dataset) -> Iterator[str]:
    """Everything to say before the first step, after `ttf.data.first_look` has looked."""
    yield from data.notes
    yield from decided.notes
    if decided.specs.train_rows:
        yield "The model is that of the last step: the rows of a table are kept once."
    if decided.specs.doc.wants_numbers and data.val_drawn and not isinstance(data.bank, Items):
        yield (
            "Documents of the validation pairs are the right answer of no training pair, so the metrics "
            "are those of documents whose rows are hardly trained. To measure documents that are, add "
            "validation pairs of your own (X_val)."
        )
    yield from _metrics_that_mean_little(decided, len(data.val), data.bank.shape[0])
    yield from _left_out_of_an_epoch(decided, len(data.train))
    yield from _made_for_sequences(decided)


def _metrics_that_mean_little(decided: Decided, queries: int, documents: int) -> Iterator[str]:
    evaluate = decided.config.evaluate
    always = [f"recall@{k}" for k in evaluate.k if k >= documents]
    if always:
        chosen = (
            f" The best model is chosen by {evaluate.metric}: --set evaluate.metric=mrr@10 can tell "
            "models apart."
        )
        yield (
            f"The bank has only {documents:,} document{'s' * (documents != 1)}, so {', '.join(always)} can only be 1."
            f"{chosen if evaluate.metric in always else ''}"
        )
    if queries < _FEW_QUERIES:
        yield (
            f"There {'is' if queries == 1 else 'are'} only {queries} validation "
            f"pair{'s' * (queries > 1)}: each is {1 / queries:.0%} of every metric, so differences "
            "between runs are mostly chance. A larger share of the training pairs: --val-split F"
        )


def _left_out_of_an_epoch(decided: Decided, pairs: int) -> Iterator[str]:
    samples, steps = decided.plan.samples, decided.order.steps_per_epoch
    left = pairs - steps * samples
    if left > _WORTH_SAYING * pairs:
        yield (
            f"An epoch is {steps:,} step{'s' * (steps > 1)} of {samples:,} samples. It leaves out "
            f"{left:,} of the {pairs:,} training pairs, different ones in each epoch. A smaller "
            "--batch-size leaves out fewer."
        )


def _made_for_sequences(decided: Decided) -> Iterator[str]:
    chosen = decided.resolved.origins.get("tower.query.name", "default") != "default"
    if not chosen and not decided.specs.query.shape.sequence:
        yield (
            "The queries are single vectors, but tower.query has options and no name, so the tower "
            f"is {decided.specs.query.name!r}, which is made for sequences. --tower linear or "
            "--tower mlp is much faster."
        )
