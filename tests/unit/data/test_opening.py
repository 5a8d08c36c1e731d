"""What `[data]` names is put together, or refused with the file, the array and the row."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from tests.kit.data_files import BANK, X_TRAIN, config, pairs, write

from ttf.config.schema import DataConfig
from ttf.data.open_dataset import Opening, open_dataset
from ttf.data.query_files import open_queries
from ttf.errors import ArrayMissing, BadData, ConfigError, DataChanged, DataMissing

Arrays = Mapping[str, NDArray[Any]]
SEQ = np.zeros((16, 3), np.int64)
Y = BANK[:16]


def bad(id: str, arrays: Arrays, *says: str, bank: Arrays | None = None, **more: Any) -> Any:
    held = {"vectors": BANK} if bank is None else bank
    return pytest.param(arrays, held or None, more, says, id=id)


NO_X = {"X_train": None, "X_val": None}
NO_POS: dict[str, Any] = {"pos_train": None, "pos_val": None}
CASES = [
    bad("no queries", pairs(**NO_X), "pairs.npz", "X_train", "seq_train", "pos_train, pos_val"),
    bad("no queries under the mapped name", pairs(**NO_X), "X_train", "'mine'",
        names={"X_train": "mine"}),
    bad("queries in other letters", pairs(X_train=None) | {"x_Train": X_TRAIN}, "If x_Train is meant",
        "--set data.names.X_train=x_Train"),
    bad("no validation queries", pairs(X_val=None), "X_val", "seq_val"),
    bad("both kinds of queries", pairs(seq_train=SEQ), "X_train", "seq_train", "pairs.npz"),
    bad("queries of integers", pairs(X_train=np.zeros((16, 6), np.int64)), "X_train", "int64"),
    bad("queries of one axis", pairs(X_train=np.zeros(16, np.float32)), "X_train", "(16,)"),
    bad("queries without rows", pairs(X_train=np.zeros((0, 6), np.float32)), "X_train", "(0, 6)"),
    bad("rows of floats", pairs(**NO_X, seq_train=SEQ.astype(np.float32), seq_val=SEQ[:8]),
        "seq_train", "float32"),
    bad("rows of three axes", pairs(**NO_X, seq_train=SEQ[:, :, None], seq_val=SEQ[:8]),
        "seq_train", "(16, 3, 1)"),
    bad("lengths of another count", pairs(len_train=np.ones(5, np.int64)), "len_train", "X_train"),
    bad("lengths of floats", pairs(len_train=np.ones(16, np.float32)), "len_train", "float32"),
    bad("length of none", pairs(len_train=np.zeros(16, np.int64)), "pairs.npz is 0", "pairs.npz"),
    bad("length beyond the sequence", pairs(len_train=np.r_[np.ones(15), 2].astype(np.int64)),
        "pairs.npz is 2", "between 1 and 1"),
    bad("positives unknown", pairs(**NO_POS), "pos_train", "Y_train", "unknown"),
    bad("positives of another count", pairs(pos_val=np.zeros(3, np.int64)), "pos_val", "3 rows"),
    bad("no positive left", pairs(pos_val=np.full(8, -1)), "None of the 8 val pairs"),
    bad("targets of another width", pairs(pos_train=None, Y_train=np.zeros((16, 5), np.float32)),
        "Y_train", "width 5", "bank.npz", "width 6"),
    bad("targets of another count", pairs(pos_train=None, Y_train=BANK[:9]), "Y_train", "9 rows"),
    bad("targets of integers", pairs(pos_train=None, Y_train=np.zeros((16, 6), np.int32)),
        "Y_train", "int32"),
    bad("targets of three axes", pairs(pos_train=None, Y_train=Y[:, :, None]), "Y_train"),
    bad("no bank and no targets", pairs(), "No bank was given", "Y_train", bank={}),
    bad("no bank, targets differ", pairs(**NO_POS, Y_train=Y, Y_val=BANK[:8].astype(np.float16)),
        "Y_train", "Y_val", "float16", bank={}),
    bad("no bank, targets of another count", pairs(**NO_POS, Y_train=Y[:3], Y_val=BANK[:8]),
        "Y_train", "3 rows", bank={}),
    bad("bank without vectors", pairs(), "bank.npz", "vectors", bank={"docs": BANK}),
    bad("vectors of another name", pairs(), "bank.npz has no vectors", "It has: docs",
        "--set data.names.vectors=docs", bank={"docs": BANK}),
    bad("vectors of a name that is not there", pairs(), "'mine'", "It has: docs",
        names={"vectors": "mine"}, bank={"docs": BANK}),
    bad("bank of integers", pairs(), "vectors", "int64", bank={"vectors": np.zeros((4, 6), int)}),
    bad("bank of three axes", pairs(), "vectors", bank={"vectors": BANK[:, :, None]}),
    bad("ids twice", pairs(), "ids", "bank.npz", "17", "rows 3 and 5",
        bank={"vectors": BANK, "ids": np.where(np.arange(40) == 5, 17, np.arange(40) + 14)}),
    bad("ids of another count", pairs(), "ids", "(40,)",
        bank={"vectors": BANK, "ids": np.arange(3)}),
    bad("ids of floats", pairs(), "ids", "float32", "strings",
        bank={"vectors": BANK, "ids": np.arange(40, dtype=np.float32)}),
    bad("context of one axis", pairs(**NO_X, seq_train=SEQ, seq_val=SEQ[:8]), "context.npz",
        context={"vectors": np.zeros(4, np.float32)}),
    bad("splits of another width", pairs(X_val=np.zeros((8, 5), np.float32)), "X_train", "X_val"),
    bad("splits of another length",
        pairs(X_train=np.zeros((16, 3, 6), np.float32), X_val=np.zeros((8, 2, 6), np.float32)),
        "X_train", "(8, 2, 6)"),
    bad("one split of sequences", pairs(X_val=np.zeros((8, 1, 6), np.float32)), "X_train", "X_val"),
]  # fmt: skip


@pytest.mark.parametrize(("arrays", "bank", "more", "says"), CASES)
def test_it_is_refused_with_the_names_of_the_things(
    tmp_path: Path, arrays: Arrays, bank: Arrays | None, more: Any, says: tuple[str, ...]
) -> None:
    with pytest.raises(BadData) as caught:
        open_dataset(config(tmp_path, arrays, bank, **more))
    for part in says:
        assert part in f"{caught.value} {caught.value.hint}"
    shutil.rmtree(tmp_path)  # nothing is left open that would resist it


def test_no_pairs_at_all_is_a_matter_of_configuration() -> None:
    with pytest.raises(ConfigError, match="No training pairs"):
        open_dataset(DataConfig())


def test_a_file_that_is_not_there_is_missing(tmp_path: Path) -> None:
    with pytest.raises(DataMissing, match=r"nothere\.npz"):
        open_dataset(DataConfig(pairs=str(tmp_path / "nothere.npz")))


def test_names_can_be_mapped(tmp_path: Path) -> None:
    arrays: Arrays = {"q": X_TRAIN, "v": X_TRAIN[:8], "p": np.arange(16), "w": np.arange(8)}
    names = {"X_train": "q", "X_val": "v", "pos_train": "p", "pos_val": "w", "vectors": "docs"}
    with open_dataset(config(tmp_path, arrays, {"docs": BANK}, names=names)) as data:
        assert data.train.queries.source.name == "q"
        assert data.bank.name == "docs"


def test_a_message_about_a_mapped_array_has_the_name_in_the_file(tmp_path: Path) -> None:
    arrays = pairs(pos_train=None) | {"right": np.full(16, 99)}
    with pytest.raises(BadData, match=r"right\[0\] in .* is 99"):
        open_dataset(config(tmp_path, arrays, {"vectors": BANK}, names={"pos_train": "right"}))


def test_pairs_and_bank_may_be_one_file(tmp_path: Path) -> None:
    uri = write(tmp_path / "all.npz", pairs() | {"vectors": BANK, "ids": np.arange(40) + 7})
    with open_dataset(DataConfig(pairs=uri, bank=uri)) as data:
        assert len(data.stores) == 1
        assert data.bank_ids is not None
        assert data.bank_ids[3] == 10
        assert data.document_name(3) == f"vectors[3] in {uri}"


def test_the_fingerprint_follows_everything_that_numbers_depend_on(tmp_path: Path) -> None:
    x = np.zeros((16, 2, 6), np.float32)
    good = pairs(X_train=x, X_val=x[:8], len_train=np.full(16, 2), len_val=np.full(8, 2))
    bank = {"vectors": BANK}
    changes: list[tuple[Arrays, Arrays]] = [
        (good, bank),
        (good | {"X_train": x + 1}, bank),
        (good | {"X_val": x[:8] + 1}, bank),
        (good | {"len_train": np.full(16, 1)}, bank),
        (good | {"len_val": np.full(8, 1)}, bank),
        (good | {"pos_train": np.arange(16)[::-1]}, bank),
        (good | {"pos_val": np.arange(8)[::-1]}, bank),
        (good, {"vectors": BANK + 1}),
    ]
    found = []
    for index, (arrays, held) in enumerate(changes):
        folder = tmp_path / str(index)
        folder.mkdir()
        with open_dataset(config(folder, arrays, held)) as data:
            found.append(data.fingerprint)
            assert data.fingerprint == found[-1]
    assert len(set(found)) == len(changes)


def test_a_copy_elsewhere_has_the_same_fingerprint(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    here = config(tmp_path, pairs(), {"vectors": BANK})
    there = config(tmp_path / "there", pairs(), {"vectors": BANK})
    with open_dataset(here) as first, open_dataset(there) as second:
        assert first.fingerprint == second.fingerprint


def test_a_file_replaced_while_open_is_noticed(tmp_path: Path) -> None:
    with open_dataset(config(tmp_path, pairs(), {"vectors": BANK})) as data:
        data.check_unchanged()
        write(tmp_path / "bank.npz", {"vectors": BANK[::-1].copy()})
        with pytest.raises(DataChanged, match=r"bank\.npz"):
            data.check_unchanged()


@pytest.mark.parametrize(
    ("arrays", "wanted"),
    [
        ({"vectors": X_TRAIN, "X_val": BANK}, "vectors"),
        ({"X_train": BANK, "X_val": X_TRAIN}, "X_val"),
        ({"X_mine": X_TRAIN}, "X_mine"),
        ({"seq_test": SEQ}, "seq_test"),
    ],
)
def test_queries_to_search_with_are_found_by_name(
    tmp_path: Path, arrays: Arrays, wanted: str
) -> None:
    uri = write(tmp_path / "queries.npz", arrays)
    data = config(tmp_path, pairs(), {"vectors": BANK})
    with (
        open_dataset(data) as opened,
        open_queries(uri, data, lambda: opened.bank) as found,
    ):
        assert found.source.name == wanted
        assert len(found) == 16


def test_a_file_without_queries_says_what_it_has(tmp_path: Path) -> None:
    uri = write(tmp_path / "queries.npz", {"other": X_TRAIN})
    data = config(tmp_path, pairs(), {"vectors": BANK})
    with (
        open_dataset(data) as opened,
        pytest.raises(ArrayMissing, match="it has: other"),
        open_queries(uri, data, lambda: opened.bank),
    ):
        pass


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("lengths_train", "belong in len_train"),
        ("attention_mask", "belong in len_train"),
        ("weights_train", "the loss treats all positives of a pair the same"),
        ("negatives_train", "your own hard negatives from neg_train"),
        ("pos_Val", "case-sensitive: pos_val"),
        ("weather_val", "weather_val in"),
        ("X_trian", "X_trian in"),
    ],
)
def test_an_array_that_looks_meant_and_is_not_used_is_said(
    name: str, says: str, tmp_path: Path
) -> None:
    arrays = pairs() | {name: np.ones(16, np.int64)}
    with open_dataset(config(tmp_path, arrays, {"vectors": BANK})) as data:
        (note,) = [note for note in data.notes if "not used" in note]
    assert name in note
    assert says in note


def test_of_a_mask_beside_lengths_or_beside_single_vectors_it_is_said_too(tmp_path: Path) -> None:
    mask = np.ones((16, 6), np.int64)
    single = config(tmp_path, pairs(mask_train=mask), {"vectors": BANK})
    with open_dataset(single) as data:
        assert any("mask_train in" in note and "single vectors" in note for note in data.notes)
    both = pairs(mask_train=mask, len_train=np.ones(16, np.int64))
    with open_dataset(config(tmp_path, both, {"vectors": BANK})) as data:
        assert any("mask_train in" in note and "len_train" in note for note in data.notes)


def test_a_mapping_that_leads_nowhere_is_said(tmp_path: Path) -> None:
    given = config(tmp_path, pairs(), {"vectors": BANK}, names={"len_trian": "lengths"})
    with open_dataset(given) as data:
        assert any(
            "data.names.len_trian is not used" in note and "Did you mean len_train?" in note
            for note in data.notes
        )


def test_arrays_of_other_purposes_are_not_mentioned(tmp_path: Path) -> None:
    arrays = pairs(X_test=X_TRAIN, pos_test=np.arange(16), created=np.arange(3))
    with open_dataset(config(tmp_path, arrays, {"vectors": BANK})) as data:
        assert not [note for note in data.notes if "not used" in note]


NO_VAL: dict[str, Any] = {"X_val": None, "pos_val": None}


def test_all_pairs_of_another_file_without_validation_pairs_are_judged(tmp_path: Path) -> None:
    given = config(tmp_path, pairs(**NO_VAL), {"vectors": BANK})
    with Opening(given.model_copy(update={"val_split": 0.25}), own_pairs="own.npz") as opening:
        judged = opening.judged()
        assert (len(judged), judged.queries.source.name) == (16, "X_train")
        (note,) = opening.notes
    assert "the metrics of all its 16 pairs (X_train)" in note
    assert "--val-split" not in note


def test_of_the_runs_own_file_the_pairs_are_judged_that_were_not_trained_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given = config(tmp_path, pairs(**NO_VAL), {"vectors": BANK})
    with open_dataset(given) as data:
        wanted = data.val.keep.tolist()
    monkeypatch.chdir(tmp_path)
    for own in (given.pairs, "pairs.npz"):  # the same file by another path
        with Opening(given, own_pairs=own) as opening:
            assert opening.judged().keep.tolist() == wanted


def test_of_another_file_nobody_asked_for_a_share(tmp_path: Path) -> None:
    given = config(tmp_path, pairs(), {"vectors": BANK})
    shared = given.model_copy(update={"val_split": 0.05})
    with Opening(shared, own_pairs="own.npz") as opening:
        assert opening.judged().queries.source.name == "X_val"
        assert not opening.notes
    with Opening(shared) as opening:
        opening.split("val")
        assert "data.val_split = 0.05 is not used" in opening.notes[0]


def test_a_file_without_pairs_is_not_sent_to_an_option_of_another_command(tmp_path: Path) -> None:
    given = config(tmp_path, {"vectors": BANK}, {"vectors": BANK})
    with Opening(given, own_pairs="own.npz") as opening, pytest.raises(ArrayMissing) as caught:
        opening.judged()
    assert "--set data.names.X_val=queries" in caught.value.hint
    assert "--val-split" not in caught.value.hint
