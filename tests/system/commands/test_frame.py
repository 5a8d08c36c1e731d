"""The command line's frame: what starts, what it says, how it ends."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from ttf import cli
from ttf.errors import BadData, ConfigError, ExitCode, GateNotMet, Stopped, StorageError

if TYPE_CHECKING:
    from tests.conftest import Invoke, RunTtf


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> type[Failing]:
    """A command `fail` that raises what it is told to."""
    import types

    module = types.ModuleType("ttf.commands.fail")
    module.command = Failing.command  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "ttf.commands.fail", module)
    monkeypatch.setitem(cli.COMMANDS, "fail", "Raises.")
    return Failing


class Failing:
    error: BaseException = RuntimeError("unset")

    @staticmethod
    @click.command()
    @click.option("--json", "as_json", is_flag=True)
    def command(as_json: bool) -> None:
        raise Failing.error


def test_help_lists_every_command_with_its_line(invoke: Invoke) -> None:
    result = invoke(["--help"])
    assert result.code == 0
    for name in cli.COMMANDS:
        assert f"  {name}" in result.out
    assert "Exit codes: 0 done" in result.out


def test_every_command_of_the_table_exists_and_explains_itself() -> None:
    context = click.Context(cli.cli)
    for name, line in cli.COMMANDS.items():
        command = cli.cli.get_command(context, name)
        assert command is not None
        assert command.help, f"ttf {name} has no help"
        assert line


def test_no_command_prints_the_help_as_a_usage_error(invoke: Invoke) -> None:
    result = invoke([])
    assert (result.code, result.out) == (2, "")
    assert "First steps:" in result.err


def test_misspelt_commands_and_options_get_the_closest(invoke: Invoke) -> None:
    assert "Did you mean 'train'?" in invoke(["trian"]).err
    assert "Did you mean '--epochs'?" in invoke(["train", "--epoch", "3"]).err
    assert "Did you mean 'list'?" in invoke(["plugins", "lst"]).err
    result = invoke(["train", "--tower", "gruu"])
    assert result.code == 2
    assert "no tower named 'gruu'. Did you mean 'gru'? Known: gru, " in result.err
    assert "hint: See ttf train --help." in result.err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ConfigError("Two problems:", problems=["one", "two"], hint="do it"), 2),
        (BadData("pairs.npz: row 3 of X_train is not finite.", hint="look at it"), 3),
        (GateNotMet("recall@10 was 0.1"), 7),
        (StorageError("Could not write x: No space left on device."), 8),
        (Stopped(15, "Stopped by SIGTERM."), 143),
        (OSError(28, "No space left on device", "/tmp/x"), 8),
        (OSError(30, "Read-only file system", "/mnt/x"), 8),
        (KeyboardInterrupt(), 130),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else "",
)
def test_every_error_ends_with_its_code_one_message_and_one_document(
    invoke: Invoke, failing: type[Failing], error: BaseException, code: int
) -> None:
    failing.error = error
    plain = invoke(["fail"])
    assert (plain.code, plain.out) == (code, "")
    assert plain.err.count("error: ") == 1
    assert "Traceback" not in plain.err
    told = invoke(["fail", "--json"])
    assert told.code == code
    document = told.json()["error"]
    assert document["exit_code"] == code
    assert document["message"] in told.err
    assert set(document) == {"class", "message", "problems", "hint", "exit_code"}


def test_our_own_fault_is_said_to_be_ours_and_keeps_the_traceback(
    invoke: Invoke, failing: type[Failing], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing.error = ZeroDivisionError("by zero")
    result = invoke(["fail"])
    assert result.code == ExitCode.OUR_FAULT
    assert "a fault of ttf, not of yours: ZeroDivisionError: by zero" in result.err
    path = Path(result.err.partition("The traceback is in ")[2].partition(";")[0])
    assert "raise Failing.error" in path.read_text()
    path.unlink()
    monkeypatch.setenv("TTF_DEBUG", "1")
    assert "Traceback (most recent call last)" in invoke(["fail"]).err


def test_a_broken_pipe_inside_is_not_taken_for_a_reader_that_left(
    invoke: Invoke, failing: type[Failing]
) -> None:
    failing.error = BrokenPipeError(32, "Broken pipe")
    result = invoke(["fail"])
    assert result.code == ExitCode.OUR_FAULT
    Path(result.err.partition("The traceback is in ")[2].partition(";")[0]).unlink()


def test_a_reader_that_leaves_ends_the_command_quietly(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    done = subprocess.run(
        [sys.executable, "-m", "ttf", "plugins", "list", "--json"],
        stdout=writer,
        stderr=subprocess.PIPE,
        check=False,
        timeout=60,
    )
    os.close(writer)
    assert done.returncode == 141
    assert b"Traceback" not in done.stderr
    assert b"Exception" not in done.stderr


def test_a_full_disk_behind_standard_output_is_a_storage_error() -> None:
    full = Path("/dev/full")
    if not full.exists():
        pytest.skip("this system has no /dev/full")
    with full.open("w") as sink:
        done = subprocess.run(
            [sys.executable, "-m", "ttf", "plugins", "list"],
            stdout=sink,
            stderr=subprocess.PIPE,
            check=False,
            timeout=60,
        )
    assert done.returncode == ExitCode.STORAGE
    assert b"No space left on device" in done.stderr


def test_python_m_ttf_is_ttf(run_ttf: RunTtf) -> None:
    assert run_ttf("--version").out.startswith("ttf 0.")
    assert run_ttf("nothing").code == 2


def test_no_color_is_obeyed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.color() is False
    monkeypatch.setenv("NO_COLOR", "")
    assert cli.color() is None


def test_json_output_is_strict_json_without_colour(invoke: Invoke) -> None:
    result = invoke(["plugins", "list", "--json"])
    assert json.loads(result.out)
    assert "\x1b" not in result.out
