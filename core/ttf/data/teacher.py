"""Scores of a teacher: `score_pos_train` beside `pos_train`, `score_neg_train` beside `neg_train`.

NaN is a document that the teacher has not seen. A query is taught if its target and one of its own
negatives of the step have scores.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ttf.data.named_arrays import NamedArrays
from ttf.data.vectors import FLOATS, to_float32
from ttf.errors import ArrayMissing, BadData

POSITIVES: Final = "score_pos_train"
NEGATIVES: Final = "score_neg_train"


@dataclass(frozen=True, kw_only=True)
class TeacherScores:
    """Of all training pairs; NaN: no score, or no document."""

    positives_NP: NDArray[np.float32]
    negatives_NK: NDArray[np.float32]


@dataclass(frozen=True, kw_only=True)
class Taught:
    """What the teacher says of a step: of each query its target, then its own negatives."""

    documents_SC: NDArray[np.int64]  # Rows of the bank; -1: none with a score.
    scores_SC: NDArray[np.float32]

    def part(self, start: int, stop: int) -> Taught:
        """Of the queries `start..stop`."""
        return Taught(
            documents_SC=self.documents_SC[start:stop], scores_SC=self.scores_SC[start:stop]
        )


def teacher_scores(
    pairs: NamedArrays, positives: NDArray[np.int64], negatives: NDArray[np.int64] | None
) -> TeacherScores:
    """Raises ArrayMissing or BadData if the file does not have them, or if they do not fit."""
    missing = [name for name in (POSITIVES, NEGATIVES) if name not in pairs]
    if missing or negatives is None:
        absent = " and ".join(missing) or "neg_train"
        raise ArrayMissing(
            f"loss.teacher needs the scores of a teacher, but {pairs.uri} has no {absent}.",
            hint=(
                "ttf data encode writes them from columns: --score, --negative-score. Without "
                "scores: --set loss.teacher=0"
            ),
        )
    found = TeacherScores(
        positives_NP=_scores(pairs, POSITIVES, positives, "pos_train"),
        negatives_NK=_scores(pairs, NEGATIVES, negatives, "neg_train"),
    )
    if not len(_scored_pairs(found)):
        raise BadData(
            f"No training pair of {pairs.uri} has scores of a teacher for a positive and for one of "
            "its own negatives.",
            hint="Without such scores: --set loss.teacher=0",
        )
    return found


def _scores(
    pairs: NamedArrays, name: str, documents: NDArray[np.int64], beside: str
) -> NDArray[np.float32]:
    source = pairs[name]
    count, width = documents.shape
    fits = source.shape in ((count, width), (count,) if width == 1 else ())
    if not fits or source.dtype not in (*FLOATS, "int32", "int64"):
        raise BadData(
            f"{pairs.said(name)} in {pairs.uri} has the type {pairs.stored_type(name)} and the shape "
            f"{source.shape}. It must be numbers of the shape {documents.shape}, like {beside}."
        )
    stored = source.read(0, count)
    wide = to_float32(stored, source.dtype) if source.dtype in FLOATS else stored
    scores = np.array(wide, dtype=np.float32).reshape(documents.shape)
    wrong = np.argwhere((documents >= 0) & np.isinf(scores))
    if len(wrong):
        row, column = wrong[0]
        raise BadData(
            f"{name}[{row}, {column}] in {pairs.uri} is {scores[row, column]:g} ({len(wrong):,} wrong "
            "values in total).",
            hint="A score is a finite number; NaN: the teacher has none for this document.",
        )
    return np.where(documents >= 0, scores, np.float32(np.nan))


def _scored_pairs(scores: TeacherScores) -> NDArray[np.int64]:
    both = ~np.isnan(scores.positives_NP).all(axis=1) & ~np.isnan(scores.negatives_NK).all(axis=1)
    return np.flatnonzero(both)


def taught(
    targets_S: NDArray[np.int64],
    known_SP: NDArray[np.int64],
    known_scores_SP: NDArray[np.float32],
    own_SC: NDArray[np.int64],
    own_scores_SC: NDArray[np.float32],
) -> Taught:
    """What counts of the queries of a step; an own negative that is a positive does not."""
    column_S1 = (known_SP == targets_S[:, None]).argmax(axis=1)[:, None]
    score_S1 = np.take_along_axis(known_scores_SP, column_S1, axis=1)
    is_positive_SC = (own_SC[:, :, None] == known_SP[:, None, :]).any(axis=2)
    counts_SC = (own_SC >= 0) & ~is_positive_SC & ~np.isnan(own_scores_SC)
    documents_SC = np.concatenate([targets_S[:, None], np.where(counts_SC, own_SC, -1)], axis=1)
    documents_SC[np.isnan(score_S1[:, 0]) | ~counts_SC.any(axis=1)] = -1
    scores_SC = np.concatenate([score_S1, own_scores_SC], axis=1)
    return Taught(documents_SC=documents_SC, scores_SC=scores_SC)
