"""`ttf bisect`: finds the ingredient that makes a configuration crash."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.commands._studies import stopped_in_order
from ttf.errors import ConfigError
from ttf.host import distribution
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.bisect.command_runs import CommandExperiment
    from ttf.tools.bisect.output import Findings
    from ttf.tools.bisect.study import BisectLimits, BisectRequest, BisectStudy


_OF_COMMAND = {"vary": "--vary", "run_limit_s": "--run-limit"}
_OF_RUN = {
    "steps": "--steps",
    "sets": "--set",
    "leave_out": "--keep",
    "most_copied": "--copy-most",
}


class _BehindDashes(click.Command):
    """Says what is missing if a command is given without the -- before it."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if "--command" in args and "--" not in args and not ctx.resilient_parsing:
            _refuse_without_dashes(args)
        return super().parse_args(ctx, args)


def _refuse_without_dashes(args: list[str]) -> None:
    rest = args[args.index("--command") + 1 :]
    if rest and not rest[0].startswith("-"):
        raise ConfigError(
            "The command must come after --, because its options look like those of ttf.",
            hint=f"ttf bisect --command -- {shlex.join(rest)}",
        )


def _factor_names() -> list[str]:
    from ttf.tools.bisect.factors import RULES

    return list(RULES)


@click.command(
    cls=_BehindDashes,
    epilog="""\b
Examples:
  ttf bisect run.toml
  ttf bisect runs/run-003                         the configuration of a run that crashed
  ttf bisect run.toml --steps 200 --budget 30m    a crash that needs more steps
  ttf bisect run.toml --set miner.name=faiss --keep storage
  ttf bisect --resume runs/bisect-001             continues the study
  ttf bisect --command -- python train.py --accum 16 --amp
  ttf bisect --command --vary env:OMP_NUM_THREADS=1 --vary flag:--accum=1 -- python train.py ...

\b
Exit code 0: the study ended, even if it is not sure; --json contains the result ("verdict":
culprit, pair, unexplained, healthy, unsure). 2, 3: the configuration or the data is wrong.""",
)
@click.argument("words", nargs=-1, type=click.UNPROCESSED, metavar="[RUN.toml | -- COMMAND...]")
@click.option(
    "--command", "of_command", is_flag=True, help="Look at a command (after --), not at a RUN.toml."
)
@click.option(
    "--vary",
    multiple=True,
    metavar="WHAT",
    help="An ingredient of the command and its replacement: env:NAME=VALUE or env:NAME (not set), "
    "flag:--bs=4 or flag:--amp (without it), python:PATH, remedy:threads. [default: one thread, "
    "the variables of native libraries, and known flags of the command]",
)
@click.option(
    "--run-limit",
    "run_limit_s",
    type=options.duration(1),
    help="A run of the command that still works after this time is clean, and is ended, e.g. 2m. "
    "[default: never]",
)
@options.count("--steps", help="Optimizer steps of each run. [default: 40]")
@click.option("--budget", type=options.duration(), help="Start no run after this time, e.g. 10m.")
@options.count(
    "--max-runs",
    help="Maximum number of runs. [default: 40% of the runs needed to test each ingredient alone; "
    "of a command 100%]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.9999),
    help="Probability that is needed to name a culprit. [default: 0.95; of a command 0.99]",
)
@click.option(
    "--rarest",
    type=click.FloatRange(0.01, 0.9),
    default=0.2,
    help="The lowest crash rate to look for; a lower value needs more runs.",
)
@click.option(
    "--keep",
    "leave_out",
    type=options.Suggesting("ingredient", _factor_names),
    multiple=True,
    metavar="NAME",
    help="Never replace this ingredient; may be given several times.",
)
@click.option(
    "--seed",
    type=options.NATURAL,
    default=0,
    help="Run k has the seed N + k; a command finds it in the variable TTF_STUDY_SEED.",
)
@options.hang_timeout
@click.option(
    "--copy-most",
    "most_copied",
    type=options.Parsed("SIZE", lambda text: options.parsed_size(text, "it like 500MB or 12GB")),
    help="Maximum size of data that is copied for a run. [default: 4.3GB]",
)
@options.sets
@options.path("--out", help="Folder of the study. [default: runs/bisect-001, ...]")
@options.resume_study
@options.allow_remote
@options.as_json
def command(
    words: tuple[str, ...],
    budget: float | None,
    max_runs: int | None,
    out: Path | None,
    resume: Path | None,
    allow_remote: bool,
    as_json: bool,
    **request: Any,
) -> None:
    """Find the ingredient that makes a configuration, or any command, crash.

    Runs `ttf train` several times for a few steps (with --command: the command, under ttf guard),
    each time with some ingredients replaced (mining, accumulation, threads, ...). Each next run is
    the one that gives most information. This also works for crashes that occur only sometimes: the
    command names a culprit only if it is sure. To continue an interrupted study, run the same
    command again.
    """
    from ttf.tools.bisect.study import BisectLimits

    if resume is not None:
        study = _resumed(resume, words, out, request, allow_remote=allow_remote)
    else:
        given = {name: value for name, value in request.items() if value not in (None, (), False)}
        begin = _study_of_command if given.pop("of_command", False) else _study_of_run
        study = begin(words, out, given)
    _carry_out(study, BisectLimits.of(study, budget, max_runs), as_json)


def _resumed(
    folder: Path,
    words: tuple[str, ...],
    out: Path | None,
    request: dict[str, Any],
    *,
    allow_remote: bool,
) -> BisectStudy:
    from ttf.tools.bisect.study import BisectStudy

    given = {name: value for name, value in request.items() if value not in (None, (), False)}
    again = given.pop("of_command", False)
    if out is not None or "sets" in given or (not again and (words or "vary" in given)):
        raise ConfigError(
            "--resume continues an existing study, so it cannot be combined with RUN.toml, "
            "--vary, --out or --set.",
            hint="To change something, start a new study.",
        )
    setup = _command_setup(words, given) if again else None
    return BisectStudy.open(folder, allow_remote=allow_remote, given=setup)


def _study_of_run(words: tuple[str, ...], out: Path | None, given: dict[str, Any]) -> BisectStudy:
    from ttf.config.files import ENDINGS
    from ttf.tools.bisect.study import BisectRequest

    _refuse(given, _OF_COMMAND, "a command (ttf bisect --command -- COMMAND)")
    if not words:
        raise ConfigError("No configuration was given.", hint="ttf bisect run.toml")
    toml = Path(words[0])
    if len(words) > 1 or not (toml.suffix in ENDINGS or toml.is_dir()):
        raise ConfigError(
            f"{shlex.join(words)} is not one configuration.",
            hint=f"If it is a command: ttf bisect --command -- {shlex.join(words)}",
        )
    distribution.require_full(
        "ttf bisect with a configuration", instead="ttf bisect --command -- COMMAND"
    )
    toml = toml / "run.toml" if toml.is_dir() else toml
    return _new_or_started(BisectRequest(toml=toml, **given), out)


def _refuse(given: Mapping[str, Any], flags: Mapping[str, str], why: str) -> None:
    found = [flag for name, flag in flags.items() if name in given]
    if found:
        raise ConfigError(f"{', '.join(found)}: only for {why}.")


def _study_of_command(
    words: tuple[str, ...], out: Path | None, given: dict[str, Any]
) -> BisectStudy:
    from ttf.tools.bisect.study import BisectStudy

    setup = _command_setup(words, given)
    folder = BisectStudy.find(setup.identity, out)
    if folder is not None:
        return BisectStudy.open(folder, given=setup)
    if not setup.vary:
        say("No --vary was given, so ttf proposes ingredients.")
    return BisectStudy(folder=BisectStudy.new_folder(out), setup=setup).begin()


def _command_setup(words: tuple[str, ...], given: dict[str, Any]) -> CommandExperiment:
    from ttf.tools.bisect.command_runs import CONFIDENCE, prepare_command

    _refuse(given, _OF_RUN, "a RUN.toml, not for --command")
    if not words:
        raise ConfigError(
            "No command was given.", hint="ttf bisect --command -- python train.py --accum 16"
        )
    return prepare_command(
        words,
        vary=given.get("vary", ()),
        run_limit_s=given.get("run_limit_s"),
        hang_timeout_s=given.get("hang_timeout_s"),
        seed=given.get("seed", 0),
        confidence=given.get("confidence", CONFIDENCE),
        rarest=given["rarest"],
    )


def _new_or_started(request: BisectRequest, out: Path | None) -> BisectStudy:
    """Returns a new study, or the study that the same command started earlier."""
    from ttf.tools.bisect.study import BisectStudy, prepare

    folder = BisectStudy.find(request.identity, out)
    if folder is not None:
        return BisectStudy.open(folder)
    say(f"Reading {request.toml} and its data ...")
    setup = prepare(request, say)
    return BisectStudy(folder=BisectStudy.new_folder(out), setup=setup).begin()


def _carry_out(study: BisectStudy, limits: BisectLimits, as_json: bool) -> None:
    """Runs the study to its verdict and prints the findings."""
    from ttf.tools.bisect.output import Findings
    from ttf.tools.bisect.progress import RunLines
    from ttf.tools.bisect.study import carry_on
    from ttf.tools.studies.study import RESULT

    with contextlib.closing(study):
        bound = limits.most(study)
        _introduce(study, bound)
        with stopped_in_order(study, lambda: _partial(study, bound)):
            verdict = carry_on(study, limits, RunLines(study))
        findings = Findings(study=study, verdict=verdict, bound=bound)
        document = findings.document()
        if verdict.kind != "unsure":
            from ttf.rundir.durable import write_json

            write_json(study.folder / RESULT, document, "bisect")
            study.drop_data(sorted(findings.data_in_use()))
        if as_json:
            emit_json(document)
        else:
            _show(findings)


def _introduce(study: BisectStudy, bound: int | None) -> None:
    setup = study.setup
    done = f"; {len(study.runs)} runs are already done" if study.runs else ""
    say(f"Study in {study.folder}: {setup.about}, seeds from {setup.seed + 1}{done}.")
    say(f"Ingredients that can be replaced: {', '.join(f.name for f in setup.factors) or 'none'}.")
    if bound is not None:
        say(f"It takes at most {bound} runs, and ends as soon as the answer is sure.")
    for name, reason in setup.passed.items():
        say(f"  not {name}: {reason}")


def _show(findings: Findings) -> None:
    from ttf.tools.bisect.output import HEADER

    say()
    show(table(list(findings.rows()), HEADER))
    show()
    show(findings.sentence())
    for title, line in findings.commands():
        show(f"\n{title}:\n  {line}")
    counted, grid = len(findings.study.counted), findings.study.grid
    most = "" if findings.bound is None else f" of at most {findings.bound}"
    say(f"{counted} runs{most}; testing each ingredient alone would need {grid}.")
    crashed = [o for o in findings.study.runs if o.result == "crash"]
    if crashed:
        folder = findings.study.folder / "runs" / f"{crashed[0].run:03d}" / "incidents"
        next_command(f"cat {quoted(folder)}/*/incident.md")


def _partial(study: BisectStudy, bound: int | None) -> tuple[str, dict[str, Any]]:
    """Prints the table and returns the message and the partial result."""
    from ttf.tools.bisect.output import HEADER, Findings
    from ttf.tools.bisect.planner import believed

    verdict = believed(study.plan(), study.tally)
    findings = Findings(study=study, verdict=verdict, bound=bound)
    say()
    say(table(list(findings.rows()), HEADER))
    text = f"Stopped after {len(study.counted)} runs. {findings.sentence()}"
    return text, findings.document()
