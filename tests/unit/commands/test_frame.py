"""The command line's frame: what starts, what it says, how it ends."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click
import pytest

from ttf import cli
from ttf.errors import BadData, ConfigError, ExitCode, GateNotMet, Stopped, StorageError

if TYPE_CHECKING:
    from tests.conftest import Invoke


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


def test_no_help_has_control_characters_or_a_default_twice() -> None:
    todo = [(click.Context(cli.cli, info_name="ttf"), "ttf")]
    for context, name in todo:  # grows
        text = context.command.get_help(context)
        assert text.replace("\n", "").isprintable(), name
        assert not re.search(r"\[default: [^]]*\]\s+\[default: ", text), name
        if isinstance(context.command, click.Group):
            for inner in context.command.list_commands(context):
                command = context.command.get_command(context, inner)
                assert command is not None
                todo.append(
                    (click.Context(command, info_name=inner, parent=context), f"{name} {inner}")
                )
    assert len(todo) > 30


def test_no_command_prints_the_help_as_a_usage_error(invoke: Invoke) -> None:
    result = invoke([])
    assert (result.code, result.out) == (2, "")
    assert "First steps:" in result.err


def test_misspelt_commands_and_options_get_the_closest(invoke: Invoke) -> None:
    assert "Did you mean 'train'?" in invoke(["trian"]).err
    assert "Did you mean '--epochs'?" in invoke(["train", "--epochz", "3"]).err
    assert "Did you mean 'list'?" in invoke(["plugins", "lst"]).err
    result = invoke(["mine", "--miner", "fais"])
    assert result.code == 2
    assert "no miner named 'fais'. Did you mean 'faiss'? Known: auto, exact, " in result.err
    assert "hint: See ttf mine --help." in result.err


def test_all_wrong_flags_and_settings_are_told_at_once(invoke: Invoke) -> None:
    argv = "train --plan --tower gruu --miner fais --set train.epcohs=3 --set lr=3 --steps many"
    result = invoke(argv.split())
    assert result.code == 2
    assert "The configuration has 5 problems:" in result.err
    for said in (
        "--tower: tower.query.name: no tower named 'gruu'. Did you mean 'gru'?",
        "--miner: miner.name: no miner named 'fais'. Did you mean 'faiss'?",
        "--set: train.epcohs: no such key. Did you mean 'epochs'?",
        "--set: lr: no such section. Did you mean 'train.lr'?",
        "--steps: train.steps: input should be a valid integer (got 'many')",
        "hint: To see what a key takes: ttf config explain train.steps",
    ):
        assert said in result.err


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
    assert "a bug in ttf: ZeroDivisionError: by zero" in result.err
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


def test_no_color_is_obeyed_on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    assert cli.color() is False
    monkeypatch.setenv("NO_COLOR", "")
    assert cli.color() is None


def test_json_output_is_strict_json_without_colour(invoke: Invoke) -> None:
    result = invoke(["plugins", "list", "--json"])
    assert json.loads(result.out)
    assert "\x1b" not in result.out
