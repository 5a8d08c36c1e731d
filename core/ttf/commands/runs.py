"""`ttf runs`: which runs there are, what one is, where some of them differ."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ttf.commands import _options as options, runs_incidents
from ttf.errors import ConfigError
from ttf.rundir.documents import DECISION
from ttf.text.numbers import duration, moment
from ttf.text.shell import quoted
from ttf.text.tables import fitting, screen_width, table
from ttf.text.terminal import Part, emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.runs.facts import RunFacts

_METRIC: Final = "recall@10"
_LONGEST_VALUE: Final = 60
_DIGITS: Final = 16

_EPILOG = """\b
Examples:
  ttf runs list                               the runs in runs/
  ttf runs show runs/run-001                  configuration, data, environment and result of a run
  ttf runs diff runs/run-001 runs/run-002     only what differs
  ttf runs incidents                          every death, and whether they have a pattern

\b
These commands only read, also while a run goes on. They read folders of runs and of ttf guard."""


@click.group(epilog=_EPILOG)
def command() -> None:
    """List runs, show one, compare some of them or their deaths."""


command.add_command(runs_incidents.command)


@command.command(
    "list",
    epilog="""\b
Examples:
  ttf runs list
  ttf runs list runs/ /data/other-runs --json | jq '.[] | select(.status == "finished") | .path'""",
)
@click.argument("folders", type=options.PATH, nargs=-1, metavar="[DIR...]")
@click.option(
    "--metric",
    default=_METRIC,
    metavar="NAME",
    help="The metric that is shown; the best run comes first.",
)
@options.as_json
def list_(folders: tuple[Path, ...], metric: str, as_json: bool) -> None:
    """List the runs in folders, the best first. [default: runs/]

    With --json: [{"path", "kind", "status", "exit_code", "began", "steps", "metric", "value",
    "samples_per_s", "wall_s", "incidents", "exact", "problems"}].
    """
    from ttf.tools.runs.facts import read_facts, runs_in

    runs = [read_facts(path) for path in runs_in(list(folders) or [Path("runs")])]
    runs.sort(key=lambda run: (_value(run, metric) is None, -(_value(run, metric) or 0.0)))
    if as_json:
        emit_json([_document(run, metric) for run in runs])
        return
    if not runs:
        say("There is no run.")
        next_command("ttf train")
        return
    head = ("run", "status", "steps", metric, "samples/s", "time", "incidents", "began")
    less = ("samples/s", "incidents", "began", "steps", "time")  # --json has all
    show(fitting([_row(run, metric) for run in runs], head, screen_width(), less))
    if len(runs) > 1:
        next_command(f"ttf runs diff {quoted(runs[1].path)} {quoted(runs[0].path)}")
    else:
        next_command(f"ttf runs show {quoted(runs[0].path)}")


@command.command("show")
@click.argument("run_dir", type=options.PATH, metavar="RUN_DIR")
@click.option("--all", "everything", is_flag=True, help="Also default values, and digests.")
@options.as_json
def show_(run_dir: Path, everything: bool, as_json: bool) -> None:
    """Show a run: result, configuration with origins, data, environment. Of a decision of ttf train
    --else: what came of each configuration.

    With --json: {"path", "kind", "began", "result", "configuration", "data", "environment",
    "problems"}.
    """
    from ttf.tools.runs.facts import read_facts

    if (run_dir / DECISION).is_file():
        _show_decision(run_dir, as_json)
        return
    run = read_facts(run_dir)
    if as_json:
        emit_json({**_heading(run), **run.sections, "problems": run.problems})
        return
    show(Part(str(run.path), "bold"))
    _show_section("result", run.sections["result"])
    shown = [s for s in run.settings if everything or s.origin != "default"]
    _show_rows("configuration", [(s.key, _cut(s.text), _cut(s.origin)) for s in shown])
    if len(shown) < len(run.settings):
        say(f"{len(run.settings) - len(shown)} more keys have their default: --all shows them.")
    _show_section("data", run.sections["data"])
    around = run.sections["environment"]
    _show_section("environment", {k: v for k, v in around.items() if everything or _is_plain(k)})
    for problem in run.problems:
        say(f"note: {problem}")
    next_command(f"ttf report {quoted(run_dir)}")


@command.command("diff")
@click.argument("run_dirs", type=options.PATH, nargs=-1, metavar="RUN_DIR RUN_DIR...")
@options.as_json
def diff_(run_dirs: tuple[Path, ...], as_json: bool) -> None:
    """Show where runs differ: configuration, data, environment, result.

    With --json: {"runs": [path], "differences": [{"section", "key", "values"}]}; a value is null
    where a run does not have the key.
    """
    from ttf.tools.runs.differences import cell, changed, differences
    from ttf.tools.runs.facts import SECTIONS, read_facts

    if len(run_dirs) < 2:
        raise ConfigError(
            "A comparison needs two runs.", hint="ttf runs diff runs/run-001 runs/run-002"
        )
    runs = [read_facts(path) for path in run_dirs]
    found = differences(runs)
    if as_json:
        told = [{"section": d.section, "key": d.key, "values": d.values} for d in found]
        emit_json({"runs": [str(run.path) for run in runs], "differences": told})
        return
    names = [str(run.path) for run in runs]
    two = len(runs) == 2
    for section in SECTIONS:
        rows = [d for d in found if d.section == section]
        if not rows:
            say(f"{section}: no difference")
            continue
        head = (section, *names, *(["difference"] if two else []))
        cells = [
            (
                d.key,
                *(_in_a_column(d.key, cell(v)) for v in d.values),
                *([changed(d)] if two else []),
            )
            for d in rows
        ]
        show(table(cells, head))
        show()
    say("One run of each proves little: ttf ab compares configurations with several seeds.")


def _show_decision(folder: Path, as_json: bool) -> None:
    from ttf.tools.decision.record import Decision
    from ttf.tools.decision.words import rows

    decision = Decision.read(folder)
    if as_json:
        emit_json({"path": str(folder), "kind": "decision", **decision.document()})
        return
    show(Part(str(folder), "bold"))
    show(table(rows(decision)))
    next_command(f"ttf runs show {quoted(decision.run_of(decision.shown))}")


def _is_plain(key: str) -> bool:
    # Digests tell a person nothing; a difference of them is what ttf runs diff shows.
    return not key.startswith(("numeric.bits.", "numeric.libraries."))


def _row(run: RunFacts, metric: str) -> tuple[str, ...]:
    summary, value = run.summary, _value(run, metric)
    speed, wall_s = summary.get("samples_per_s"), summary.get("wall_s")
    began = "" if run.began is None else moment(run.began, "%m-%d %H:%M")
    return (
        str(run.path),
        run.status,
        f"{summary['steps']:,}" if "steps" in summary else "",
        "" if value is None else f"{value:.3f}",
        "" if not speed else f"{speed:,.0f}",
        "" if wall_s is None else duration(wall_s),
        str(len(summary.get("incidents", ())) or ""),
        began,
    )


def _value(run: RunFacts, metric: str) -> float | None:
    return run.summary.get("metrics", {}).get(metric)


def _document(run: RunFacts, metric: str) -> dict[str, Any]:
    summary = run.summary
    return {
        **_heading(run),
        "status": run.status,
        "exit_code": summary.get("exit_code"),
        "steps": summary.get("steps"),
        "metric": metric,
        "value": _value(run, metric),
        "samples_per_s": summary.get("samples_per_s"),
        "wall_s": summary.get("wall_s"),
        "incidents": [found.get("class") for found in summary.get("incidents", ())],
        "exact": summary.get("exact"),
        "problems": run.problems,
    }


def _heading(run: RunFacts) -> dict[str, Any]:
    return {"path": str(run.path), "kind": run.kind, "began": run.began}


def _show_section(name: str, values: Any) -> None:
    from ttf.tools.runs.differences import cell

    _show_rows(name, [(key, _cut(cell(value)), "") for key, value in values.items()])


def _show_rows(name: str, rows: Sequence[tuple[str, ...]]) -> None:
    if rows:
        show()
        show(Part(name, "bold"))
        show(table([(f"  {row[0]}", *row[1:]) for row in rows]))


def _in_a_column(key: str, text: str) -> str:
    # Of a digest, the first digits tell it from others, as in the summary of a run.
    return text[:_DIGITS] if key.endswith("sha256") else _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
