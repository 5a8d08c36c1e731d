"""report.html: one offline page about a run or a guarded command, from its folder."""

from __future__ import annotations

from pathlib import Path

from ttf.rundir.outputs import write_output
from ttf.text.secrets import Secrets
from ttf.tools.report.page._read import RunFiles, is_reportable, read_run, struck
from ttf.tools.report.page._render import CARDS, page_of, values_of

__all__ = [
    "CARDS",
    "FILE",
    "RunFiles",
    "is_reportable",
    "page_of",
    "read_run",
    "struck",
    "values_of",
    "write_page",
]

FILE = "report.html"


def write_page(run_dir: Path, out: Path | None = None) -> Path:
    """Writes the page, by default to `run_dir/report.html`, and returns its path.

    The page leaves out what the folder does not have (yet), so that an interrupted run has a page
    too. Raises StorageError.
    """
    path = run_dir / FILE if out is None else out
    write_output(path, page_of(struck(read_run(run_dir), Secrets())))
    return path
