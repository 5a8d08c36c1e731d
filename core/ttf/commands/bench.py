"""`ttf bench`: this machine's ceilings, and the program's speed as ratios to them and to peers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.errors import ConfigError, ExitCode
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import Part, emit_json, line_of, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.bench.catalogue import Bench
    from ttf.tools.bench.runner import Outcome
    from ttf.tools.bench.table import BenchProgress


def _names() -> list[str]:
    from ttf.tools.bench.catalogue import BENCHES

    return list(BENCHES)


@click.command(
    short_help="Measure the limits of this machine, and compare ttf with other programs.",
    epilog="""\b
Examples:
  ttf bench                     all benchmarks, about three minutes
  ttf bench train-last --quick  one benchmark, smaller shapes, fewer repetitions
  ttf bench --list              the benchmarks, and which other programs are installed
  ttf bench --tune              choose the fastest exact float32 product for this machine
  ttf bench --json > bench.json

\b
ttf and each peer run alternately in one process; a ratio is the median over pairs of such runs,
with 95% bounds. To install the peers: pip install 'twotower[peers]'. Exit codes: 0 all benchmarks
succeeded; 6 a benchmark crashed; otherwise the code of the first error.
""",
)
@click.argument("names", nargs=-1, type=options.Suggesting("bench", _names), metavar="[NAME]...")
@click.option("--list", "list_only", is_flag=True, help="List the benchmarks, and measure nothing.")
@click.option(
    "--tune",
    is_flag=True,
    help="Measure which float32 matrix product is fastest and accurate enough; later runs use it.",
)
@click.option("--fresh", is_flag=True, help="Measure this machine's limits again.")
@click.option("--quick", is_flag=True, help="Use smaller shapes and fewer repetitions.")
@click.option("--size", hidden=True, type=click.Choice(["reference", "quick", "tiny"]))
@options.as_json
def command(
    names: tuple[str, ...],
    list_only: bool,
    tune: bool,
    fresh: bool,
    quick: bool,
    size: str | None,
    as_json: bool,
) -> int:
    """Measure the limits of this machine, and compare ttf with them and with other programs.

    ttf measures the limits (matrix products, memory) once per machine and saves them. Then it
    measures training, mining and storage, and the same work done by other programs (peers). NAMEs
    choose single benchmarks. Each benchmark has its own process, so a crash ends only this one.

    With --json: {"machine": {...}, "results": [{"name", "value", "unit", "peer", "peer_value",
    "ratio", "ratio_low", "ratio_high", "repeats", "ceiling_ratio", ...}], "findings": [...]}.
    """
    from ttf.tools.bench.catalogue import BENCHES

    chosen = [BENCHES[name] for name in dict.fromkeys(names)] or list(BENCHES.values())
    if list_only:
        _list(chosen, as_json)
        return int(ExitCode.DONE)
    from ttf.machine.measured import words
    from ttf.tools.bench.table import BenchProgress

    progress = BenchProgress()
    if tune:
        if names:
            raise ConfigError(
                "--tune measures only matrix products, so it cannot be combined with names.",
                hint="ttf bench --tune",
            )
        return _tune(progress, as_json)
    ceilings = _ceilings(fresh, progress)
    if not as_json:
        show(table(list(words(ceilings))))
    outcomes = [
        _measured(bench, size or ("quick" if quick else "reference"), ceilings, progress, as_json)
        for bench in chosen
    ]
    if as_json:
        lines = [asdict(line) for outcome in outcomes for line in outcome.lines]
        findings = [asdict(finding) for outcome in outcomes for finding in outcome.findings]
        emit_json({"machine": ceilings, "results": lines, "findings": findings})
    else:
        _what_next(outcomes, quick)
    return _exit_code(outcomes)


def _list(benches: Sequence[Bench], as_json: bool) -> None:
    from ttf.tools.bench.peers import INSTALL, PEERS

    if as_json:
        peers = {name: {"name": name, "version": PEERS[name].version or None} for name in PEERS}
        emit_json(
            [
                {"name": b.name, "title": b.title, "peers": [peers[name] for name in b.peers]}
                for b in benches
            ]
        )
        return
    show(table([[b.name, b.title] for b in benches], ["bench", "what it measures"]))
    show()
    names = dict.fromkeys(name for bench in benches for name in bench.peers)
    rows = [[name, PEERS[name].version or INSTALL, PEERS[name].title] for name in names]
    show(table(rows, ["peer", "version", "what it is"]))
    next_command(f"ttf bench {benches[0].name if len(benches) == 1 else ''}".rstrip())


def _tune(progress: BenchProgress, as_json: bool) -> int:
    from ttf.machine.measured import row_file
    from ttf.tools.bench.catalogue import TUNE

    row = _answer(TUNE, "tuned", progress)
    if as_json:
        emit_json({"machine": row, "results": [], "findings": []})
    else:
        taken = row["float32"] or "from the table of the device"
        show(line_of("float32 products: ", Part(str(taken), "bold")))
        show(row["why"])
        gain = row["bf16_gain"]
        if gain is not None:
            show(f"bf16 products are {gain:.3g} times as fast as these.")
        show(f"Saved in {quoted(row_file())}; new runs use it.")
        next_command("ttf bench")
    return int(ExitCode.DONE)


def _ceilings(fresh: bool, progress: BenchProgress) -> Mapping[str, Any]:
    """Returns the kept ceilings of this machine, or measures them."""
    from ttf.machine.measured import kept_ceilings
    from ttf.tools.bench.catalogue import CEILINGS

    kept = None if fresh else kept_ceilings()
    if kept is not None and not kept.disturbed:
        return kept.to_json()
    if kept is not None:
        say(
            f"The limits of this machine were measured on {kept.date}, while other processes used "
            f"{kept.others:.0%} of its processors. They are measured again."
        )
    found = _answer(CEILINGS, "ceilings", progress)
    if (kept := kept_ceilings()) is not None and kept.disturbed:
        say(
            f"Other processes used {kept.others:.0%} of the processors during the measurement. "
            "Its figures may be too low; the next ttf bench measures again."
        )
    return found


def _answer(bench: Bench, key: str, progress: BenchProgress) -> Mapping[str, Any]:
    """Returns the answer of a child process that measures this machine. Raises what the child
    raised."""
    from ttf.process.error_document import from_document
    from ttf.tools.bench.runner import MeasurerDied, outcome_of

    outcome = outcome_of(bench, "reference", {}, progress)
    progress.clear()
    if outcome.well:
        found: Mapping[str, Any] = outcome.answer[key]
        return found
    if outcome.error is not None:
        raise from_document(dict(outcome.error))
    (finding,) = outcome.findings
    raise MeasurerDied(
        f"The process that measures {bench.title} crashed: {finding.what}.",
        hint="To check this environment: ttf doctor",
    )


def _measured(
    bench: Bench, size: str, ceilings: Mapping[str, Any], progress: BenchProgress, as_json: bool
) -> Outcome:
    """Runs one bench and prints its results at once."""
    from ttf.tools.bench.runner import outcome_of
    from ttf.tools.bench.table import finding_lines, lines_of

    outcome = outcome_of(bench, size, ceilings, progress)
    progress.clear()
    out = say if as_json else show
    for finding in outcome.findings:
        for line in finding_lines(finding):
            out(line)
    if not as_json:
        show()
        for line in lines_of(outcome.lines) if outcome.lines else ():
            show(line)
    return outcome


def _what_next(outcomes: Sequence[Outcome], quick: bool) -> None:
    from ttf.tools.bench.peers import INSTALL

    missing = any(line.note == INSTALL for outcome in outcomes for line in outcome.lines)
    show()
    if not all(outcome.well for outcome in outcomes):
        next_command("ttf doctor")
    elif missing:
        next_command("pip install 'twotower[peers]'")
    elif quick:
        next_command("ttf bench")
    else:
        next_command("ttf bench --json > bench.json")


def _exit_code(outcomes: Sequence[Outcome]) -> int:
    for outcome in outcomes:
        if outcome.error is not None:
            return int(outcome.error["exit_code"])
    return int(ExitCode.DONE if all(outcome.well for outcome in outcomes) else ExitCode.UNSAFE)
