"""Whether a trained model finds more than a random order of the documents would."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

# Standard deviations of a random order's recall; at every cut-off, before and after training.
_DEVIATIONS: Final = 3.0
# With fewer queries the recall of a good model may be that of chance.
ENOUGH_QUERIES: Final = 100

WRONG_DATA: Final = (
    "Probably the pairs and the documents do not belong together: pos_* belongs to another bank, "
    "rows were shuffled, or seq_* needs --context (to check: ttf data inspect PAIRS). If the data "
    "is correct, train longer or with another --lr. To accept such a model: --set "
    "evaluate.above_chance=false"
)


@dataclass(frozen=True, kw_only=True)
class Ranked:
    """The recall of a model against the full bank."""

    metrics: Mapping[str, float]
    queries: int
    documents: int

    def by_chance(self, k: int) -> float:
        """The mean recall of a random order."""
        return min(1.0, k / self.documents)

    def above_chance(self, ks: Sequence[int]) -> bool:
        """True at any cut-off; True also where none can tell."""
        telling = [k for k in ks if 2 * k <= self.documents]
        return not telling or any(self._beats(k) for k in telling)

    def could_tell(self, k: int) -> bool:
        """Whether a perfect model would be above chance with so many queries."""
        return self._needed(k) < 1.0

    def _beats(self, k: int) -> bool:
        return self.metrics.get(f"recall@{k}", 1.0) > self._needed(k)

    def _needed(self, k: int) -> float:
        share = self.by_chance(k)
        return share + _DEVIATIONS * math.sqrt(share * (1 - share) / self.queries)


def nothing_learned(before: Ranked, after: Ranked, ks: Sequence[int], metric: str) -> str:
    """What to tell the user if a model ranks no better than chance, before and after training;
    else ''."""
    if after.above_chance(ks) or before.above_chance(ks):
        return ""
    k = max(k for k in ks if 2 * k <= after.documents)
    name = f"recall@{k}"
    shown = dict.fromkeys((metric, name))
    figures = ", ".join(
        f"{one} is {after.metrics[one]:.4f} ({before.metrics[one]:.4f} before training)"
        for one in shown
        if one in before.metrics
    )
    order = f"a random order has a {name} of {after.by_chance(k):.4f}."
    if not after.could_tell(k):
        queries = "query" if after.queries == 1 else "queries"
        return (
            f"With {after.queries:,} validation {queries} nothing shows whether the model ranks the "
            f"{after.documents:,} documents better than chance: {figures}; {order}"
        )
    return f"The model ranks the {after.documents:,} documents no better than chance: {figures}; {order}"
