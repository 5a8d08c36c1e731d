"""Every reproducer that can be generated, run for real in a process of its own."""

from __future__ import annotations

import ast
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.fixtures.report import incident, write_lines
from tests.kit.widely import wide

from ttf.config.resolve import resolve
from ttf.config.toml import dump
from ttf.tools.report.bundle._reproduce import MEMORY, NATIVE, Reproducer, reproducers
from ttf.tools.report.page import read_run

SHAPES = {"query_dim": 16, "query_steps": 3, "bank_dim": 16, "bank_rows": 300, "train_pairs": 200}
VERSIONS = {"torch": "2.13.0+cpu", "numpy": "2.4.6", "faiss-cpu": "1.15.1", "hnswlib": "0.8.0"}
SMALL = [
    "train.batch_size=4",
    "train.accumulate=2",
    "device.threads=1",
    "loss.memory_bank=16",
    "miner.k=10",
]


def made(folder: Path, found: dict[str, Any], *sets: str) -> Reproducer:
    """Of a run with these settings that met this incident."""
    (folder / "incidents" / "001").mkdir(parents=True)
    (folder / "incidents" / "001" / "incident.json").write_text(json.dumps(found))
    (folder / "run.toml").write_text(dump(resolve(None, [*SMALL, *sets], {})))
    manifest = {"data": SHAPES, "versions": VERSIONS, "python": "3.11.7", "platform": "Linux"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    write_lines(
        folder / "memory.jsonl",
        [{"time": 1.7e9, "anon": 80_000_000, "shared": 0, "limit": 3e8, "peak": 90_000_000}],
    )
    (script,) = reproducers(read_run(folder))
    return script


def run(script: Reproducer, folder: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    path = folder / script.name
    path.write_text(script.text)
    return subprocess.run(
        [sys.executable, "-I", str(path), *argv],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def imported(text: str) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Import):
            names |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.partition(".")[0])
    return names


CASES = [
    pytest.param("segfault", "forward", ["tower.query.name=gru"], id="gru"),
    pytest.param("hang", "backward", ["tower.query.name=lstm"], id="lstm", marks=wide),
    pytest.param("abort", "optimizer", ["tower.query.name=mlp"], id="mlp", marks=wide),
    pytest.param("device-lost", "forward", ["tower.query.name=linear"], id="linear", marks=wide),
    pytest.param(
        "heap-corruption",
        "forward",
        ["tower.query.name=transformer", "tower.query.width=8", "device.precision=bf16"],
        id="transformer",
        marks=wide,
    ),
    pytest.param(
        "segfault",
        "backward",
        ["miner.name=faiss", "miner.isolation=none"],
        id="gru-with-faiss-loaded",
        marks=wide,
    ),
    pytest.param("segfault", "mining", ["miner.name=hnswlib"], id="hnswlib"),
    pytest.param(
        "hang", "mining", ["miner.name=faiss", "miner.faiss.kind=flat"], id="flat", marks=wide
    ),
    pytest.param("abort", "mining", ["miner.name=faiss", "miner.faiss.kind=hnsw"], id="hnsw"),
    pytest.param(
        "segfault", "mining", ["miner.name=faiss", "miner.faiss.kind=ivf"], id="ivf", marks=wide
    ),
    pytest.param(
        "illegal-instruction",
        "mining",
        ["miner.name=exact", "miner.isolation=none"],
        id="exact-in-process",
        marks=wide,
    ),
    pytest.param(
        "omp-duplicate", "mining", ["miner.name=faiss", "miner.isolation=none"], id="openmp"
    ),
    pytest.param("oom-kill", "backward", [], id="oom-kill", marks=wide),
]


@pytest.mark.parametrize(("cause", "phase", "sets"), CASES)
def test_it_runs_to_its_end_where_the_fault_does_not_appear(
    tmp_path: Path, cause: str, phase: str, sets: list[str]
) -> None:
    process = "miner" if phase == "mining" and "miner.isolation=none" not in sets else "trainer"
    found = incident(cause, phase, process, step=3)
    if cause == "omp-duplicate":
        libraries = "OpenMP: <site-packages>/torch/lib/libgomp.so.1, <dir-3>/libiomp5.so"
        found["evidence"].append({"source": "mapped libraries", "text": libraries})
    script = made(tmp_path, found, *sets)
    assert script.name == f"001-{cause}.py"
    assert not imported(script.text) & {"ttf", "ttf_miners", "ttf_towers"}
    done = run(script, tmp_path, "2")
    if cause == "oom-kill":  # what it needs is all that the limit allows
        assert "the run needed at least 300 MB" in done.stdout
        return
    assert done.returncode == 0, done.stderr
    assert "did not crash in 2 rounds" in done.stdout
    if cause == "omp-duplicate":
        assert "starting libgomp.so.1 (torch/lib/libgomp.so.1)" in done.stdout
        assert "not installed here, so not tested: libiomp5.so" in done.stdout


@wide
def test_two_runtimes_that_abort_are_reproduced(tmp_path: Path, intel_openmp: Path) -> None:
    for name in ("first", "second"):
        (tmp_path / name).mkdir()
        shutil.copyfile(intel_openmp, tmp_path / name / "libiomp5.so")
    found = incident("omp-duplicate", "mining", "command")
    libraries = "OpenMP: <site-packages>/first/libiomp5.so, <site-packages>/second/libiomp5.so"
    found["evidence"].append({"source": "mapped libraries", "text": libraries})
    folder = tmp_path / "guarded"
    (folder / "incidents" / "001").mkdir(parents=True)
    (folder / "incidents" / "001" / "incident.json").write_text(json.dumps(found))
    (script,) = reproducers(read_run(folder))
    path = tmp_path / script.name
    path.write_text(script.text)  # the runtimes lie beside it
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False)
    assert done.returncode == -6
    assert "OMP: Error #15" in done.stderr and "starting libiomp5.so (second" in done.stdout


def test_the_versions_of_the_run_are_pinned(tmp_path: Path) -> None:
    script = made(tmp_path, incident("segfault", "mining", "miner"), "miner.name=hnswlib")
    assert "# pip install numpy==2.4.6 hnswlib==0.8.0\n" in script.text
    assert "# The run: Python 3.11.7 on Linux\n" in script.text
    assert "assumed" not in script.text
    assert "ROWS: int = 300\n" in script.text and "THREADS: int = 1\n" in script.text


def test_memory_is_taken_under_the_limit_of_the_run(tmp_path: Path) -> None:
    script = made(tmp_path, incident("alloc-failure", "forward", "trainer"))
    done = run(script, tmp_path)
    assert done.returncode == 0, done.stderr
    assert "the run needed at least 90 MB; at the last measurement it used 80 MB" in done.stdout
    assert "its limit was 300 MB" in done.stdout
    assert "did not crash in 1 rounds" in done.stdout


@pytest.mark.skipif(sys.platform != "linux", reason="RLIMIT_DATA counts what is mapped on Linux")
def test_memory_that_the_limit_refuses_ends_in_the_error_of_the_run(tmp_path: Path) -> None:
    script = made(tmp_path, incident("memory-limit", "forward", "trainer"))
    text = script.text.replace("LIMIT: int = 300000000", "LIMIT: int = 150000000")
    text = text.replace("NEED: int = 300000000", "NEED: int = 150000000")
    path = tmp_path / "limited.py"
    path.write_text(text)
    done = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr
    assert (
        "MemoryError: the script has" in done.stdout and "with the limit of 150 MB" in done.stdout
    )


def test_a_file_that_is_cut_while_it_is_mapped_is_shown(tmp_path: Path) -> None:
    done = run(made(tmp_path, incident("bus-error", "data", "trainer")), tmp_path)
    assert done.returncode == 0, done.stderr
    assert "SIGBUS ended the child process, as in the run" in done.stdout


def test_a_hang_ends_with_its_stacks(tmp_path: Path) -> None:
    script = made(tmp_path, incident("hang", "mining", "miner"), "miner.name=hnswlib")
    text = script.text.replace("HANG_AFTER_S: float = 600.0", "HANG_AFTER_S: float = 4.0")
    text = text.replace(
        "        index = build(bank)\n", "        time.sleep(60)\n        index = build(bank)\n"
    )
    path = tmp_path / "hangs.py"
    path.write_text(text)
    done = subprocess.run([sys.executable, "-I", path], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "Timeout" in done.stderr and "in main" in done.stderr


def test_a_miner_of_somebody_elses_needs_ttf_and_that_is_said(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    script = made(folder, incident("segfault", "mining", "miner"))
    assert script.text  # the built-in one
    text = (folder / "run.toml").read_text().replace('name = "auto"', 'name = "their-own"')
    (folder / "run.toml").write_text(text)
    (other,) = reproducers(read_run(folder))
    assert (
        not other.text and "the miner is a plugin of another distribution (their-own)" in other.note
    )


def test_a_trainer_that_dies_while_another_process_mines_is_no_fault_of_the_miner(
    tmp_path: Path,
) -> None:
    script = made(tmp_path, incident("segfault", "mining", "trainer"), "miner.name=faiss")
    assert "Trains a plain torch tower" in script.note


@pytest.mark.parametrize("name", ["killed", "disk-full", "non-finite", "python-error"])
def test_where_there_is_no_script_it_is_said_why(tmp_path: Path, name: str) -> None:
    script = made(tmp_path, incident(name, "forward", "trainer"))
    assert not script.text and script.note.startswith("no script: ")


def test_every_class_has_a_script_or_a_reason(tmp_path: Path) -> None:
    from ttf.incidents.rules import RULES

    for number, name in enumerate(sorted({rule.name for rule in RULES})):
        script = made(tmp_path / str(number), incident(name, "forward", "trainer"))
        assert bool(script.text) == (
            name in (*NATIVE, *MEMORY, "omp-duplicate", "bus-error", "data-changed")
        ), name
        assert script.note


def test_shapes_that_were_not_noted_are_assumed_and_named(tmp_path: Path) -> None:
    script = made(tmp_path, incident("segfault", "forward", "trainer"))
    assert script.text
    (tmp_path / "manifest.json").unlink()
    (again,) = reproducers(read_run(tmp_path))
    assert "# Unknown, so this value is assumed: query_dim = 384\n" in again.text
