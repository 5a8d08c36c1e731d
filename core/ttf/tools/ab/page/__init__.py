"""report.html of a study: one offline page, made from its analysis and its samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ttf.rundir.outputs import write_output
from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.page._render import page_of
from ttf.tools.ab.sample import Sample
from ttf.tools.report.page import FILE

__all__ = ["write_page"]


def write_page(
    folder: Path,
    analysis: Analysis,
    samples: Sequence[Sample],
    facts: Mapping[str, str],
    out: Path | None = None,
) -> Path:
    """Writes `folder/report.html`, and the same to `out`; returns the path that the user asked for.
    Raises StorageError.

    `facts` (command, machine, arms) are shown in their order under "How it was measured". The title
    is the name of the folder.
    """
    page = page_of(folder.resolve().name, analysis, samples, facts)
    path = folder / FILE
    for each in filter(None, (path, out)):
        write_output(each, page)
    return out or path
