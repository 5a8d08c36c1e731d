"""`ttf runs`: folders of runs, read as they lie."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Invoke

from ttf.rundir.supervision import Journal, Sitting

RUN_TOML = """\
[train]
lr = {lr}  # {origin}
epochs = 10  # default

[tower.query]
name = "{tower}"  # --tower
"""


def run(
    folder: Path,
    *,
    lr: float = 0.001,
    tower: str = "gru",
    recall: float | None = 0.4,
    **manifest: Any,
) -> Path:
    folder.mkdir(parents=True)
    origin = "default" if lr == 0.001 else "--lr"
    (folder / "run.toml").write_text(RUN_TOML.format(lr=lr, origin=origin, tower=tower))
    about = {
        "format": 1,
        "ttf": "0.1.0",
        "python": "3.12.1",
        "versions": {"torch": "2.13.0"},
        "numeric": {"threads": 2, "bits": {"gemm": "abc"}},
        "data": {
            "train_pairs": 600,
            "files": {"p.npz": {"bytes": 7, "mtime_ns": 0, "fingerprint": "f" * 20}},
        },
        **manifest,
    }
    (folder / "manifest.json").write_text(json.dumps(about))
    if recall is not None:
        summary = {
            "status": "finished",
            "exit_code": 0,
            "steps": 20,
            "metrics": {"recall@10": recall},
            "samples_per_s": 100.0,
            "wall_s": 3.0,
            "incidents": [{"id": "001", "class": "segfault", "process": "trainer", "remedy": None}],
        }
        (folder / "summary.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    run(tmp_path / "runs" / "run-001", recall=0.4)
    run(tmp_path / "runs" / "run-002", lr=0.01, tower="mlp", recall=0.5, python="3.13.0")
    run(tmp_path / "runs" / "run-003", recall=None)
    (tmp_path / "runs" / "notes").mkdir()
    return Path("runs")


def test_the_list_has_every_run_the_best_first(runs: Path, invoke: Invoke) -> None:
    done = invoke(["runs", "list"])
    assert done.code == 0
    _, *rows = [line.split() for line in done.out.splitlines()]
    assert [row[0] for row in rows] == [str(runs / f"run-00{n}") for n in (2, 1, 3)]
    assert rows[0][1:4] == ["finished", "20", "0.500"] and rows[2][1:3] == ["no", "end"]
    assert done.err == "Next: ttf runs diff runs/run-001 runs/run-002\n"
    listed = invoke(["runs", "list", runs / "run-001", runs / "run-001", "--json"]).json()
    assert [(e["path"], e["value"], e["incidents"]) for e in listed] == [
        ("runs/run-001", 0.4, ["segfault"])
    ]


def test_a_run_that_is_carried_out_is_listed_as_running(runs: Path, invoke: Invoke) -> None:
    (runs / "run-003" / ".owner").write_text(str(os.getpid()))
    by_path = {e["path"]: e["status"] for e in invoke(["runs", "list", "--json"]).json()}
    assert by_path["runs/run-003"] == "running"


def test_a_resumed_run_is_running_or_without_an_end_whatever_its_old_summary_says(
    runs: Path, invoke: Invoke
) -> None:
    def status(*ends: str) -> Any:
        sittings = tuple(Sitting(began=n, wall_before_s=0.0, ended=e) for n, e in enumerate(ends))
        document = Journal(sittings=sittings).document()
        (runs / "run-001" / "supervision.json").write_text(json.dumps(document))
        return {e["path"]: e["status"] for e in invoke(["runs", "list", "--json"]).json()}[
            "runs/run-001"
        ]

    assert status("finished") == status("stopped", "") == "finished"
    summary = runs / "run-001" / "summary.json"
    summary.write_text(summary.read_text().replace("finished", "stopped"))
    assert (status("stopped"), status("stopped", "")) == ("stopped", "no end")
    (runs / "run-001" / ".owner").write_text(str(os.getpid()))
    assert status("stopped", "") == "running"


def test_a_digest_takes_no_wide_column(runs: Path, invoke: Invoke) -> None:
    for name, digit in (("run-001", "a"), ("run-002", "b")):
        summary = runs / name / "summary.json"
        held = json.loads(summary.read_text()) | {"weights_sha256": digit * 64}
        summary.write_text(json.dumps(held))
    argv: list[str | Path] = ["runs", "diff", runs / "run-001", runs / "run-002"]
    (line,) = [text for text in invoke(argv).out.splitlines() if "weights_sha256" in text]
    assert line.split()[1:] == ["a" * 16, "b" * 16]
    found = invoke([*argv, "--json"]).json()["differences"]
    assert ["a" * 64, "b" * 64] in [row["values"] for row in found]


def test_one_run_is_shown_whole(runs: Path, invoke: Invoke) -> None:
    done = invoke(["runs", "show", runs / "run-002"])
    lines = [" ".join(line.split()) for line in done.out.splitlines()]
    for line in (
        "metrics.recall@10 0.5",
        "incidents segfault",
        "train.lr 0.01 --lr",
        "train_pairs 600",
        "file p.npz 7 bytes, ffffffffffff",
        "versions.torch 2.13.0",
        "numeric.threads 2",
    ):
        assert line in lines, line
    assert "train.epochs" not in done.out and "numeric.bits" not in done.out
    whole = invoke(["runs", "show", runs / "run-002", "--all"]).out
    assert "train.epochs" in whole and "numeric.bits.gemm" in whole
    document = invoke(["runs", "show", runs / "run-002", "--json"]).json()
    assert document["configuration"]["train.epochs"] == "10"
    assert document["environment"]["python"] == "3.13.0"


def test_a_comparison_shows_only_what_differs(runs: Path, invoke: Invoke) -> None:
    done = invoke(["runs", "diff", runs / "run-001", runs / "run-002"])
    rows = [line.split() for line in done.out.splitlines() if line]
    assert ["train.lr", "0.001", "0.01"] in rows
    assert ["tower.query.name", '"gru"', '"mlp"'] in rows
    assert ["python", "3.12.1", "3.13.0"] in rows
    assert ["metrics.recall@10", "0.4", "0.5", "+0.1"] in rows
    assert "epochs" not in done.out and "train_pairs" not in done.out
    assert "data: no difference" in done.err and "ttf ab" in done.err
    three = invoke(["runs", "diff", *(runs / f"run-00{n}" for n in (1, 2, 3)), "--json"]).json()
    assert {
        "section": "result", "key": "metrics.recall@10", "values": [0.4, 0.5, None]
    } in three["differences"]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "code", "text"),
    [
        (["runs", "list", "nowhere"], 3, "There is no folder nowhere."),
        (["runs", "show", "runs"], 3, "runs is not the folder of a run"),
        (["runs", "diff", "runs/run-001"], 2, "A comparison needs two runs."),
    ],
)
def test_wrong_words_say_what_to_do(
    runs: Path, invoke: Invoke, words: list[str], code: int, text: str
) -> None:
    done = invoke(words)
    assert done.code == code and text in done.err and "hint: " in done.err


def test_a_folder_of_a_later_version_is_one_clear_error(runs: Path, invoke: Invoke) -> None:
    later = run(runs / "run-004", format=2, ttf="9.1.0")
    for words in (
        ["resume"],
        ["eval"],
        ["mine", "--out", "x.npz"],
        ["search", "--queries", "q.npz"],
    ):
        done = invoke([words[0], later, *words[1:]])
        assert done.code == 3, (words, done.err)
        assert "was written by ttf 9.1.0: its files have format 2." in done.err
        assert "pip install --upgrade twotower" in done.err
    shown = invoke(["runs", "show", later])
    assert shown.code == 0 and "some values may be missing or wrong" in shown.err


def test_damaged_files_are_noted_and_the_others_read(runs: Path, invoke: Invoke) -> None:
    (runs / "run-001" / "summary.json").write_text("{")
    shown = invoke(["runs", "show", runs / "run-001"])
    assert shown.code == 0 and "note: summary.json" in shown.err and "train_pairs" in shown.out
