"""`ttf resume`: the run goes on from its newest intact checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ttf.commands import _options as options
from ttf.commands.train import resume_here
from ttf.tools.several import scale_of


@click.command(
    epilog="""\b
Examples:
  ttf resume runs/run-001
  ttf resume runs/run-001 --json | jq .metrics

\b
The run keeps its configuration, but the number of machines and processes may change:
  ttf resume runs/run-001 --ranks 2

\b
To change something, start a new run with its run.toml:
  ttf train runs/run-001/run.toml --lr 3e-4 --out runs/slower"""
)
@click.argument("run_dir", type=options.PATH, metavar="RUN_DIR")
@options.scale
@options.allow_remote
@options.as_json
@options.in_process
def command(
    run_dir: Path,
    allow_remote: bool,
    as_json: bool,
    in_process: bool,
    **scale: Any,
) -> None:
    """Continue a run where it stopped, from its newest intact checkpoint.

    On the CPU, the final weights are bitwise equal to those of an uninterrupted run.
    """
    several = scale_of(*options.given_scale(scale), supervised=not in_process)
    resume_here(run_dir, as_json, in_process, allow_remote=allow_remote, scale=several)
