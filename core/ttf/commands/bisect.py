"""`ttf bisect`: finds the ingredient that makes a configuration crash."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.commands._output import emit_json, next_command, say, show
from ttf.commands._studies import stopped_in_order
from ttf.errors import ConfigError
from ttf.text.shell import quoted
from ttf.text.tables import table

if TYPE_CHECKING:
    from ttf.tools.bisect.output import Findings
    from ttf.tools.bisect.study import BisectLimits, BisectRequest, BisectStudy


def _factor_names() -> list[str]:
    from ttf.tools.bisect.factors import RULES

    return list(RULES)


@click.command(
    epilog="""\b
Examples:
  ttf bisect run.toml
  ttf bisect runs/run-003                         the configuration of a run that crashed
  ttf bisect run.toml --steps 200 --budget 30m    a crash that needs more steps
  ttf bisect run.toml --set miner.name=faiss --keep storage
  ttf bisect --resume runs/bisect-001             continues the study
\b
Exit code 0: the study ended, even if it is not sure; --json contains the result ("verdict":
culprit, pair, unexplained, healthy, unsure). 2, 3: the configuration or the data is wrong.""",
)
@click.argument("run_toml", type=options.PATH, required=False, metavar="[RUN.toml]")
@options.count("--steps", help="Optimizer steps of each run. [default: 40]")
@click.option("--budget", type=options.duration(), help="Start no run after this time, e.g. 10m.")
@options.count(
    "--max-runs",
    help="Maximum number of runs. [default: 40% of the runs needed to test each ingredient alone]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    help="Probability that is needed to name a culprit.",
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
@click.option("--seed", type=options.NATURAL, default=0, help="Run k has the seed N + k.")
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
    run_toml: Path | None,
    budget: float | None,
    max_runs: int | None,
    out: Path | None,
    resume: Path | None,
    allow_remote: bool,
    as_json: bool,
    **request: Any,
) -> None:
    """Find the ingredient that makes a configuration crash.

    Runs `ttf train` several times for a few steps, each time with some ingredients replaced
    (mining, accumulation, threads, ...). Each next run is the one that gives most information.
    This also works for crashes that occur only sometimes: the command names a culprit only if it
    is sure. To continue an interrupted study, run the same command again.
    """
    from ttf.tools.bisect.study import BisectLimits, BisectRequest, BisectStudy

    limits = BisectLimits(
        budget_s=budget, max_runs=max_runs, most_of_grid=0.4 if max_runs is None else None
    )
    if resume is not None:
        if run_toml is not None or out is not None or request["sets"]:
            raise ConfigError(
                "--resume continues an existing study, so it cannot be combined with RUN.toml, "
                "--out or --set.",
                hint="To change something, start a new study.",
            )
        study = BisectStudy.open(resume, allow_remote=allow_remote)
        _carry_out(study, limits, as_json)
        return
    if run_toml is None:
        raise ConfigError("No configuration was given.", hint="ttf bisect run.toml")
    toml = run_toml / "run.toml" if run_toml.is_dir() else run_toml
    given = {name: value for name, value in request.items() if value is not None}
    _carry_out(_new_or_started(BisectRequest(toml=toml, **given), out), limits, as_json)


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
        _introduce(study)
        with stopped_in_order(study, lambda: _partial(study)):
            verdict = carry_on(study, limits, RunLines(study))
        findings = Findings(study=study, verdict=verdict)
        document = findings.document()
        if verdict.kind != "unsure":
            from ttf.rundir.durable import write_json

            write_json(study.folder / RESULT, document, "bisect")
            study.drop_data(sorted(findings.data_in_use()))
        if as_json:
            emit_json(document)
        else:
            _show(findings)


def _introduce(study: BisectStudy) -> None:
    setup = study.setup
    done = f"; {len(study.runs)} runs are already done" if study.runs else ""
    say(f"Study in {study.folder}: {setup.about}, seeds from {setup.seed + 1}{done}.")
    say(f"Ingredients that can be replaced: {', '.join(f.name for f in setup.factors) or 'none'}.")
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
    say(f"{counted} runs; testing each ingredient alone would need {grid}.")
    crashed = [o for o in findings.study.runs if o.result == "crash"]
    if crashed:
        folder = findings.study.folder / "runs" / f"{crashed[0].run:03d}" / "incidents"
        next_command(f"cat {quoted(folder)}/*/incident.md")


def _partial(study: BisectStudy) -> tuple[str, dict[str, Any]]:
    """Prints the table and returns the message and the partial result."""
    from ttf.tools.bisect.output import HEADER, Findings
    from ttf.tools.bisect.planner import believed

    findings = Findings(study=study, verdict=believed(study.plan(), study.tally))
    say()
    say(table(list(findings.rows()), HEADER))
    text = f"Stopped after {len(study.counted)} runs. {findings.sentence()}"
    return text, findings.document()
