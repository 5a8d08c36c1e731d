"""What the host tells authors and users: versions of the API, traces, what goes out of use."""

from __future__ import annotations

from tests.conftest import FakeDistribution, Invoke, RunTtf
from tests.unit.host.test_for_authors import TOWER

from ttf.host import plugins


def test_the_command_line_tells_what_the_host_tells(
    fake_plugins: FakeDistribution, invoke: Invoke
) -> None:
    for number in ("one", "two"):
        fake_plugins.add(f"ttf-{number}", {"miner.same": "nowhere"})
    fake_plugins.add("ttf-old", {"tower.old": "nowhere"}, group="ttf.v0")
    twice = invoke(["train", "--miner", "same"])
    assert twice.code == 2
    assert "2 distributions offer the miner 'same': ttf-one, ttf-two" in twice.err
    assert "ttf-one:same or ttf-two:same" in twice.err
    assert "made for the older plugin API 0" in invoke(["train", "--tower", "old"]).err
    table = invoke(["train", "--set", "miner.same.k=1"])
    assert table.code == 2 and "2 distributions offer" in table.err


def test_auto_weighs_what_comes_with_ttf_alone(fake_plugins: FakeDistribution) -> None:
    from ttf.machine import devices

    fake_plugins.add("ttf-foo", {"device.foo": "nowhere", "miner.foo": "nowhere"})
    assert "foo" not in plugins.ours("device") + plugins.ours("miner")
    assert devices.choose("auto").name == "cpu"


def test_listing_fifty_distributions_imports_none_of_them(
    fake_plugins: FakeDistribution, run_ttf: RunTtf
) -> None:
    for number in range(50):
        points = {f"{kind}.fake{number}": f"ttf_fake_{number}" for kind in ("miner", "tower")}
        fake_plugins.add(f"ttf-fake-{number}", points)
        fake_plugins.module(f"ttf_fake_{number}", "raise RuntimeError('imported')")
    env = {"PYTHONPATH": str(fake_plugins.folder)}
    listed = run_ttf("plugins", "list", "--json", env=env)
    assert listed.code == 0
    assert sum(e["distribution"].startswith("ttf-fake-") for e in listed.json()) == 100
    assert "imported" not in listed.err
    helped = run_ttf("train", "--tower", "fake7x", env=env)
    assert "Did you mean 'fake7'?" in helped.err


def test_what_a_plugin_raises_when_it_is_asked_is_its_fault_not_ours(
    fake_plugins: FakeDistribution, invoke: Invoke
) -> None:
    fake_plugins.add("ttf-foo", {"tower.foo": "ttf_foo_raises"})
    source = TOWER.replace("@hookimpl", "Factory.availability = lambda self: 1 / 0\n\n@hookimpl")
    fake_plugins.module("ttf_foo_raises", source)
    for argv in (["plugins", "show", "tower.foo"], ["train", "--tower", "foo"]):
        result = invoke(argv)
        assert result.code == 2
        assert "tower.foo of the distribution ttf-foo 1.0 failed in availability()" in result.err
        assert "ZeroDivisionError" in result.err
