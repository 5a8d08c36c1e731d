"""The one reader of a run's folder: what is missing, torn or of another type is left out."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ttf.rundir.confined import found_json
from ttf.rundir.documents import Summary
from ttf.rundir.incident_files import list_incidents
from ttf.rundir.run_record import RunRecord, Setting
from ttf.rundir.typed_json import is_number, typed
from ttf.rundir.work_facts import Work


@pytest.mark.parametrize(
    ("train", "steps"),
    [
        ("steps = 7\nepochs = 2\nbatch_size = 3\naccumulate = 2", 7),
        ('# steps =  # default\nepochs = 2\nbatch_size = 3  # auto: "x"\naccumulate = 2', 32),
        ('epochs = 2\nbatch_size = "auto"\naccumulate = 2', None),
        ("[[[", None),
    ],
)
def test_steps_of_an_older_run_are_counted_as_it_did(
    tmp_path: Path, train: str, steps: int | None
) -> None:
    (tmp_path / "run.toml").write_text(f"[train]\n{train}\n")
    (tmp_path / "manifest.json").write_text('{"data": {"train_pairs": 100}}')
    assert RunRecord(tmp_path).total_steps() == steps


def test_a_setting_is_read_with_its_origin(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[a.b]\nname = "x  # y"  # --name\nodd = x\n# c =  # d\n')
    name, odd = RunRecord(tmp_path).settings()
    assert name == Setting("a.b.name", '"x  # y"', "--name") and name.value == "x  # y"
    assert odd == Setting("a.b.odd", "x", "") and odd.value is None


def test_what_does_not_fit_is_left_out_and_what_is_not_named_stays() -> None:
    odd = {
        "status": 3,
        "exit_code": "x",
        "steps": 5.0,
        "epochs": float("nan"),
        "metrics": {"good": 1, "bad": "x", "worse": True},
        "incidents": [{"id": "001", "class": []}, 7],
        "kept_step": None,
        "exact": 1,
        "deviations": {"a": 1},
        "own": [1],
    }
    assert typed(odd, Summary) == {
        "status": "3",
        "steps": 5,
        "metrics": {"good": 1},
        "incidents": [{"id": "001"}],
        "kept_step": None,
        "own": [1],
    }
    assert typed([1], Summary) == {}


def test_a_part_without_a_key_that_it_must_have_is_left_out() -> None:
    whole = {"date": "2026-01-02", "best": {"fp32": {"gflops": 1.0}, "bf16": {}}}
    assert typed({"ceilings": {"date": "2026-01-02"}}, Work) == {}
    assert typed({"ceilings": whole}, Work) == {
        "ceilings": {"date": "2026-01-02", "best": {"fp32": {"gflops": 1.0}}}
    }


def test_a_file_that_cannot_be_read_is_an_empty_document(tmp_path: Path) -> None:
    said: list[str] = []
    assert (
        typed(found_json(tmp_path / "none.json", tmp_path, said.append), Summary) == {} and not said
    )
    (tmp_path / "torn.json").write_text('{"status": ')
    assert typed(found_json(tmp_path / "torn.json", tmp_path, said.append), Summary) == {}
    assert len(said) == 1 and said[0].startswith("torn.json could not be read")


def test_lines_that_are_torn_are_counted_once(tmp_path: Path) -> None:
    lines = ['{"type": "step", "step": 1}', "{", '{"type": "later"}', '{"type": "eval", "step": 1}']
    (tmp_path / "metrics.jsonl").write_text("\n".join([*lines, '{"type": "st']))
    record = RunRecord(tmp_path)
    for _ in range(2):
        assert [line["type"] for line in record.metrics()] == ["step", "eval"]
    assert record.problems == ["metrics.jsonl: 2 line(s) could not be read"]


def test_incidents_are_those_of_the_folder_and_of_the_summary(tmp_path: Path) -> None:
    for number in ("2", "010"):
        (tmp_path / "incidents" / number).mkdir(parents=True)
    (tmp_path / "incidents/010/incident.json").write_text('{"class": "hang", "step": 4}')
    (tmp_path / "incidents/010/applied.json").write_text('{"remedy": "a=1"}')
    told = {"incidents": [{"id": "001", "class": "killed"}, {"id": "2", "class": "segfault"}]}
    (tmp_path / "summary.json").write_text(json.dumps(told))
    found = RunRecord(tmp_path).incidents()
    assert [(one["id"], one["class"]) for one in found] == [
        ("001", "killed"),
        ("2", "segfault"),
        ("010", "hang"),
    ]
    assert found[2]["remedy"] == "a=1" and found[2]["step"] == 4
    assert [one["class"] for one in list_incidents(tmp_path / "incidents")] == ["unknown", "hang"]


def test_what_counts_as_a_number() -> None:
    assert all(map(is_number, (0, -1.5, 10**20)))
    assert not any(map(is_number, (True, "1", None, float("nan"), float("inf"), 1e301)))
