"""What `ttf train` and `ttf resume` say of a run that has ended."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.commands._output import next_command, number, quoted, show_result
from ttf.text.tables import table

_FIGURES: Final = {
    "status": ("status", ""),
    "steps": ("optimizer steps", ""),
    "epochs": ("epochs", ""),
    "samples": ("samples", ""),
    "wall_s": ("time", "s"),
    "samples_per_s": ("speed", "samples/s"),
    "peak_anon_mb": ("peak memory", "MB (anonymous + shared)"),
}
"""Keys of a summary, each with its label and its unit."""


def resume_here(run_dir: Path, as_json: bool, in_process: bool) -> None:
    """`ttf resume` and `ttf train --resume`."""
    from ttf import api
    from ttf.rundir.run_folder import RunFolder

    folder = RunFolder.existing(run_dir)
    supervised = not in_process
    report_run(
        api.resume_run(folder, json=as_json, supervised=supervised, own_process=supervised), as_json
    )


def report_run(summary: Mapping[str, Any], as_json: bool) -> None:
    """Its summary on standard output, and what to do next."""
    show_result(summary, table(list(_rows(summary))), as_json)
    run_dir = quoted(summary["run_dir"])
    next_command(f"ttf eval {run_dir}")
    next_command(f"ttf search {run_dir} --queries FILE -k 10")


def _rows(summary: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    from ttf.text.progress.ending import what_happened

    before = summary.get("metrics_initial") or {}
    for name, (label, unit) in _FIGURES.items():
        if summary.get(name) is not None:
            yield label, f"{number(summary[name])} {unit}".rstrip()
    for name, value in (summary.get("metrics") or {}).items():
        start = f"  (before training {before[name]:.4f})" if name in before else ""
        yield name, f"{value:.4f}{start}"
    yield from what_happened(summary)
    for name, label in (("miner", "miner"), ("weights_sha256", "weights"), ("run_dir", "folder")):
        if summary.get(name):
            yield label, str(summary[name])
