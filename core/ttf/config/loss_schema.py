"""Sections about the loss: what is compared, and which mined candidates count as negatives."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field

from ttf.config.declare import (
    MOST_FLOAT32,
    MOST_ROWS,
    Auto,
    Candidates,
    CandidatesOrZero,
    PositiveFloat,
    Section,
    Share,
    ShareBelowOne,
    StepsOrZero,
    key,
    within,
)

_WANTED_YIELD: Final = 0.1


class NegativesConfig(Section):
    """The positive-aware filter: which mined candidates may be drawn.

    It leaves out candidates that score almost as high as the positive: many of these are right
    answers. s is a candidate's score, s_pos the score of the query's positive.
    """

    relative_margin: ShareBelowOne | None = key(
        0.05,
        "keep a candidate if s < s_pos - relative_margin * |s_pos|; none: no such filter",
        unit="share of |s_pos|",
    )
    absolute_margin: Annotated[float, within(0, MOST_FLOAT32)] | None = key(
        None, "keep a candidate if s < s_pos - absolute_margin; none: no such filter", unit="score"
    )
    rank_from: CandidatesOrZero = key(
        0, "lowest rank from which negatives are drawn; 0 is the nearest document", unit="rank"
    )
    rank_to: Candidates | None = key(
        None, "negatives are drawn from ranks below this number; none: no limit", unit="rank"
    )
    draw_from: Candidates = key(
        10, "negatives are drawn from the first N candidates that pass", unit="documents"
    )
    min_yield: Share | Auto = key(
        "auto",
        "share of queries that must have a candidate after the filter, otherwise the run ends "
        "with exit code 2; auto: below 0.1, the run continues with a note",
        unit="share of queries",
    )

    @property
    def wanted_yield(self) -> float:
        return _WANTED_YIELD if self.min_yield == "auto" else self.min_yield


class LossConfig(Section):
    """The contrastive loss (InfoNCE) and its negatives."""

    temperature: Annotated[float, Field(gt=0, le=100)] = key(
        0.05,
        ("the loss divides similarities by this number; a lower number makes differences larger"),
        unit="no unit",
    )
    learn_temperature: bool = key(False, "train the temperature too; it stays between 0.01 and 1")
    temperature_schedule: Literal["falling", "constant"] = key(
        "falling",
        "falling: from 1.4 times loss.temperature at the first step to 0.8 times it at the last, by the "
        "same factor at each step; constant: loss.temperature at all steps, as with "
        "loss.learn_temperature",
    )
    similarity: Literal["cosine", "dot"] = key(
        "cosine", "how vectors are compared; cosine: after scaling them to length 1, dot: unchanged"
    )
    memory_bank: Annotated[int, within(0, MOST_ROWS)] | Auto = key(
        "auto",
        "documents of earlier steps that are used as negatives; auto: min(50000, distinct "
        "documents) if a step has fewer than 1024 documents of its own, otherwise none",
        unit="documents",
    )
    memory_bank_start: StepsOrZero = key(
        0, "first step that uses the memory bank", unit="optimizer steps"
    )
    symmetric: bool = key(False, "average of two losses: query to document, and document to query")
    teacher: Share = key(
        0.0,
        "share of the loss of a query that follows the scores of a teacher (score_pos_train and "
        "score_neg_train, for its target and its own negatives); the rest is the contrastive loss; 1: "
        "the teacher alone; 0: its scores are not used",
        unit="share of the loss",
    )
    teacher_temperature: PositiveFloat = key(
        1.0,
        "the teacher's scores are divided by this number; a higher number makes the differences between "
        "documents smaller",
        unit="no unit",
    )
    negatives: Literal["sampled", "bank"] = key(
        "sampled",
        "sampled: documents of the step, of the memory bank and of the miner; bank: all documents "
        "of the bank at every step (only if the document tower is not trained)",
    )
