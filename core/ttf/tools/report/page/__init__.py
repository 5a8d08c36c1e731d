"""report.html: one offline page about a run or a guarded command, from its folder."""

from __future__ import annotations

from pathlib import Path

from ttf.rundir.durable import write_atomically
from ttf.tools.report.page._read import RunFiles, is_reportable, read_run
from ttf.tools.report.page._render import page_of

__all__ = ["FILE", "RunFiles", "is_reportable", "page_of", "read_run", "write_page"]

FILE = "report.html"


def write_page(run_dir: Path, out: Path | None = None) -> Path:
    """Writes the page, to `run_dir/report.html` where no other place is named; returns its path.

    What the folder does not hold (yet) is left out of the page, so that a run that was cut short
    has one as well. Raises StorageError.
    """
    path = run_dir / FILE if out is None else out
    write_atomically(path, page_of(read_run(run_dir)))
    return path
