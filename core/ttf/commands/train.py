"""`ttf train`: turns flags into configuration keys with an origin, and calls `ttf.api`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _configuration as configuration, _options as options
from ttf.errors import ConfigError
from ttf.rundir.documents import DECISION
from ttf.text.shell import quoted
from ttf.text.terminal import next_command, show_result
from ttf.tools.several import run_several, scale_of

if TYPE_CHECKING:
    from ttf.supervise.nodes.scale import Scale

_EPILOG = """\b
Examples:
  ttf train                                     a demo data set, under a minute
  ttf train --pairs pairs.npz --bank bank.npz   your vectors
  ttf train run.toml --tower mlp --lr 3e-4      a configuration with two changes
  ttf train run.toml --miner hnswlib --plan     only print the memory and time it needs
  ttf train a.toml --else b.toml                b if a dies beyond its remedies or misses a gate
  ttf train --pairs windows.npz --context context.npz --bank bank.npz --set miner.negatives=8
  ttf train run.toml --ranks 2                  two processes on this machine
  ttf train run.toml --nodes 2 --rendezvous 10.0.0.1:29400    the same on each of two machines

\b
A flag overrides --set, --set overrides RUN.toml, and RUN.toml overrides the default.
OUT/run.toml records where each value comes from. Paths in RUN.toml are relative to its
folder, paths of flags to the current folder.
Options of towers and miners: ttf plugins show tower.gru, then --set tower.query.hidden=512.
"""


@click.command(epilog=_EPILOG)
@click.argument("run_toml", type=options.PATH, required=False, metavar="[RUN.toml]")
@options.path("--out", help="Folder of the run. [default: runs/run-001, ...]")
@configuration.flags
@click.option(
    "--else",
    "others",
    type=options.PATH,
    multiple=True,
    metavar="OTHER.toml",
    help="Train this configuration if RUN.toml crashes beyond its remedies or misses a gate; can be "
    "given several times, tried in this order. All are checked first. All other options count for "
    "each of them; the runs are OUT/a, OUT/b. [default of OUT: runs/else-001, ...]",
)
@options.path("--resume", metavar="DIR", help="Continue this run, like ttf resume.")
@click.option(
    "--allow-remote/--no-remote",
    default=None,
    help="Open data at network addresses. [default: those of your own files and options, not those "
    "that only the folder of --resume names]",
)
@click.option(
    "--plan",
    is_flag=True,
    help="Print what the run would do, with predicted memory and time, and end. Without data, "
    "the demo data set is written to the cache.",
)
@options.scale
@options.as_json
@options.in_process
def command(
    run_toml: Path | None,
    out: Path | None,
    others: tuple[Path, ...],
    sets: tuple[str, ...],
    safe: bool,
    resume: Path | None,
    allow_remote: bool | None,
    plan: bool,
    as_json: bool,
    in_process: bool,
    **flags: Any,
) -> None:
    """Train towers on your pairs, or without data on a built-in demo set.

    Prints the summary to standard output and writes all files to the folder of the run. The
    training has its own process: after a crash, ttf explains the crash and restarts the training
    from the last checkpoint.
    """
    asked = options.given_scale(flags)
    # A plan needs no place to meet.
    scale = scale_of(*asked, supervised=not in_process) if not plan or others else None
    given = configuration.given(flags)
    if resume is not None:
        beside: dict[str, Any] = {
            str(run_toml): run_toml,
            "--else": others,
            "--out": out,
            "--set": sets,
        }
        beside["--plan"] = plan
        _refuse([name for name, value in beside.items() if value] + [*given] + ["--safe"] * safe)
        resume_here(resume, as_json, in_process, allow_remote=bool(allow_remote), scale=scale)
        return
    plain = {name: str(v) if isinstance(v, Path) else v for name, v in given.items()}
    remedies = False if configuration.NO_REMEDIES in given else None
    if others:
        _refuse_scale(scale)
        files = _all_files(run_toml, others, in_process=in_process)
        from ttf.commands import _decision as decision

        terms = decision.terms_of(sets, plain, safe=safe, remedies=remedies)
        if plan:
            decision.plans(files, terms, as_json)
        else:
            decision.begin(files, out, terms, remote=allow_remote is not False, as_json=as_json)
        return
    if plan:
        from ttf.config.resolve import resolve
        from ttf.training.launch import plan_resolved

        nodes, ranks, rendezvous, _ = asked
        resolved = resolve(run_toml, sets, given, safe=safe)
        predicted = plan_resolved(resolved, nodes=nodes, ranks=ranks)
        show_result(predicted.to_json(), predicted.text(), as_json)
        if predicted.fits and (predicted.scale is None or predicted.scale.fits):
            if nodes > 1:
                given |= {"--nodes": nodes, "--rendezvous": rendezvous or "HOST:PORT"}
            if ranks > 1:
                given |= {"--ranks": ranks}
            next_command(_command_line(run_toml, out, sets, given, safe=safe))
        return
    from ttf import api
    from ttf.rundir.request import TrainRequest
    from ttf.rundir.run_folder import RunFolder

    request = TrainRequest(
        run_dir="",
        config=None if run_toml is None else str(run_toml),
        sets=sets,
        flags=plain,
        safe=safe,
        remedies=remedies,
        remote=allow_remote is not False,
        json=as_json,
    )
    if scale is not None:
        report_run(run_several(request, out, scale, api.run, own_process=True), as_json)
        return
    folder = RunFolder.new(out)
    request = replace(request, run_dir=str(folder.path))
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


def _refuse_scale(scale: Scale | None) -> None:
    if scale is not None and not scale.single:
        raise ConfigError(
            "--else does not go with --nodes and --ranks.",
            hint="Train one configuration on several processes: ttf train RUN.toml --ranks 2",
        )


def _all_files(run_toml: Path | None, others: Sequence[Path], *, in_process: bool) -> list[Path]:
    """Those of --else after the first. Raises ConfigError."""
    if run_toml is None:
        raise ConfigError(
            "--else needs a configuration that is tried first.",
            hint=f"ttf train FIRST.toml --else {quoted(others[0])}",
        )
    if in_process:
        raise ConfigError(
            "--else does not go with --in-process: a crash would end the decision too.",
            hint=f"For a debugger, train one of them: ttf train {quoted(run_toml)} --in-process",
        )
    return [run_toml, *others]


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
    run_dir: Path,
    as_json: bool,
    in_process: bool,
    *,
    allow_remote: bool = False,
    scale: Scale | None = None,
) -> None:
    """Runs `ttf resume` and `ttf train --resume`."""
    if (run_dir / DECISION).is_file():
        _refuse_scale(scale)
        from ttf.commands import _decision as decision

        if in_process:
            raise ConfigError(
                f"{run_dir} holds a decision of ttf train --else, which has no --in-process.",
                hint=f"Resume one of its runs: ttf runs list {quoted(run_dir)}",
            )
        decision.resume(run_dir, allow_remote=allow_remote, as_json=as_json)
        return
    from ttf import api

    supervised = not in_process
    summary = api.resume_run(
        run_dir,
        json=as_json,
        supervised=supervised,
        own_process=supervised,
        allow_remote=allow_remote,
        scale=scale,
    )
    report_run(summary, as_json)


def report_run(summary: Mapping[str, Any], as_json: bool) -> None:
    """Prints the summary on standard output, and the next commands."""
    from ttf.text.progress.ending import summary_rows
    from ttf.text.tables import screen_width, table

    show_result(summary, table(summary_rows(summary), width=screen_width()), as_json)
    run_dir = quoted(summary["run_dir"])
    next_command(f"ttf eval {run_dir}")
    next_command(f"ttf search {run_dir} --queries FILE -k 10")
