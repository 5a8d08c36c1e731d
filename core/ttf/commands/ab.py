"""`ttf ab`: is one configuration really stabler, faster, leaner or better than another?"""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _ab_hosts, _hosts, _options as options
from ttf.commands._studies import stopped_in_order
from ttf.errors import ConfigError
from ttf.host import distribution
from ttf.text.shell import quoted
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.ab.analysis import Analysis
    from ttf.tools.ab.finish import Places
    from ttf.tools.ab.setup import ABSetup
    from ttf.tools.ab.study import ABLimits, ABStudy

_OF_COMMANDS = {"metric": "--metric", "better": "--better", "run_limit_s": "--run-limit"}
_OF_FILES = {"vary": "--vary", "sets": "--set", "steps": "--steps"}
_MOST_PROPOSED = 200  # repeats; more are no proposal


def _margin(text: str) -> tuple[str, float]:
    """Parses a measure and its margin, as in samples_per_s=0.05."""
    from ttf.errors import suggestion
    from ttf.tools.ab.measures import MEASURES

    name, _, number = text.rpartition("=")
    known = list(MEASURES)
    if name not in known:
        raise ValueError(f"no measure named {name!r}.{suggestion(name, known)}")
    with contextlib.suppress(ValueError):
        if 0 <= float(number) < float("inf"):
            return name, float(number)
    raise ValueError(f"{number!r} is not a margin; write for example {name}=0.02.")


@click.command(
    epilog="""\b
Examples:
  ttf ab a.toml b.toml --steps 200
  ttf ab base.toml --vary miner.name=faiss,hnswlib --vary device.threads=1,2
  ttf ab runs/run-003 new.toml --repeats 30 --sequential    ends as soon as it is decided
  ttf ab a.toml b.toml --budget 2h --margin samples_per_s=0.05
  ttf ab --resume runs/ab-001 --repeats 20                  continues the study
  ttf ab --command "python a.py" --command "python b.py" --metric 'loss: ([0-9.]+)'
  ttf ab a.toml b.toml --nodes 2 --rendezvous 10.0.0.1:29400    the same on each of two hosts
  ttf ab a.toml b.toml --executor dask --parallel 4             blocks as jobs of a cluster

\b
An arm is one configuration. A block has one repeat of each arm, all with the same seed, in a
random, balanced order. A repeat with a crash counts too: it survived if it finished after
restarts, otherwise it is lost. The folder contains samples.jsonl, samples.csv, report.md and
report.html. Exit code 0: the study ended, even if the verdict is "inconclusive"; 2, 3: a
configuration or the data is wrong.""",
)
@click.argument("files", type=options.PATH, nargs=-1, metavar="[A.toml B.toml ...]")
@click.option(
    "--command",
    "commands",
    multiple=True,
    metavar="COMMAND",
    help="An arm that is a command, in quotes; give it once for each command, instead of files.",
)
@click.option(
    "--metric",
    metavar="REGEX",
    help="A number in the output of the commands; its one group is the number, and the last match "
    "counts, e.g. 'loss: ([0-9.]+)'.",
)
@options.one_of(
    "--better", "lower", "higher", help="Which value of --metric is better. [default: lower]"
)
@click.option(
    "--run-limit",
    "run_limit_s",
    type=options.duration(1),
    help="A repeat of a command that still works after this time is clean, and is ended.",
)
@click.option(
    "--vary",
    multiple=True,
    metavar="KEY.PATH=V,V,...",
    help="One arm per value (read as TOML); if given several times, one arm per combination.",
)
@options.sets
@options.count("--repeats", help="Repeats of each arm. [default: 10]")
@options.count("--steps", help="Optimizer steps. [default: those of the arms]")
@click.option(
    "--seed",
    type=options.NATURAL,
    help="Block k has the seed N + k; a command finds it in the variable TTF_STUDY_SEED. "
    "[default: 0]",
)
@options.count(
    "--parallel",
    default=1,
    help="Repeats that run at the same time on a host; the measured speeds are then lower than "
    "alone. With --executor: blocks at the same time.",
)
@click.option(
    "--budget",
    type=options.duration(),
    help="Start no block that would end after this time, e.g. 30m; a started block is finished.",
)
@click.option(
    "--sequential",
    is_flag=True,
    help="Evaluate the study after 40, 60 and 80% of the repeats, and stop early if it is decided.",
)
@click.option(
    "--alpha",
    type=click.FloatRange(0.0001, 0.5),
    help="Probability that the study reports a difference although all arms are equal. "
    "[default: 0.05]",
)
@click.option(
    "--power",
    type=click.FloatRange(0.5, 0.999),
    help="Probability that 'about N more repeats' give a verdict. [default: 0.8]",
)
@click.option(
    "--margin",
    "margins",
    type=options.Parsed("METRIC=VALUE", _margin),
    multiple=True,
    callback=lambda context, option, pairs: dict(pairs),
    help="A difference below this value does not matter; it is relative for speed and memory, e.g. "
    "samples_per_s=0.02.",
)
@options.hang_timeout
@click.option("--keep-runs", is_flag=True, help="Keep models and checkpoints of all repeats.")
@options.path("--out", help="Folder of the study. [default: runs/ab-001, ...]")
@_hosts.hosts
@_hosts.executor
@options.resume_study
@options.allow_remote
@options.path(
    "--csv",
    metavar="FILE",
    help="Write the samples to this file too (besides samples.csv in the folder).",
)
@options.path(
    "--markdown",
    metavar="FILE",
    help="Write the report to this file too (besides report.md in the folder).",
)
@options.path(
    "--html",
    metavar="FILE",
    help="Write the page to this file too (besides report.html in the folder).",
)
@options.overwrite
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
    overwrite: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Compare configurations or commands, and show whether a difference is chance.

    Runs each configuration several times with `ttf train`, and compares crashes, speed, memory and
    recall. With --command, it runs commands under ttf guard, and compares crashes, time, memory and
    a number that they print. If there is no clear difference, the result is "same" or "inconclusive: about N more
    repeats". To continue an interrupted study, run the same command again.
    """
    if files:
        distribution.require_full(
            "ttf ab with configurations", instead="ttf ab --command COMMAND --command COMMAND"
        )
    from ttf.tools.ab.finish import Places
    from ttf.tools.ab.study import ABLimits, ABStudy, commands_setup

    limits = ABLimits(parallel=parallel, budget_s=budget, keep_runs=keep_runs)
    place = _hosts.place(chosen)
    executor = _hosts.chosen_executor(chosen, jobs=parallel, alone=place is None)
    places = Places(**{name: chosen.pop(name) for name in ("csv", "markdown", "html")})
    places.check(overwrite=overwrite)
    given = {name: value for name, value in chosen.items() if value not in (None, (), {}, False)}
    if place is not None and not place.is_node_0:
        _ab_hosts.work_for_node_0(_given_setup(files, resume, **given), limits, place, out, as_json)
        return
    desk = None if place is None else _ab_hosts.desk_at(place)
    if resume is None:
        study = _new_or_started(files, out, repeats=repeats or 10, **given)
    else:
        flags = {p.name: p.opts[0] for p in click.get_current_context().command.params}
        again = given.pop("commands", ())
        others = ["FILES"] * bool(files) + ["--out"] * bool(out) + [flags[name] for name in given]
        if others:
            raise ConfigError(
                "--resume continues an existing study, so it cannot be combined with "
                f"{', '.join(others)}.",
                hint="To change something, start a new study. Only --repeats can be increased.",
            )
        setup = commands_setup(again) if again else None
        study = ABStudy.reopened(resume, repeats, allow_remote=allow_remote, given=setup)
    by = executor or desk
    _carry_out(study, limits, places, as_json, None if by is None else _ab_hosts.With(by))


def _given_setup(files: tuple[Path, ...], resume: Path | None, **given: Any) -> ABSetup:
    """What another node is asked to work for."""
    from ttf.tools.ab.study import commands_setup, files_setup

    if resume is not None:
        raise ConfigError(
            "--resume is for node 0, which has the folder of the study.",
            hint="Give the other nodes what the study was started with: the files or commands.",
        )
    commands = _commands_or_files(files, given)
    return commands_setup(commands, **given) if commands else files_setup(files, say=say, **given)


def _new_or_started(files: tuple[Path, ...], out: Path | None, **given: Any) -> ABStudy:
    """Returns a new study, or the study that the same command started earlier."""
    from ttf.tools.ab.study import begin, begin_commands

    line = shlex.join(["ttf", *sys.argv[1:]])
    commands = _commands_or_files(files, given)
    if commands:
        return begin_commands(commands, out=out, command=line, **given)
    return begin(files, out=out, say=say, command=line, **given)


def _commands_or_files(files: tuple[Path, ...], given: dict[str, Any]) -> tuple[str, ...]:
    """Takes the commands out of the options; none: there are files. Raises ConfigError."""
    commands: tuple[str, ...] = given.pop("commands", ())
    refused = _OF_FILES if commands else _OF_COMMANDS
    found = [flag for name, flag in refused.items() if name in given]
    found += ["FILES"] if commands and files else []
    if found:
        kind = "configurations, not for --command" if commands else "commands (--command)"
        raise ConfigError(f"{', '.join(found)}: only for {kind}.")
    if not commands and not files:
        raise ConfigError("No configuration was given.", hint="ttf ab a.toml b.toml")
    return commands


def _carry_out(
    study: ABStudy,
    limits: ABLimits,
    places: Places,
    as_json: bool,
    others: _ab_hosts.With | None,
) -> None:
    """Runs the study to its end and prints the result."""
    from ttf.tools.ab import finish
    from ttf.tools.ab.progress import RepeatLines
    from ttf.tools.ab.study import carry_on

    def partial() -> tuple[str, dict[str, Any]]:
        done = f"{len(study.done)} of {len(study.setup.cells)}"
        result = finish.result(study, finish.judge_study(study), "stopped")
        return f"Stopped after {done} repeats. Their results are kept.", result

    with contextlib.closing(study):
        _introduce(study, limits)
        with stopped_in_order(study, partial):
            try:
                if others is None:
                    progress = RepeatLines(study, limits.parallel)
                    reason = carry_on(study, limits, progress, finish.is_settled)
                else:
                    reason = others.carry_on(study, limits, finish.is_settled)
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
    say(f"All results: {study.folder}/report.html, report.md and samples.csv")
    if reason == "budget":
        say("The time of --budget is used up.")
        next_command(study.resume_command(study.folder))
    else:
        next_command(_after(study, analysis))


def _after(study: ABStudy, analysis: Analysis) -> str:
    """More repeats if that can decide what is open, else the report."""
    from ttf.tools.ab.finish import fewest_repeats

    wanted = [c.needs.total for c in analysis.comparisons if c.measure.is_headline and c.needs]
    wanted = [total for total in wanted if total <= _MOST_PROPOSED]
    if wanted and not study.setup.sequential:
        repeats = max(max(wanted), fewest_repeats(study), study.setup.repeats + 1)
        return f"{study.resume_command(study.folder)} --repeats {repeats}"
    return f"less {quoted(study.folder / 'report.md')}"


def _say_what_can_be_decided(study: ABStudy) -> None:
    from ttf.tools.ab.finish import fewest_repeats

    repeats, fewest = study.setup.repeats, fewest_repeats(study)
    say(
        f"At least {fewest} repeats of each arm are needed to tell a difference in speed, memory "
        "or quality from chance."
    )
    if repeats < fewest:
        say(
            f"This study has only {repeats}: it can show that arms are the same, or that one "
            f"crashes much more often, and nothing else. To decide more: --repeats {fewest}"
        )


def _introduce(study: ABStudy, limits: ABLimits) -> None:
    setup, total = study.setup, len(study.setup.cells)
    done = f"; {len(study.done)} of {total} are already done" if study.runs else ""
    steps = "" if setup.steps is None else f" of {setup.steps} steps"
    say(
        f"Study in {study.folder}: {len(setup.arms)} arms, {setup.repeats} repeats{steps} each, "
        f"seeds from {setup.seed + 1}{done}."
    )
    for arm in setup.arms:
        say(f"  {arm.name}")
    _say_what_can_be_decided(study)
    if limits.parallel > 1:
        say(
            f"{limits.parallel} repeats run at the same time: each is slower than alone, and they "
            "share the memory."
        )
