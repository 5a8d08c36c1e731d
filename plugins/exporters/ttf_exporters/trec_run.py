"""A run file and a qrels file of TREC: what `ttf search` finds for the validation queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from ttf import (
    Availability,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    hookimpl,
    option,
)
from ttf_exporters._answers import answers, read_answers
from ttf_exporters._common import needs

RUN: Final = "run.trec"
QRELS: Final = "qrels.trec"


@dataclass(frozen=True, kw_only=True)
class Options:
    k: int = option(100, "documents for each query", unit="documents", ge=10, le=10_000)
    tag: str = option("ttf", "name of the run in the last column")


class TrecExporter:
    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        tag = "-".join(self._options.tag.split()) or "ttf"
        queries = 0
        with (
            (folder / RUN).open("w", encoding="utf-8", newline="\n") as run,
            (folder / QRELS).open("w", encoding="utf-8", newline="\n") as qrels,
        ):
            for query, best, positives in answers(source, self._options.k, plain=True):
                queries += 1
                for rank, (name, score) in enumerate(best, start=1):
                    run.write(f"{query} Q0 {name} {rank} {score:.9g} {tag}\n")
                for name, grade in positives.items():
                    qrels.write(f"{query} 0 {name} {grade}\n")
        return {"queries": queries, "files": f"{RUN}, {QRELS}"}

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        from importlib.metadata import version

        import pytrec_eval

        with (folder / RUN).open(encoding="utf-8") as file:
            found = pytrec_eval.parse_run(file)
        library = f"pytrec-eval-terrier {version('pytrec-eval-terrier')}"
        return read_answers(found, probe, library)


class TrecFactory:
    """Run and qrels files of TREC for the validation queries"""

    name = "trec"
    options_type = Options
    exports: Literal["results"] = "results"

    def availability(self) -> Availability:
        return needs("pytrec_eval", "trec")

    def create(self, options: Options) -> TrecExporter:
        return TrecExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return TrecFactory() if name == "trec" else None
