"""A folder that `SentenceTransformer(path)` loads: the encoder of the texts, then the towers.

Native modules only, with the names that versions 5.1 to 6 know; written without the library, which
then loads it back.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ttf import (
    Availability,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    hookimpl,
    option,
)
from ttf_exporters._common import needs


@dataclass(frozen=True, kw_only=True)
class Options:
    default_route: Literal["document", "query", "none"] = option(
        "document", "which tower plain encode() uses; none: encode() without a task is an error"
    )


class SentenceExporter:
    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        from ttf_exporters._sentence import write

        route = self._options.default_route
        return write(source, folder, None if route == "none" else route)

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        from ttf_exporters._sentence_check import read_back

        return read_back(folder, probe)


class SentenceFactory:
    """A folder for SentenceTransformer(path): text encoder and towers"""

    name = "sentence-transformers"
    options_type = Options
    exports: Literal["encoder"] = "encoder"

    def availability(self) -> Availability:
        return needs("sentence_transformers", "text")

    def create(self, options: Options) -> SentenceExporter:
        return SentenceExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return SentenceFactory() if name == "sentence-transformers" else None
