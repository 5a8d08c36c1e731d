"""`ttf train A.toml --else B.toml`: what leads to B, what ends the whole, and how it goes on."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Invoke
from tests.kit.live_run import Ended, LiveRun, in_phase, summary_of
from tests.kit.saboteur import spec, variable
from tests.kit.struck_run import World
from tests.kit.widely import wide

Start = Callable[..., LiveRun]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Of A, whose trainer a test can stop at a place."""
    return tmp_path / "out" / "a"


@pytest.fixture
def words(world: World, tmp_path: Path) -> list[str]:
    """A misses its gate at step 6; B has none, and another tower."""
    (tmp_path / "out").mkdir()
    return ["train", *_files(world, tmp_path), "--out", str(tmp_path / "out"), "--threads", "1"]


def _files(world: World, folder: Path) -> tuple[str, str, str]:
    common = (
        f"[data]\npairs = '{world.root}/pairs.npz'\nbank = '{world.root}/bank.npz'\n"
        "[miner]\nnegatives = 0\n[train]\nsteps = 8\nbatch_size = 16\n"
        "[checkpoint]\nevery_steps = 4\n"
    )
    a, b = folder / "A.toml", folder / "B.toml"
    gate = "[[gates]]\nat = 'step 6'\nneed = 'recall@1 > 0.99'\n"
    a.write_text(f"{common}[tower.query]\nname = 'sabotaged'\n{gate}")
    b.write_text(f"{common}[tower.query]\nname = 'linear'\n")
    return str(a), "--else", str(b)


def _sittings(run: Path) -> int:
    return len(json.loads((run / "supervision.json").read_text())["sittings"])


def _outcomes(out: Path) -> list[str]:
    found = json.loads((out / "decision.json").read_text())["candidates"]
    return [candidate["outcome"] for candidate in found]


def test_a_missed_gate_leads_to_the_other_and_no_kill_trains_anything_twice(
    words: list[str], command: Start, run: Path, invoke: Invoke
) -> None:
    """Killed between A and B, then during B."""
    out, b = run.parent, run.parent / "b"
    # The first write makes the file, the second is to say what came of A.
    killed = command(words, env={"TTF_FAILPOINT": "decision.rename:2:kill"}).wait()
    assert killed.code == -signal.SIGKILL
    assert (_outcomes(out), b.exists()) == (["", ""], False)
    assert summary_of(run)["exit_code"] == 7

    during = command(["resume", out])
    during.until(lambda: (b / "run.toml").is_file(), "B has begun")
    during.kill().gone_after()
    assert _outcomes(out) == ["gate", ""]
    assert "a (A.toml) missed a gate. The gate at step 6 requires recall@1 > 0.99" in during.err
    assert f"Now b (B.toml) is trained, in {b}" in during.err

    ended = command(["resume", out, "--json"]).wait()
    assert ended.code == 0, ended.err
    told = ended.json()
    assert (told["run_dir"], told["status"], told["steps"]) == (str(b), "finished", 8)
    assert told["decision"]["chosen"] == "b"
    assert [c["outcome"] for c in told["decision"]["candidates"]] == ["gate", "finished"]
    assert (_sittings(run), _sittings(b)) == (1, 2)
    _is_shown(out, invoke)


def _is_shown(out: Path, invoke: Invoke) -> None:
    page = invoke(["report", out])
    assert page.code == 0, page.err
    html = (out / "report.html").read_text()
    for text in ("b (B.toml) finished and was chosen", "Run a (A.toml)", "not met with 0."):
        assert text in html
    assert [Path(one["path"]).name for one in invoke(["runs", "list", out.parent, "--json"]).json()]
    shown = invoke(["runs", "show", out])
    assert "missed a gate: The gate at step 6" in shown.out
    assert invoke(["monitor", out, "--once", "--json"]).json()["name"] == str(out / "b")
    again = invoke(["resume", out, "--json"])
    assert (again.code, again.json()["decision"]["chosen"]) == (0, "b")
    assert _sittings(out / "b") == 2
    assert "ttf runs show" in invoke(["eval", out]).err
    assert invoke(["train", "--out", out]).code == 2


@wide
def test_a_death_beyond_the_remedies_leads_to_the_other(
    words: list[str], command: Start, run: Path, tmp_path: Path
) -> None:
    dies = variable(spec(tmp_path / "notes", "forward", "segv", times=9))
    flags = ["--json", "--set", "supervise.max_restarts=0"]
    ended = command([*words, *flags], env=dies).wait()
    assert ended.code == 0, ended.err
    first, second = ended.json()["decision"]["candidates"]
    assert (first["outcome"], first["exit_code"]) == ("died", 5)
    assert first["why"].startswith("segfault (incident 001): The trainer died once")
    assert (first["incidents"], second["outcome"]) == (["segfault"], "finished")
    assert "a (A.toml) died beyond its remedies. segfault" in ended.err
    assert 'id="incident-001"' in (run.parent / "report.html").read_text()


@wide
def test_a_signal_during_a_ends_the_whole_and_what_is_resumed_is_a(
    words: list[str], command: Start, run: Path
) -> None:
    live = command([*words, "--json"])
    trainer, _ = live.hold(in_phase("forward", since=2))
    live.send(signal.SIGINT)
    live.said("SIGINT: the run saves a checkpoint")
    live.hit(trainer, signal.SIGCONT)
    ended = live.wait()
    _is_stopped(ended, run)
    told = command(["resume", run.parent, "--json"]).wait()
    assert told.code == 0, told.err
    assert (_sittings(run), _outcomes(run.parent)) == (2, ["gate", "finished"])


def _is_stopped(ended: Ended, run: Path) -> None:
    assert ended.code == 130, ended.err
    told: dict[str, Any] = ended.json()
    assert told["error"]["hint"].endswith(f"Continue with: ttf resume {run.parent}")
    assert told["decision"]["chosen"] is None
    assert _outcomes(run.parent) == ["", ""]
    assert not (run.parent / "b").exists()


@wide
def test_nothing_is_trained_if_one_of_them_would_be_refused(
    world: World, tmp_path: Path, invoke: Invoke
) -> None:
    a, _, b = _files(world, tmp_path)
    out = tmp_path / "out"
    linear = ("--tower", "linear", "--out", out)

    def refused(*words: str | Path) -> str:
        ended = invoke(["train", *words])
        assert (ended.code, out.exists()) == (2, False), ended.err
        return ended.err

    assert "--else needs a configuration that is tried first" in refused("--else", b, *linear)
    assert f"There is no file {b}x" in refused(a, "--else", b + "x", *linear)
    assert "is given twice" in refused(a, "--else", a, *linear)
    assert "--in-process" in refused(a, "--else", b, "--in-process", *linear)
    said = refused(a, "--else", b, *linear, "--set", "gates=[]")
    assert "A.toml and B.toml are the same configuration" in said
    assert "--tower, --set gates=[]" in said
    Path(b).write_text(Path(b).read_text() + "depth = 3\n")
    said = refused(a, "--else", b, *linear)
    assert "b (B.toml) would be refused. The configuration has 1 problem" in said
    assert "a (A.toml)" not in said
