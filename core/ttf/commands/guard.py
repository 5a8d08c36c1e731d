"""`ttf guard`: watches any command."""

from __future__ import annotations

import os
import signal
from typing import Any

import click

from ttf.commands import _options as options


def _limit(text: str) -> int:
    size = options.parsed_size(text, "a number of bytes, for example 500M, 8G or 8GiB")
    if size < 1:
        raise ValueError("the limit must be at least one byte.")
    return size


_EPILOG = """\b
Examples:
  ttf guard -- python train.py --epochs 10         explain a crash
  ttf guard --restarts 3 -- python train.py        also restart, at most three times
  ttf guard --until-success -- ./train.sh          restart until the exit code is 0
  ttf guard -- bash launch.sh 2>&1 | tee run.log   also sees what dies below launch.sh
  ttf guard --memory-limit 12G -- python train.py  end the command before the machine swaps
  ttf guard --hang-timeout 10m --out watch -- torchrun train.py

\b
The command runs as usual: ttf guard does not touch standard input and output, passes on standard
error unchanged and at once (on a terminal, through a terminal), and passes on signals. In Python
processes, faulthandler is enabled and output is not buffered. Messages of ttf guard go to standard
error and begin with "ttf guard:".

\b
Files: DIR/summary.json (status, exit_code, command, restarts, incidents, wall_s,
peak_anon_mb, hidden), DIR/incidents/NNN/ (incident.md, incident.json, stacks, end of stderr and
stdout, memory), memory.jsonl, stderr.txt, environment.json. There is no --json, because standard output belongs to
the command; scripts read DIR/summary.json.

\b
Exit code: that of the command; 128 + signal after a signal; 127 not found; 126 not executable.
"""


@click.command(
    epilog=_EPILOG,
    context_settings={"allow_interspersed_args": False, "ignore_unknown_options": False},
)
@options.path(
    "--out",
    metavar="DIR",
    help="Folder for the files. [default: runs/guard-001, ..., created only when needed]",
)
@click.option(
    "--restarts",
    type=options.NATURAL,
    metavar="N",
    help="After a failure, restart the command, at most N times. Not after Ctrl-C or a signal to "
    "ttf guard, and not if Python ended normally with its own exit code. [default: 0]",
)
@click.option(
    "--until-success",
    is_flag=True,
    help="Restart the command after any exit code except 0, at most N times with --restarts N. The "
    "variable TTF_GUARD_ATTEMPT contains the number of the start.",
)
@click.option(
    "--memory-limit",
    type=options.Parsed("BYTES", _limit),
    help="End the command (SIGTERM, SIGKILL 5 s later) if it and its child processes use this much "
    "anonymous and shared memory, e.g. 8G. Page cache does not count. [default: none]",
)
@click.option(
    "--hang-timeout",
    "hang_timeout_s",
    type=options.duration(1),
    help="Save the stacks and end the command if it and its child processes read and write nothing "
    "for this time, e.g. 10m. It must be longer than the longest computation. [default: never]",
)
@options.path(
    "--log",
    metavar="FILE",
    help="The file that the command writes its output to, for the last words in an incident. Needed "
    "only if ttf guard cannot find it: behind a pipe to a program on another machine, for example.",
)
@click.option(
    "--core",
    is_flag=True,
    help="After a crash in native code, keep the native stacks of all threads (native.txt) and name "
    "the function and library. Needs gdb, and a system that writes core files; they are removed.",
)
@click.option(
    "--buffered",
    is_flag=True,
    help="Leave the buffers of Python processes alone. By default they print at once "
    "(PYTHONUNBUFFERED=1), because a crash takes the lines that wait in a buffer.",
)
@click.argument("words", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND...")
def command(**given: Any) -> int:
    """Run any command, and explain why it crashed.

    After a crash, ttf guard writes an incident with the probable cause, the evidence and advice.
    The evidence: signal, kernel counters and log, the last messages, Python stacks, memory over
    time, loaded OpenMP runtimes, and data files that changed.
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
