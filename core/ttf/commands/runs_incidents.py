"""`ttf runs incidents`: the deaths of many runs side by side, and whether they have a pattern."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ttf.commands import _options as options
from ttf.errors import ConfigError
from ttf.text.numbers import duration, moment, size
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.runs.deaths import Deaths, DeathSeen, Printed
    from ttf.tools.runs.pattern import Pattern

_HEAD: Final = (
    *("run", "id", "class", "when", "phase", "step", "epoch", "batch", "micro-batch", "age"),
    *("since mining", "memory"),
)
_WORDS: Final = {
    "boundary": "the optimizer boundary",
    "time": "time",
    "memory": "memory",
    "mining": "mining",
}


@click.command(
    "incidents",
    epilog="""\b
Examples:
  ttf runs incidents                          every death of the runs in runs/
  ttf runs incidents runs/guard-00* --accumulate 16
  ttf runs incidents runs/run-003 --json | jq .tied_to

\b
Give folders of the same work: what differs between them looks like a pattern of the deaths.""",
)
@click.argument("folders", type=options.PATH, nargs=-1, metavar="[DIR...]")
@click.option(
    "--accumulate",
    type=click.IntRange(min=1),
    metavar="N",
    help="For guarded commands: they take N micro-batches per optimizer step. The micro-batch of a "
    "death is found by the last number of a batch or step that the command wrote.",
)
@click.option(
    "--batch",
    "pattern",
    metavar="REGEX",
    help="What the command writes before the number of a micro-batch; the first group is the "
    "number. With --accumulate. [default: batch, step or iteration]",
)
@options.as_json
def command(
    folders: tuple[Path, ...], accumulate: int | None, pattern: str | None, as_json: bool
) -> None:
    """Compare the deaths in runs and guards: are they tied to anything?

    A table of the incidents, and four tests: optimizer boundary, time, memory, mining. The p values
    are corrected for four looks (Holm); below 0.01 counts as tied.

    With --json: {"runs", "deaths", "survived", "incidents": [{"run", "id", "class", "process",
    "time", "phase", "step", "epoch", "batch_of_epoch", "micro_batch", "micro_batches",
    "boundary_share", "age_s", "trained_s", "since_mining_s", "since_mining_steps", "mined_for_steps",
    "memory_bytes", "at_boundary"}], "looks": [{"name", "deaths", "says", "p", "corrected",
    "needs"}], "tied_to", "remarks"}; what is not known is null.
    """
    from ttf.tools.runs.deaths import deaths_in
    from ttf.tools.runs.facts import runs_in
    from ttf.tools.runs.pattern import pattern_of

    printed = _printed(accumulate, pattern)
    runs = runs_in(list(folders) or [Path("runs")])
    seen = deaths_in(runs, printed)
    found = pattern_of(seen)
    if as_json:
        emit_json(_document(seen, found))
        return
    listed = [*seen.deaths, *seen.others]
    if not listed:
        say(f"No incident in {len(runs)} run{'' if len(runs) == 1 else 's'}.")
        next_command("ttf runs list")
        return
    show(table([_row(death) for death in listed], _HEAD))
    show()
    _show_looks(found)
    _show_verdict(seen, found)
    next_command(_next(found, listed))


def _printed(accumulate: int | None, pattern: str | None) -> Printed | None:
    from ttf.tools.runs.deaths import BATCH, Printed

    if accumulate is None:
        if pattern is not None:
            raise ConfigError(
                "--batch needs --accumulate: the micro-batches of an optimizer step.",
                hint="ttf runs incidents ... --accumulate 16 --batch 'batch (\\d+)'",
            )
        return None
    try:
        found = re.compile(BATCH if pattern is None else pattern)
    except re.error as error:
        raise ConfigError(f"--batch is no regular expression: {error}.") from error
    if found.groups < 1:
        raise ConfigError(
            "The regular expression of --batch has no group in parentheses, so ttf does not know "
            "which part of a line is the number of the micro-batch.",
            hint=r"--batch 'batch (\d+)'",
        )
    return Printed(accumulate=accumulate, pattern=found)


def _row(death: DeathSeen) -> tuple[str, ...]:
    micro = "" if death.micro_batch is None else f"{death.micro_batch} of {death.micro_batches}"
    mined = ""
    if death.since_mining_s is not None:
        mined = f"{duration(max(0.0, death.since_mining_s))}, {death.since_mining_steps} steps"
    return (
        death.run,
        death.id,
        death.name if death.process in ("trainer", "command") else f"{death.name}, {death.process}",
        "" if death.time is None else moment(death.time, "%m-%d %H:%M:%S"),
        death.phase or "",
        _count(death.step),
        _count(death.epoch),
        _count(death.batch_of_epoch),
        micro,
        "" if death.age_s is None else duration(death.age_s),
        mined,
        "" if death.memory_bytes is None else size(death.memory_bytes),
    )


def _count(value: int | None) -> str:
    return "" if value is None else f"{value:,}"


def _show_looks(found: Pattern) -> None:
    rows = [
        (look.name, str(look.deaths), _p(look.p), _p(look.corrected), look.says)
        for look in found.looks
    ]
    show(table(rows, ("tied to", "deaths", "p", "corrected", "what was seen")))
    show()


def _p(value: float | None) -> str:
    if value is None:
        return "-"
    return "<0.0001" if value < 0.0001 else f"{value:.2g}"


def _show_verdict(seen: Deaths, found: Pattern) -> None:
    count = f"{found.deaths} death{'' if found.deaths == 1 else 's'}"
    if found.tied_to:
        names = " and ".join(_WORDS[name] for name in found.tied_to)
        say(
            f"The {count} are tied to {names}: chance alone would rarely do this. A tie is no cause."
        )
    else:
        say(f"Nothing ties the {count} to the boundary, time, memory or mining. That is no proof:")
        for look in found.looks:
            say(f"  {look.name}: {look.needs or look.says}")
    for remark in found.remarks:
        say(remark)
    if seen.others:
        one = len(seen.others) == 1
        say(
            f"{len(seen.others)} incident{'' if one else 's'} of other processes (miner, supervisor) "
            f"{'was' if one else 'were'} not tested."
        )


def _next(found: Pattern, listed: Sequence[DeathSeen]) -> str:
    last = Path(listed[-1].run)
    guarded = not (last / "run.toml").is_file()
    if not found.tied_to:
        return f"ttf explain {quoted(last / 'incidents' / listed[-1].id)}"
    if not guarded:
        # Accumulation, mining, precision, batch size: what a tie points to is among its parts.
        return f"ttf bisect {quoted(last)}"
    if "boundary" in found.tied_to:
        return "ttf bisect --command --vary flag:--accum=1 -- YOUR COMMAND"
    return "ttf bisect --command -- YOUR COMMAND"


def _document(seen: Deaths, found: Pattern) -> dict[str, Any]:
    return {
        "runs": seen.runs,
        "deaths": found.deaths,
        "survived": len(seen.survived_s),
        "incidents": [death.document() for death in (*seen.deaths, *seen.others)],
        "looks": [asdict(look) for look in found.looks],
        "tied_to": list(found.tied_to),
        "remarks": list(found.remarks),
    }
