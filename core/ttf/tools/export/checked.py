"""Compares what the library of the format says with what ttf says; whoever differs is refused."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ttf.errors import NumericFailure
from ttf.hookspecs import ExportAnswers
from ttf.tools.export import child, expected
from ttf.tools.export.compare import (
    answers_agree,
    equal_bits,
    largest_difference,
    tolerance,
)

if TYPE_CHECKING:
    from ttf.tools.export.prepared import Ready


@dataclass(frozen=True, kw_only=True)
class Checked:
    """Of the three first, each is about all that was compared."""

    rows: int
    """Queries that were compared; without queries, the lines that were read back."""
    max_difference: float
    """Of scores and of vectors."""
    same_top10: float | None
    """Share of the queries with the same ten best documents; None: the format answers none."""
    documents: int
    """Document vectors that were compared; those of an index are equal bit for bit."""
    count: int | None
    """What the library counts in the format."""
    library: str
    compared_with: str


def asked_of_the_towers(ready: Ready, answers: ExportAnswers) -> Ready:
    """With what the towers make of the inputs that an encoder of texts has made."""
    if answers.query_inputs is not None:
        one = 1.0 if ready.facts.calibrated else None
        queries = _with_last(ready.model.encode_query_inputs(answers.query_inputs), one)
        rows, scores = ready.find(queries, ready.rows.shape[1])
        ready = replace(ready, queries=queries, rows=rows, scores=scores)
    if answers.document_inputs is not None:
        mean = ready.facts.mean_correction if ready.facts.calibrated else None
        documents = _with_last(ready.model.encode_document_inputs(answers.document_inputs), mean)
        ready = replace(ready, document_vectors=documents)
    return ready


def _with_last(vectors: NDArray[np.float32], last: float | None) -> NDArray[np.float32]:
    if last is None:
        return vectors
    return np.concatenate([vectors, np.full((len(vectors), 1), last, np.float32)], axis=1)


def check(ready: Ready, said: Mapping[str, Any], name: str) -> Checked:
    answers = child.answers(ready.answers, said)
    ready = asked_of_the_towers(ready, answers)
    differences = [0.0]
    problems: list[str] = []
    same = None
    if (
        answers.count is not None
        and ready.exports == "vectors"
        and answers.count != ready.facts.rows
    ):
        problems.append(f"it holds {answers.count:,} documents, not {ready.facts.rows:,}")
    if answers.document_vectors is not None:
        differences.append(_documents(ready, answers, problems))
    if answers.query_vectors is not None:
        same = _queries(ready, answers, differences, problems)
    if answers.rows is not None:
        same = _found(ready, answers, differences, problems)
    if problems:
        raise NumericFailure(
            f"The {name} export does not answer as ttf search does: {'; '.join(problems)}. It was "
            "removed.",
            hint=f"Please report this with the versions: {answers.library or name}, ttf doctor.",
        )
    return Checked(
        rows=len(ready.queries) if same is not None else answers.count or 0,
        max_difference=max(differences),
        same_top10=same,
        documents=0 if answers.document_vectors is None else len(ready.document_vectors),
        count=answers.count,
        library=answers.library,
        compared_with="exact search of the smaller vectors" if ready.smaller else "ttf search",
    )


def _documents(ready: Ready, answers: ExportAnswers, problems: list[str]) -> float:
    theirs = np.asarray(answers.document_vectors, np.float32)
    difference = largest_difference(ready.document_vectors, theirs)
    if ready.exports == "vectors":
        if not equal_bits(ready.document_vectors, theirs):
            problems.append("its document vectors are not those of the bank, bit for bit")
    elif difference > tolerance(ready.document_vectors):
        problems.append(f"its document vectors differ by {difference:.2g} from those of the tower")
    return difference


def _queries(
    ready: Ready, answers: ExportAnswers, differences: list[float], problems: list[str]
) -> float:
    """With the exported encoder's query vectors, `ttf search` finds the same."""
    theirs = np.ascontiguousarray(answers.query_vectors, np.float32)
    differences.append(largest_difference(ready.queries, theirs))
    if differences[-1] > tolerance(ready.queries):
        problems.append(
            f"its query vectors differ by {differences[-1]:.2g} from those of the tower"
        )
        return 0.0
    found = ready.find(theirs, min(expected.K, ready.source.shape[0]))
    answers = ExportAnswers(rows=found[0], scores=found[1])
    return _found(ready, answers, differences, problems)


def _found(
    ready: Ready, answers: ExportAnswers, differences: list[float], problems: list[str]
) -> float:
    assert answers.rows is not None
    scores = ready.scores if answers.scores is None else np.asarray(answers.scores, np.float32)
    if answers.rows.shape != ready.rows.shape:
        problems.append(f"it answered {answers.rows.shape}, not {ready.rows.shape} documents")
        return 0.0
    agreed = answers_agree(
        ready.queries,
        ready.source,
        (ready.rows, ready.scores),
        (np.asarray(answers.rows, np.int64), scores),
    )
    differences.append(agreed.max_difference)
    if agreed.same < 1.0:
        problems.append(
            f"{1 - agreed.same:.1%} of the queries get other documents (the first is query "
            f"{agreed.first_other} of the check)"
        )
    if agreed.max_difference > tolerance(ready.scores):
        problems.append(f"its scores differ by {agreed.max_difference:.2g}")
    return agreed.same
