"""What the host tells authors and users: versions of the API, traces, what goes out of use."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import FakeDistribution

from ttf import PluginDeprecationWarning, hookspecs
from ttf.config.resolve import resolve
from ttf.config.toml import dump
from ttf.errors import ConfigError, PluginUnavailable
from ttf.host import notices, plugin_list, plugins

TOWER = """
from dataclasses import dataclass
from ttf import hookimpl, option
from ttf_towers import linear

@dataclass(frozen=True, kw_only=True)
class Options(linear.LinearOptions):
    width: int = option(3, "how wide", was="size")
    old: int = option(0, "what nobody needs", deprecated="width does it")

class Factory(linear.LinearFactory):
    name, options_type = "foo", Options

@hookimpl
def ttf_tower(name):
    return Factory()
"""


@pytest.fixture
def heard() -> Iterator[list[str]]:
    """What the host says beside the matter."""
    said: list[str] = []
    notices.hear(said.append)
    yield said
    notices.hear(None)


# --- who is asked ----------------------------------------------------------------------------


def test_a_name_of_ttf_stays_its_own_and_both_are_reported(fake_plugins: FakeDistribution) -> None:
    fake_plugins.add("ttf-other", {"miner.exact": "nowhere", "tower.gru": "nowhere"})
    assert plugins.find("miner", "exact").distribution == "twotower"
    assert plugins.find("miner", "TTF_Other:exact").distribution == "ttf-other"
    assert plugins.find("miner", "twotower:exact").distribution == "twotower"
    assert {"exact", "ttf-other:exact"} < set(plugins.choices("miner"))
    reasons = {e.distribution: e.reason for e in plugin_list.entries() if e.name == "exact"}
    claimed = "ttf-other and twotower offer the same name: choose "
    assert reasons["ttf-other"] == f"{claimed}ttf-other:exact"
    assert reasons["twotower"] == f"{claimed}twotower:exact; without a prefix, exact means this one"


@pytest.mark.parametrize(
    ("group", "said", "hint"),
    [
        (
            "ttf.v0",
            "older plugin API 0, but this ttf has the plugin API 1",
            "pip install --upgrade ttf-foo",
        ),
        (
            "ttf.v2",
            "newer plugin API 2, but this ttf has the plugin API 1",
            "pip install --upgrade twotower",
        ),
    ],
)
def test_who_names_a_plugin_of_another_api_hears_which_side_is_old(
    fake_plugins: FakeDistribution, group: str, said: str, hint: str
) -> None:
    fake_plugins.add("ttf-foo", {"miner.foo": "nowhere"}, group=group)
    with pytest.raises(PluginUnavailable, match=said) as caught:
        plugins.find("miner", "foo")
    assert caught.value.hint == hint


def test_who_names_a_plugin_that_is_switched_off_hears_that(
    fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_plugins.add("ttf-foo", {"miner.foo": "nowhere"})
    monkeypatch.setenv("TTF_DISABLE_PLUGINS", "ttf_foo")
    with pytest.raises(PluginUnavailable, match="disabled by TTF_DISABLE_PLUGINS"):
        plugins.find("miner", "foo")


def test_options_of_a_name_claimed_twice_lie_in_its_own_table(
    fake_plugins: FakeDistribution, tmp_path: Path
) -> None:
    for number in ("one", "two"):
        fake_plugins.add(f"ttf-{number}", {"device.same": f"ttf_same_{number}"})
        fake_plugins.module(
            f"ttf_same_{number}",
            "from ttf import hookimpl\nfrom ttf_devices import cpu\n"
            "class Factory(cpu.CpuFactory):\n    name = 'same'\n"
            "    def create(self, options, threads):\n"
            "        policy = super().create(options, threads)\n"
            f"        policy.name, policy.owner = 'same', '{number}'\n        return policy\n"
            "@hookimpl\ndef ttf_device(name):\n    return Factory()\n",
        )
    with pytest.raises(ConfigError, match="2 distributions offer"):
        resolve({"device": {"name": "same"}})
    given = {"name": "ttf-two:same", "ttf-two:same": {"deterministic": False}}
    file = tmp_path / "run.toml"
    file.write_text(dump(resolve({"device": given})))
    again = resolve(file, sets=["miner.k=7"])
    assert again.config.device.name == "ttf-two:same"
    assert again.config.device.options_of("ttf-two:same") == {"deterministic": False}
    from ttf.machine import devices
    from ttf.training.auto_device_options import recorded, with_device

    policy = devices.choose("ttf-two:same", {"ttf-two:same": {"deterministic": False}}, 1)
    assert (policy.owner, policy.options.deterministic) == ("two", False)  # type: ignore[attr-defined]
    settled, _ = with_device(again, policy)
    assert settled.config.device.options_of("ttf-two:same")["float32_matmul"] != "auto"
    assert "device.ttf-two:same.deterministic" in recorded(settled, policy)


# --- traces ----------------------------------------------------------------------------------


def test_a_trace_shows_imports_and_hook_calls(
    monkeypatch: pytest.MonkeyPatch, heard: list[str]
) -> None:
    plugins.load.cache_clear()
    plugins.load("tower", "linear")
    assert heard == []
    monkeypatch.setenv("TTF_TRACE_PLUGINS", "1")
    plugins.load.cache_clear()
    plugins.load("tower", "linear")
    plugins.load.cache_clear()
    imported, called = heard
    assert imported.startswith("trace tower.linear of twotower ")
    assert "imported ttf_towers.linear in" in imported
    assert "ttf_tower(name='linear') -> LinearFactory in" in called


# --- going out of use ------------------------------------------------------------------------


def test_a_hook_going_out_of_use_is_told_with_its_plugin(
    fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch, heard: list[str]
) -> None:
    old = hookspecs.hookspec(
        warn_on_impl=PluginDeprecationWarning("ttf_old will go: implement ttf_step")
    )
    monkeypatch.setattr(hookspecs, "ttf_old", old(lambda record: None), raising=False)
    fake_plugins.add("ttf-foo", {"observer.foo": "ttf_foo_old"})
    fake_plugins.module(
        "ttf_foo_old", "from ttf import hookimpl\n@hookimpl\ndef ttf_old(record): pass\n"
    )
    with pytest.warns(PluginDeprecationWarning, match="implement ttf_step"):
        plugins.observer("foo")
    assert heard == ["observer.foo of ttf-foo: ttf_old will go: implement ttf_step"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(ConfigError, match="ttf_old will go"):
            plugins.observer("foo")


def test_a_hook_that_nobody_calls_is_told_with_the_closest(
    fake_plugins: FakeDistribution, heard: list[str]
) -> None:
    fake_plugins.add("ttf-foo", {"observer.foo": "ttf_foo_typo"})
    fake_plugins.module(
        "ttf_foo_typo", "from ttf import hookimpl\n@hookimpl\ndef ttf_stepp(record): pass\n"
    )
    plugins.observer("foo")
    (line,) = heard
    assert "observer.foo of ttf-foo implements ttf_stepp" in line
    assert "Did you mean 'ttf_step'?" in line


def test_an_argument_that_a_hook_does_not_have_is_an_error_that_names_it(
    fake_plugins: FakeDistribution,
) -> None:
    fake_plugins.add("ttf-foo", {"observer.foo": "ttf_foo_argument"})
    fake_plugins.module(
        "ttf_foo_argument",
        "from ttf import hookimpl\n@hookimpl\ndef ttf_step(record, colour): pass\n",
    )
    with pytest.raises(ConfigError, match="colour"):
        plugins.observer("foo")


def test_options_with_an_earlier_name_are_read_and_told(
    fake_plugins: FakeDistribution, tmp_path: Path
) -> None:
    fake_plugins.add("ttf-foo", {"tower.foo": "ttf_foo_tower"})
    fake_plugins.module("ttf_foo_tower", TOWER)
    file = tmp_path / "run.toml"
    file.write_text('[tower.query]\nname = "foo"\nsize = 9\nold = 1\n')
    resolved = resolve(file)
    assert resolved.config.tower.query.options() == {"width": 9, "old": 1}
    assert resolved.origins["tower.query.width"] == "run.toml:3"
    renamed, going = resolved.notes
    assert renamed.startswith("tower.query.size is now called tower.query.width")
    assert going == "tower.query.old is deprecated: width does it."
    assert resolve({"tower": {"query": {"name": "foo", "width": 9}}}).notes == ()
    with pytest.raises(ConfigError, match=r"tower\.query\.size: no such option"):
        resolve({"tower": {"query": {"name": "foo", "width": 9, "size": 2}}})
    assert "ttf_foo_tower" in sys.modules


def test_who_writes_a_plugin_is_not_told_to_reinstall_it(fake_plugins: FakeDistribution) -> None:
    fake_plugins.add("ttf-foo", {"tower.foo": "ttf_foo_written"})
    info = next(fake_plugins.folder.glob("*.dist-info"))
    info.joinpath("direct_url.json").write_text('{"url": "x", "dir_info": {"editable": true}}')
    fake_plugins.module("ttf_foo_written", "def broken(:")
    with pytest.raises(ConfigError, match="SyntaxError") as caught:
        plugins.load("tower", "foo")
    assert caught.value.hint == "Set TTF_DEBUG=1 to see the traceback."


def test_none_switches_an_option_off_where_it_may_be_none(fake_plugins: FakeDistribution) -> None:
    fake_plugins.add("ttf-foo", {"tower.foo": "ttf_foo_none"})
    source = TOWER.replace("    old: int = option(0,", "    old: int | None = option(3,")
    fake_plugins.module("ttf_foo_none", source)
    from ttf.host.options import checked

    factory = plugins.load("tower", "foo")
    assert checked(factory.options_type, {"old": "none"}, "tower.foo").old is None
    with pytest.raises(ConfigError):
        checked(factory.options_type, {"width": "none"}, "tower.foo")
