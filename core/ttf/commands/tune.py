"""`ttf tune`: looks for a better configuration within a time, and trains it."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _configuration as configuration, _options as options
from ttf.commands._studies import stopped_in_order
from ttf.errors import ConfigError
from ttf.text.shell import quoted
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.tune.study import TuneStudy

_SHOWN = 5  # trials in the table at the end


@click.command(
    epilog="""\b
Examples:
  ttf tune run.toml                             ten minutes
  ttf tune --pairs pairs.npz --bank bank.npz --budget 1h --out tuned
  ttf tune run.toml --tower mlp --set loss.symmetric=true    these two values stay
  ttf tune --resume runs/tune-001               continues the study with the time that is left
  ttf train runs/tune-001/best.toml --seed 1    the same again with another seed

\b
Trial 1 is your configuration. A value of RUN.toml is where the search starts; a value that is
given as a flag or with --set stays as it is. Trials are short runs of ttf train, judged on a part
of the training pairs on which they are not trained; the validation pairs are not read. Trials that
are behind the others are ended early. A trial that dies is a result. The budget holds the full run
at the end too. The folder contains best.toml, the run best/, trials.jsonl and report.html."""
)
@click.argument("run_toml", type=options.PATH, required=False, metavar="[RUN.toml]")
@click.option(
    "--budget",
    type=options.duration(),
    help="Time for everything, e.g. 90s, 10m or 2h. [default: 10m]",
)
@options.count("--trials", help="At most N trials. [default: as many as the time allows]")
@click.option(
    "--search-seed",
    type=options.NATURAL,
    help="Seed of the search; the runs have that of --seed. [default: 0]",
)
@options.path("--out", help="Folder of the study. [default: runs/tune-001, ...]")
@configuration.flags
@options.resume_study
@options.allow_remote
@options.as_json
def command(
    run_toml: Path | None,
    budget: float | None,
    trials: int | None,
    search_seed: int | None,
    out: Path | None,
    sets: tuple[str, ...],
    safe: bool,
    resume: Path | None,
    allow_remote: bool,
    as_json: bool,
    **flags: Any,
) -> None:
    """Look for a better configuration within a time, and train it.

    Tries towers, learning rate, temperature, batch size, epochs and negatives with short runs, and
    ends with one full run of the best configuration, which is never below yours on the held out
    pairs. To continue an interrupted study, run the same command again. Needs Optuna: pip install
    "twotower[tune]".
    """
    from ttf.tools.tune import search
    from ttf.tools.tune.study import BUDGET_S, TuneRequest, TuneStudy, begin

    began = time.monotonic()
    given = configuration.given(flags)
    if resume is not None:
        others: dict[str, object] = {
            "RUN.toml": run_toml,
            "--out": out,
            "--set": sets or None,
            "--safe": safe or None,
        }
        others["--search-seed"] = search_seed
        refused = [name for name, value in others.items() if value is not None] + [*given]
        if refused:
            raise ConfigError(
                "--resume continues an existing study, so it cannot be combined with "
                f"{', '.join(refused)}.",
                hint="To change something, start a new study. Only --budget and --trials may change.",
            )
        search.require()
        study = TuneStudy.open(resume, allow_remote=allow_remote)
    else:
        request = TuneRequest(
            toml=run_toml,
            sets=sets,
            flags=given,
            safe=safe,
            seed=search_seed or 0,
            budget_s=budget or BUDGET_S,
            trials=trials,
        )
        study = begin(request, out, say)
    _carry_out(study, began, budget, trials, as_json)


def _carry_out(
    study: TuneStudy, began: float, budget: float | None, trials: int | None, as_json: bool
) -> None:
    from ttf.tools.tune import finish, words
    from ttf.tools.tune.carry_out import carry_through
    from ttf.tools.tune.progress import TrialLines

    lines = TrialLines(study)

    def partial() -> tuple[str, dict[str, Any]]:
        lines.close()
        used_s = study.clock(began).used_s
        done = words.trials_text(len(study.counted))
        return f"Stopped after {done}. Everything so far is kept.", finish.result(
            study, {}, "stopped", used_s
        )

    with contextlib.closing(study), stopped_in_order(study, partial):
        document = carry_through(
            study, began=began, budget_s=budget, trials=trials, lines=lines, say=say
        )
    if as_json:
        emit_json(document)
        return
    _show(study, document)


def _show(study: TuneStudy, document: dict[str, Any]) -> None:
    from ttf.text.tables import screen_width, table
    from ttf.tools.tune import words

    say()
    show(table(words.table_rows(study, _SHOWN), words.HEADER, width=screen_width()))
    shares = document["importances"]
    if shares:
        told = ", ".join(f"{words.short(key)} {share:.0%}" for key, share in shares.items())
        show(f"What mattered: {told}")
    metrics = document["run"]["metrics"]
    figures = ", ".join(f"{name} {value:.4f}" for name, value in metrics.items())
    show(f"The full run, on the validation pairs: {figures}")
    say(f"Everything on one page: {study.folder}/report.html")
    next_command(f"ttf search {quoted(study.best_run)} --queries FILE -k 10")
