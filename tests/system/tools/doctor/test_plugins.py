"""Installed plugins, and checks that they bring: whatever they do, the doctor goes on."""

from __future__ import annotations

import os

import psutil
import pytest
from tests.conftest import FakeDistribution, Invoke
from tests.kit.fixtures.doctor import HANG, SEGFAULT, Ask, OddMiner, WriteToml
from tests.kit.widely import wide

from ttf.tools.doctor import packages, plugin_checks

CHECK = """
import ctypes, os, sys, time
from ttf import CheckContext, Verdict, hookimpl
{at_import}

class Licence:
    id, title = "licence", "is the licence there?"

    def run(self, context: CheckContext) -> Verdict:
        {run}

@hookimpl
def ttf_doctor_check(name):
    return Licence() if name == "licence" else None
"""
GOOD = 'return Verdict(status="ok", detail=f"here: {os.getpid()} {context.run_toml}")'


@pytest.fixture
def licence(fake_plugins: FakeDistribution) -> FakeDistribution:
    return fake_plugins


def install(site: FakeDistribution, *, at_import: str = "", run: str = GOOD) -> None:
    site.add("ttf-licence", {"check.licence": "ttf_licence_check"})
    site.module("ttf_licence_check", CHECK.format(at_import=at_import, run=run))


def test_a_check_of_a_plugin_is_made_in_a_process_of_its_own(
    ask: Ask, invoke: Invoke, licence: FakeDistribution
) -> None:
    install(licence)
    found = ask(check="licence")
    assert (found["status"], found["exit_code"]) == ("ok", 0)
    assert found["detail"].startswith("here: ") and found["detail"].endswith(" None")
    assert found["detail"].split()[1] != str(os.getpid())
    assert (found["distribution"], found["docs"]) == ("ttf-licence", "")
    listed = invoke(["doctor", "--list-checks"]).out
    assert "licence" in listed and "a check of the distribution ttf-licence 1.0" in listed
    assert "Did you mean 'licence'?" in invoke(["doctor", "--check", "license"]).err


def test_a_check_of_a_plugin_knows_the_configuration(
    ask: Ask, licence: FakeDistribution, run_toml: WriteToml
) -> None:
    run = (
        'return Verdict(status="fail", detail=str(context.settings["miner.k"]), cause="data", '
        'evidence=("one", "two"), remedy="mend it")'
    )
    install(licence, run=run)
    found = ask(run_toml(), check="licence")
    assert (found["status"], found["detail"], found["exit_code"]) == ("fail", "20", 3)
    assert (found["evidence"], found["remedy"]) == (["one", "two"], "mend it")


@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"run": "raise ValueError('boom')"}, "raised: ValueError: boom"),
        ({"run": SEGFAULT}, "ended its process: segfault (SIGSEGV)"),
        ({"at_import": "os.abort()"}, "ended its process: abort (SIGABRT)"),
        ({"at_import": "import no_such_library"}, "raised: PluginBroken"),
        ({"run": "sys.exit(0)"}, "raised: SystemExit"),
        ({"run": "os._exit(0)"}, "ended its process: vanished"),
        ({"run": "return True"}, "returned a bool, but it must return a ttf.Verdict"),
        ({"run": 'return Verdict(status="fine", detail="")'}, "raised: ValueError"),
    ],
    ids=["raises", "segfault", "abort", "import", "exit", "leaves", "no verdict", "odd status"],
)
def test_a_check_that_fails_itself_names_its_distribution(
    ask: Ask, licence: FakeDistribution, fault: dict[str, str], said: str
) -> None:
    install(licence, **fault)
    found = ask(check="licence")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert said in found["detail"] and "ttf-licence" in found["detail"]
    assert "TTF_DISABLE_PLUGINS=ttf-licence" in found["remedy"]


@wide
def test_a_check_that_hangs_is_ended(
    ask: Ask, licence: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(plugin_checks, "DEADLINE_S", 2.0)
    install(licence, run=f"[{HANG} for _ in range(9)]")
    found = ask(check="licence")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert "ended its process: hang" in found["detail"]


@pytest.mark.parametrize(
    ("fault", "status"),
    [({"at_import": "time.sleep(600)"}, "fail"), ({"run": f"time.sleep(1.2); {GOOD}"}, "ok")],
    ids=["the import", "the check itself"],
)
def test_only_the_import_of_a_check_may_not_wait(
    ask: Ask,
    licence: FakeDistribution,
    monkeypatch: pytest.MonkeyPatch,
    fault: dict[str, str],
    status: str,
) -> None:
    monkeypatch.setattr(plugin_checks, "WAITS_S", 0.6)
    install(licence, **fault)
    found = ask(check="licence")
    assert found["status"] == status
    if status == "fail":
        assert "ended its process: hang" in found["detail"]
        assert "last stage: loading the check" in found["evidence"]


def test_what_a_check_starts_and_prints_does_not_outlive_it_or_reach_the_document(
    ask: Ask, licence: FakeDistribution
) -> None:
    mark = f"300.{os.getpid()}"
    run = (
        "import subprocess; print('noise', flush=True); os.write(2, b'x' * 3_000_000); "
        f"subprocess.Popen(['sleep', {mark!r}], start_new_session=True); "
        'return Verdict(status="ok", detail="fine")'
    )
    install(licence, run=run)
    assert ask(check="licence")["detail"] == "fine"
    left = [p for p in psutil.process_iter() if mark in _command_line(p)]
    assert not left


def _command_line(process: psutil.Process) -> list[str]:
    try:
        line: list[str] = process.cmdline()
    except psutil.Error:
        return []
    return line


def test_a_check_with_a_name_of_ours_is_told_apart(ask: Ask, licence: FakeDistribution) -> None:
    licence.add("ttf-mine", {"check.memory": "ttf_mine_check"})
    source = CHECK.format(at_import="", run=GOOD).replace('"licence" else', '"memory" else')
    licence.module("ttf_mine_check", source)
    assert ask(check="ttf-mine:memory")["distribution"] == "ttf-mine"
    assert ask(check="memory")["distribution"] == "twotower"


def test_plugins_list_and_show_know_the_kind(invoke: Invoke, licence: FakeDistribution) -> None:
    install(licence)
    listed = invoke(["plugins", "list", "--kind", "check", "--json"]).json()
    assert [(e["kind"], e["name"], e["available"]) for e in listed] == [("check", "licence", None)]
    shown = invoke(["plugins", "show", "check.licence"])
    assert shown.code == 0
    assert "is the licence there?" in shown.out
    assert "Next: ttf doctor --check licence" in shown.err


# --- every plugin --------------------------------------------------------------------------------------


def test_every_plugin_of_ours_loads(ask: Ask) -> None:
    found = ask(check="plugins")
    assert found["status"] == "ok", found
    assert "miner.exact: loads" in found["evidence"]


@pytest.mark.parametrize(
    ("fault", "said"),
    [(SEGFAULT, "segfault (SIGSEGV)"), ("os.abort()", "abort (SIGABRT)")],
    ids=["segfault", "abort"],
)
def test_a_plugin_that_ends_its_process_is_named_and_the_others_are_looked_at(
    ask: Ask, odd_miner: OddMiner, fault: str, said: str
) -> None:
    odd_miner(at_import=fault)
    odd_miner.site.add("ttf-fine", {"check.fine": "ttf_fine"})
    odd_miner.site.module(
        "ttf_fine", CHECK.format(at_import="", run=GOOD).replace("licence", "fine")
    )
    found = ask(check="plugins")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert "miner.odd of the distribution ttf-odd 1.0" in found["detail"]
    assert said in found["detail"]
    assert "check.fine of ttf-fine: loads" in found["evidence"]
    assert "TTF_DISABLE_PLUGINS=ttf-odd" in found["remedy"]


def test_plugins_of_one_distribution_beside_one_that_dies_are_looked_at(
    ask: Ask, fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTF_DISABLE_PLUGINS", "twotower")
    names = {"check.a": "ttf_a", "check.b": "ttf_dies", "check.c": "ttf_c"}
    fake_plugins.add("ttf-three", names)
    fake_plugins.module("ttf_dies", "import os; os.abort()")
    for letter in "ac":
        source = CHECK.format(at_import="", run=GOOD).replace('"licence"', f'"{letter}"')
        fake_plugins.module(f"ttf_{letter}", source)
    found = ask(check="plugins")
    assert "check.b of the distribution ttf-three" in found["detail"]
    for letter in "ac":
        assert f"check.{letter} of ttf-three: loads" in found["evidence"]


def test_a_plugin_that_hangs_is_named(
    ask: Ask, odd_miner: OddMiner, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(packages, "WAITS_S", 1.0)
    odd_miner(at_import=f"[{HANG} for _ in range(9)]")
    found = ask(check="plugins")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert "miner.odd" in found["detail"] and "hang" in found["detail"]


def test_a_plugin_that_raises_or_is_for_another_api_is_a_warning(
    ask: Ask, fake_plugins: FakeDistribution
) -> None:
    fake_plugins.add("ttf-broken", {"tower.broken": "no_such_module"})
    found = ask(check="plugins")
    assert (found["status"], found["exit_code"]) == ("warn", 0)
    assert "ttf-broken 1.0 failed to load: ModuleNotFoundError" in found["detail"]
    fake_plugins.add("ttf-old", {"tower.old": "nothing"}, group="ttf.v0")
    assert any("older plugin API 0" in line for line in ask(check="plugins")["evidence"])


def test_the_unrelated_distribution_of_our_name_is_a_failure(
    ask: Ask, fake_plugins: FakeDistribution
) -> None:
    assert ask(check="impostor")["exit_code"] == 0
    fake_plugins.add("TTF", {}, version="0.1.0")
    found = ask(check="impostor")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert (
        "The distribution ttf (0.1.0)" in found["detail"] and "pip uninstall ttf" in found["remedy"]
    )
