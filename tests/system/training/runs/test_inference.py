"""A trained run in use: encode, search, evaluate and mine, from Python and from the shell."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import ttf
from ttf.data.vectors import unit_rows

if TYPE_CHECKING:
    from tests.conftest import Invoke

D, L, BANK = 8, 4, 30
RNG = np.random.default_rng(0)
VECTORS = RNG.standard_normal((BANK, D)).astype(np.float32)
X_TRAIN = RNG.standard_normal((48, L, D)).astype(np.float32)
X_VAL = RNG.standard_normal((12, L, D)).astype(np.float32)
Y_TRAIN, Y_VAL = VECTORS[np.arange(48) % 7], VECTORS[np.arange(12) % 10]
SMALL: dict[str, Any] = {
    "tower.query.hidden": 8,
    "miner": "exact",
    "isolation": "none",
    "negatives.min_yield": 0,
    "steps": 2,
    "batch_size": 8,
    "device": "cpu",
    "threads": 1,
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files and three finished runs: with a bank, without one, and in bf16."""
    place = tmp_path_factory.mktemp("inference")
    np.savez(place / "bank.npz", vectors=VECTORS)
    known: dict[str, Any] = {"pos_train": np.arange(48) % BANK, "pos_val": np.arange(12)}
    np.savez(place / "pairs.npz", X_train=X_TRAIN, X_val=X_VAL, **known)
    np.savez(place / "own.npz", X_train=X_TRAIN, X_val=X_VAL, Y_train=Y_TRAIN, Y_val=Y_VAL)
    here = Path.cwd()
    os.chdir(place)
    try:
        here_too: dict[str, Any] = {**SMALL, "supervised": False}
        both = here_too | {"pairs": "pairs.npz", "bank": "bank.npz"}
        ttf.train(out="with-bank", **both)
        ttf.train(out="bf16", **both, precision="bf16")
        ttf.train(out="own", **here_too, pairs="own.npz")
    finally:
        os.chdir(here)
    return place


@pytest.fixture
def place(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy that a test may change; its runs still name the files in `trained`."""
    copy = tmp_path / "place"
    shutil.copytree(trained, copy)
    for run in ("with-bank", "bf16", "own"):
        for name in ("run.toml", "manifest.json"):
            file = copy / run / name
            file.write_text(file.read_text().replace(str(trained), str(copy)))
    monkeypatch.chdir(copy)
    return copy


@pytest.fixture
def model(place: Path) -> Iterator[ttf.Model]:
    with ttf.load("with-bank") as opened:
        yield opened


# --- ids -------------------------------------------------------------------------------------


def test_without_a_bank_ids_are_rows_of_y(place: Path, invoke: Invoke) -> None:
    result = invoke(["search", "own", "--queries", "own.npz", "-k", "5", "--json"])
    assert result.code == 0, result.err
    found = result.json()
    assert found["ids_are"] == "rows of Y_train followed by Y_val"
    assert result.err.count("rows of Y_train followed by Y_val") == 1
    targets = np.concatenate([Y_TRAIN, Y_VAL])
    with ttf.load("own") as model:
        queries = model.encode_queries(X_VAL)
    scores = np.take_along_axis(queries @ unit_rows(targets).T, np.array(found["ids"]), axis=1)
    np.testing.assert_allclose(scores, found["scores"], atol=1e-5)
    assert max(map(max, found["ids"])) >= 48, "some documents occur in Y_val alone"


def test_ids_of_a_bank_are_its_rows_or_its_own(place: Path, invoke: Invoke) -> None:
    words = ["search", "with-bank", "--queries", "pairs.npz", "-k", "3", "--json"]
    plain = invoke(words).json()
    assert plain["ids_are"] == "rows of the bank"
    np.savez(place / "bank.npz", vectors=VECTORS, ids=np.arange(BANK) + 500)
    named = invoke(words).json()
    assert named["ids_are"] == "the ids of the bank"
    assert np.array_equal(np.array(plain["ids"]) + 500, named["ids"])


# --- one way to encode -----------------------------------------------------------------------


@pytest.mark.parametrize("run", ["with-bank", "bf16"])
def test_arrays_and_files_are_encoded_alike(run: str, place: Path) -> None:
    with ttf.load(run) as model:
        given, filed = model.search(X_VAL, k=5), model.search_file(place / "pairs.npz", k=5)
    assert np.array_equal(given.ids, filed.ids)
    assert np.array_equal(given.scores, filed.scores)


def test_queries_are_encoded_in_the_precision_of_the_run(place: Path) -> None:
    import torch

    with ttf.load("bf16") as model, torch.no_grad():
        exact = model.towers.encode_queries(torch.from_numpy(X_VAL)).numpy()
        assert not np.array_equal(model.encode_queries(X_VAL), exact)
        np.testing.assert_allclose(model.encode_queries(X_VAL), exact, atol=0.05)


def test_what_lies_beyond_a_length_does_not_matter(model: ttf.Model) -> None:
    lengths = np.full(12, 2)
    changed = X_VAL.copy()
    changed[:, 2:] = 7
    cut = model.encode_queries(X_VAL[:, :2])
    np.testing.assert_allclose(model.encode_queries(changed, lengths), cut, atol=1e-6)
    assert model.search(X_VAL[:0]).ids.shape == (0, 10)


@pytest.mark.parametrize(
    ("queries", "says"),
    [
        (np.zeros((3, L, D + 1), np.float32), ["width 8", "width 9"]),
        (np.zeros((3, D - 1), np.float32), ["width 8", "width 7"]),
        (np.zeros((3, L + 1, D), np.float32), ["4 steps", "5 steps"]),
        (np.zeros(D, np.float32), ["(8,)", "(N, D)"]),
        (np.full((3, L, D), np.nan, np.float32), ["Row 0", "not finite"]),
        (np.array([["word"]]), ["numbers"]),
    ],
    ids=["wider", "narrower", "longer", "one axis", "not finite", "words"],
)
def test_queries_the_tower_was_not_trained_for_are_refused(
    model: ttf.Model, queries: Any, says: list[str]
) -> None:
    with pytest.raises(ttf.BadData) as caught:
        model.search(queries)
    for part in says:
        assert part in f"{caught.value} {caught.value.hint}"


@pytest.mark.parametrize("lengths", [np.ones(3, int), np.full(12, L + 1), np.zeros(12, int)])
def test_lengths_that_cannot_be_are_refused(model: ttf.Model, lengths: Any) -> None:
    with pytest.raises(ttf.BadData, match="lengths"):
        model.encode_queries(X_VAL, lengths)


def test_a_file_of_longer_sequences_is_refused(place: Path, invoke: Invoke) -> None:
    np.savez(place / "long.npz", X_test=np.zeros((3, L + 2, D), np.float32))
    result = invoke(["search", "with-bank", "--queries", "long.npz"])
    assert result.code == 3
    assert "long.npz" in result.err
    assert "6 steps" in result.err
    assert "Keep only the last steps" in result.err


def test_numbers_that_are_called_vectors_are_refused(place: Path, invoke: Invoke) -> None:
    np.savez(place / "numbers.npz", vectors=np.arange(8).reshape(2, 4))
    result = invoke(["search", "with-bank", "--queries", "numbers.npz"])
    assert result.code == 3 and "save them as seq_test" in result.err


def test_sequences_for_a_tower_of_single_vectors_need_one_vector_each(place: Path) -> None:
    pairs = {"X_train": X_TRAIN[:, 0], "pos_train": np.arange(48) % BANK}
    small = {**SMALL, "steps": 1, "tower": "linear", "supervised": False}
    del small["tower.query.hidden"]
    with ttf.train(pairs=pairs, bank=VECTORS, out="single", **small).load() as model:
        with pytest.raises(ttf.BadData, match="single vectors") as caught:
            model.search(X_VAL)
        assert "Make one vector of each query" in caught.value.hint


# --- only what is needed is opened -----------------------------------------------------------


def test_evaluation_needs_the_validation_pairs_alone(place: Path, invoke: Invoke) -> None:
    np.savez(place / "test.npz", X_val=X_VAL, pos_val=np.arange(12))
    there = invoke(["eval", "with-bank", "--pairs", "test.npz", "--json"]).json()
    assert there["metrics"] == invoke(["eval", "with-bank", "--json"]).json()["metrics"]


def test_a_file_to_be_judged_may_name_its_arrays_as_it_likes(place: Path, invoke: Invoke) -> None:
    wanted = invoke(["eval", "with-bank", "--json"]).json()["metrics"]
    np.savez(place / "test.npz", X_train=X_VAL, pos_train=np.arange(12))
    judged = invoke(["eval", "with-bank", "--pairs", "test.npz", "--json"]).json()
    assert (judged["queries"], judged["metrics"]) == (12, wanted)
    assert "all its 12 pairs" in judged["notes"][0]
    np.savez(place / "test.npz", asked=X_VAL, found=np.arange(12))
    argv = ["eval", "with-bank", "--pairs", "test.npz"]
    for name, array in (("X_val", "asked"), ("pos_val", "found")):
        refused = invoke(argv)
        assert refused.code == 3
        assert f"--set data.names.{name}=" in refused.err
        argv += ["--set", f"data.names.{name}={array}"]
    assert invoke([*argv, "--json"]).json()["metrics"] == wanted
    names = {"data.names.X_val": "asked", "data.names.pos_val": "found"}
    assert ttf.evaluate(place / "with-bank", pairs=place / "test.npz", sets=names) == wanted
    for key in ("train.lr", "data.bank"):
        assert invoke([*argv, "--set", f"{key}=3"]).code == 2


def test_other_pairs_are_found_in_the_bank_of_the_run(place: Path, invoke: Invoke) -> None:
    np.savez(place / "test.npz", X_val=X_VAL, Y_val=Y_VAL)
    there = invoke(["eval", "own", "--pairs", "test.npz", "--json"]).json()
    assert there == invoke(["eval", "own", "--json"]).json()
    np.savez(place / "test.npz", X_val=X_VAL, Y_val=np.where(np.arange(12) < 4, 0, Y_VAL.T).T)
    assert invoke(["eval", "own", "--pairs", "test.npz", "--json"]).json()["left_out"] == 4


def test_pairs_that_moved_are_missed_by_evaluation_alone(place: Path, invoke: Invoke) -> None:
    (place / "pairs.npz").rename(place / "elsewhere.npz")
    searched = invoke(["search", "with-bank", "--queries", "elsewhere.npz", "-k", "2", "--json"])
    assert searched.code == 0, searched.err
    refused = invoke(["eval", "with-bank"])
    assert refused.code == 3
    assert "pairs.npz: there is no such file" in refused.err
    assert invoke(["eval", "with-bank", "--pairs", "elsewhere.npz"]).code == 0


# --- files that are not those of the training ------------------------------------------------


def in_another_order(place: Path) -> None:
    np.savez(place / "bank.npz", vectors=VECTORS[::-1])


SAID = "The bank {} is not that of the training: the file has changed since (before: "


@pytest.mark.parametrize(
    "words",
    [
        ["eval", "with-bank"],
        ["search", "with-bank", "--queries", "pairs.npz", "-k", "2"],
        ["search", "with-bank", "--queries", "pairs.npz", "--out", "found.npz"],
        ["mine", "with-bank", "--out", "c.npz", "--isolation", "none", "--miner", "exact"],
        ["calibrate", "with-bank"],
    ],
    ids=lambda words: " ".join(words[:1] + words[4:5]),
)
def test_a_bank_with_other_rows_is_said_on_screen_and_in_json(
    words: list[str], place: Path, invoke: Invoke
) -> None:
    assert not any("training" in note for note in invoke([*words, "--json"]).json()["notes"])
    in_another_order(place)
    said = SAID.format(place / "bank.npz")
    told = invoke([*words, "--json", *(["--overwrite"] if "--out" in words else [])])
    assert told.code == 0, told.err
    (note,) = [note for note in told.json()["notes"] if note.startswith(said)]
    assert "if its rows moved, metrics are wrong" in note and "--bank FILE" in note
    assert told.err.replace("\n", " ").count("is not that of the training") == 1


def test_a_bank_that_was_named_or_only_touched_needs_no_note(place: Path, invoke: Invoke) -> None:
    os.utime(place / "bank.npz")
    with ttf.load("with-bank") as model:
        assert model.notes == []
    in_another_order(place)
    with ttf.load("with-bank") as model:
        assert len(model.notes) == 1
    assert invoke(["eval", "with-bank", "--bank", "bank.npz", "--json"]).json()["notes"] == []


def test_pairs_that_changed_are_said_by_those_who_read_them(place: Path, invoke: Invoke) -> None:
    np.savez(place / "pairs.npz", X_val=X_VAL[::-1], pos_val=np.arange(12))
    (note,) = invoke(["eval", "with-bank", "--json"]).json()["notes"]
    assert note.startswith(f"The file of pairs {place / 'pairs.npz'} is not that of the training")
    assert "--pairs FILE" in note
    assert invoke(["search", "with-bank", "--queries", "pairs.npz", "--json"]).json()["notes"] == []


def test_without_its_bank_a_model_encodes_and_searches_another(place: Path, invoke: Invoke) -> None:
    with ttf.load("with-bank") as model:
        wanted, queries = model.search(X_VAL, k=3), model.encode_queries(X_VAL)
    (place / "bank.npz").rename(place / "moved.npz")
    with ttf.load("with-bank") as model:
        np.testing.assert_array_equal(model.encode_queries(X_VAL), queries)
        assert model.encode_documents(VECTORS[:3]).shape == (3, D)
        assert "its bank is not there" in repr(model)
        with pytest.raises(ttf.DataMissing, match=r"bank\.npz: there is no such file") as caught:
            model.search(X_VAL)
    assert "--bank FILE" in caught.value.hint and "bank=" in caught.value.hint
    words = ["search", "with-bank", "--queries", "pairs.npz", "-k", "3", "--json"]
    refused = invoke(words)
    assert (refused.code, "--bank FILE" in refused.err) == (3, True)
    found = invoke([*words, "--bank", "moved.npz"]).json()
    assert np.array_equal(found["ids"], wanted.ids)
    nowhere = invoke([*words, "--bank", "nowhere.npz"])
    assert (nowhere.code, "nowhere.npz: there is no such file" in nowhere.err) == (3, True)
    with ttf.load("with-bank", bank=VECTORS) as model:  # an array
        assert np.array_equal(model.search(X_VAL, k=3).ids, wanted.ids)
    with ttf.load("with-bank", bank="moved.npz") as model:
        assert np.array_equal(model.search(X_VAL, k=3).ids, wanted.ids)


# --- arrays in the place of files ------------------------------------------------------------


def test_padding_is_not_read_from_arrays_either(model: ttf.Model) -> None:
    lengths, padded = np.full(12, 2), X_VAL.copy()
    padded[:, 2:] = np.nan
    cut = model.encode_queries(X_VAL[:, :2])
    np.testing.assert_allclose(model.encode_queries(padded, lengths), cut, atol=1e-6)
    np.testing.assert_allclose(model.encode_queries(list(X_VAL[:, :2])), cut, atol=1e-6)
    ragged = [X_VAL[0], *X_VAL[1:, :2]]
    np.testing.assert_allclose(model.encode_queries(ragged)[1:], cut[1:], atol=1e-6)
    padded[3, 1] = np.nan
    with pytest.raises(ttf.BadData, match="Row 3 of the given queries is not finite"):
        model.search(padded, lengths=lengths)


def test_python_evaluates_and_calibrates_with_arrays(place: Path) -> None:
    wanted = ttf.evaluate("with-bank")
    pairs = {"X_val": X_VAL, "pos_val": np.arange(12)}
    assert ttf.evaluate("with-bank", pairs=pairs, bank=VECTORS) == wanted
    assert ttf.evaluate("with-bank", bank={"vectors": VECTORS}) == wanted
    with pytest.raises(ttf.BadData, match=r"the bank bank= has documents of width 5"):
        ttf.evaluate("with-bank", bank=VECTORS[:, :5])
    train = {"X_train": X_TRAIN, "pos_train": np.arange(48) % BANK}
    assert ttf.calibrate("with-bank", pairs=pairs | train, bank=VECTORS).bank == "the given array"


@pytest.mark.parametrize("name", ["lengths", "len_test", "seq_len"])
def test_lengths_that_a_search_does_not_read_are_said(
    name: str, place: Path, invoke: Invoke
) -> None:
    lengths = np.full(12, 2)
    for kind, says in (("X_val", "from len_val (int64)"), ("vectors", "Name the queries X_test")):
        queries: dict[str, Any] = {kind: X_VAL, name: lengths}
        np.savez(place / "queries.npz", **queries)
        told = invoke(["search", "with-bank", "--queries", "queries.npz", "--json"])
        (note,) = told.json()["notes"]
        assert f"{name} in queries.npz is not used, so every step" in note
        assert says in note
    np.savez(place / "queries.npz", X_val=X_VAL, len_val=lengths, X_test=X_VAL, len_test=lengths)
    told = invoke(["search", "with-bank", "--queries", "queries.npz", "--json"])
    note = "The queries are X_test of queries.npz, which also has X_val."
    assert told.json()["notes"] == [note]


def test_an_id_stays_in_its_column(place: Path, invoke: Invoke) -> None:
    ids = np.array([f"a\tb\nc{row}" for row in range(BANK)])
    np.savez(place / "named.npz", vectors=VECTORS, ids=ids)
    words = ["search", "with-bank", "--queries", "pairs.npz", "-k", "1", "--bank", "named.npz"]
    lines = invoke(words).out.splitlines()
    assert len(lines) == 13
    assert {len(line.split("\t")) for line in lines} == {4}
    assert lines[1].split("\t")[2].startswith(r"a\tb\nc")


# --- the output of a search ------------------------------------------------------------------


def test_an_output_is_looked_at_before_anything_is_searched(place: Path, invoke: Invoke) -> None:
    words = ["search", "with-bank", "--queries", "nothing-here.npz", "--out"]
    (place / "found.npz").write_bytes(b"mine")
    there = invoke([*words, "found.npz"])
    assert there.code == 2
    assert "found.npz already exists" in there.err
    assert "--overwrite" in there.err
    unknown = invoke([*words, "found.xyz"])
    assert unknown.code == 2
    assert "found.xyz" in unknown.err
    assert ".npz" in unknown.err
    assert (place / "found.npz").read_bytes() == b"mine"


def test_overwrite_replaces_an_output(place: Path, invoke: Invoke) -> None:
    (place / "found.npz").write_bytes(b"mine")
    words = ["search", "with-bank", "--queries", "pairs.npz", "-k", "3", "--json"]
    result = invoke([*words, "--out", "found.npz", "--overwrite"])
    assert result.code == 0, result.err
    assert result.json() == {
        "out": "found.npz",
        "queries": 12,
        "k": 3,
        "ids_are": "rows of the bank",
        "notes": ["The queries are X_val of pairs.npz, which also has X_train."],
    }
    with np.load(place / "found.npz") as written:
        assert written["ids"].shape == (12, 3)


# --- the same verbs from Python --------------------------------------------------------------


def test_the_verbs_stay_functions_whatever_is_imported() -> None:
    import importlib

    for name in ("ttf.training.evaluation", "ttf.training.plan", "ttf.mining"):
        importlib.import_module(name)
    assert ttf.evaluate.__module__ == ttf.plan.__module__ == "ttf.api"


def test_python_resumes_plans_evaluates_and_mines_as_the_commands_do(
    place: Path, invoke: Invoke
) -> None:
    (place / "with-bank" / "summary.json").unlink()
    resumed = ttf.resume("with-bank")
    assert (resumed.path, resumed.summary["status"]) == (Path("with-bank"), "finished")
    assert ttf.resume("with-bank").metrics == resumed.metrics
    assert ttf.evaluate("with-bank") == pytest.approx(resumed.metrics, abs=1e-9)

    planned = ttf.plan("with-bank/run.toml", seed=3).to_json()
    told = invoke(["train", "with-bank/run.toml", "--seed", "3", "--plan", "--json"]).json()
    assert planned.keys() == told.keys()
    assert planned["samples_per_step"] == told["samples_per_step"] == 8

    mined = ttf.mine("with-bank", out="a.npz", k=5, isolation="none", miner="exact", threads=1)
    words = ["mine", "with-bank", "--out", "b.npz", "-k", "5", "--isolation", "none"]
    assert invoke([*words, "--miner", "exact", "--threads", "1"]).code == 0
    assert (mined.queries, mined.k, mined.certified) == (48, 5, True)
    with np.load("a.npz") as first, np.load("b.npz") as second:
        assert np.array_equal(first["ids"], second["ids"])
    with pytest.raises(ttf.ConfigError, match="not clear what to mine"):
        ttf.mine(out="c.npz")


def test_rows_of_a_file_are_encoded_as_the_whole_file_is(place: Path) -> None:
    from ttf.config.schema import DataConfig
    from ttf.data.open_dataset import open_dataset

    files = DataConfig(pairs=str(place / "pairs.npz"), bank=str(place / "bank.npz"))
    with ttf.load("with-bank") as model, open_dataset(files) as data:
        some = model.encode_rows(data.train.queries, np.array([5, 3]))
        np.testing.assert_allclose(some, model.encode_queries(X_TRAIN[[5, 3]]), atol=1e-7)
        whole = model.encode_rows(data.train.queries)
        np.testing.assert_allclose(some, whole[[5, 3]], atol=1e-6)
