"""`ttf bench`: what it writes, what is missing, what dies, and what it keeps. Never how fast."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest
from tests.conftest import Invoke
from tests.kit.widely import wide

from ttf.machine import measured
from ttf.machine.measured import Ceilings, Figure
from ttf.machine.processor import describe, fingerprint
from ttf.tools.bench.catalogue import BENCHES, Bench
from ttf.tools.bench.peers import INSTALL, PEERS
from ttf.tools.bench.runner import outcome_of

FIELDS = {"name", "value", "unit", "peer", "peer_value", "ratio", "ceiling_ratio"}


def quiet(bench: str, at: str, done: int, total: int) -> None: ...


@pytest.fixture
def kept() -> Ceilings:
    """Ceilings of this machine that nobody has to wait for."""
    figure = Figure(value=100.0, median=90.0, worst=80.0, repeats=3, unit="GF/s")
    copies = {name: figure for name in ("1 thread", "2 threads", "into cache")}
    found = Ceilings(
        fingerprint=fingerprint(),
        date="2026-01-02",
        threads=1,
        machine=describe(),
        gemm={
            "highest": {"2048x768x2048": figure},
            "bf16": {"2048x768x2048": figure},
        },
        copy=copies,
    )
    measured.save_ceilings(found)
    return found


def test_what_there_is_is_listed_and_nothing_is_measured(invoke: Invoke) -> None:
    done = invoke(["bench", "--list"])
    assert done.code == 0
    for name in (*BENCHES, *PEERS):
        assert name in done.out
    listed = invoke(["bench", "--list", "--json"]).json()
    assert [entry["name"] for entry in listed] == list(BENCHES)
    assert {tuple(entry) for entry in listed} == {("name", "title", "peers")}


def test_a_misspelt_name_gets_the_closest(invoke: Invoke) -> None:
    done = invoke(["bench", "train-mena"])
    assert done.code == 2
    assert "Did you mean 'train-mean'?" in done.err


def test_tuning_takes_no_names(invoke: Invoke) -> None:
    done = invoke(["bench", "open-npz", "--tune"])
    assert (done.code, done.out) == (2, "")
    assert "hint: ttf bench --tune" in done.err


def test_the_command_loads_nothing_heavy() -> None:
    code = "import sys\nfrom ttf import cli\ncli.run(['bench', '--list'])\nprint(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert not loaded & {"torch", "numpy", "faiss", "hnswlib", "zarr", "pydantic", "rich"}


def test_the_document_has_a_line_for_each_name_and_peer(invoke: Invoke, kept: Ceilings) -> None:
    done = invoke(["bench", "open-npz", "gather-npz", "--size", "tiny", "--json"])
    assert done.code == 0, done.err
    document = done.json()
    assert document["machine"] == json.loads(json.dumps(kept.to_json()))
    assert document["findings"] == []
    results = document["results"]
    assert [(line["name"], line["peer"]) for line in results] == [
        ("open-npz", "numpy"),
        ("gather-npz", "numpy"),
        ("gather-npz-300k", "numpy"),
    ]
    for line in results:
        assert line.keys() >= FIELDS
        assert line["value"] > 0 and line["peer_value"] > 0
        assert line["ratio_low"] <= line["ratio"] <= line["ratio_high"]
        assert line["repeats"] == 2
    assert [line["ceiling_ratio"] is None for line in results] == [True, False, False]


def test_a_person_gets_a_table_and_plain_text_in_a_pipe(invoke: Invoke, kept: Ceilings) -> None:
    done = invoke(["bench", "open-npz", "--size", "tiny"])
    assert done.code == 0
    assert "\x1b" not in done.out + done.err
    assert "machine" in done.out and "100 GF/s" in done.out
    assert "of the ceiling" in done.out and "numpy" in done.out
    assert done.err.splitlines()[0] == "... open-npz"


@wide
def test_ceilings_are_measured_once_and_kept(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ttf", "bench", "open-npz", "--size", "tiny", "--json"]
    env = os.environ | {"TTF_HOME": str(tmp_path)}
    times = []
    for _ in range(2):
        done = subprocess.run(words, env=env, capture_output=True, text=True, check=True)
        machine = json.loads(done.stdout)["machine"]
        assert machine["best"]["fp32"]["gflops"] > 0
        times.append(next(tmp_path.glob("machine/*/ceilings.json")).stat().st_mtime_ns)
    assert times[0] == times[1]


# --- what is missing, what dies ----------------------------------------------------------------


@wide
def test_a_peer_that_is_not_installed_is_a_line(kept: Ceilings) -> None:
    missing = [n for n in BENCHES["train-mean"].peers if not PEERS[n].installed]
    if not missing:
        pytest.skip("all peers are installed")
    outcome = outcome_of(BENCHES["train-mean"], "tiny", kept.to_json(), quiet)
    assert outcome.well and not outcome.findings
    lines = {line.peer: line for line in outcome.lines}
    assert [lines[name].note for name in missing] == [INSTALL] * len(missing)
    measured = [line for line in outcome.lines if line.peer == "plain-torch"]
    assert [line.name for line in measured] == ["train-mean", "train-mean-bf16"]
    assert all(line.ratio is not None and line.ceiling_ratio is not None for line in measured)


@pytest.mark.parametrize("name", ["loader", "gather-zarr"])
def test_every_bench_gives_its_figures(name: str, kept: Ceilings) -> None:
    outcome = outcome_of(BENCHES[name], "tiny", kept.to_json(), quiet)
    assert outcome.well, outcome.findings
    assert all(line.value is not None for line in outcome.lines if line.note != INSTALL)


@wide
def test_peers_that_die_cost_only_their_own_lines(
    kept: Ceilings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One by a signal, one by an exception; the others give their figures."""
    (tmp_path / "faiss.py").write_text(
        "import ctypes\nMETRIC_INNER_PRODUCT = 0\n"
        "def omp_set_num_threads(count): ...\n"
        "def IndexFlatIP(dim): ctypes.string_at(0)\n"
        "def IndexHNSWFlat(*args): raise RuntimeError('no room')\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    outcome = outcome_of(BENCHES["mine-exact"], "tiny", kept.to_json(), quiet)
    assert outcome.well
    assert [finding.peer for finding in outcome.findings] == ["faiss-flat", "faiss-hnsw"]
    assert "SIGSEGV" in outcome.findings[0].what and "no room" in outcome.findings[1].what
    lines = {line.peer: line for line in outcome.lines}
    assert "SIGSEGV" in lines["faiss-flat"].note and lines["faiss-flat"].value is None
    (ours,) = [line for line in outcome.lines if line.value is not None]
    assert ours.peer == ("hnswlib" if PEERS["hnswlib"].installed else None)


def test_a_bench_that_hangs_is_ended(kept: Ceilings) -> None:
    from dataclasses import replace

    bench: Bench = replace(BENCHES["open-npz"], deadline_s=0.05)
    outcome = outcome_of(bench, "tiny", kept.to_json(), quiet)
    assert "hang" in outcome.findings[0].what


def test_the_command_goes_on_after_a_death_and_ends_with_6(kept: Ceilings) -> None:
    words = ["bench", "gather-zarr", "open-npz", "--size", "tiny", "--json"]
    process = subprocess.Popen(
        [sys.executable, "-m", "ttf", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    children: list[psutil.Process] = []
    while process.poll() is None and not children:
        children = psutil.Process(process.pid).children()
        time.sleep(0.005)
    children[0].send_signal(signal.SIGKILL)
    out, err = process.communicate(timeout=60)
    document = json.loads(out)
    assert process.returncode == 6, err.decode()
    assert [line["name"] for line in document["results"]] == ["open-npz"]
    assert document["findings"][0]["name"] == "gather-zarr"
    assert b"gather-zarr did not finish" in err
