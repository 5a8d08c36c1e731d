"""A tuned row: taken where a path is clearly faster and as accurate as float32, else not."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from ttf.errors import ArtifactDamaged
from ttf.machine import measured, processor
from ttf.machine.gemm import errors, factors, product
from ttf.machine.measured import Measured, Path32
from ttf.tools.bench import tune
from ttf.tools.bench.tune import Shape, decide

TINY = (Shape(rows=8, inner=16, columns=24, times=3), Shape(rows=4, inner=64, columns=8, times=1))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("TTF_HOME", str(tmp_path))
    monkeypatch.setattr(tune, "_CALL_FLOPS", 0.0)
    yield tmp_path


def errors_of(highest: float, medium: float) -> list[Measured]:
    return [
        Measured(path="highest", shape="a", gflops=1.0, error=highest),
        Measured(path="medium", shape="a", gflops=1.0, error=medium),
        Measured(path="medium", shape="b", gflops=1.0, error=1e-9),
        Measured(path="bf16", shape="a", gflops=1.0, error=1e-2),
    ]


@pytest.mark.parametrize(
    ("highest", "medium", "error", "choice", "words"),
    [
        ([2.0] * 5, [1.0] * 5, 7e-7, "medium", "2 (2 to 2, n = 5) times as fast as highest"),
        ([1.0] * 5, [2.0] * 5, 7e-7, "highest", "times as fast as medium"),
        ([1.04] * 5, [1.0] * 5, 7e-7, None, "not clearly more than 1.05"),
        ([1.5, 0.9, 1.5, 0.9, 1.5], [1.0] * 5, 7e-7, None, "not clearly more"),
        (
            [2.0] * 5,
            [1.0] * 5,
            3e-3,
            "highest",
            "the only path on this machine that is as accurate as float32",
        ),
    ],
    ids=["faster", "slower", "hardly faster", "noisy", "faster but inexact"],
)
def test_a_path_is_taken_where_it_is_clearly_faster_and_exact(
    highest: list[float], medium: list[float], error: float, choice: Path32 | None, words: str
) -> None:
    taken, why = decide({"highest": highest, "medium": medium}, errors_of(4e-7, error))
    assert taken == choice
    assert words in why


def test_no_path_is_taken_where_none_is_exact() -> None:
    taken, why = decide({"highest": [1.0], "medium": [1.0]}, errors_of(1e-3, 1e-3))
    assert taken is None and "no path is as accurate as float32" in why


def test_tuning_measures_speed_and_accuracy_of_every_path_and_changes_nothing(home: Path) -> None:
    before = torch.get_float32_matmul_precision()
    steps: list[tuple[int, int]] = []
    row = tune.tune(lambda done, total: steps.append((done, total)), shapes=TINY, repeats=3)
    assert torch.get_float32_matmul_precision() == before
    assert steps[-1][0] == steps[-1][1] and steps == sorted(steps)
    by_path = {path: [m for m in row.measured if m.path == path] for path in measured.PATHS}
    assert all(len(found) == len(TINY) for found in by_path.values())
    assert all(0 < m.error < processor.MOST_ERROR for m in by_path["highest"])
    assert (row.bf16_gain is None) == (not processor.processor().bf16_unit)
    assert not list(home.iterdir()), "only save writes"


def test_a_row_comes_back_as_it_was_saved() -> None:
    assert measured.tuned_row() is None
    row = tune.tune(shapes=TINY, repeats=3)
    file = measured.save_row(row)
    assert file == processor.machine_dir() / "gemm.json"
    assert measured.tuned_row() == row


@pytest.mark.parametrize(
    "change",
    [{"float32": "best"}, {"why": None}, {"bf16_gain": "x"}, {"measured": [{"path": "highest"}]}],
    ids=lambda change: next(iter(change)),
)
def test_a_damaged_row_is_refused_with_the_way_out(change: dict[str, object]) -> None:
    file = measured.save_row(tune.tune(shapes=TINY[:1], repeats=2))
    file.write_text(json.dumps({**json.loads(file.read_text()), **change}))
    with pytest.raises(ArtifactDamaged, match=r"cannot read .*gemm\.json") as caught:
        measured.tuned_row()
    assert "ttf bench --tune" in caught.value.hint


def test_errors_are_against_float64_and_tell_bf16_from_float32() -> None:
    a_RI, b_CI = factors(64, 768, 96)
    found = errors(["highest", "numpy", "bf16"], a_RI, b_CI)
    assert found["highest"] < processor.MOST_ERROR and found["numpy"] < processor.MOST_ERROR
    assert 1e-4 < found["bf16"] < 2e-2
    again = product("highest", a_RI, b_CI)()
    assert torch.equal(torch.as_tensor(again), torch.as_tensor(product("highest", a_RI, b_CI)()))
