"""`ttf monitor`: what a run, or any process, is doing and holding now."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

import click

from ttf.commands import _options as options
from ttf.errors import ExitCode
from ttf.text.shell import quoted
from ttf.text.terminal import (
    emit_json,
    is_terminal,
    next_command,
    say,
    show,
    wants_colour,
    wants_unicode,
)

if TYPE_CHECKING:
    from ttf.tools.monitor.view import View
    from ttf.tools.monitor.watch import Monitor

_FIRST_LOOK_S = 0.25  # between two looks of --once: processor time is a difference

_EPILOG = """\b
Examples:
  ttf monitor runs/run-001                 a live view; Ctrl-C ends the view, not the run
  ttf monitor 12345                        any process, with its child processes
  ttf monitor runs/run-001 >> memory.log   one line per second, for a log
  ttf monitor runs/run-001 --json | jq .limit.seconds_left

\b
anon, shared: memory that counts toward a limit. file: mapped files; the kernel can free it.
The time to the limit is computed from the last five minutes, and shown only if the memory
clearly grows. The command writes no files and takes no locks. On macOS (not tested on a Mac),
shared memory counts as file-backed.
"""


@click.command(epilog=_EPILOG)
@click.argument("target", metavar="RUN_DIR|PID")
@click.option(
    "--interval",
    type=options.duration(0.1),
    default="1s",
    help="Time between two measurements.",
)
@click.option("--once", is_flag=True, help="Measure once and end.")
@options.as_json
def command(target: str, interval: float, once: bool, as_json: bool) -> int:
    """Show memory, limit, step and speed of a run or of any process, live.

    On a terminal, it shows a live view; in a pipe, it prints one line per interval. It ends when
    the processes have ended, and shows how the run ended. --json measures once.
    """
    from ttf.tools.monitor.watch import Monitor
    from ttf.tools.monitor.what_to_watch import find

    monitor = Monitor(find(target))
    try:
        if once or as_json:
            _show_once(monitor, as_json)
        elif is_terminal(sys.stdout) and os.environ.get("TERM", "") not in ("", "dumb"):
            _show_live(monitor, interval)
        else:
            _show_lines(monitor, interval)
    except KeyboardInterrupt:  # the way to leave it: no error
        return int(ExitCode.INTERRUPTED)
    return int(ExitCode.DONE)


def _show_once(monitor: Monitor, as_json: bool) -> None:
    import shutil
    import time

    from ttf.tools.monitor.cells import Paint
    from ttf.tools.monitor.page import page
    from ttf.tools.monitor.view import document

    view = monitor.look()
    if view.alive:
        time.sleep(_FIRST_LOOK_S)
        view = monitor.look()
    if as_json:
        emit_json(document(view))
        return
    width = shutil.get_terminal_size().columns - 1 if is_terminal(sys.stdout) else 100
    for line in page(view, Paint(unicode=wants_unicode(sys.stdout)), max(20, width)):
        show(line)


def _show_live(monitor: Monitor, interval: float) -> None:
    from ttf.tools.monitor import screen

    canvas = screen.Screen(sys.stdout, colour=wants_colour(True))
    _say_end(screen.show(monitor.look, canvas, interval), shown=True)


def _show_lines(monitor: Monitor, interval: float) -> None:
    import time

    from ttf.tools.monitor.lines import columns_of, heading, line

    view, due = monitor.look(), time.monotonic()
    columns = columns_of(view)
    show(heading(columns))
    show(line(view, columns))
    while view.alive:
        due = max(due + interval, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
        view = monitor.look()
        show(line(view, columns))
    _say_end(view, shown=False)


def _say_end(view: View, *, shown: bool) -> None:
    """Prints how the target ended. `shown`: the page is already on the screen."""
    run = view.run
    if run is None:
        say(
            f"{view.name} has ended. Only its parent process knows its exit code. To record it: "
            "ttf guard -- COMMAND"
        )
        return
    if not shown:
        ended = run.ended
        told = "there is no record of its end" if ended is None else ended.status
        say(f"{run.folder}: {told}{'' if ended is None else f', exit code {ended.exit_code}'}")
    if run.incidents:
        last = quoted(run.folder / "incidents" / run.incidents[-1].id)
        next_command(f"ttf explain {last}")
    elif run.ended is None or run.ended.status == "stopped":
        next_command(f"ttf resume {quoted(run.folder)}")
