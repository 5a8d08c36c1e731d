"""One real run from Python, as people write it, with its progress and its results."""

from __future__ import annotations

import contextlib
import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
from tests.kit.data_files import write
from tests.kit.small_training import BANK, QUERIES, arrays

import ttf


def test_a_run_from_python_shows_its_progress_and_what_came_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs, bank = tmp_path / "pairs.npz", tmp_path / "bank.npz"
    write(pairs, arrays())
    write(bank, {"vectors": BANK})
    shown = io.StringIO()  # as in IDLE: no descriptor that a child process could write to
    with contextlib.redirect_stderr(shown):
        run = ttf.train(
            {"miner": {"isolation": "none"}},
            pairs=pairs,
            bank=str(bank),
            tower="linear",
            steps=np.int64(2),
            lr=np.float32(0.5),
            seed=np.uint8(7),
            device="cpu",
            out=tmp_path / "run",
            sets={"train.batch_size": np.int32(8), "evaluate.k": np.array([1, 10])},
            progress=True,
        )
    assert f"Run folder: {tmp_path / 'run'}" in shown.getvalue()
    assert "evaluated at step 2" in shown.getvalue()
    assert (run.summary["steps"], run.summary["seed"]) == (2, 7)
    assert set(run.metrics) == {"recall@1", "recall@10", "mrr@10", "ndcg@10"}
    written = (tmp_path / "run" / "run.toml").read_text()
    assert "lr = 0.5" in written and "# lr=" in written and "# train.batch_size=" in written
    assert repr(run).startswith(f"Run({str(tmp_path / 'run')!r}: finished, 2 steps, recall@10 ")
    with run.load() as model:
        found = model.search(QUERIES[:3], k=5)
        assert repr(model).startswith("Model(linear -> identity, bank of ")
    assert repr(found).startswith("Found(3 queries x 5 documents; ids are ")
    monkeypatch.chdir(tmp_path)
    relative = ttf.Run(path=Path("run"), summary=run.summary)
    monkeypatch.chdir("/")
    with relative.load() as model:  # its place is known, wherever the program is now
        assert model.search(QUERIES[:3], k=5).ids.tolist() == found.ids.tolist()
    reported = ttf.report(run.path, bundle=tmp_path / "b.zip")
    assert reported.bundle is not None
    assert "report.html" in " ".join(zipfile.ZipFile(reported.bundle.path).namelist())
