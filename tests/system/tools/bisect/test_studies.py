"""Real studies: `ttf bisect` in processes of its own, real trainers that really die."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kit.planted_training import FAULTS, Place, build
from tests.kit.widely import wide

from ttf.tools.bisect.factors import RULES

if TYPE_CHECKING:
    from tests.conftest import Invoke

FEW = ("accumulation",)
RATE = 0.3
REACHED = "runs/bisect-001"


def only(names: Sequence[str]) -> list[str]:
    """Everything else is left alone: fewer runs."""
    return [word for name in RULES if name not in names for word in ("--keep", name)]


@wide
def test_a_study_that_is_stopped_does_nothing_twice_and_finds_the_culprit(place: Place) -> None:
    """With its class, its cure and its command. That one which is killed goes on as well, those of
    test_commands.py and of `ttf ab` show."""
    folder, fault = place.root / REACHED, {"fault": "accumulation"}
    words = [str(place.toml), *only(FEW)]
    first = place.start(*words, "--json", fault=fault)
    _wait_for(folder / "bisect.jsonl", first)
    first.send_signal(signal.SIGINT)
    out, err = first.communicate(timeout=100)
    assert first.returncode == 130, err
    assert f"ttf bisect --resume {REACHED}" in err
    stopped, done = json.loads(out), (folder / "bisect.jsonl").read_text()
    assert stopped["error"]["exit_code"] == 130
    assert stopped["study"]["runs_total"] == len(done.splitlines()) >= 1
    assert stopped["study"]["culprit"] is None

    code, document, err = place.study(*words, "--max-runs", "40", fault=fault)  # the same command
    assert code == 0, err
    assert (folder / "bisect.jsonl").read_text().startswith(done)
    assert document["culprit"] == "accumulation" and document["confidence"] >= 0.95
    assert document["advice"] == {"train.accumulate": 1}
    assert document["baseline"]["crashes"] == document["baseline"]["runs"] >= 1
    assert set(document["classes"]) == {"segfault"}
    assert {f["name"] for f in document["factors"]} == set(FEW)
    assert document["runs_total"] <= 12
    smallest = document["smallest_failing"]
    assert smallest["without"] == [] and str(place.toml) in smallest["command"]
    kept = {p.name for run in (folder / "runs").iterdir() for p in run.iterdir()}
    assert "incidents" in kept and not kept & {"checkpoints", "model", "candidates"}
    assert json.loads((folder / "result.json").read_text())["culprit"] == "accumulation"
    assert len((folder / "bisect.jsonl").read_text().splitlines()) == document["runs_total"]


def _wait_for(path: Path, process: subprocess.Popen[str]) -> None:
    while not path.exists():
        assert process.poll() is None, f"it ended before {path.name} was there"
        time.sleep(0.02)


def test_wrong_configurations_and_data_end_as_in_training(place: Place, invoke: Invoke) -> None:
    bad = place.root / "bad.toml"
    bad.write_text("[train]\nstepz = 3\n")
    assert place.study(bad)[0] == 2
    bad.write_text('[data]\npairs = "nowhere.npz"\n')
    code, document, _ = place.study(bad)
    assert code == 3 and "nowhere.npz" in document["error"]["message"]
    assert not (place.root / "runs").exists(), "nothing began"


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        ((), 2, "No configuration was given"),
        (("nowhere.toml",), 2, "nowhere.toml"),
        (("run.toml", "--budget", "soon"), 2, "10m"),
        (("run.toml", "--keep", "thread"), 2, "Did you mean 'threads'?"),
        (("--resume", "nowhere"), 3, "no study"),
        (("run.toml", "--resume", "runs/bisect-001"), 2, "--resume"),
    ],
    ids=["nothing", "no file", "budget", "ingredient", "no study", "both"],
)
def test_wrong_words_are_answered_with_what_to_do(
    place: Place,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    code: int,
    text: str,
) -> None:
    monkeypatch.chdir(place.root)
    ended = invoke(["bisect", *words])
    assert ended.code == code and text in ended.err


@wide
@pytest.mark.timeout(1800)
def test_a_healthy_configuration_gets_nobody_named(place: Place) -> None:
    code, document, err = place.study(place.toml)
    assert code == 0, err
    assert document["verdict"] == "healthy" and document["culprit"] is None
    assert document["baseline"] == {"runs": 14, "crashes": 0}
    assert document["advice"] == {} and "nobody" in document["text"]


@wide
@pytest.mark.timeout(1800)
def test_the_budget_ends_a_study_in_doubt(place: Place) -> None:
    code, document, err = place.study(place.toml, "--budget", "4s", fault={"fault": "tower"})
    assert code == 0, err
    assert document["verdict"] == "unsure" and document["culprit"] is None
    assert "Not sure" in document["text"]


@wide
@pytest.mark.timeout(1800)
def test_two_faults_are_told_as_two(place: Place) -> None:
    names = ("accumulation", "threads", "batch-size", "tower")
    fault = {"fault": ["accumulation", "memory-bank"], "act": "abrt"}
    code, document, err = place.study(
        place.toml, *only((*names, "memory-bank")), "--max-runs", "60", fault=fault
    )
    assert code == 0, err
    assert document["verdict"] == "pair" and document["culprit"] is None
    assert sorted(document["pairs"][0]) == ["accumulation", "memory-bank"]


@wide
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("fault", FAULTS)
def test_every_planted_culprit_is_found(place: Place, fault: str) -> None:
    act = ("segv", "abrt")[FAULTS.index(fault) % 2]
    code, document, err = place.study(place.toml, fault={"fault": fault, "act": act})
    assert code == 0, err
    _line("deterministic", fault, document)
    assert document["culprit"] == fault, err
    assert document["grid"]["used"] <= 0.4


@wide
@pytest.mark.timeout(14400)
def test_nine_of_ten_flaky_culprits_are_found(
    tmp_path_factory: pytest.TempPathFactory, bisect_home: Path
) -> None:
    right, wrong, shares = 0, [], []
    for number, fault in enumerate(FAULTS):
        place = build(tmp_path_factory.mktemp(fault), bisect_home)
        planted = {"fault": fault, "p": RATE, "act": ("segv", "abrt")[number % 2]}
        words = (place.toml, "--seed", str(1000 * number))
        code, document, err = place.study(*words, fault=planted)
        assert code == 0, err
        _line(f"rate {RATE}", fault, document)
        right += document["culprit"] == fault
        shares.append(document["grid"]["used"])
        if document["culprit"] not in (None, fault):
            wrong.append((fault, document["culprit"]))
        assert not place.living()
    assert right >= 0.9 * len(FAULTS), f"{right} of {len(FAULTS)}; wrong: {wrong}"
    assert max(shares) <= 0.4


def _line(kind: str, fault: str, document: dict[str, object]) -> None:
    """A row of the acceptance table (pytest -s, or BISECT_TABLE=FILE)."""
    grid = document["grid"]
    assert isinstance(grid, dict)
    text = (
        f"{kind:14s} {fault:16s} -> {document['culprit'] or 'not sure'!s:16s} "
        f"{document['confidence']:.3f}  {document['runs_total']} runs of {grid['runs']} "
        f"({100 * grid['used']:.0f}%)"
    )
    print(text, flush=True)
    if "BISECT_TABLE" in os.environ:
        with Path(os.environ["BISECT_TABLE"]).open("a") as file:
            file.write(text + "\n")
