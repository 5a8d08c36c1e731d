"""Which columns are queries and documents: as named by the user, else by the usual names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ttf.errors import ConfigError, suggestion
from ttf.text.shell import quoted

_USUAL: Final = {
    "query": ("query", "question", "anchor", "queries", "question_text", "q"),
    "document": (
        *("document", "answer", "positive", "passage", "positives", "positive_passages"),
        *("response", "answers", "answer_text", "context", "text", "a"),
    ),
    "query_id": ("query_id", "qid", "query-id", "question_id"),
    "document_id": ("document_id", "doc_id", "docid", "passage_id", "answer_id", "corpus-id"),
    "negative": ("negative", "negatives", "negative_passages", "hard_negatives"),
}
_MEANT_FOR: Final = {
    "grade": (
        ("label", "labels", "grade", "relevance", "rel", "relevant", "is_relevant", "is_duplicate"),
        "says how relevant the document is (0: it is no positive)",
    ),
    "score": (("score", "scores", "similarity"), "is the score of a teacher"),
}
_MOST_SHOWN: Final = 8


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Names as given on the command line; empty: look for the usual ones. Several columns of a text
    are put together with a space."""

    query: tuple[str, ...] = ()
    document: tuple[str, ...] = ()
    sequence: str | None = None
    query_id: str | None = None
    document_id: str | None = None
    negative: tuple[str, ...] = ()
    grade: str | None = None
    score: str | None = None
    negative_score: str | None = None

    def found_in(self, columns: Sequence[str], uri: str) -> Columns:
        """All roles with the names of this table. Raises ConfigError with every problem."""
        named = [*self.query, *self.document, *self.negative]
        named += filter(None, (self.sequence, self.query_id, self.document_id))
        named += filter(None, (self.grade, self.score, self.negative_score))
        missing = [
            f"there is no column {name!r}.{suggestion(name, columns)}"
            for name in dict.fromkeys(named)
            if name not in columns
        ]
        if missing:
            raise ConfigError(f"The columns of {uri} do not fit:", problems=missing)
        if self.sequence and self.query:
            raise ConfigError(
                "--query and --sequence cannot be used together.",
                hint="--sequence names the column with the passages that are the query.",
            )
        query = () if self.sequence else self.query or _usual("query", columns, ())
        document = self.document or _usual("document", columns, query)
        lacking = [] if query or self.sequence else ["query"]
        lacking += [] if document else ["document"]
        if lacking:
            shown = ", ".join(columns) or "none"
            flags = " ".join(f"--{one} {quoted('COLUMN')}" for one in lacking)
            raise ConfigError(
                f"{uri}: which column is the {' and which the '.join(lacking)}? The columns are: "
                f"{shown}.",
                hint=f"Name them: {flags}. If these are texts and no names, write a first line with names.",
            )
        return Columns(
            query=query,
            document=document,
            sequence=self.sequence,
            query_id=self.query_id or _first(_usual("query_id", columns, ())),
            document_id=self.document_id or _first(_usual("document_id", columns, ())),
            negative=self.negative or _negatives(columns),
            grade=self.grade,
            score=self.score,
            negative_score=self.negative_score,
        )

    def without_role(self, columns: Sequence[str]) -> list[str]:
        """Columns of the table that nothing is read from."""
        one = (self.sequence, self.query_id, self.document_id)
        numbers = (self.grade, self.score, self.negative_score)
        used = {*self.query, *self.document, *self.negative, *one, *numbers}
        return [name for name in columns if name.strip() and name not in used]


def told_unused(names: Sequence[str]) -> str:
    """A sentence about columns without a role, with the options that they may be meant for."""
    shown = ", ".join(names[:_MOST_SHOWN])
    more = f" and {len(names) - _MOST_SHOWN} more" * (len(names) > _MOST_SHOWN)
    said = f"Columns that are not used: {shown}{more}."
    for option, (usual, meaning) in _MEANT_FOR.items():
        found = next((name for name in names if name.strip().lower() in usual), None)
        if found is not None:
            said += f" If {found} {meaning}: --{option} {quoted(found)}."
    return said


def _usual(role: str, columns: Sequence[str], taken: Sequence[str]) -> tuple[str, ...]:
    lower = {name.strip().lower(): name for name in reversed(columns) if name not in taken}
    return next(((lower[name],) for name in _USUAL[role] if name in lower), ())


def _first(names: tuple[str, ...]) -> str | None:
    return names[0] if names else None


def _negatives(columns: Sequence[str]) -> tuple[str, ...]:
    """Also negative_1, negative_2, ... of sentence-transformers."""
    numbered = [name for name in columns if name.lower().startswith("negative_")]
    return _usual("negative", columns, ()) or tuple(
        name for name in numbered if name.rpartition("_")[2].isdigit()
    )
