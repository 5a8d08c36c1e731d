"""`ttf plugins` and `ttf completion`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ttf.host import plugins
from ttf.text.terminal import visible

if TYPE_CHECKING:
    from tests.conftest import FakeDistribution, Invoke


_BAD = "x\x1b]0;owned\x07\x9b2J\u202e\nerror: forged"
_OTHER = """
from dataclasses import dataclass
from ttf import Availability, hookimpl, option

@dataclass(frozen=True, kw_only=True)
class Options:
    width: int = option(7, "how wide")

class Factory:
    name = "other"
    options_type = Options
    def availability(self):
        return Availability(ok=True)

@hookimpl
def ttf_tower(name):
    return Factory()
"""


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


def test_a_broken_plugin_is_listed_and_only_showing_it_fails(
    invoke: Invoke, fake_plugins: FakeDistribution
) -> None:
    fake_plugins.add("ttf-broken", {"miner.broken": "ttf_broken_shown"})
    fake_plugins.module("ttf_broken_shown", "import no_such_library")
    assert "broken" in invoke(["plugins", "list"]).out
    result = invoke(["plugins", "show", "miner.broken"])
    assert result.code == 2
    assert "ttf-broken 1.0 failed to load" in result.err
    assert invoke(["plugins", "show", "device.cpu"]).code == 0


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("import os; os.abort()", "abort"),
        ("import ctypes; ctypes.string_at(0)", "segfault"),
        ("import os; os._exit(0)", "vanished"),
        ("import os; os.closerange(3, 1024)", "unknown"),
        ("import threading; threading.Event().wait()", "hang"),
    ],
)
def test_a_plugin_that_does_not_survive_its_import_is_named(
    invoke: Invoke, fake_plugins: FakeDistribution, source: str, kind: str
) -> None:
    fake_plugins.add("ttf-broken", {"miner.broken": "ttf_broken_import"})
    fake_plugins.module("ttf_broken_import", source)
    result = invoke(["plugins", "show", "miner.broken"])
    assert result.code == 2
    assert (
        "miner.broken of the distribution ttf-broken 1.0 (module ttf_broken_import)" in result.err
    )
    assert f"crashed while it was loaded: {kind}" in result.err
    assert "TTF_DISABLE_PLUGINS=ttf-broken" in result.err


def test_the_exception_of_a_plugin_is_shown_and_not_obeyed(
    invoke: Invoke, fake_plugins: FakeDistribution
) -> None:
    fake_plugins.add("ttf-loud", {"miner.loud": "ttf_loud"})
    fake_plugins.module("ttf_loud", f"raise RuntimeError({_BAD!r})")
    done = invoke(["plugins", "show", "miner.loud"])
    assert "owned" in done.err
    assert visible(done.err) == done.err


def test_a_third_party_plugin_shows_its_options(
    invoke: Invoke, fake_plugins: FakeDistribution
) -> None:
    fake_plugins.add("ttf-other", {"tower.other": "ttf_other_tower"})
    fake_plugins.module("ttf_other_tower", _OTHER)
    shown = invoke(["plugins", "show", "tower.other", "--json"]).json()
    assert (shown["distribution"], shown["available"]) == ("ttf-other", True)
    assert shown["options"][0]["name"] == "width"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_prints_a_script_and_how_to_switch_it_on(invoke: Invoke, shell: str) -> None:
    result = invoke(["completion", shell])
    assert result.code == 0
    assert "_TTF_COMPLETE" in result.out
    assert f"ttf completion {shell}" in result.err
