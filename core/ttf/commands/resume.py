"""`ttf resume`: the run goes on from its newest intact checkpoint."""

from __future__ import annotations

from pathlib import Path

import click

from ttf.commands._common import PATH, json_option, report_run


@click.command(
    epilog="""\b
Examples:
  ttf resume runs/run-001
  ttf resume runs/run-001 --json | jq .metrics
\b
The run keeps its configuration. To change something, start a new one from it:
  ttf train runs/run-001/run.toml --lr 3e-4 --out runs/slower"""
)
@click.argument("run_dir", type=PATH, metavar="RUN_DIR")
@json_option
def command(run_dir: Path, as_json: bool) -> None:
    """Continue a run where it stopped, from its newest intact checkpoint.

    On the cpu device the weights end bitwise equal to those of a run that was never stopped.
    """
    from ttf import api

    report_run(api.resume_run(run_dir, json=as_json), as_json)
