"""`ttf plugins check`: whatever a plugin does to its process, it is named and the rest goes on."""

from __future__ import annotations

import pytest
from tests.conftest import FakeDistribution, Invoke
from tests.kit import planted_plugins as planted

SEGFAULT = "import ctypes; ctypes.string_at(0)"
AT_IMPORT = [
    ("raise RuntimeError('boom')", "fail", "RuntimeError: boom"),
    ("import no_such_library", "fail", "No module named 'no_such_library'"),
    ("os.abort()", "died", "abort (SIGABRT)"),
    (SEGFAULT, "died", "segfault (SIGSEGV)"),
    ("import time; time.sleep(600)", "died", "hang"),
    ("os._exit(0)", "died", "vanished"),
]


@pytest.mark.parametrize(("fault", "status", "said"), AT_IMPORT, ids=[f for f, _, _ in AT_IMPORT])
def test_what_a_plugin_does_at_import_is_a_finding(
    fake_plugins: FakeDistribution, invoke: Invoke, fault: str, status: str, said: str
) -> None:
    fake_plugins.add("ttf-planted", {"miner.planted": "ttf_planted_miner"})
    fake_plugins.module("ttf_planted_miner", planted.miner(at_import=fault))
    deadline = "2" if said == "hang" else "60"
    result = invoke(["plugins", "check", "miner.planted", "--deadline", deadline, "--json"])
    assert result.code == 7
    (plugin,) = result.json()["plugins"]
    assert (plugin["name"], plugin["distribution"], plugin["ok"]) == (
        "planted",
        "ttf-planted",
        False,
    )
    (finding,) = plugin["checks"]
    assert finding["status"] == status
    assert said in finding["detail"]
    assert "ttf_planted_miner" in finding["check"]


def test_an_abort_in_one_check_is_named_and_the_others_are_made(
    fake_plugins: FakeDistribution, invoke: Invoke
) -> None:
    fake_plugins.add("ttf-planted", {"miner.planted": "ttf_planted_miner"})
    fake_plugins.module("ttf_planted_miner", planted.miner())
    words = ["plugins", "check", "planted", "--set", "fault=abort"]
    result = invoke([*words, "--only", "queries or row or closed"])
    assert result.code == 7
    lines = result.out.splitlines()
    died = [line for line in lines if line.startswith("  DIED")]
    assert "a bank of one row is searched" in died[0]
    assert "equal rows all come" in died[1]
    assert "abort (SIGABRT)" in lines[lines.index(died[0]) + 1]
    after = lines[lines.index(died[0]) :]
    assert any(line.startswith("  ok    a closed miner says") for line in after)
    assert "Checking miner.planted of ttf-planted 1.0 with ttf.testing.MinerTests" in result.err
    assert "Next: ttf plugins check miner.planted -v" in result.err


def test_a_wrong_answer_is_shown_with_what_was_expected(
    fake_plugins: FakeDistribution, invoke: Invoke
) -> None:
    fake_plugins.add("ttf-planted", {"miner.planted": "ttf_planted_miner"})
    fake_plugins.module("ttf_planted_miner", planted.miner())
    words = ["plugins", "check", "planted", "--set", "fault=int32", "--only", "shapes", "--json"]
    result = invoke(words)
    assert result.code == 7
    found = result.json()["plugins"][0]["checks"][-1]
    assert found["status"] == "fail"
    assert found["check"] == "ids and scores have their shapes and types"
    assert "int32" in found["detail"]
    assert any("ids.dtype == np.int64" in line for line in found["evidence"])


def test_a_good_plugin_passes_and_one_that_cannot_run_here_was_not_checked(invoke: Invoke) -> None:
    good = invoke(["plugins", "check", "linear", "--only", "contract", "--json"])
    assert good.code == 0
    assert good.json()["ok"]
    assert [c["status"] for c in good.json()["plugins"][0]["checks"]] == ["ok", "ok", "ok"]
    absent = invoke(["plugins", "check", "device.mps"])
    assert absent.code == 7
    assert "skip" in absent.out and "Apple silicon" in absent.out
    assert "no check could run, because the plugin cannot run here" in absent.out
    nothing = invoke(["plugins", "check", "linear", "--only", "no_such_check"])
    assert nothing.code == 2
    assert "No check of TowerTests has 'no_such_check' in its name" in nothing.err


def test_a_distribution_means_all_of_its_plugins_and_misspelt_names_the_closest(
    fake_plugins: FakeDistribution, invoke: Invoke
) -> None:
    fake_plugins.add(
        "ttf-watchers", {"observer.one": "ttf_watch_one", "observer.two": "ttf_watch_two"}
    )
    fake_plugins.module("ttf_watch_one", "")
    fake_plugins.module("ttf_watch_two", "import no_such_library")
    result = invoke(["plugins", "check", "TTF_Watchers", "--json"])
    assert result.code == 7
    found = {p["name"]: p["ok"] for p in result.json()["plugins"]}
    assert found == {"one": True, "two": False}
    wrong = invoke(["plugins", "check", "miner.fais"])
    assert wrong.code == 2
    assert "Did you mean 'faiss'?" in wrong.err
    assert invoke(["plugins", "check", "linear", "--set", "bias"]).code == 2
