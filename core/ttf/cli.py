"""The command `ttf`: commands imported on use, and one place that handles errors.

`ttf --help` imports click and this file alone. Every error becomes one message on standard error
and the exit code of its class; with --json it is also one document on standard output.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import click

from ttf.errors import ExitCode, Stopped, Told, TtfError
from ttf.host import distribution
from ttf.host.version import __version__
from ttf.text.terminal import Part, echo, line_of

if TYPE_CHECKING:
    from pathlib import Path
    from typing import TextIO

    from ttf.text.terminal import Text

# Name and one line of help; the code is the object `command` of `ttf.commands.<name>`.
COMMANDS: dict[str, str] = {
    "init": "Write a run.toml for what lies in a folder.",
    "train": "Train towers on your pairs, or without data on a built-in demo set.",
    "resume": "Continue a run where it stopped.",
    "calibrate": "Correct a finished model for hubs, also for another bank.",
    "eval": "Compute recall, MRR and nDCG of a run with the full bank.",
    "search": "Find the best documents for queries, with a trained run.",
    "mine": "Write a table of hard-negative candidates.",
    "export": "Write a run for sentence-transformers, ONNX, FAISS, databases and others.",
    "config": "What a run would use, what a key means, a schema for editors.",
    "doctor": "Check whether machine, environment and configuration are safe.",
    "bench": "Measure the limits of this machine, and compare ttf with other programs.",
    "tune": "Look for a better configuration within a time, and train it.",
    "ab": "Compare configurations, and show whether a difference is chance.",
    "bisect": "Find the part of a configuration that makes it crash.",
    "guard": "Run any command, and explain why it crashed.",
    "monitor": "Show memory, limit, step and speed of a run or of any process, live.",
    "explain": "Explain an incident, its class, and what to do.",
    "report": "Write an HTML page about a run or a study, or a zip without names and tokens.",
    "runs": "List runs, show one, and compare some of them.",
    "cache": "Show what lies in the cache, and remove it.",
    "data": "Encode texts; inspect, convert, create, cut and check vector files.",
    "plugins": "List the installed plugins and their options.",
    "completion": "Print the completion script for your shell.",
}
_LOAD_TORCH = frozenset(
    {"train", "resume", "calibrate", "eval", "search", "mine", "export", "bench", "tune"}
)
_IS_FULL = distribution.NAME == distribution.FULL
# Those that twotower-guard has; `ab` and `bisect` compare and examine commands there.
_OF_THE_CRASH_SIDE = frozenset(
    {"doctor", "ab", "bisect", "guard", "monitor", "explain", "report", "runs", "completion"}
)
HERE = {name: text for name, text in COMMANDS.items() if _IS_FULL or name in _OF_THE_CRASH_SIDE}

_OF_CRASH_SIDE = """\

\b
First steps:
  ttf guard -- python train.py   run your script; if it crashes: why, with the evidence
  ttf doctor --python PATH       examine the environment of your script
  ttf bisect --command -- python train.py
  pip install twotower           all of ttf, which trains, in an environment of its own

"""
_TRAINS = "Train two-tower retrievers on vectors that lie on disk."
_EXPLAINS = "Find out why a process crashed."
_OF_FULL = """\

\b
First steps:
  ttf train                      train on a demo data set, under a minute
  ttf data inspect pairs.npz     show the content and the problems of a file
  ttf train --pairs pairs.npz --bank bank.npz --out runs/mine

"""
_EPILOG = """\

\b
Streams: results go to standard output, progress and messages to standard error.
With --json, standard output contains one JSON document and nothing else. A command that
fails writes {"error": {"class", "message", "problems", "hint", "exit_code"}}; if a run was
stopped or did not meet a gate, the document also has "run_dir" and "summary".

\b
Exit codes: 0 done; 2 wrong usage or configuration; 3 bad data; 4 numeric failure;
5 gave up after crashes; 6 environment unsafe; 7 a gate was not met; 8 storage failed;
9 folder in use; 10 no intact checkpoint; 70 a bug in ttf; 130, 143 stopped by a signal.

\b
Environment: TTF_HOME (cache), TTF_DEBUG=1 (show tracebacks),
TTF_DISABLE_PLUGINS=dist,... (disable the plugins of these distributions),
TTF_TRACE_PLUGINS=1 (print each import and hook call of a plugin), NO_COLOR, FORCE_COLOR=1.
"""

# Address space without memory behind it (zeros that nobody has written): given back to explain that
# there is none left.
_reserve = bytes(8 << 20)
_READER_GONE = 141  # 128 + SIGPIPE: what a shell reports for a command whose reader left


class LazyGroup(click.Group):
    """A group that knows its commands by name and imports only the one that runs."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(HERE)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        if cmd_name not in HERE:
            distribution.require_full(f"ttf {cmd_name}")
        import importlib

        command = importlib.import_module(f"ttf.commands.{cmd_name}").command
        assert isinstance(command, click.Command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-") and not ctx.resilient_parsing:
            raise click.exceptions.NoSuchCommand(name, possibilities=COMMANDS, ctx=ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(HERE.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        from click.shell_completion import CompletionItem

        fitting = [(n, h) for n, h in HERE.items() if n.startswith(incomplete)]
        return [
            *(CompletionItem(name, help=text) for name, text in fitting),
            *click.Command.shell_complete(self, ctx, incomplete),
        ]


@click.group(
    cls=LazyGroup,
    help=_TRAINS if _IS_FULL else _EXPLAINS,
    epilog=(_OF_FULL if _IS_FULL else _OF_CRASH_SIDE) + _EPILOG,
    context_settings={
        "help_option_names": ["-h", "--help"],
        "max_content_width": 100,
        "show_default": True,
    },
)
@click.version_option(
    __version__,
    "--version",
    prog_name="ttf",
    message="%(prog)s %(version)s" + ("" if _IS_FULL else f" ({distribution.NAME})"),
)
def cli() -> None:
    pass


def main(
    argv: Sequence[str] | None = None, command: click.Command = cli, name: str = "ttf"
) -> NoReturn:
    """The console script and `python -m ttf`: runs the command and exits with its code."""
    _fill_closed_streams()
    sys.exit(run(sys.argv[1:] if argv is None else argv, command, name))


def _fill_closed_streams() -> None:
    # A file that is opened next would get the number of a closed stream, and what libraries print
    # would go into it. Python has seen that the stream is closed: `sys.stdout` stays None.
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def run(argv: Sequence[str], command: click.Command = cli, name: str = "ttf") -> int:
    """Runs one command line in this process; returns its exit code and never raises."""
    as_json = "--json" in argv
    try:
        code = _invoke(list(argv), command, name)
        if sys.stdout is not None:
            sys.stdout.flush()
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except SystemExit as stop:
        return stop.code if isinstance(stop.code, int) else int(stop.code is not None)
    except (TtfError, Stopped) as error:
        _debug()
        return _report_told(error, as_json)
    except (KeyboardInterrupt, click.Abort):
        return _report("Interrupted", "interrupted", "", ExitCode.INTERRUPTED, as_json)
    except click.exceptions.NoArgsIsHelpError as usage:
        _say(usage.format_message(), err=True)
        return int(ExitCode.USAGE)
    except click.ClickException as usage:
        context = getattr(usage, "ctx", None)
        hint = f"See {context.command_path} --help." if context else ""
        message = usage.format_message()
        problems: list[str] = []
        if isinstance(usage, click.NoSuchOption) and context:
            problems = _named_elsewhere(context, argv)
        if problems:
            message = "\n".join(["Some options do not exist:", *(f"  - {p}" for p in problems)])
        return _report(type(usage).__name__, message, hint, ExitCode.USAGE, as_json, problems)
    except ModuleNotFoundError as error:
        _debug()
        told = distribution.missing_library(error)
        return _report_bug(error, as_json) if told is None else _report_told(told, as_json)
    except OSError as error:
        if isinstance(error, BrokenPipeError) and _reader_is_gone():
            return _leave_quietly()
        return _report_os_error(error, as_json)
    except Exception as error:  # noqa: BLE001 - the last place where a fault can be explained
        return _report_bug(error, as_json)
    return code


def _invoke(argv: list[str], command: click.Command, name: str) -> int:
    instruction = os.environ.get("_TTF_COMPLETE")
    if instruction:
        from click.shell_completion import shell_complete

        return shell_complete(cli, {}, "ttf", "_TTF_COMPLETE", instruction)
    loads_torch = command is not cli or (argv and argv[0] in _LOAD_TORCH)
    if loads_torch and not {"-h", "--help"} & set(argv):
        from ttf.process.limits import ensure_addresses

        ensure_addresses()
    with command.make_context(name, argv, color=color()) as ctx:
        result = command.invoke(ctx)
    return result if isinstance(result, int) else int(ExitCode.DONE)


def color() -> bool | None:
    """False if NO_COLOR is set; None: click decides by the terminal."""
    return False if os.environ.get("NO_COLOR") else None


def _named_elsewhere(context: click.Context, argv: Sequence[str]) -> list[str]:
    """All options that do not exist, with those that other programs have by that name; empty if the
    command configures no run, or if no name is known."""
    options = [p for p in context.command.params if isinstance(p, click.Option)]
    known = {name for option in options for name in (*option.opts, *option.secondary_opts)}
    if not known & {"--batch-size", "--set"}:
        return []
    from ttf.config.answers import foreign_flags

    return foreign_flags(argv, known | set(context.help_option_names))


def _report(
    kind: str,
    message: str,
    hint: str,
    code: ExitCode,
    as_json: bool,
    problems: Sequence[str] = (),
    details: Mapping[str, Any] | None = None,
) -> int:
    _say(line_of(Part("error:", "bold red"), f" {message}"), err=True)
    if hint:
        _say(line_of(Part("hint:", "bold"), f" {hint}"), err=True)
    if as_json:
        import json

        fields = {"class": kind, "message": message, "problems": list(problems), "hint": hint}
        document = {"error": {**fields, "exit_code": int(code)}, **(details or {})}
        _say(json.dumps(document, indent=2))
    return int(code)


def _say(text: Text, *, err: bool = False) -> None:
    # The exit code of an error does not depend on whether its message can be printed.
    try:
        echo(text, err=err)
    except OSError:
        _silence(sys.stderr if err else sys.stdout)


def _report_told(error: Told, as_json: bool) -> int:
    problems = getattr(error, "problems", ())
    code = error.exit_code
    name, text = type(error).__name__, str(error)
    return _report(name, text, error.hint, code, as_json, problems, error.details)


def _report_os_error(error: OSError, as_json: bool) -> int:
    # The user must mend a full or read-only disk, and a limit, whichever code met it.
    import errno

    from ttf.process.limits import files_used_up

    told = files_used_up(error)
    if told is not None:
        return _report_told(told, as_json)
    if error.errno == errno.ENAMETOOLONG:
        from ttf.errors import ConfigError

        name = str(error.filename)
        message = f"The name {name[:40]}... is too long: {len(os.fsencode(name)):,} bytes."
        hint = "Most file systems allow 255 bytes for each part of a path, and 4,095 in all."
        return _report_told(ConfigError(message, hint=hint), as_json)
    from ttf.errors import no_temporary_folder, storage_error

    no_folder = no_temporary_folder(error)
    if no_folder is not None:
        return _report_told(no_folder, as_json)
    theirs = {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EACCES, errno.EPERM}
    if error.errno not in theirs:
        return _report_bug(error, as_json)
    _debug()
    what = str(error.filename) if error.filename else "the output"
    return _report_told(storage_error(error, what), as_json)


def _report_bug(error: Exception, as_json: bool) -> int:
    global _reserve
    _debug()
    _reserve = b""
    # Even so there may be too little memory for this import.
    with contextlib.suppress(MemoryError, ImportError, SystemError, OSError):
        from ttf.machine.memory.too_little import too_little_memory

        told = too_little_memory(error)
        if told is not None:
            return _report_told(told, as_json)
    kept = None if _debugging() else _keep_traceback(error)
    where = f"The traceback is in {kept}; " if kept else ""
    message = f"a bug in ttf: {type(error).__name__}: {error}"
    hint = f"{where}please report it with this text. TTF_DEBUG=1 prints tracebacks."
    return _report(type(error).__name__, message, hint, ExitCode.OUR_FAULT, as_json)


def _debugging() -> bool:
    return os.environ.get("TTF_DEBUG", "0") not in ("", "0")


def _debug() -> None:
    # Call it in an `except`: shows the traceback if TTF_DEBUG is set.
    if _debugging():
        import traceback

        traceback.print_exc()


def _keep_traceback(error: Exception) -> Path | None:
    """None if no folder takes the file: then the traceback is on standard error."""
    import tempfile
    import traceback
    from pathlib import Path

    text = "".join(traceback.format_exception(error))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="ttf-fault-", suffix=".txt", delete=False, encoding="utf-8"
        ) as file:
            file.write(f"ttf {__version__}, python {sys.version}\n{' '.join(sys.argv)}\n\n{text}")
    except OSError:
        traceback.print_exception(error)
        return None
    return Path(file.name)


def _reader_is_gone() -> bool:
    """True if standard output or error lost its reader; other broken pipes are errors."""
    import select

    poller = select.poll()
    for stream in filter(None, (sys.stdout, sys.stderr)):
        try:
            poller.register(stream.fileno(), 0)
        except (OSError, ValueError):  # replaced by a stream without a descriptor
            continue
    return any(event & (select.POLLERR | select.POLLHUP) for _, event in poller.poll(0))


def _leave_quietly() -> int:
    # Else the interpreter's own flush at exit complains about the missing reader.
    for stream in filter(None, (sys.stdout, sys.stderr)):
        _silence(stream)
    return _READER_GONE


def _silence(stream: TextIO) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, stream.fileno())
    os.close(null)
