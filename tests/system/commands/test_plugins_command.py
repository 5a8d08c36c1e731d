"""`ttf plugins` and `ttf completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ttf.host import plugins

if TYPE_CHECKING:
    from tests.conftest import Invoke


@pytest.mark.parametrize("reference", [f"{p.kind}.{p.name}" for p in plugins.installed()])
def test_every_built_in_shows_its_options_with_help(invoke: Invoke, reference: str) -> None:
    shown = invoke(["plugins", "show", reference, "--json"]).json()
    assert f"{shown['kind']}.{shown['name']}" == reference
    assert shown["distribution"] == "twotower"
    assert shown["available"] or (shown["reason"] and shown["fix"])
    for option in shown["options"]:
        assert option["help"], f"{reference}.{option['name']} has no help"
    plain = invoke(["plugins", "show", reference])
    assert plain.code == 0
    for option in shown["options"]:
        assert option["name"] in plain.out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_and_how_to_switch_it_on(invoke: Invoke, shell: str) -> None:
    result = invoke(["completion", shell])
    assert result.code == 0
    assert "_TTF_COMPLETE" in result.out
    assert f"ttf completion {shell}" in result.err
