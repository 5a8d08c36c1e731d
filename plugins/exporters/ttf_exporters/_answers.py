"""Answers of `ttf search` in the names of their documents, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ttf import ConfigError, ExportAnswers, ExportProbe, ExportSource, Searched
from ttf_exporters._common import require

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

# (query, [(document, score), ...], {positive: grade})
Answer = tuple[str, list[tuple[str, float]], dict[str, int]]


def answers(source: ExportSource, k: int, *, plain: bool) -> Iterator[Answer]:
    """Of the validation queries, in the order of the file; `plain`: names without white space."""
    names = document_names(source.ids(), source.facts.rows)
    if plain:
        _require_plain(names)
    for found in source.searched(k):
        grades = _whole_grades(found)
        for query, rows, scores, known, relevant in zip(
            found.queries, found.rows, found.scores, found.positives, grades, strict=True
        ):
            best = [(str(names[r]), float(s)) for r, s in zip(rows, scores, strict=True)]
            judged = zip(known, relevant, strict=True)
            yield str(query), best, {str(names[row]): int(g) for row, g in judged if row >= 0}


def _whole_grades(found: Searched) -> NDArray[np.int64]:
    """Of each positive; trec_eval and what is made like it read whole numbers only."""
    import numpy as np

    if found.grades is None:
        return np.ones(found.positives.shape, np.int64)
    whole = found.grades.astype(np.int64)
    wrong = np.argwhere((found.positives >= 0) & (whole != found.grades))
    if wrong.size:
        query, column = wrong[0]
        raise ConfigError(
            f"The grade of a positive of query {found.queries[query]} is "
            f"{found.grades[query, column]:g} (rel_val), but grades of qrels are whole numbers.",
            hint="Multiply all grades by the same number, which does not change nDCG: for example "
            "rel_val * 10; and give the file with --pairs.",
        )
    return whole


def document_names(ids: NDArray[Any] | None, rows: int) -> NDArray[np.str_]:
    import numpy as np

    return (np.arange(rows) if ids is None else ids).astype(np.str_)


def _require_plain(names: NDArray[np.str_]) -> None:
    for row, name in enumerate(names):
        if not name or any(c.isspace() for c in name):
            raise ConfigError(
                f"The id of document {row} is {str(name)!r}. Ids in files of TREC have no white space.",
                hint="Use ids without white space in the bank, or the format beir.",
            )


def read_answers(
    found: Mapping[str, Mapping[str, float]], probe: ExportProbe, library: str
) -> ExportAnswers:
    """The best of the probe's queries, as rows of the bank."""
    import numpy as np

    names = document_names(probe.ids, probe.facts.rows)
    row_of = {str(name): row for row, name in enumerate(names)}
    rows = np.full((len(probe.query_rows), probe.k), -1, np.int64)
    scores = np.zeros(rows.shape, np.float32)
    for i, query in enumerate(probe.query_rows):
        require(str(query) in found, f"there is no answer for query {query}")
        best = sorted(found[str(query)].items(), key=lambda one: -one[1])[: probe.k]
        require(len(best) == probe.k, f"query {query} has {len(best)} answers")
        rows[i] = [row_of.get(name, -1) for name, _ in best]
        scores[i] = [score for _, score in best]
    return ExportAnswers(rows=rows, scores=scores, count=len(found), library=library)
