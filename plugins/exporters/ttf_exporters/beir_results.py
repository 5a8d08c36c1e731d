"""Results as BEIR keeps them: {query: {document: score}}, and qrels as a table."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ttf import (
    Availability,
    BadData,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    hookimpl,
    option,
)
from ttf_exporters._answers import answers, read_answers
from ttf_exporters._common import needs

RESULTS: Final = "results.json"
QRELS: Final = "qrels/validation.tsv"


@dataclass(frozen=True, kw_only=True)
class Options:
    k: int = option(100, "documents for each query", unit="documents", ge=10, le=10_000)


class BeirExporter:
    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        queries = 0
        folder.joinpath("qrels").mkdir()
        with (
            (folder / RESULTS).open("w", encoding="utf-8", newline="\n") as results,
            (folder / QRELS).open("w", encoding="utf-8", newline="\n") as qrels,
        ):
            results.write("{")
            qrels.write("query-id\tcorpus-id\tscore\n")
            for query, best, positives in answers(source, self._options.k, plain=False):
                comma = ",\n" if queries else "\n"
                results.write(f"{comma}{json.dumps(query)}: {json.dumps(dict(best))}")
                queries += 1
                for name, grade in positives.items():
                    qrels.write(f"{query}\t{_cell(name)}\t{grade}\n")
            results.write("\n}\n")
        return {"queries": queries, "files": f"{RESULTS}, {QRELS}"}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        from importlib.metadata import version

        import pytrec_eval

        found = json.loads((folder / RESULTS).read_text("utf-8"))
        qrels: dict[str, dict[str, int]] = {}
        for line in (folder / QRELS).read_text("utf-8").splitlines()[1:]:
            query, name, grade = line.split("\t")
            qrels.setdefault(query, {})[name] = int(grade)
        # What BEIR's own evaluation calls; it refuses what is no result.
        measured = pytrec_eval.RelevanceEvaluator(qrels, {"recall.10"}).evaluate(found)
        library = f"pytrec-eval-terrier {version('pytrec-eval-terrier')} (as BEIR evaluates)"
        if len(measured) != len(qrels):
            raise BadData(f"{len(measured)} of {len(qrels)} queries can be evaluated")
        return read_answers(found, probe, library)


def _cell(name: str) -> str:
    if any(c in name for c in "\t\r\n"):
        raise BadData(f"The id {name!r} has a tab or a line break, which ends a cell of qrels.")
    return name


class BeirFactory:
    """Results and qrels in the form of BEIR for the validation queries"""

    name = "beir"
    options_type = Options
    exports: Literal["results"] = "results"

    def availability(self) -> Availability:
        return needs("pytrec_eval", "trec")

    def create(self, options: Options) -> BeirExporter:
        return BeirExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return BeirFactory() if name == "beir" else None
