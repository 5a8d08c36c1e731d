"""A folder of .npy files is a container: each file is an array."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ttf.config.schema import DataConfig
from ttf.data.inspect import verify
from ttf.data.open_dataset import open_dataset
from ttf.data.sources import VectorRef, open_ref
from ttf.data.vectors import from_float32
from ttf.errors import ArrayMissing, BadData, ConfigError, DataChanged, TtfError
from ttf.host.plugins import create_store, open_store

RNG = np.random.default_rng(1)
BANK = RNG.standard_normal((40, 6)).astype(np.float32)
PAIRS: dict[str, Any] = {
    "X_train": BANK[:30].astype(np.float64),
    "X_val": BANK[30:].astype(np.float64),
    "pos_train": np.arange(30),
    "pos_val": np.arange(30, 40),
}


def folder(path: Path, **arrays: Any) -> str:
    path.mkdir()
    for name, array in arrays.items():
        np.save(path / f"{name}.npy", array)
    return str(path)


def test_two_folders_are_pairs_and_bank(tmp_path: Path) -> None:
    bank = folder(tmp_path / "bank", vectors=BANK, ids=np.array([f"d{n}" for n in range(40)]))
    pairs = folder(tmp_path / "pairs", **PAIRS)
    with open_dataset(DataConfig(pairs=pairs, bank=bank)) as data:
        assert (len(data.train), len(data.val), data.bank.shape) == (30, 10, (40, 6))
        np.testing.assert_allclose(data.train.batch(np.arange(5)).x, BANK[:5])
        assert data.bank_ids is not None and data.bank_ids[3] == "d3"
        with open_ref(data.bank_ref(tmp_path, unit=False)) as again:
            np.testing.assert_array_equal(again.source.gather(np.array([7, 1])), BANK[[7, 1]])
    assert verify(pairs).problems == []


def test_names_are_those_of_the_files_and_arrays_say_their_folder(tmp_path: Path) -> None:
    uri = folder(tmp_path / "set", **PAIRS)
    (tmp_path / "set" / "notes.txt").write_text("no array")
    (tmp_path / "set" / ".hidden.npy").write_bytes(b"no array either")
    store = open_store(uri)
    assert (store.container, sorted(store.names())) == ("npy", sorted(PAIRS))
    source = store.source("X_val")
    assert (source.name, source.uri, source.dtype) == ("X_val", uri, "float32")
    with open_ref(VectorRef(uri=uri, array="X_val")) as opened:
        assert opened.source.fingerprint() == source.fingerprint()
    with pytest.raises(ArrayMissing, match="X_vall.*Did you mean 'X_val'"):
        store.source("X_vall")


def test_bfloat16_is_marked_by_a_file_beside_it(tmp_path: Path) -> None:
    marked = {"vectors": from_float32(BANK, "bfloat16"), "vectors.dtype": np.array("bfloat16")}
    store = open_store(folder(tmp_path / "bank", **marked))
    assert list(store.names()) == ["vectors"]
    assert store.source("vectors").dtype == "bfloat16"
    broken = folder(tmp_path / "broken", vectors=BANK, **{"vectors.dtype": np.arange(3)})
    with pytest.raises(BadData, match="must be a string"):
        open_store(broken).source("vectors")


def test_a_file_that_changes_in_use_is_noticed(tmp_path: Path) -> None:
    store = open_store(folder(tmp_path / "bank", vectors=BANK, other=BANK))
    store.source("vectors")
    np.save(tmp_path / "bank" / "other.npy", BANK[:3])
    store.check_unchanged()
    np.save(tmp_path / "bank" / "vectors.npy", BANK[:3])
    with pytest.raises(DataChanged):
        store.check_unchanged()


@pytest.mark.parametrize("kind", ["link", "pipe"])
def test_no_link_is_followed_and_no_pipe_is_waited_for(kind: str, tmp_path: Path) -> None:
    uri = folder(tmp_path / "bank", other=BANK)
    np.save(tmp_path / "secret.npy", BANK)
    if kind == "link":
        (tmp_path / "bank" / "vectors.npy").symlink_to(tmp_path / "secret.npy")
    else:
        os.mkfifo(tmp_path / "bank" / "vectors.npy")
    with pytest.raises(TtfError, match=r"vectors\.npy is a"):
        open_store(uri).source("vectors")


def test_it_is_only_read(tmp_path: Path) -> None:
    uri = folder(tmp_path / "bank", vectors=BANK)
    with pytest.raises(ConfigError, match="only reads"):
        create_store(uri)


# --- files of other kinds ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "what", "do"),
    [
        ("a.csv", "a table as text", "pandas.read_csv("),
        ("a.tsv.gz", "a table as text", "pandas.read_csv("),
        ("a.jsonl", "is text", "Encode the texts with a model first"),
        ("a.pt", "a file of torch", "ttf data import"),
        ("a.faiss", "a FAISS index", "ttf data import"),
        ("a.fvecs", "the format fvecs", "ttf data import"),
        ("a.h5", "an HDF5 file", "ttf data import"),
        ("a.pkl", "a pickle", "numpy.savez"),
    ],
)
def test_a_file_that_is_not_read_is_named_for_what_it_is(
    name: str, what: str, do: str, tmp_path: Path
) -> None:
    (tmp_path / name).write_bytes(b"x")
    with pytest.raises(ConfigError, match=what) as refused:
        open_store(str(tmp_path / name))
    assert do in refused.value.hint
    assert "rename" not in refused.value.hint


def test_a_folder_of_beir_and_an_unknown_ending_say_what_to_do(tmp_path: Path) -> None:
    for name in ("corpus.jsonl", "queries.jsonl"):
        (tmp_path / name).write_text("{}")
    with pytest.raises(ConfigError, match="in the format of BEIR") as refused:
        open_store(str(tmp_path))
    assert "Encode the texts" in refused.value.hint
    with pytest.raises(ConfigError, match="no storage plugin reads files with this ending") as what:
        open_store(str(tmp_path / "a.xyz"))
    assert "numpy.savez" in what.value.hint and "--storage NAME" in what.value.hint


def test_an_empty_folder_is_called_so(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="is an empty folder"):
        open_store(str(tmp_path))


def test_the_command_it_proposes_for_a_table_of_numbers_is_right(tmp_path: Path) -> None:
    path = tmp_path / "it's.csv"
    path.write_text("1,2\n")
    with pytest.raises(ConfigError) as refused:
        open_store(str(path))
    assert "import numpy, pandas; numpy.save(" in refused.value.hint
