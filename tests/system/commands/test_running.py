"""train, eval, search and resume as a person types them, on a set of a few kilobytes."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from ttf.host import plugins

if TYPE_CHECKING:
    from tests.conftest import FakeDistribution, Invoke

D, BANK = 8, 40
TRAIN = ("train", "run.toml", "--in-process")
"""Where nothing is shown of supervisor and trainer, which would load torch once more."""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rng = np.random.default_rng(0)
    np.savez(
        tmp_path / "pairs.npz",
        X_train=rng.standard_normal((64, D), np.float32),
        X_val=rng.standard_normal((16, D), np.float32),
        pos_train=np.arange(64) % BANK,
        pos_val=np.arange(16),
    )
    np.savez(
        tmp_path / "bank.npz",
        vectors=rng.standard_normal((BANK, D), np.float32),
        ids=np.arange(BANK) + 1000,
    )
    (tmp_path / "run.toml").write_text(
        "[data]\npairs = 'pairs.npz'\nbank = 'bank.npz'\n[tower.query]\nname = 'linear'\n"
        "[miner]\nname = 'exact'\nisolation = 'none'\n[train]\nsteps = 3\nbatch_size = 8\n"
        "[device]\nname = 'cpu'\n"
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_run_from_file_set_and_flag_is_explained_by_its_run_toml(
    place: Path, invoke: Invoke
) -> None:
    result = invoke([*TRAIN, "--set", "miner.k=5", "--lr", "0.01", "--out", "r", "--json"])
    assert result.code == 0, result.err
    summary = result.json()
    assert (summary["status"], summary["steps"], summary["seed"]) == ("finished", 3, 0)
    assert set(summary["metrics"]) == set(summary["metrics_initial"])
    written = (place / "r" / "run.toml").read_text()
    assert tomllib.loads(written)["train"]["lr"] == 0.01
    lines = {line.split(" =")[0]: line for line in written.splitlines() if " = " in line}
    assert lines["lr"].endswith("# --lr")
    assert lines["k"].endswith("# default") or lines["k"].endswith("# --set")
    assert lines["batch_size"].endswith("# run.toml:11")
    assert "Next: ttf eval r" in result.err


def test_what_follows_a_run_works_as_its_last_lines_say(place: Path, invoke: Invoke) -> None:
    trained = invoke(["train", "run.toml", "--out", "r"])
    assert trained.code == 0, trained.err
    assert "recall@10" in trained.out
    assert "before training" in trained.out

    found = invoke(["eval", "r", "--k", "1,5", "--json"]).json()
    metrics = found.get("metrics", found)
    assert {"recall@1", "recall@5", "mrr@10", "ndcg@10"} <= set(metrics)

    lines = invoke(["search", "r", "--queries", "pairs.npz", "-k", "3"]).out.splitlines()
    assert lines[0] == "query\trank\tid\tscore"
    assert len(lines) == 1 + 3 * 16
    assert int(lines[1].split("\t")[2]) >= 1000, "the ids are the bank's own"

    told = invoke(["search", "r", "--queries", "pairs.npz", "-k", "3", "--out", "f.npz"])
    assert (told.code, told.out) == (0, "")
    with np.load(place / "f.npz") as written:
        assert written["ids"].shape == (16, 3)
        assert written["scores"].dtype == np.float32

    again = invoke(["train", "r/run.toml", "--out", "r2", "--json", "--in-process"]).json()
    first = invoke(["resume", "r", "--json", "--in-process"]).json()
    assert again["weights_sha256"] == first["weights_sha256"]


def test_a_plan_writes_nothing_and_says_how_to_go_on(place: Path, invoke: Invoke) -> None:
    before = sorted(p.name for p in place.iterdir())
    result = invoke(["train", "run.toml", "--seed", "3", "--set", "miner.k=5", "--plan"])
    assert result.code == 0, result.err
    assert result.out.strip()
    assert "Next: ttf train run.toml --seed 3 --set miner.k=5" in result.err
    assert invoke(["train", "run.toml", "--plan", "--json"]).json()
    assert sorted(p.name for p in place.iterdir()) == before


def test_a_gate_that_is_not_met_ends_with_seven(place: Path, invoke: Invoke) -> None:
    config = place / "run.toml"
    config.write_text(config.read_text() + "[[gates]]\nat = 'step 1'\nneed = 'recall@1 >= 1.0'\n")
    result = invoke(["train", "run.toml", "--out", "r"])
    assert result.code == 7
    assert "recall@1 >= 1.0" in result.err
    assert "Continue with: ttf resume r" in result.err
    assert "Traceback" not in result.err
    told = invoke([*TRAIN, "--out", "r 2", "--json"])
    assert told.code == 7
    document = told.json()
    assert document["error"]["hint"].endswith("ttf resume 'r 2'")
    assert document["run_dir"] == "r 2"
    assert document["summary"]["status"] == "stopped"
    assert "recall@10" in document["summary"]["metrics_last"]
    (gate,) = document["summary"]["gates"]
    assert (gate["step"], gate["bound"], gate["passed"]) == (1, 1.0, False)
    assert gate["value"] == document["summary"]["metrics_last"]["recall@1"]


def test_gates_are_shown_before_when_and_after_they_are_judged(place: Path, invoke: Invoke) -> None:
    config = place / "run.toml"
    met = "[[gates]]\nat = 'step 1'\nneed = 'recall@1 >= 0'\n"
    missed = "[[gates]]\nat = 'step 2'\nneed = 'recall@1 > 1'\n"
    last = "[[gates]]\nat = 'step 3'\nneed = 'recall@1 <= 1'\n"
    config.write_text(config.read_text() + met + missed + last)
    planned = invoke(["train", "run.toml", "--steps", "4", "--plan"])
    assert "gate at step 2 (step 2): recall@1 > 1\n" in planned.out
    plan = invoke(["train", "run.toml", "--steps", "4", "--plan", "--json"]).json()
    assert [gate["passed"] for gate in plan["gates"]] == [None, None, None]
    ended = invoke(["train", "run.toml", "--steps", "4", "--out", "r"])
    assert ended.code == 7
    assert "gate at step 1 (step 1), recall@1 >= 0: passed with 0." in ended.err
    assert "gate at step 2 (step 2), recall@1 > 1: not met with 0." in ended.err
    shown = invoke(["monitor", "r", "--once", "--json"]).json()
    assert [gate["passed"] for gate in shown["run"]["evaluated"]["gates"]] == [True, False, None]
    shown = invoke(["monitor", "r", "--once"]).out
    assert "gate at step 1 (step 1), recall@1 >= 0: passed with 0." in shown
    assert "gate at step 3 (step 3), recall@1 <= 1: not judged yet" in shown
    (line,) = [x for x in invoke(["runs", "show", "r"]).out.splitlines() if "gate at step 2" in x]
    assert "not met with 0." in line
    gone_on = invoke(["resume", "r", "--json"])
    assert gone_on.code == 0, gone_on.err
    assert [gate["passed"] for gate in gone_on.json()["gates"]] == [True, False, True]
    page = (place / "r" / "report.html").read_text()
    for told in ("at step 1 (step 1), recall@1 &gt;= 0: passed with", "recall@1 &gt; 1: not met"):
        assert told in page


def test_what_a_layer_made_of_another_is_said_once(place: Path, invoke: Invoke) -> None:
    config = place / "run.toml"
    config.write_text(config.read_text().replace("name = 'linear'", "name = 'gru'\nhidden = 8"))
    result = invoke([*TRAIN, "--tower", "linear", "--out", "r"])
    assert result.code == 0, result.err
    assert result.err.count("The options of the tower 'gru' are not used") == 1
    planned = invoke(["train", "run.toml", "--tower", "linear", "--plan"])
    assert (planned.out + planned.err).count("The options of the tower 'gru' are not used") == 1


OBSERVER = """
from ttf.hookspecs import hookimpl
@hookimpl
def ttf_step(record):
    raise ValueError("boom")
"""


def test_an_observer_that_fails_does_not_end_the_run(
    place: Path, invoke: Invoke, fake_plugins: FakeDistribution
) -> None:
    fake_plugins.add("ttf-watch", {"observer.watch": "ttf_watch"})
    fake_plugins.module("ttf_watch", OBSERVER)
    result = invoke(["train", "run.toml", "--out", "r", "--set", "observers=['watch']"])
    assert result.code == 0, result.err
    assert result.err.count("distribution ttf-watch failed in ttf_step (ValueError: boom)") == 1


def test_a_run_whose_plugin_is_gone_says_what_to_install(
    place: Path, invoke: Invoke, fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_plugins.add("ttf-tower", {"tower.mine": "ttf_mine_tower"}, version="2.1")
    fake_plugins.module(
        "ttf_mine_tower",
        "from ttf.hookspecs import hookimpl\nfrom ttf.host import plugins\n"
        "@hookimpl\ndef ttf_tower(name):\n    return plugins.load('tower', 'linear')\n",
    )
    assert invoke([*TRAIN, "--tower", "mine", "--out", "r"]).code == 0
    (place / "r" / "summary.json").unlink()
    for name in ("TTF-Tower", ""):
        monkeypatch.setenv("TTF_DISABLE_PLUGINS", name)
        plugins.installed.cache_clear()
        plugins.load.cache_clear()
        for words in (["resume", "r"], ["eval", "r"], ["search", "r", "--queries", "pairs.npz"]):
            result = invoke([*words, "--json"])
            assert result.code == 2
            assert result.json()["error"]["class"] == "PluginUnavailable"
            assert "Traceback" not in result.err
            said = "TTF_DISABLE_PLUGINS" if name else 'pip install "ttf-tower==2.1"'
            assert said in result.err
        for metadata in fake_plugins.folder.glob("*.dist-info"):
            shutil.rmtree(metadata)
