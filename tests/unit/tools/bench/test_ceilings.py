"""The machine's figures: measured whole at small sizes, kept, refused where they do not fit."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from ttf.machine import measured, processor
from ttf.machine.measured import Ceilings
from ttf.machine.others_load import OthersLoad
from ttf.tools.bench import ceilings, ceilings_disk, ceilings_memory
from ttf.tools.bench.ceilings import best_of, figure_of
from ttf.tools.bench.table import BenchProgress


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("TTF_HOME", str(folder))
        patch.setattr(ceilings, "SHAPES", ((8, 16, 24),))
        for module in (ceilings, measured):
            patch.setattr(module, "BLOCKS", {"fp32": (16, 32), "bf16": (16, 64)})
            patch.setattr(module, "QUERIES", 8)
            patch.setattr(module, "DIM", 16)
        patch.setattr(ceilings, "_FIGURE_S", 0.0)
        patch.setattr(ceilings, "_CALL_FLOPS", 0.0)
        patch.setattr(ceilings_memory, "BYTES", 2 << 20)
        patch.setattr(ceilings_disk, "BYTES", 16 << 20)
        patch.setattr(ceilings_disk, "_TURN_S", 0.005)
        yield folder


@pytest.fixture(scope="module")
def found(home: Path) -> Ceilings:
    return ceilings.measure()


def test_every_way_and_shape_has_a_rate(found: Ceilings) -> None:
    assert set(found.gemm) == {"highest", "medium", "numpy", "bf16"}
    for way in ("highest", "medium", "numpy"):
        assert set(found.gemm[way]) == {"8x16x24", "8x16x16", "8x16x32"}
    assert set(found.copy) == {"1 thread", "2 threads", "into cache"}
    pieces = ["sequential", *map(str, ceilings_disk.PIECES)]
    assert list(found.read) == [f"{t} {p}" for t in ("cold", "hot") for p in pieces]
    assert len(found.read) == ceilings_disk.FIGURES
    figures = [f for part in (*found.gemm.values(), found.copy, found.read) for f in part.values()]
    assert all(f.value >= f.median >= f.worst > 0 and f.repeats >= 3 for f in figures)
    assert any("Cold reads: " in note for note in found.notes)


def test_the_ceiling_is_the_best_blocks_product(found: Ceilings) -> None:
    way, shape, figure = found.best("fp32")
    blocks = ("8x16x16", "8x16x32")
    assert figure.value == max(
        found.gemm[w][b].value for w in ("highest", "medium", "numpy") for b in blocks
    )
    assert found.gemm[way][shape] is figure
    assert found.best("bf16")[0] == "bf16"


def test_they_come_back_from_the_cache_as_they_were(home: Path, found: Ceilings) -> None:
    file = measured.save_ceilings(found)
    assert file == measured.ceilings_file() and file.is_relative_to(home)
    assert measured.kept_ceilings() == found and not found.stale
    assert json.loads(file.read_text())["best"]["bf16"]["gflops"] == found.best("bf16")[2].value


def test_those_of_another_machine_are_stale(
    found: Ceilings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processor, "fingerprint", lambda: "another")
    assert found.stale
    assert measured.kept_ceilings() is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"gemm": 1}', '{"gemm": [], "copy": 2}'])
def test_what_cannot_be_read_is_measured_anew(home: Path, text: str) -> None:
    file = measured.ceilings_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    assert measured.kept_ceilings() is None
    file.unlink()
    assert measured.kept_ceilings() is None


def test_measuring_leaves_no_file_and_no_setting(home: Path) -> None:
    before = torch.get_float32_matmul_precision(), torch.get_num_threads(), set(home.rglob("*"))
    steps: list[tuple[int, int]] = []
    ceilings.measure(lambda done, total: steps.append((done, total)), budget_s=0.0)
    after = torch.get_float32_matmul_precision(), torch.get_num_threads(), set(home.rglob("*"))
    assert after == before
    assert steps == [(n + 1, len(steps)) for n in range(len(steps))]


def test_a_disk_that_is_nearly_full_is_left_alone(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(home)
    monkeypatch.setattr(ceilings_disk, "FREE_BYTES", usage.total)
    figures, (note,) = ceilings_disk.measure(lambda done, total: None)
    assert figures == {} and "Reads were not measured" in note and "GiB must stay free" in note


def test_a_file_system_without_direct_reads_is_measured_and_said(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ceilings_disk, "_direct", lambda name: None)
    figures, (note,) = ceilings_disk.measure(lambda done, total: None)
    assert len(figures) == ceilings_disk.FIGURES
    assert "request to drop the file" in note


def test_the_best_of_several_repetitions_counts_and_the_spread_is_kept() -> None:
    figure = figure_of([2.0, 5.0, 3.0], "GB/s")
    assert (figure.value, figure.median, figure.worst, figure.repeats) == (5.0, 3.0, 2.0, 3)
    assert str(figure) == "5 GB/s (median 3, n = 3)"
    calls: list[int] = []
    assert best_of(lambda: calls.append(1), 1.0, "GF/s", least=4, most=4).repeats == 4
    assert len(calls) == 5


# --- a busy machine --------------------------------------------------------------------------------


def _stat(folder: Path, busy_ticks: int) -> Path:
    path = folder / "stat"
    path.write_text(f"cpu {busy_ticks} 0 0 500 7 0 0 0 99 0\ncpu0 1 2 3\n")
    return path


def test_what_others_used_is_counted_and_nothing_is_claimed_without_counters(
    tmp_path: Path,
) -> None:
    idle = OthersLoad(_stat(tmp_path, 100))
    assert idle.share() == 0.0
    busy = OthersLoad(_stat(tmp_path, 100))
    _stat(tmp_path, 100 + 10**9)
    assert busy.share() == 1.0
    assert OthersLoad(tmp_path / "none").share() is None


def test_a_measurement_beside_others_is_known_as_such(found: Ceilings) -> None:
    assert not replace(found, others=None).disturbed and not replace(found, others=0.02).disturbed
    assert replace(found, others=0.6).disturbed


def test_of_two_measurements_each_figure_is_the_higher_one(found: Ceilings) -> None:
    slower = {name: replace(figure, value=figure.value / 2) for name, figure in found.copy.items()}
    merged = replace(found, copy=slower, others=0.05).with_best_of(replace(found, others=0.6))
    assert merged.copy == found.copy and merged.gemm == found.gemm
    assert merged.others == 0.05 and not merged.disturbed


def test_limits_that_were_measured_on_a_busy_machine_are_measured_again(
    home: Path,
    found: Ceilings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from ttf.commands import bench

    measured_again: list[str] = []

    def answer(task: object, key: str, progress: object) -> dict[str, object]:
        measured_again.append(key)
        return {}

    monkeypatch.setattr(bench, "_answer", answer)
    measured.save_ceilings(replace(found, others=0.02))
    assert bench._ceilings(False, BenchProgress())["date"] == found.date and not measured_again
    measured.save_ceilings(replace(found, others=0.6))
    bench._ceilings(False, BenchProgress())
    assert measured_again == ["ceilings"]
    said = capsys.readouterr().err
    assert "other processes used 60% of its processors. They are measured again." in said
