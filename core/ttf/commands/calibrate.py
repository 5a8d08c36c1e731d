"""`ttf calibrate`: the hub correction of a finished model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttf.commands import _options as options
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import next_command, show_result

if TYPE_CHECKING:
    from ttf.tools.calibrate import CalibratedRun


@click.command(
    epilog="""\b
Examples:
  ttf calibrate runs/run-001                       with its own pairs and bank
  ttf calibrate runs/run-001 --bank new-bank.npz   for other documents
  ttf calibrate runs/run-001 --pairs more.npz --bank new-bank.npz --json

\b
To continue an interrupted command, run it again. ttf eval, ttf search and ttf mine use the result."""
)
@click.argument("run_dir", type=options.PATH, metavar="RUN_DIR")
@options.data("--pairs", help="Other training pairs to choose with. [default: those of the run]")
@options.data("--bank", help="Another bank of documents. [default: that of the run]")
@options.allow_remote
@options.as_json
def command(
    run_dir: Path,
    pairs: Path | str | None,
    bank: Path | str | None,
    allow_remote: bool,
    as_json: bool,
) -> None:
    """Rank hubs lower: documents that are near to queries of all kinds.

    Each document's score is lowered by `a` times its mean similarity to its nearest training
    queries. Held-out training pairs choose `a`; without evidence of a gain nothing is changed. With
    --bank alone, `a` and the queries are those of the run.
    """
    from ttf.data.writing import sigterm_raised
    from ttf.text.progress import make_reporter
    from ttf.tools.calibrate import calibrate_run

    with (
        sigterm_raised("Stopped by SIGTERM. To continue, run the same command again."),
        make_reporter(json=as_json) as reporter,
    ):
        found = calibrate_run(run_dir, pairs, bank, reporter, allow_remote=allow_remote)
    show_result(found, table(_rows(found)), as_json)
    next_command(f"ttf eval {quoted(run_dir)}" + (f" --bank {quoted(bank)}" if bank else ""))


def _rows(found: CalibratedRun) -> list[tuple[str, str]]:
    how = f"a = {found.a:g}" if found.on else f"off: {found.why}"
    rows = [("bank", f"{found.documents:,} documents"), ("calibration", how)]
    if found.on:
        rows.append(("held out", f"{found.held_out:,} training pairs"))
        rows.append(("gain", f"{found.gain:+.4f} of the discounted gain, on the held-out pairs"))
    plain = found.metrics_uncalibrated
    for name, value in found.metrics.items():
        beside = f"  (without calibration {plain[name]:.4f})" if name in plain else ""
        rows.append((name, f"{value:.4f}{beside}"))
    return rows
