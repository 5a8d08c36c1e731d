"""report.html: one offline page about a run, written from the files of its folder."""

from __future__ import annotations

from pathlib import Path

from ttf.fsio import write_atomically
from ttf.page._html import render
from ttf.page._read import read_run

__all__ = ["write_page"]


def write_page(run_dir: Path) -> Path:
    """Writes `run_dir/report.html` and returns its path.

    What the folder does not hold (yet) is left out of the page, so that a run that was cut short
    has one as well.
    """
    path = run_dir / "report.html"
    write_atomically(path, render(read_run(run_dir)).encode())
    return path
