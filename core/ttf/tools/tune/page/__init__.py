"""report.html of a study: one offline page, made from its trials and its last run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from ttf.rundir.documents import Summary
from ttf.rundir.outputs import write_output
from ttf.tools.report.page import FILE
from ttf.tools.tune.page._render import page_of
from ttf.tools.tune.study import TuneStudy

__all__ = ["write_page"]


def write_page(
    study: TuneStudy, summary: Summary, importances: Mapping[str, float], out: Path | None = None
) -> Path:
    """Writes `folder/report.html`, and the same to `out`; returns the path that the user asked for.
    Raises StorageError."""
    page = page_of(study, summary, importances)
    path = study.folder / FILE
    for each in filter(None, (path, out)):
        write_output(each, page)
    return out or path
