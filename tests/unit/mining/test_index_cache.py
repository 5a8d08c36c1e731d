"""Indexes shared between runs: built once, verified before they are loaded."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from filelock import FileLock
from numpy.typing import NDArray
from tests.conftest import FakeDistribution
from tests.unit.plugins.miners.test_every_miner import BANK, KINDS, QUERIES, Kind

from ttf.contracts import VectorSource
from ttf.data.sources import MemorySource
from ttf.errors import StorageError
from ttf.host import plugins
from ttf.mining import provenance
from ttf.mining.job import IndexRecord
from ttf.mining.worker_main import ready_index
from ttf.rundir import verified_folders
from ttf.rundir.confined import sha256_file
from ttf.rundir.verified_folders import folder_key
from ttf.rundir.waiting_lock import Patience, wait_for

INDEXED = [kind for kind in KINDS if kind.name in ("faiss-hnsw", "faiss-ivf", "hnswlib")]
each_kind = pytest.mark.parametrize("kind", INDEXED, ids=lambda kind: kind.name)


class Run:
    """One run that wants an index."""

    def __init__(self, tmp_path: Path) -> None:
        self.cache = tmp_path / "cache"
        self.said: list[str] = []

    def __call__(self, kind: Kind, seed: int = 0) -> tuple[IndexRecord, NDArray[np.int64]]:
        miner = kind.make()
        made_from = {"bank": "b", "miner": kind.name, "seed": seed}
        source = MemorySource(BANK[:1000])
        record = ready_index(
            self.cache, made_from, miner, source, self.cache.parent, self.said.append
        )
        return record, miner.search(QUERIES, 10)[0]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    return Run(tmp_path)


@each_kind
def test_the_second_run_reuses_what_the_first_built(kind: Kind, run: Run) -> None:
    first, built = run(kind)
    second, reused = run(kind)
    assert (first.origin, second.origin) == ("built", "reused")
    assert first.sha256 == second.sha256
    assert (built == reused).all()
    assert run.said == []


@each_kind
def test_a_damaged_index_is_built_anew_and_said(kind: Kind, run: Run) -> None:
    first, built = run(kind)
    assert first.path is not None
    (file,) = [p for p in Path(first.path).iterdir() if p.name != "manifest.json"]
    data = bytearray(file.read_bytes())
    data[len(data) // 2 : len(data) // 2 + 512] = os.urandom(512)
    file.write_bytes(data)
    again, rebuilt = run(kind)
    assert again.origin == "built"
    assert (built == rebuilt).all()
    assert len(run.said) == 1
    assert file.name in run.said[0]
    assert "does not match its hash. ttf builds a new index." in run.said[0]
    assert sha256_file(file, file.parent) == again.sha256[file.name]


def test_a_manifest_that_is_cut_means_building_anew(run: Run) -> None:
    first, _ = run(INDEXED[0])
    assert first.path is not None
    os.truncate(Path(first.path) / "manifest.json", 5)
    assert run(INDEXED[0])[0].origin == "built"
    assert "incomplete or damaged" in run.said[0]


def test_other_makings_are_other_indexes(run: Run) -> None:
    keys = {run(INDEXED[0], seed=seed)[0].key for seed in (0, 1)}
    assert len(keys) == 2
    assert folder_key({"a": 1, "b": 2}) == folder_key({"b": 2, "a": 1})


def test_what_a_killed_builder_left_is_cleared_and_others_are_let_be(run: Run) -> None:
    key = run(INDEXED[0])[0].key
    folder = run.cache / "index"
    (folder / f".tmp-{key}-999").mkdir()
    (folder / ".tmp-other-999").mkdir()
    run(INDEXED[0])
    assert not (folder / f".tmp-{key}-999").exists()
    assert (folder / ".tmp-other-999").exists()


def test_an_index_that_cannot_be_kept_is_used_all_the_same(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: object, path: Path) -> None:
        raise StorageError("The disk is full.", hint="Free some space.")

    monkeypatch.setattr("ttf_miners._faiss_index._FaissIndex.save", full)
    record, ids = run(INDEXED[0])
    assert record.path is None
    assert ids.shape == (300, 10)
    assert "uses the index in memory and does not save it" in run.said[0]
    assert not list((run.cache / "index").glob("*/"))


def test_a_cache_that_cannot_be_written_is_done_without(run: Run) -> None:
    run.cache.write_text("a file where the folder should be")
    record, _ = run(INDEXED[0])
    assert record.path is None
    assert "cannot be used" in run.said[0]


def test_an_index_whose_lock_another_process_keeps_is_built_without_the_cache(
    run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    short = Patience(say_after_s=0.0, busy_s=0.2, unseen_s=0.1)
    monkeypatch.setattr(verified_folders, "wait_for", partial(wait_for, patience=short))
    kind = INDEXED[0]
    first, built = run(kind)
    folder = run.cache / "index" / first.key
    with FileLock(folder.with_suffix(".lock"), is_singleton=False):
        second, again = run(kind)
    assert (second.origin, (built == again).all()) == ("built", True)
    assert "ttf waits for it" in run.said[0] and "cannot be used" in run.said[1]


def test_what_the_run_folder_notes_is_json(run: Run) -> None:
    record, _ = run(INDEXED[0])
    note = json.loads(json.dumps(asdict(record)))
    assert (note["key"], note["origin"]) == (record.key, "built")
    assert note["sha256"] == record.sha256
    assert note["size_bytes"] > 0


def test_an_index_of_other_code_is_another_index(fake_plugins: FakeDistribution) -> None:
    """A package that is being written keeps its version while its code changes."""
    fake_plugins.add("ttf-foo", {"miner.foo": "ttf_foo_package.plugin"})
    package = fake_plugins.folder / "ttf_foo_package"
    package.mkdir()
    for name in ("__init__", "plugin", "index"):
        package.joinpath(f"{name}.py").write_text(f"# {name}\n")
    info = plugins.find("miner", "foo")
    before = provenance.code_of(info)
    provenance.code_of.cache_clear()
    assert provenance.code_of(info) == before
    package.joinpath("index.py").write_text("# mended\n")
    provenance.code_of.cache_clear()
    assert provenance.code_of(info) != before
    assert provenance.code_of(plugins.find("miner", "faiss")) != before
    assert provenance.versions_of(["faiss"])["faiss"].startswith("faiss-cpu ")
    assert provenance.versions_of(["no_such_module"]) == {"no_such_module": ""}


class Unreadable:
    """A miner whose code no longer reads what it wrote."""

    def __init__(self, miner: Any) -> None:
        self._miner = miner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._miner, name)

    def load(self, path: Path, source: VectorSource) -> None:
        raise FileNotFoundError("index.npz")


@each_kind
def test_an_index_that_its_miner_cannot_read_is_built_anew_and_said(kind: Kind, run: Run) -> None:
    _, built = run(kind)
    miner = Unreadable(kind.make())
    made_from = {"bank": "b", "miner": kind.name, "seed": 0}
    record = ready_index(
        run.cache, made_from, miner, MemorySource(BANK[:1000]), run.cache.parent, run.said.append
    )
    assert record.origin == "built"
    assert (miner.search(QUERIES, 10)[0] == built).all()
    (line,) = run.said
    assert "could not load the index" in line and "FileNotFoundError: index.npz" in line
