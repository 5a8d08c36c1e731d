"""Two OpenMP runtimes that abort for real: in the trainer, in the worker, and hidden by a variable."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from tests.kit.faulty_run import MINED, FaultyPlace
from tests.kit.live_run import Ended
from tests.kit.widely import wide


@pytest.fixture
def runtimes(tmp_path: Path, intel_openmp: Path) -> tuple[Path, Path]:
    """Two copies: one file under two names would be one runtime."""
    copies = tuple(tmp_path / name / "libiomp5.so" for name in ("first", "second"))
    for copy in copies:
        copy.parent.mkdir()
        shutil.copyfile(intel_openmp, copy)
    return copies  # type: ignore[return-value]


@wide
def test_a_miner_in_the_trainer_that_brings_a_second_runtime_is_isolated(
    place: FaultyPlace, runtimes: tuple[Path, Path], mined_reference: Ended
) -> None:
    first, second = map(str, runtimes)
    (place.faults / "trainer-runtime").write_text(first)
    settings = {**MINED, "miner.isolation": "none", "miner.faulty.runtimes": [second]}
    done = place.train(settings=settings).wait()
    done.assert_clean()
    assert done.code == 0
    (incident,) = done.incidents
    assert (incident["class"], incident["process"], incident["signal"]) == (
        "omp-duplicate",
        "trainer",
        6,
    )
    assert incident["phase"] == "mining"
    assert first in done.evidence or "libiomp5" in done.evidence
    assert done.config()["miner"]["isolation"] == "process"
    assert done.origin("miner.isolation") == "remedy of incident 001 (omp-duplicate)"
    assert done.summary["incidents"] == [
        {
            "id": "001",
            "class": "omp-duplicate",
            "process": "trainer",
            "remedy": "miner.isolation=process",
        }
    ]
    assert done.summary["exact"] and done.summary["deviations"] == []
    assert done.summary["restarts"] == 1
    assert done.digest == mined_reference.digest
    assert (place.faults / "heard").read_text() == "omp-duplicate\n"


@wide  # mining/test_isolation_system.py has it
def test_a_worker_that_aborts_leaves_the_trainer_alone(
    place: FaultyPlace, runtimes: tuple[Path, Path]
) -> None:
    settings = {**MINED, "miner.faulty.runtimes": [*map(str, runtimes)]}
    done = place.train(settings=settings, env={"KMP_DUPLICATE_LIB_OK": "TRUE"}).wait()
    done.assert_clean()
    assert done.code == 0
    assert done.summary["restarts"] == 0
    assert done.listed() == [("omp-duplicate", "miner")] * 2
    assert done.summary["miner"] == "exact"
    assert not done.summary["exact"]
    assert done.summary["deviations"] == ["the miner 'faulty' failed and 'exact' took over"]
    assert done.err.count("KMP_DUPLICATE_LIB_OK=TRUE is set in this environment") == 1
    manifest = json.loads((done.run / "manifest.json").read_text())
    assert manifest["environment_left_out"] == {"KMP_DUPLICATE_LIB_OK": "TRUE"}


@wide
def test_without_remedies_it_is_said_what_would_have_been_done(
    place: FaultyPlace, runtimes: tuple[Path, Path]
) -> None:
    first, second = map(str, runtimes)
    (place.faults / "trainer-runtime").write_text(first)
    settings = {
        **MINED,
        "miner.isolation": "none",
        "miner.faulty.runtimes": [second],
        "supervise.max_restarts": 0,
    }
    ended = place.train("--no-remedies", settings=settings).wait()
    ended.assert_clean()
    assert ended.code == 5
    assert "miner.isolation = process" in ended.err and "--isolation process" in ended.err
    assert ended.err.count("omp-duplicate at step 0 in mining") == 1
    assert ended.config()["miner"]["isolation"] == "none"
    assert ended.summary["status"] == "failed" and ended.summary["exit_code"] == 5
    assert [found["remedy"] for found in ended.summary["incidents"]] == [None]
