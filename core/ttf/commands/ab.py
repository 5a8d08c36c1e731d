"""`ttf ab`: is one configuration really stabler, faster, leaner or better than another?"""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.commands._output import emit_json, next_command, say, show
from ttf.commands._studies import stopped_in_order
from ttf.errors import ConfigError

if TYPE_CHECKING:
    from ttf.tools.ab.finish import Places
    from ttf.tools.ab.study import ABLimits, ABStudy


def _margin(text: str) -> tuple[str, float]:
    """Parses a measure and its margin, as in samples_per_s=0.05."""
    from ttf.errors import suggestion
    from ttf.tools.ab.measures import CRASH_RATE, PAIRED

    name, _, number = text.rpartition("=")
    known = [measure.name for measure in (CRASH_RATE, *PAIRED)]
    if name not in known:
        raise ValueError(f"no measure named {name!r}.{suggestion(name, known)}")
    with contextlib.suppress(ValueError):
        if 0 <= float(number) < float("inf"):
            return name, float(number)
    raise ValueError(f"{number!r} is no margin; write it like {name}=0.02.")


@click.command(
    epilog="""\b
Examples:
  ttf ab a.toml b.toml --steps 200
  ttf ab base.toml --vary miner.name=faiss,hnswlib --vary device.threads=1,2
  ttf ab runs/run-003 new.toml --repeats 30 --sequential    ends as soon as it is sure
  ttf ab a.toml b.toml --budget 2h --margin samples_per_s=0.05
  ttf ab --resume runs/ab-001 --repeats 20                  goes on; nothing is done twice
\b
Arms of one block have the same seed and take turns in a random, balanced order. A repeat that
crashes is data: it survived if it finished after restarts, else it is lost. The folder holds
samples.jsonl, samples.csv, report.md and report.html. Exit code 0: the study ended, also where
the verdict is "inconclusive"; 2, 3: a configuration or the data is wrong.""",
)
@click.argument("files", type=options.PATH, nargs=-1, metavar="[A.toml B.toml ...]")
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY.PATH=V,V,...",
    help="An arm for every value (read as TOML); with several, for every combination.",
)
@options.sets
@options.count("--repeats", help="Of every arm. [default: 10]")
@options.count("--steps", help="Optimizer steps. [default: as the arms say]")
@click.option("--seed", type=options.NATURAL, help="Block k has seed N + k. [default: 0]")
@options.count(
    "--parallel",
    default=1,
    help="Repeats at a time, whole blocks where they fit; speed is then measured under load.",
)
@click.option(
    "--budget",
    type=options.DURATION,
    help="Begin no block that would end after this time, e.g. 30m; one that began is finished.",
)
@click.option(
    "--sequential",
    is_flag=True,
    help="Look at 40, 60 and 80% of the repeats; stop once it is sure.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0.0001, 0.5),
    help="Chance that the study calls any two equal arms different. [default: 0.05]",
)
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.999),
    help="Chance of a verdict that 'about N more repeats' is meant for. [default: 0.8]",
)
@click.option(
    "--margin",
    "margins",
    type=options.Parsed("METRIC=VALUE", _margin),
    multiple=True,
    callback=lambda context, option, pairs: dict(pairs),
    help="Arms closer than this are the same; relative for speed and memory, e.g. "
    "samples_per_s=0.02.",
)
@options.hang_timeout
@click.option("--keep-runs", is_flag=True, help="Keep models and checkpoints of all repeats.")
@options.path("--out", help="The study's folder. [default: runs/ab-001, ...]")
@options.resume_study
@options.allow_remote
@options.path("--csv", metavar="FILE", help="The samples also there; samples.csv is in the folder.")
@options.path(
    "--markdown", metavar="FILE", help="The report also there; report.md is in the folder."
)
@options.path("--html", metavar="FILE", help="The page also there; report.html is in the folder.")
@options.as_json
def command(
    files: tuple[Path, ...],
    repeats: int | None,
    parallel: int,
    budget: float | None,
    keep_runs: bool,
    out: Path | None,
    resume: Path | None,
    allow_remote: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Is B really stabler, faster, leaner or better than A, or was it luck?

    Runs every configuration several times, each repeat a real `ttf train` in processes of its own,
    and compares crashes, speed, memory and recall. Says "same" or "inconclusive: about N more
    repeats" where that is what the numbers say. The same command again goes on where it was
    interrupted.
    """
    from ttf.tools.ab.finish import Places
    from ttf.tools.ab.study import ABLimits, ABStudy

    limits = ABLimits(parallel=parallel, budget_s=budget, keep_runs=keep_runs)
    places = Places(**{name: chosen.pop(name) for name in ("csv", "markdown", "html")})
    given = {name: value for name, value in chosen.items() if value not in (None, (), {}, False)}
    if resume is None:
        study = _new_or_started(files, out, repeats=repeats or 10, **given)
    else:
        flags = {p.name: p.opts[0] for p in click.get_current_context().command.params}
        others = ["FILES"] * bool(files) + ["--out"] * bool(out) + [flags[name] for name in given]
        if others:
            raise ConfigError(
                f"--resume continues a study as it is; it goes with no {', '.join(others)}.",
                hint="To change something, begin a new study. --repeats may grow.",
            )
        study = ABStudy.reopened(resume, repeats, allow_remote=allow_remote)
    _carry_out(study, limits, places, as_json)


def _new_or_started(files: tuple[Path, ...], out: Path | None, **given: Any) -> ABStudy:
    """Returns a new study, or the study that the same command started earlier."""
    from ttf.tools.ab.study import begin

    if not files:
        raise ConfigError(
            "There is nothing to compare: name configurations.", hint="ttf ab a.toml b.toml"
        )
    return begin(files, out=out, say=say, command=shlex.join(["ttf", *sys.argv[1:]]), **given)


def _carry_out(study: ABStudy, limits: ABLimits, places: Places, as_json: bool) -> None:
    """Runs the study to its end and prints the result."""
    from ttf.tools.ab import finish
    from ttf.tools.ab.progress import RepeatLines
    from ttf.tools.ab.study import carry_on

    def partial() -> tuple[str, dict[str, Any]]:
        done = f"{len(study.done)} of {len(study.setup.cells)}"
        result = finish.result(study, finish.judge_study(study), "stopped")
        return f"Stopped after {done} repeats; those are kept.", result

    with contextlib.closing(study):
        _introduce(study, limits)
        with stopped_in_order(study, partial):
            try:
                progress = RepeatLines(study, limits.parallel)
                reason = carry_on(study, limits, progress, finish.is_settled)
            except BaseException:
                say()  # the line of the repeat that was running
                raise
        analysis = finish.conclude(study, reason, places)
    if as_json:
        emit_json(finish.result(study, analysis, reason))
        return
    from ttf.tools.ab.output import table_lines

    say()
    show(table_lines(analysis))
    say()
    say(f"All of it: {study.folder}/report.html, report.md and samples.csv")
    if reason == "budget":
        say("The time is used up.")
        next_command(study.resume_command(study.folder))


def _introduce(study: ABStudy, limits: ABLimits) -> None:
    setup, total = study.setup, len(study.setup.cells)
    done = f"; {len(study.done)} of {total} are done already" if study.runs else ""
    steps = "" if setup.steps is None else f" of {setup.steps} steps"
    say(
        f"Study in {study.folder}: {len(setup.arms)} arms, {setup.repeats} repeats{steps} each, "
        f"seeds from {setup.seed + 1}{done}."
    )
    for arm in setup.arms:
        say(f"  {arm.name}")
    if limits.parallel > 1:
        say(
            f"{limits.parallel} repeats run at a time: speed is measured under that load, and "
            "memory is shared by all of them."
        )
