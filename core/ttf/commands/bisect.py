"""`ttf bisect`: finds the ingredient that makes a configuration crash."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands._common import (
    NATURAL,
    PATH,
    POSITIVE,
    Suggesting,
    emit_json,
    json_option,
    next_command,
    quoted,
    say,
    set_option,
    show,
)
from ttf.commands._studies import Bytes, Duration, signal_of, signals_raise
from ttf.errors import ConfigError, Stopped
from ttf.text.tables import table

if TYPE_CHECKING:
    from ttf.tools.bisect.design import Next, Verdict
    from ttf.tools.bisect.runs import Outcome
    from ttf.tools.bisect.study import Limits, Study, Wanted


def _factor_names() -> list[str]:
    from ttf.tools.bisect.factors import RULES

    return list(RULES)


@click.command(
    epilog="""\b
Examples:
  ttf bisect run.toml
  ttf bisect runs/run-003                         the configuration of a run that crashed
  ttf bisect run.toml --steps 200 --budget 30m    a crash that takes longer to come
  ttf bisect run.toml --set miner.name=faiss --keep storage
  ttf bisect --resume runs/bisect-001             goes on; nothing is done twice
\b
Exit code 0: the study ended, also where it is not sure; --json says which ("verdict":
culprit, pair, unexplained, healthy, unsure). 2, 3: the configuration or the data is wrong.""",
)
@click.argument("run_toml", type=PATH, required=False, metavar="[RUN.toml]")
@click.option("--steps", type=POSITIVE, metavar="N", help="Optimizer steps of a run. [default: 40]")
@click.option("--budget", type=Duration(), help="Begin no run after this time, e.g. 10m.")
@click.option(
    "--max-runs",
    type=POSITIVE,
    metavar="N",
    help="At most so many. [default: 40% of what trying everything by itself would take]",
)
@click.option(
    "--confidence",
    type=click.FloatRange(0.5, 0.9999),
    default=0.95,
    show_default=True,
    help="Probability at which the culprit is named.",
)
@click.option(
    "--rarest",
    type=click.FloatRange(0.01, 0.9),
    default=0.2,
    show_default=True,
    help="The lowest crash rate to look for; a lower one takes more runs to call it healthy.",
)
@click.option(
    "--keep",
    "leave_out",
    type=Suggesting("ingredient", _factor_names),
    multiple=True,
    metavar="NAME",
    help="Never take this ingredient out; repeatable.",
)
@click.option("--seed", type=NATURAL, default=0, show_default=True, help="Run k has seed N + k.")
@click.option(
    "--hang-timeout", type=Duration(), help="So long without a sign of life is a hang, e.g. 60s."
)
@click.option(
    "--copy-most",
    type=Bytes(),
    metavar="SIZE",
    help="Data that may be copied to change it. [default: 4.3GB]",
)
@set_option
@click.option("--out", type=PATH, help="The study's folder. [default: runs/bisect-001, ...]")
@click.option("--resume", type=PATH, metavar="DIR", help="Continue this study.")
@json_option
def command(
    run_toml: Path | None,
    steps: int | None,
    budget: float | None,
    max_runs: int | None,
    confidence: float,
    rarest: float,
    leave_out: tuple[str, ...],
    seed: int,
    hang_timeout: float | None,
    copy_most: int | None,
    sets: tuple[str, ...],
    out: Path | None,
    resume: Path | None,
    as_json: bool,
) -> None:
    """Find the ingredient that makes a configuration crash.

    Repeats short runs with some ingredients taken out (mining, accumulation, threads, ...), each a
    real `ttf train`, and chooses every next run so that it tells most. Flaky crashes are handled:
    a culprit is named when it is sure, or nobody is. The same command again goes on where it was
    interrupted.
    """
    from ttf.tools.bisect.factors import MOST_COPIED
    from ttf.tools.bisect.study import Limits, Study, Wanted

    limits = Limits(
        budget_s=budget, max_runs=max_runs, most_of_grid=0.4 if max_runs is None else None
    )
    if resume is not None:
        if run_toml is not None or out is not None or sets:
            raise ConfigError(
                "--resume continues a study as it is; it goes with no RUN.toml, --out or --set.",
                hint="To change something, begin a new study.",
            )
        _study(Study.open(resume), limits, as_json)
        return
    if run_toml is None:
        raise ConfigError(
            "There is nothing to bisect: name a configuration.", hint="ttf bisect run.toml"
        )
    wanted = Wanted(
        toml=run_toml / "run.toml" if run_toml.is_dir() else run_toml,
        sets=sets,
        steps=steps,
        seed=seed,
        confidence=confidence,
        rarest=rarest,
        most_copied=MOST_COPIED if copy_most is None else copy_most,
        hang_timeout_s=hang_timeout,
        leave_out=leave_out,
    )
    _study(_begun(wanted, out), limits, as_json)


def _begun(wanted: Wanted, out: Path | None) -> Study:
    """A new study, or the one that this very command began."""
    from ttf.tools.bisect.study import Study, prepare, same_study
    from ttf.tools.studies.folder import next_folder

    wanted.identity()  # the file is there
    folder = out or _unfinished(wanted)
    if folder is not None and (folder / "study.json").exists():
        if not same_study(folder, wanted):
            raise ConfigError(
                f"{folder} holds another study.",
                hint=f"Continue that with: ttf bisect --resume {quoted(folder)}, or choose "
                "another --out.",
            )
        return Study.open(folder)
    say(f"Looking at {wanted.toml} and its data ...")
    setup = prepare(wanted, say)
    return Study.begin(folder or next_folder(Path("runs"), "bisect"), setup)


def _unfinished(wanted: Wanted) -> Path | None:
    """Of the folders that are made without --out."""
    from ttf.tools.bisect.study import same_study

    for folder in sorted(Path("runs").glob("bisect-*"), reverse=True):
        if not (folder / "result.json").exists() and same_study(folder, wanted):
            return folder
    return None


def _study(study: Study, limits: Limits, as_json: bool) -> None:
    """To its verdict, and what there is to say of it."""
    from ttf.tools.bisect.output import Findings
    from ttf.tools.bisect.study import carry_on

    try:
        _introduce(study)
        try:
            with signals_raise():
                verdict = carry_on(study, limits, _Lines())
        except (Stopped, KeyboardInterrupt) as stop:
            raise _stopped(study, stop) from None
        findings = Findings(study=study, verdict=verdict)
        document = findings.document()
        if verdict.kind != "unsure":
            from ttf.rundir.durable import write_json

            write_json(study.folder / "result.json", document, "bisect")
            study.drop_data(sorted(findings.data_in_use()))
        if as_json:
            emit_json(document)
        else:
            _tell(findings)
    finally:
        study.close()


def _introduce(study: Study) -> None:
    setup = study.setup
    done = f"; {len(study.outcomes)} runs are done already" if study.outcomes else ""
    say(f"Study in {study.folder}: runs of {setup.steps} steps, seeds from {setup.seed + 1}{done}.")
    say(f"Can be taken out: {', '.join(f.name for f in setup.factors) or 'nothing'}.")
    for name, reason in setup.passed.items():
        say(f"  not {name}: {reason}")


def _tell(findings: Any) -> None:
    from ttf.tools.bisect.output import HEADER

    say()
    show(table(list(findings.rows()), HEADER))
    show()
    show(findings.sentence())
    for title, line in findings.commands():
        show()
        show(f"{title}:")
        show(f"  {line}")
    counted, grid = len(findings.study.counted), findings.study.grid
    say(f"{counted} runs; trying everything by itself would take {grid}.")
    crashed = [o for o in findings.study.outcomes if o.result == "crash"]
    if crashed:
        folder = findings.study.folder / "runs" / f"{crashed[0].run:03d}" / "incidents"
        next_command(f"cat {quoted(folder)}/*/incident.md")


def _stopped(study: Study, stop: BaseException) -> Stopped:
    """The partial result stands beside the error in --json, and as a table where a person looks."""
    from ttf.tools.bisect.design import believed
    from ttf.tools.bisect.output import HEADER, Findings

    verdict = believed(study.plan(), study.tally)
    findings = Findings(study=study, verdict=verdict)
    say()
    say(table(list(findings.rows()), HEADER))
    error = Stopped(
        signal_of(stop),
        f"Stopped after {len(study.counted)} runs. {findings.sentence()}",
        hint=f"Continue with: ttf bisect --resume {quoted(study.folder)}",
    )
    error.details = {"study": findings.document()}
    return error


class _Lines:
    """A line a run, on standard error; its first half while it runs."""

    def starts(self, study: Study, wanted: Next) -> None:
        names = [f.name for f in study.setup.chosen(wanted.ablate)]
        number = len(study.outcomes) + 1
        what = _shown(names, [f.name for f in study.setup.factors])
        click.echo(f"{number:4d}  {what} ... ", err=True, nl=False)
        sys.stderr.flush()

    def ended(self, study: Study, outcome: Outcome, left_s: float) -> None:
        from ttf.tools.bisect.design import believed

        how: str = outcome.result
        if outcome.result == "crash":
            how = f"CRASH {', '.join(outcome.classes)} ({outcome.where})"
        elif outcome.result == "invalid":
            how = f"could not be tried: {outcome.reason.splitlines()[0] if outcome.reason else ''}"
        elif outcome.result == "void":
            how = "ended by somebody else: it will be repeated"
        left = (
            "" if math.isinf(left_s) else f"; {left_s - outcome.seconds:.0f} s of the budget left"
        )
        belief = _belief(believed(study.plan(), study.tally))
        say(f"{how}, {outcome.seconds:.1f} s{belief}{left}")


def _shown(names: list[str], known: list[str]) -> str:
    if not names:
        return "as it is"
    if len(names) == len(known):
        return "without anything"
    rest = [name for name in known if name not in names]
    if len(rest) < len(names) - 2:
        return f"without all but {', '.join(rest)}"
    return f"without {', '.join(names)}"


def _belief(verdict: Verdict) -> str:
    if not verdict.suspects:
        return ""
    names, probability = verdict.suspects[0]
    return f"; suspect: {' with '.join(names) or 'nothing here'} {100 * probability:.0f}%"
