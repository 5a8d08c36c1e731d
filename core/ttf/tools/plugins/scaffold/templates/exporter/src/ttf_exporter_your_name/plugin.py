"""What ttf imports of this package: the exporter's name, its options, and if it can run here.

ttf imports this module whenever the exporter is named, if only to show its options: it imports the
standard library and `ttf` alone. numpy and your library are imported by `_format`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ttf import Availability, hookimpl, option

if TYPE_CHECKING:
    from ttf import Exporter, ExporterFactory

LIBRARIES = ("numpy",)
"""What `_format` imports. YOUR LIBRARY: add its module."""


@dataclass(frozen=True, kw_only=True)
class Options:
    """Set as `ttf export RUN your-name --set block_rows=8192`."""

    block_rows: int = option(4096, "rows that are written at a time", unit="rows", ge=1, le=2**20)


class Factory:
    """The documents as raw float32, row after row."""

    name = "your-name"
    options_type = Options
    # vectors: of the documents; encoder: the towers; results: what ttf search finds.
    exports: Literal["vectors"] = "vectors"

    def availability(self) -> Availability:
        for library in LIBRARIES:
            if importlib.util.find_spec(library) is None:
                return Availability(
                    ok=False, reason=f"{library} is not installed", fix=f"pip install {library}"
                )
        return Availability(ok=True)

    def create(self, options: Options) -> Exporter:
        from ._format import YourNameExporter

        return YourNameExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return Factory() if name == Factory.name else None
