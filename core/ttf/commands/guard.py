"""`ttf guard`: watches any command."""

from __future__ import annotations

import os
import signal
from typing import Any

import click

from ttf.commands import _options as options


def _limit(text: str) -> int:
    size = options.parsed_size(text, "bytes, or 500M, 8G, 8GiB")
    if size < 1:
        raise ValueError("the limit must be at least one byte.")
    return size


_EPILOG = """\b
Examples:
  ttf guard -- python train.py --epochs 10       what killed it? is answered when it dies
  ttf guard --restarts 3 -- python train.py      and it is started again, at most three times
  ttf guard --until-success -- ./train.sh        until it ends with exit code 0
  ttf guard --memory-limit 12G -- python train.py       ended before the machine swaps
  ttf guard --hang-timeout 600 --out watch -- torchrun train.py

\b
What it does to the command: nothing that it notices. Standard input and output are its own, what it
writes to standard error is passed on at once, byte for byte, and on a terminal it finds a terminal
there; signals are passed on. Python processes have faulthandler switched on.
Lines of the guard itself begin with "ttf guard:", on standard error, when something happened.

\b
What is left: DIR/summary.json (status, exit_code, command, restarts, incidents, wall_s,
peak_anon_mb), DIR/incidents/NNN/ (incident.md, incident.json, stacks, end of stderr, memory),
memory.jsonl, stderr.txt, environment.json. There is no --json: standard output is the command's;
scripts read DIR/summary.json.

\b
Exit code: the command's own; 128 + signal when it died of one; 127 not found; 126 not executable.
"""


@click.command(
    epilog=_EPILOG,
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@options.path(
    "--out",
    metavar="DIR",
    help="Where all is kept. [default: runs/guard-001, ..., made when there is something to keep]",
)
@click.option(
    "--restarts",
    type=options.NATURAL,
    metavar="N",
    help="After a failure, start the command again, at most N times: not after a signal sent to the "
    "guard or Ctrl-C, nor where Python ended in order with an exit code it chose. [default: 0]",
)
@click.option(
    "--until-success",
    is_flag=True,
    help="Start it again until it ends with 0, whatever exit code it chose; N of --restarts is the "
    "bound, without it there is none. TTF_GUARD_ATTEMPT tells the command which start it is.",
)
@click.option(
    "--memory-limit",
    type=options.Parsed("BYTES", _limit),
    help="End the command (SIGTERM, SIGKILL 5 s later) when it and all it started hold that much "
    "anonymous and shared memory: 500M, 8G. Page cache does not count. [default: none]",
)
@click.option(
    "--hang-timeout",
    "hang_timeout_s",
    type=click.FloatRange(min=1),
    metavar="S",
    help="End it, stacks first, when nothing it started has read or written a byte for S seconds; "
    "choose more than its longest silent computation. [default: never]",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(**given: Any) -> int:
    """Watch over any training command, yours or anybody's: when it dies, say why.

    The signal, the kernel's counters and log, the last words, Python's stacks, memory over time,
    mapped OpenMP runtimes and data files that changed become one classified incident, with what
    may help.
    """
    from ttf.tools.guard.options import GuardOptions
    from ttf.tools.guard.run import guard

    outcome = guard(GuardOptions(**given))
    if outcome.by_keyboard:
        _die_of_ctrl_c()
    return outcome.code


def _die_of_ctrl_c() -> None:
    # Ctrl-C reached only the command. Shells and make wait for this process and check how it ends.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.killpg(os.getpgrp(), signal.SIGINT)
