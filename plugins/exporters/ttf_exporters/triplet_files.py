"""Mined negatives as training data of others: rows for sentence-transformers, lines for Tevatron."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf import (
    Availability,
    BadData,
    ConfigError,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    hookimpl,
    option,
)
from ttf_exporters._answers import document_names
from ttf_exporters._common import needs

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

LINES: Final = "train.jsonl"


@dataclass(frozen=True, kw_only=True)
class Options:
    form: Literal["n-tuple", "triplet", "tevatron"] = option(
        "n-tuple",
        "n-tuple: anchor, positive, negative_1 to n in a line; triplet: a line for each negative; "
        "tevatron: ids, with a corpus file",
    )
    negatives: int = option(5, "negatives for each query", unit="documents", ge=1, le=1000)
    skip: int = option(
        0, "best documents that are left out, because they may be right", unit="documents", ge=0
    )


class TripletExporter:
    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        queries, documents = source.texts("query"), source.texts("document")
        if queries is None or documents is None:
            missing = "query" if queries is None else "document"
            raise ConfigError(
                f"Training data of texts need the texts: those of the {missing} side were not given.",
                hint="--query-texts FILE --document-texts FILE (.jsonl with `text`, or .txt)",
            )
        names = document_names(source.ids(), source.facts.rows)
        lines = short = 0
        with (folder / LINES).open("w", encoding="utf-8", newline="\n") as out:
            for query, positives, negatives in self._chosen(source):
                short += len(negatives) < self._options.negatives
                anchor = queries[query]
                if self._options.form == "tevatron":
                    found: list[Any] = [{
                        "query_id": str(query),
                        "query_text": anchor,
                        "positive_document_ids": [str(names[r]) for r in positives],
                        "negative_document_ids": [str(names[r]) for r in negatives],
                    }]  # fmt: skip
                else:
                    found = list(self._rows(anchor, positives, negatives, documents))
                for one in found:
                    out.write(json.dumps(one, ensure_ascii=False) + "\n")
                lines += len(found)
        if not lines:
            raise ConfigError(f"No query has {self._options.negatives} negatives in this bank.")
        if short:
            source.say(f"{short:,} queries have fewer negatives than asked for, and were left out.")
        if self._options.form == "tevatron":
            _write_corpus(folder / "corpus.jsonl", names, documents)
        return {"form": self._options.form, "lines": lines, "file": LINES}

    def _chosen(
        self, source: ExportSource
    ) -> Iterator[tuple[int, NDArray[np.int64], NDArray[np.int64]]]:
        import numpy as np

        wanted, skip = self._options.negatives, self._options.skip
        for found in source.searched(min(wanted + skip + 32, source.facts.rows), "train"):
            for query, rows, known in zip(found.queries, found.rows, found.positives, strict=True):
                negatives = rows[skip:][~np.isin(rows[skip:], known)][:wanted]
                yield int(query), known[known >= 0], negatives

    def _rows(
        self,
        anchor: str,
        positives: NDArray[np.int64],
        negatives: NDArray[np.int64],
        documents: Any,
    ) -> Iterator[dict[str, str]]:
        if len(negatives) < self._options.negatives:
            return
        for positive in positives:
            row = {"anchor": anchor, "positive": documents[int(positive)]}
            texts = [documents[int(r)] for r in negatives]
            if self._options.form == "triplet":
                yield from ({**row, "negative": text} for text in texts)
            else:
                yield {**row, **{f"negative_{n}": text for n, text in enumerate(texts, start=1)}}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import tempfile

        import datasets

        with tempfile.TemporaryDirectory() as cache:
            found = datasets.load_dataset(
                "json", data_files=str(folder / LINES), split="train", cache_dir=cache
            )
            columns, rows = list(found.column_names), len(found)
        numbered = [f"negative_{n}" for n in range(1, self._options.negatives + 1)]
        expected = {
            "n-tuple": ["anchor", "positive", *numbered],
            "triplet": ["anchor", "positive", "negative"],
            "tevatron": [
                *("query_id", "query_text"),
                *("positive_document_ids", "negative_document_ids"),
            ],
        }[self._options.form]
        if columns != expected:
            raise BadData(f"{LINES} has the columns {', '.join(columns)}")
        return ExportAnswers(count=rows, library=f"datasets {datasets.__version__}")


def _write_corpus(path: Path, names: NDArray[np.str_], documents: Any) -> None:
    with path.open("w", encoding="utf-8", newline="\n") as out:
        for row, name in enumerate(names):
            line = {"docid": str(name), "title": "", "text": documents[row]}
            out.write(json.dumps(line, ensure_ascii=False) + "\n")


class TripletFactory:
    """Mined negatives as triplets, n-tuples or lines for Tevatron"""

    name = "triplets"
    options_type = Options
    exports: Literal["results"] = "results"
    texts_of = "train"

    def availability(self) -> Availability:
        return needs("datasets", "triplets")

    def create(self, options: Options) -> TripletExporter:
        return TripletExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return TripletFactory() if name == "triplets" else None
