"""`ttf plugins` and `ttf completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ttf import cli

if TYPE_CHECKING:
    from tests.conftest import Invoke


def test_the_list_has_the_fields_the_contract_names(invoke: Invoke) -> None:
    found = invoke(["plugins", "list", "--json"]).json()
    assert {tuple(entry) for entry in found} == {
        ("kind", "name", "distribution", "version", "api", "available", "reason")
    }
    kinds = {"tower", "miner", "storage", "device", "encoder", "exporter", "executor", "observer"}
    assert kinds == {entry["kind"] for entry in found}
    assert all(entry["available"] is None and entry["api"] == 1 for entry in found)


def test_the_list_for_people_ends_with_the_next_command(invoke: Invoke) -> None:
    result = invoke(["plugins", "list", "--kind", "miner"])
    assert "hnswlib" in result.out
    assert "gru" not in result.out
    assert "Next: ttf plugins show miner.exact" in result.err


def test_a_bare_name_will_do_and_a_misspelt_one_gets_the_closest(invoke: Invoke) -> None:
    assert invoke(["plugins", "show", "cpu"]).out.startswith("device.cpu")
    assert "Did you mean 'faiss'?" in invoke(["plugins", "show", "miner.fais"]).err
    assert "Did you mean 'miner.faiss'?" in invoke(["plugins", "show", "minr.faiss"]).err


def test_completion_of_an_unknown_shell_names_the_known(invoke: Invoke) -> None:
    result = invoke(["completion", "tcsh"])
    assert result.code == 2
    assert "Known: bash, fish, zsh" in result.err


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        ("ttf tr", "train"),
        ("ttf train --tower g", "gru"),
        ("ttf train --miner a", "auto"),
        ("ttf plugins sh", "show"),
        ("ttf plugins show miner.f", "miner.faiss"),
        ("ttf train --prec", "--precision"),
    ],
)
def test_the_shell_is_offered_commands_options_and_plugin_names(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch, words: str, offered: str
) -> None:
    monkeypatch.setenv("_TTF_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    result = invoke([])
    assert f"plain,{offered}" in result.out.splitlines()
    assert cli.COMMANDS
