"""`ttf mine`, from the command line to the table."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.conftest import Invoke, RunTtf
from tests.kit.widely import wide

from ttf.data.synth import SynthShape, write_synth
from ttf.data.vectors import npy_header, unit_rows
from ttf.errors import MinerDied
from ttf.mining.job import MiningJob

BANK = np.random.default_rng(0).standard_normal((3000, 16)).astype(np.float32)
QUERIES = np.random.default_rng(1).standard_normal((500, 16)).astype(np.float32)


@pytest.fixture
def files(tmp_path: Path) -> Path:
    np.savez(tmp_path / "bank.npz", vectors=BANK)
    np.savez(tmp_path / "queries.npz", X_val=QUERIES)
    return tmp_path


def words(folder: Path, *more: str) -> list[str]:
    base = ["mine", "--queries", str(folder / "queries.npz"), "--bank", str(folder / "bank.npz")]
    return [*base, "--out", str(folder / "found.npz"), "-k", "20", "--threads", "2", *more]


def truth(k: int = 20) -> NDArray[np.int64]:
    return np.argsort(-(unit_rows(QUERIES) @ unit_rows(BANK).T), axis=1, kind="stable")[:, :k]


def test_the_table_holds_the_best_rows_and_nothing_else_is_left(
    files: Path, run_ttf: RunTtf
) -> None:
    done = run_ttf(*words(files, "--json"))
    assert done.code == 0, done.err
    found = np.load(files / "found.npz")
    assert (found["ids"] == truth()).all()
    assert found["ids"].dtype == np.int64
    assert found["scores"].dtype == np.float32
    report = done.json()
    assert (report["queries"], report["bank"], report["k"]) == (500, 3000, 20)
    assert (report["miner"], report["recall_vs_exact"], report["certified"]) == ("exact", 1.0, True)
    assert report["certificate_rate"] == 1 - report["rescanned"] / report["queries"]
    assert {"build_s", "search_s", "wall_s"} <= report.keys()
    assert "Next:" in done.err
    assert sorted(p.name for p in files.glob("*found*")) == ["found.npz"]


def test_dot_products_take_vectors_as_they_are(files: Path, invoke: Invoke) -> None:
    done = invoke(words(files, "--similarity", "dot", "--miner", "faiss", "--isolation", "none"))
    assert done.code == 0, done.err
    expected = np.argsort(-(QUERIES @ BANK.T), axis=1, kind="stable")[:, :20]
    assert (np.load(files / "found.npz")["ids"] == expected).mean() > 0.999


@wide
def test_an_approximate_miner_tells_its_recall_and_reuses_its_index(
    files: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TTF_HOME", str(files / "home"))
    options = ["--json", "--overwrite", "--miner", "hnswlib", "--set", "miner.hnswlib.M=8"]
    first, second = (invoke(words(files, *options)).json() for _ in range(2))
    found = np.load(files / "found.npz")["ids"]
    recall = np.mean([len(np.intersect1d(a, b)) / 20 for a, b in zip(found, truth(), strict=True)])
    assert not first["certified"]
    assert first["certificate_rate"] is None
    assert first["recall_vs_exact"] == pytest.approx(recall, abs=0.05)
    low, high = first["recall_interval"]
    assert low <= recall <= high, "the interval of a seeded sample holds the share of all queries"
    assert (first["reused_index"], second["reused_index"]) == (False, True)


def in_chunks_of_200(monkeypatch: pytest.MonkeyPatch) -> None:
    from ttf.mining.worker_main import Searcher

    real_do = Searcher.do

    def do(self: Searcher, job: MiningJob, *rest: Any) -> Any:
        context = dataclasses.replace(job.context, queries_at_once=200)
        return real_do(self, dataclasses.replace(job, context=context), *rest)

    monkeypatch.setattr(Searcher, "do", do)


def test_an_interrupted_command_continues(
    files: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every attempt dies after its first chunk; the chunks add up."""
    from ttf.mining import worker_client, worker_main
    from ttf.mining.checked_answers import checked_search
    from ttf.tools.mine import offline

    real_search = checked_search
    searched: list[int] = []

    def dying_search(miner: Any, queries: Any, *rest: Any, name: str, **limits: Any) -> Any:
        searched.append(len(queries))
        if len(searched) in (2, 4):
            raise MinerDied(name, "killed by the test")
        return real_search(miner, queries, *rest, name=name, **limits)

    in_chunks_of_200(monkeypatch)
    monkeypatch.setattr(worker_main, "checked_search", dying_search)
    monkeypatch.setattr(worker_client, "LAST_ATTEMPTS", 1)
    options = ["--json", "--miner", "exact", "--isolation", "none"]
    for _ in range(2):
        assert invoke(words(files, *options)).code == 5
        assert not (files / "found.npz").exists()
        assert offline.partial_folder(files / "found.npz").exists()
    report = invoke(words(files, *options)).json()
    assert report["continued_from"] == 400
    assert searched == [200, 200, 200, 100, 100]
    assert (np.load(files / "found.npz")["ids"] == truth()).all()


def test_a_second_command_on_the_same_table_is_refused(files: Path, invoke: Invoke) -> None:
    import filelock

    with filelock.FileLock(files / ".found.npz.lock"):
        done = invoke(words(files))
    assert done.code == 9
    assert "Another process is writing a candidate table" in done.err


@pytest.mark.parametrize(
    ("change", "code", "text"),
    [
        (["--miner", "hnswlb"], 2, "Did you mean 'hnswlib'"),
        (["--set", "miner.faiss.kind=tree"], 2, "miner.faiss.kind"),
        (["--memory-budget", "much"], 2, "memory.budget"),
        (["--bank", "nowhere.npz"], 3, "there is no such file"),
        (
            ["--miner", "hnswlib", "--memory-budget", "100KiB"],
            2,
            "needs about 1.3 MB of memory, but the budget is 102 kB",
        ),
    ],
)
def test_what_is_wrong_is_said_and_nothing_is_left(
    files: Path, invoke: Invoke, change: list[str], code: int, text: str
) -> None:
    done = invoke([*words(files), *change])
    assert (done.code, text in done.err) == (code, True), done.err
    assert not list(files.glob("*found*"))


@pytest.mark.parametrize(
    ("arrays", "text"),
    [
        ({"Y": QUERIES}, "has no array `vectors` or X_*"),
        ({"X_val": QUERIES[:, None, :]}, "Sequences must be encoded by a trained tower"),
        ({"X_val": QUERIES[:, :8]}, "has the width 8, but vectors in"),
        ({"vectors": np.where(np.arange(16) == 3, np.nan, QUERIES)}, "contains NaN or infinity"),
    ],
)
def test_query_files_that_cannot_be_mined_are_named(
    files: Path, invoke: Invoke, arrays: dict[str, NDArray[Any]], text: str
) -> None:
    np.savez(files / "queries.npz", **arrays)  # type: ignore[arg-type]
    done = invoke(words(files, "--isolation", "none", "--similarity", "dot"))
    assert (done.code, text in done.err) == (3, True), done.err
    assert not list(files.glob("*found*"))


@pytest.mark.parametrize(
    "argv",
    [
        ["mine", "--out", "f.npz"],
        ["mine", "runs/a", "--queries", "q.npz", "--bank", "b.npz", "--out", "f.npz"],
        ["mine", "--queries", "q.npz", "--out", "f.npz"],
        ["mine", "runs/a", "--similarity", "dot", "--out", "f.npz"],
    ],
)
def test_it_must_be_clear_what_to_mine(argv: list[str], invoke: Invoke) -> None:
    done = invoke(argv)
    assert done.code == 2
    assert "It is not clear what to mine" in done.err


@pytest.mark.parametrize(
    ("out", "code", "text"),
    [
        ("x.bin", 2, "no storage plugin reads files with this ending"),
        ("x.npy", 2, "cannot hold more than one array"),
        ("x.zarr.zip", 2, "written"),
        ("s3://bucket/x.zarr", 2, "a local file, not a URL"),
        ("queries.npz", 2, "is the same file as an input"),
        ("./bank.npz", 2, "is the same file as an input"),
        ("there.npz", 2, "already exists"),
        ("locked/x.npz", 8, "Could not write"),
    ],
)
def test_an_output_that_cannot_be_is_refused_before_anything_is_mined(
    files: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch, out: str, code: int, text: str
) -> None:
    from ttf.tools.mine import offline

    monkeypatch.setattr(offline, "mine", lambda *_, **__: pytest.fail("it was mined"))
    monkeypatch.chdir(files)
    (files / "there.npz").write_bytes(b"mine")
    (files / "locked").touch()  # a file where a folder is needed: root, too, cannot write there
    before = sorted(files.rglob("*"))
    overwrite = [] if out == "there.npz" else ["--overwrite"]
    done = invoke([*words(files), "--out", out, *overwrite])
    assert (done.code, text in done.err) == (code, True), done.err
    assert "--storage" not in done.err
    assert sorted(files.rglob("*")) == before
    assert (files / "there.npz").read_bytes() == b"mine"


def test_a_hint_names_only_flags_that_mine_has(files: Path, invoke: Invoke) -> None:
    (files / "queries.bin").touch()
    done = invoke([*words(files), "--queries", str(files / "queries.bin")])
    assert done.code == 2
    assert "--set data.storage=NAME" in done.err
    assert "with --storage" not in done.err


def test_an_existing_table_is_replaced_only_when_told(files: Path, invoke: Invoke) -> None:
    for _ in range(2):
        assert invoke([*words(files), "--overwrite", "--miner", "faiss"]).code == 0
    assert (np.load(files / "found.npz")["ids"][:, 0] == truth()[:, 0]).all()


def test_answers_survive_an_error_met_after_them(
    files: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second of three chunks meets a query that cannot be searched."""
    from ttf.tools.mine import offline

    spoilt = QUERIES.copy()
    spoilt[250] = np.nan
    np.savez(files / "queries.npz", X_val=spoilt)

    in_chunks_of_200(monkeypatch)
    done = invoke(words(files, "--isolation", "none", "--similarity", "dot", "--miner", "faiss"))
    assert (done.code, "contains NaN" in done.err) == (3, True), done.err
    partial = offline.partial_folder(files / "found.npz")
    kept = sorted(p.name for p in (partial / "found").iterdir())
    assert kept == ["blocks.bin", "ids.npy", "scores.npy"]
    head = len(npy_header((len(QUERIES), 20), np.dtype("<i8")))
    assert (partial / "found" / "ids.npy").stat().st_size == head + 200 * 20 * 8


def test_of_several_arrays_of_queries_the_others_are_named_once(
    files: Path, invoke: Invoke
) -> None:
    options = ["--miner", "faiss", "--isolation", "none", "--overwrite"]
    np.savez(files / "queries.npz", vectors=QUERIES)
    assert "several arrays" not in invoke(words(files, *options)).err
    np.savez(files / "queries.npz", X_val=QUERIES, vectors=QUERIES, X_train=QUERIES)
    done = invoke(words(files, *options))
    assert "ttf uses vectors and ignores X_train, X_val." in done.err


def test_a_terminated_command_says_so_and_continues_when_given_again(
    files: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is stopped while its worker waits for the index cache, where it says nothing."""
    import filelock
    from tests.conftest import wait_until

    argv = words(files, "--miner", "hnswlib", "--json")
    home = files / "home"
    monkeypatch.setenv("TTF_HOME", str(home))
    done = invoke(argv)
    assert done.code == 0, done.err
    (files / "found.npz").unlink()
    (lock,) = (
        (home / "cache").rglob("*.lock") if (home / "cache").exists() else home.rglob("*.lock")
    )
    with filelock.FileLock(lock):
        process = subprocess.Popen(
            [sys.executable, "-m", "ttf", *argv],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        partial = files / "found.npz.partial"
        wait_until(lambda: (partial / "found" / "blocks.bin").exists(), 60)
        process.terminate()
        _, err = process.communicate(timeout=60)
    assert process.returncode == 143, err
    assert "Stopped by SIGTERM. To continue, run the same command again." in err
    assert invoke(argv).code == 0
    assert not partial.exists()


def test_a_run_is_mined_for_its_training_queries(tmp_path: Path, invoke: Invoke) -> None:
    """As `ttf search` finds them: the same tower, the same bank."""
    import ttf

    made = write_synth(tmp_path, SynthShape(pairs=90, val=40, seq_len=4, dim=16, bank=120, seed=2))
    run = tmp_path / "run"
    here = ["--threads", "1", "--isolation", "none"]
    trained = invoke([
        "train", "--pairs", made["pairs"], "--bank", made["bank"], "--out", run, *here,
        "--in-process", "--set", "train.steps=3", "--set", "train.batch_size=16",
    ])  # fmt: skip
    assert trained.code == 0, trained.err
    out = tmp_path / "candidates.npz"
    refused = invoke(["mine", run, "--out", made["pairs"], "--overwrite"])
    assert (refused.code, "is the same file as an input" in refused.err) == (2, True), refused.err
    mined = invoke(["mine", run, "--out", out, "-k", "7", *here, "--json"])
    assert mined.code == 0, mined.err
    assert (mined.json()["queries"], mined.json()["bank"], mined.json()["k"]) == (90, 120, 7)
    with ttf.load(run) as model:
        encoded = model.encode_queries(np.load(made["pairs"])["X_train"])
    scores = unit_rows(np.asarray(encoded)) @ unit_rows(np.load(made["bank"])["vectors"]).T
    expected = np.sort(scores, axis=1)[:, ::-1][:, :7]
    found = np.load(out)
    np.testing.assert_allclose(found["scores"], expected, atol=1e-5)
    np.testing.assert_allclose(
        np.take_along_axis(scores, found["ids"], axis=1), expected, atol=1e-5
    )
    assert sorted(p.name for p in tmp_path.glob("*candidates*")) == ["candidates.npz"]


def test_more_candidates_than_the_bank_has_rows_are_said_once(files: Path, invoke: Invoke) -> None:
    done = invoke(words(files, "-k", "5000", "--isolation", "none", "--json"))
    assert done.code == 0, done.err
    assert done.err.count("The bank has only 3,000 rows") == 1
    assert done.json()["k"] == 3000
    assert np.load(files / "found.npz")["ids"].shape == (500, 3000)


@pytest.mark.parametrize(("budget", "said"), [("1KiB", True), ("256MiB", False)])
def test_a_budget_that_is_too_small_is_answered_with_what_is_used(
    files: Path, invoke: Invoke, budget: str, said: bool
) -> None:
    done = invoke(words(files, "--memory-budget", budget, "--isolation", "none"))
    assert done.code == 0, done.err
    text = "The memory budget is 1.0 kB, but the miner 'exact' needs at least"
    assert (text in done.err) == said
    assert " 0 B" not in done.err
    assert (np.load(files / "found.npz")["ids"] == truth()).all()


@pytest.mark.parametrize("option", ["--queries", "--bank"])
def test_urls_are_kept_as_they_were_given(files: Path, invoke: Invoke, option: str) -> None:
    done = invoke(words(files, option, "s3://bucket/file.npz"))
    assert done.code == 2
    assert "s3://bucket/file.npz: .npz and .npy files must be local files" in done.err
