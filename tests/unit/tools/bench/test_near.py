"""What counts as needed work, and how near a run came, in its report."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ttf.machine import measured
from ttf.machine.processor import fingerprint
from ttf.tools.bench.work import GruWork
from ttf.tools.report.page import write_page

SHAPE = {"in_dim": 768, "hidden": 512, "out_dim": 768}
BEST = {"fp32": {"gflops": 100.0}, "bf16": {"gflops": 400.0}}


def test_the_reference_tower_needs_what_was_derived_by_hand() -> None:
    work = GruWork(**SHAPE, length=100, last_only=False)
    assert 32 * work.forward == pytest.approx(25.2e9, rel=0.01)
    assert 32 * work.training == pytest.approx(60.4e9, rel=0.01)


def test_steps_that_nobody_reads_are_not_counted() -> None:
    mean = GruWork(**SHAPE, length=100, last_only=False)
    last = GruWork(**SHAPE, length=100, last_only=True)
    assert last.training == pytest.approx(mean.training / 2, rel=0.02)
    one = GruWork(**SHAPE, length=1, last_only=False)
    assert one.training == 2 * (2 * 2 * 768 * 1536) + 3 * (2 * 1024 * 768)


def test_a_ceiling_that_was_not_measured_is_none() -> None:
    assert measured.gemm_flops({}, "fp32") is None
    assert measured.gemm_flops({"best": {"fp32": {"gflops": 0}}}, "fp32") is None
    assert measured.gemm_flops({"best": BEST}, "bf16") == 4e11


def page(folder: Path, work: dict[str, Any] | None) -> str:
    about = {"bank_rows": 1000, "bank_dim": 100}
    manifest: dict[str, Any] = {"data": about, **({} if work is None else {"work": work})}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    step = {"type": "step", "samples_per_s": 500.0, "seconds": 1.0, "data_s": 0.1, "loss": 1.0}
    mined = {"type": "mining", "step": 0, "miner": "exact", "queries": 1000, "search_s": 0.01}
    lines = [{**step, "step": number} for number in (1, 2, 3)]
    text = "".join(json.dumps(line) + "\n" for line in [*lines, mined])
    (folder / "metrics.jsonl").write_text(text)
    (folder / "run.toml").write_text('[device]\nprecision = "bf16"  # --precision\n')
    return write_page(folder).read_text()


def test_the_report_says_how_near_the_run_came(tmp_path: Path) -> None:
    noted = {"date": "2026-01-02", "best": BEST}
    work = {"tower_flops": 2e8, "loss_flops": 5e7, "machine": "another", "ceilings": noted}
    html = page(tmp_path, work)
    assert "Comparison with the limits of this machine" in html
    assert "125 GF/s" in html  # 500 samples/s of 2.5e8
    assert "1,600 samples/s" in html and "31%" in html  # of 4e11 / 2.5e8
    assert "10.0% of a step" in html
    assert "20 GF/s" in html and "5%" in html
    assert "Measured 2026-01-02" in html


def test_the_report_says_how_to_measure_what_was_never_measured(tmp_path: Path) -> None:
    work = {"tower_flops": 2e8, "loss_flops": 5e7, "machine": "another", "ceilings": None}
    html = page(tmp_path, work)
    assert "were not measured" in html and "<b>ttf bench</b>" in html
    assert "125 GF/s" in html


def test_the_report_of_an_older_run_is_without_that_section(tmp_path: Path) -> None:
    assert "Comparison with the limits of this machine" not in page(tmp_path, None)


def test_ceilings_measured_since_count_on_the_same_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTF_HOME", str(tmp_path / "home"))
    work = {
        "tower_flops": 2e8,
        "loss_flops": 0,
        "machine": fingerprint(),
        "ceilings": None,
    }
    assert "were not measured" in page(tmp_path, work)
