"""`ttf train`: turns flags into configuration keys with an origin, and calls `ttf.api`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import click

from ttf.commands import _configuration as configuration, _options as options
from ttf.commands._output import next_command, number, show_result
from ttf.errors import ConfigError
from ttf.text.shell import quoted
from ttf.text.tables import table

# Keys of a summary with label and unit.
_FIGURES: Final = {
    "status": ("status", ""),
    "steps": ("optimizer steps", ""),
    "epochs": ("epochs", ""),
    "samples": ("samples", ""),
    "wall_s": ("time", "s"),
    "samples_per_s": ("speed", "samples/s"),
    "peak_anon_mb": ("peak memory", "MB (anonymous + shared)"),
}

_EPILOG = """\b
Examples:
  ttf train                                     a demo set, made and trained in two minutes
  ttf train --pairs pairs.npz --bank bank.npz   your vectors
  ttf train run.toml --tower mlp --lr 3e-4      a configuration with two things changed
  ttf train run.toml --miner hnswlib --plan     what that would need; trains nothing
  ttf train --pairs windows.npz --context context.npz --bank bank.npz --set miner.negatives=8
\b
Each value: default < RUN.toml < --set < flag. OUT/run.toml records which of them it was.
Paths in RUN.toml are relative to its folder, paths of flags to the current one.
Options of towers and miners: ttf plugins show tower.gru, then --set tower.query.hidden=512.
"""


@click.command(epilog=_EPILOG)
@click.argument("run_toml", type=options.PATH, required=False, metavar="[RUN.toml]")
@options.path("--out", help="The run's folder. [default: runs/run-001, ...]")
@configuration.flags
@options.path("--resume", metavar="DIR", help="Continue this run; same as ttf resume.")
@click.option(
    "--allow-remote/--no-remote",
    default=None,
    help="Open data at network addresses. [default: those of your own files and options, not those "
    "that only the folder of --resume names]",
)
@click.option(
    "--plan",
    is_flag=True,
    help="Print what would happen, with predicted memory and time, and stop; no run folder is "
    "made. Without data, the demo set is made once in the cache.",
)
@options.as_json
@options.in_process
def command(
    run_toml: Path | None,
    out: Path | None,
    sets: tuple[str, ...],
    safe: bool,
    resume: Path | None,
    allow_remote: bool | None,
    plan: bool,
    as_json: bool,
    in_process: bool,
    **flags: Any,
) -> None:
    """Train towers on your pairs; without data, on a built-in demo set.

    Prints the summary on standard output and writes everything to the run's folder. The training
    runs in a process of its own: if it dies, it is classified and goes on from its last checkpoint.
    """
    given = configuration.given(flags)
    if resume is not None:
        others = {str(run_toml): run_toml, "--out": out, "--set": sets, "--plan": plan}
        _refuse([name for name, value in others.items() if value] + [*given] + ["--safe"] * safe)
        resume_here(resume, as_json, in_process, allow_remote=bool(allow_remote))
        return
    from ttf import api

    if plan:
        from ttf.config.resolve import resolve
        from ttf.training.launch import plan_resolved

        predicted = plan_resolved(resolve(run_toml, sets, given, safe=safe))
        show_result(predicted.to_json(), predicted.text(), as_json)
        if predicted.fits:
            next_command(_command_line(run_toml, out, sets, given, safe=safe))
        return
    from ttf.rundir.request import TrainRequest
    from ttf.rundir.run_folder import RunFolder

    folder = RunFolder.new(out)
    request = TrainRequest(
        run_dir=str(folder.path),
        config=None if run_toml is None else str(run_toml),
        sets=sets,
        flags={name: str(v) if isinstance(v, Path) else v for name, v in given.items()},
        safe=safe,
        remedies=False if configuration.NO_REMEDIES in given else None,
        remote=allow_remote is not False,
        json=as_json,
    )
    report_run(api.run(request, folder, supervised=not in_process, own_process=True), as_json)


def _refuse(beside_resume: list[str]) -> None:
    """Raises ConfigError: a resumed run keeps its configuration."""
    if beside_resume:
        raise ConfigError(
            "--resume continues a run as it was configured; it goes with no "
            f"{', '.join(beside_resume)}.",
            hint="To change something, start a new run from the folder's run.toml: "
            "ttf train RUN_DIR/run.toml --out NEW_DIR, with your flags.",
        )


def _command_line(
    run_toml: Path | None,
    out: Path | None,
    sets: tuple[str, ...],
    given: dict[str, Any],
    *,
    safe: bool,
) -> str:
    """Returns the command line of this run without --plan."""
    words = ["ttf train", *([quoted(run_toml)] if run_toml else []), *(["--safe"] if safe else [])]
    words += [
        flag if value is True else f"{flag} {quoted(str(value))}" for flag, value in given.items()
    ]
    words += [f"--set {quoted(text)}" for text in sets]
    words += [f"--out {quoted(out)}"] if out else []
    return " ".join(words)


# --- a run that has ended --------------------------------------------------------------------------


def resume_here(
    run_dir: Path, as_json: bool, in_process: bool, *, allow_remote: bool = False
) -> None:
    """Runs `ttf resume` and `ttf train --resume`."""
    from ttf import api
    from ttf.rundir.run_folder import RunFolder

    folder = RunFolder.existing(run_dir)
    supervised = not in_process
    summary = api.resume_run(
        folder,
        json=as_json,
        supervised=supervised,
        own_process=supervised,
        allow_remote=allow_remote,
    )
    report_run(summary, as_json)


def report_run(summary: Mapping[str, Any], as_json: bool) -> None:
    """Prints the summary on standard output, and the next commands."""
    show_result(summary, table(list(_rows(summary))), as_json)
    run_dir = quoted(summary["run_dir"])
    next_command(f"ttf eval {run_dir}")
    next_command(f"ttf search {run_dir} --queries FILE -k 10")


def _rows(summary: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    from ttf.text.progress.ending import remarks, what_happened

    before = summary.get("metrics_initial") or {}
    for name, (label, unit) in _FIGURES.items():
        if summary.get(name) is not None:
            yield label, f"{number(summary[name])} {unit}".rstrip()
    for name, value in (summary.get("metrics") or {}).items():
        start = f"  (before training {before[name]:.4f})" if name in before else ""
        yield name, f"{value:.4f}{start}"
    yield from what_happened(summary)
    yield from remarks(summary)
    for name, label in (("miner", "miner"), ("weights_sha256", "weights"), ("run_dir", "folder")):
        if summary.get(name):
            yield label, str(summary[name])
