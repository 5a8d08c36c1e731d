"""Names from metadata, one plugin loaded at a time, failures explained."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest

from ttf.errors import ConfigError, PluginBroken, PluginUnavailable, UnknownName
from ttf.host import plugin_list, plugins

if TYPE_CHECKING:
    from tests.conftest import FakeDistribution

GOOD = """
from ttf.hookspecs import hookimpl
from ttf.contracts import Availability
from ttf.host.options import NoOptions

class Factory:
    options_type = NoOptions
    def __init__(self, name):
        self.name = name
    def availability(self):
        return Availability(ok=False, reason="libfoo is missing", fix='pip install "foo"')

@hookimpl
def ttf_miner(name):
    return Factory(name)
"""


def test_a_misspelt_name_gets_the_closest_match_and_what_is_known() -> None:
    with pytest.raises(UnknownName, match=r"No miner named 'hnswlb'. Did you mean 'hnswlib'\?"):
        plugins.find("miner", "hnswlb")


def test_a_third_party_plugin_is_found_and_loaded_by_name(
    fake_plugins: FakeDistribution,
) -> None:
    fake_plugins.add("ttf-foo", {"miner.foo": "ttf_foo_miner"})
    fake_plugins.module("ttf_foo_miner", GOOD)
    assert "foo" in plugins.choices("miner")
    assert plugins.load("miner", "foo").name == "foo"
    with pytest.raises(ConfigError, match="libfoo is missing") as caught:
        plugins.usable("miner", "foo")
    assert caught.value.hint == 'pip install "foo"'


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("import no_such_library", "ModuleNotFoundError"),
        ("raise RuntimeError('boom')", "RuntimeError: boom"),
        ("import sys; sys.exit(3)", "SystemExit"),
        ("raise KeyboardInterrupt", "KeyboardInterrupt"),
        ("def broken(:", "SyntaxError"),
    ],
    ids=["missing library", "raises", "exits", "as Ctrl-C", "syntax error"],
)
def test_a_broken_plugin_names_its_distribution_and_harms_no_other(
    fake_plugins: FakeDistribution, source: str, said: str
) -> None:
    fake_plugins.add("ttf-broken", {"miner.broken": "ttf_broken_miner"})
    fake_plugins.module("ttf_broken_miner", source)
    with pytest.raises(PluginBroken, match=f"ttf-broken 1.0 failed to load: {said}") as caught:
        plugins.load("miner", "broken")
    assert "TTF_DISABLE_PLUGINS=ttf-broken" in caught.value.hint
    assert plugins.load("device", "cpu").name == "cpu"


def test_an_import_that_ctrl_c_interrupts_is_not_the_fault_of_the_plugin(
    fake_plugins: FakeDistribution,
) -> None:
    fake_plugins.add("ttf-slow", {"miner.slow": "ttf_slow_miner"})
    fake_plugins.module("ttf_slow_miner", "import signal; signal.raise_signal(signal.SIGINT)")
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            plugins.load("miner", "slow")
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_hook_that_returns_nothing_is_the_authors_fault(
    fake_plugins: FakeDistribution,
) -> None:
    fake_plugins.add("ttf-empty", {"tower.empty": "ttf_empty"})
    fake_plugins.module("ttf_empty", "")
    with pytest.raises(PluginBroken, match="ttf_tower returned nothing for 'empty'"):
        plugins.load("tower", "empty")


def test_a_name_claimed_twice_names_both_and_is_chosen_by_distribution(
    fake_plugins: FakeDistribution,
) -> None:
    for number in ("one", "two"):
        fake_plugins.add(f"ttf-{number}", {"miner.same": f"ttf_{number}"})
        fake_plugins.module(f"ttf_{number}", GOOD)
    with pytest.raises(ConfigError, match="ttf-one, ttf-two") as caught:
        plugins.load("miner", "same")
    assert "ttf-one:same or ttf-two:same" in caught.value.hint
    assert plugins.load("miner", "ttf-two:same").name == "same"
    assert plugins.find("miner", "ttf-two:same").distribution == "ttf-two"
    assert {"ttf-one:same", "ttf-two:same"} < set(plugins.choices("miner"))
    with pytest.raises(UnknownName, match="Did you mean 'ttf-two:same'"):
        plugins.find("miner", "ttf-tow:same")
    reasons = [e.reason for e in plugin_list.entries() if e.name == "same"]
    assert reasons == [
        "ttf-one and ttf-two offer the same name: choose ttf-one:same",
        "ttf-one and ttf-two offer the same name: choose ttf-two:same",
    ]


def test_a_distribution_can_be_switched_off(
    fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_plugins.add("ttf-foo", {"miner.foo": "nowhere"})
    monkeypatch.setenv("TTF_DISABLE_PLUGINS", "something, TTF-Foo")
    assert "foo" not in plugins.choices("miner")
    (entry,) = (e for e in plugin_list.entries() if e.name == "foo")
    assert (entry.available, entry.reason) == (False, "disabled by TTF_DISABLE_PLUGINS")


@pytest.mark.parametrize(
    ("group", "said"),
    [("ttf.v0", "older plugin API 0"), ("ttf.v2", "newer plugin API 2")],
)
def test_plugins_of_another_api_are_listed_with_the_reason_and_not_offered(
    fake_plugins: FakeDistribution, group: str, said: str
) -> None:
    fake_plugins.add("ttf-other", {"miner.other": "nowhere"}, group=group)
    assert "other" not in plugins.choices("miner")
    (entry,) = (e for e in plugin_list.entries() if e.name == "other")
    assert entry.available is False
    assert said in entry.reason
    assert "pip install --upgrade" in entry.reason


def test_an_entry_point_of_no_known_kind_is_listed_with_the_closest_kind(
    fake_plugins: FakeDistribution,
) -> None:
    fake_plugins.add("ttf-typo", {"minr.foo": "nowhere"})
    (entry,) = (e for e in plugin_list.entries() if e.distribution == "ttf-typo")
    assert entry.available is False
    assert "Did you mean 'miner'?" in entry.reason


def test_observers_are_loaded_one_by_one_and_called(fake_plugins: FakeDistribution) -> None:
    fake_plugins.add("ttf-watch", {"observer.watch": "ttf_watch", "observer.bad": "no_module"})
    fake_plugins.module(
        "ttf_watch",
        "from ttf.hookspecs import hookimpl\nseen = []\n"
        "@hookimpl\ndef ttf_checkpointed(step, path):\n    seen.append(step)\n",
    )
    plugins.observers(["watch"]).ttf_checkpointed(step=3, path=fake_plugins.folder)
    import sys

    assert sys.modules["ttf_watch"].seen == [3]
    with pytest.raises(PluginBroken, match="ttf-watch"):
        plugins.observers(["bad"])


WATCH = """
from ttf.hookspecs import hookimpl
seen = []
@hookimpl
def ttf_step(record):
    seen.append(record)
    {fails}
"""


@pytest.mark.parametrize(
    ("fails", "reason"),
    [("raise ValueError('boom')", "ValueError: boom"), ("raise SystemExit(3)", "SystemExit: 3")],
)
def test_an_observer_that_fails_is_left_out_aloud_and_the_others_go_on(
    fake_plugins: FakeDistribution, fails: str, reason: str
) -> None:
    import sys

    fake_plugins.add("ttf-bad", {"observer.bad": "ttf_bad"})
    fake_plugins.module("ttf_bad", WATCH.format(fails=fails))
    fake_plugins.add("ttf-good", {"observer.good": "ttf_good"})
    fake_plugins.module("ttf_good", WATCH.format(fails=""))
    said: list[str] = []
    watching = plugins.observers(["bad", "good"], said.append)
    for step in (1, 2, 3):
        watching.ttf_step(record=step)
    assert sys.modules["ttf_bad"].seen == [1]
    assert sys.modules["ttf_good"].seen == [1, 2, 3]
    (line,) = said
    for part in ("observer.bad", "distribution ttf-bad", "ttf_step", reason):
        assert part in line
    watching.ttf_checkpointed(step=3, path=fake_plugins.folder)
    with pytest.raises(AttributeError, match="no hook 'ttf_stpe'"):
        watching.ttf_stpe(record=1)


def test_without_a_listener_failures_of_observers_go_to_standard_error(
    fake_plugins: FakeDistribution, capsys: pytest.CaptureFixture[str]
) -> None:
    fake_plugins.add("ttf-bad", {"observer.bad": "ttf_bad"})
    fake_plugins.module("ttf_bad", WATCH.format(fails="raise ValueError('boom')"))
    plugins.observers(["bad"]).ttf_step(record=1)
    out, err = capsys.readouterr()
    assert out == ""
    assert "note: The observer.bad of the distribution ttf-bad failed in ttf_step" in err
    assert "ValueError: boom" in err


def test_a_plugin_that_a_run_used_and_that_is_gone_is_named_with_its_distribution(
    fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_plugins.add("ttf-foo", {"miner.foo": "ttf_foo_miner"})
    fake_plugins.module("ttf_foo_miner", GOOD)
    with pytest.raises(PluginUnavailable, match="tower 'ghost'.*ttf-ghost 2.1") as caught:
        plugins.require("tower", "ghost", "ttf-ghost 2.1")
    assert 'pip install "ttf-ghost==2.1"' in caught.value.hint
    with pytest.raises(PluginUnavailable) as caught:
        plugins.require("tower", "ttf-other:ghost")
    assert 'pip install "ttf-other"' in caught.value.hint
    with pytest.raises(PluginUnavailable, match="libfoo is missing"):
        plugins.require("miner", "foo", "ttf-foo 1.0")
    monkeypatch.setenv("TTF_DISABLE_PLUGINS", "TTF-Foo")
    with pytest.raises(PluginUnavailable, match="TTF_DISABLE_PLUGINS disables it") as caught:
        plugins.require("miner", "foo", "ttf-foo 1.0")
    assert "ttf-foo" in caught.value.hint
    plugins.require("device", "cpu")
