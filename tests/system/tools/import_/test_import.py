"""What others wrote arrives bit for bit; what is damaged is one error; who is killed goes on."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
import time
import zipfile
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.kit.bad_inputs.vectors import write_vecs as vecs
from tests.kit.data_files import overwrite_and_set_back

from ttf.data.inspect import verify
from ttf.data.vectors import from_float32
from ttf.errors import BadData, ConfigError, FolderInUse, TtfError
from ttf.host.plugins import open_store
from ttf.tools.import_ import carry_out
from ttf.tools.import_.columns import Column, Input
from ttf.tools.import_.inputs import refuse_inflated
from ttf.tools.import_.roles import Wanted
from ttf.tools.import_.run import import_vectors

RNG = np.random.default_rng(5)
BANK = RNG.standard_normal((700, 8)).astype(np.float32)
QUERIES = RNG.standard_normal((60, 8)).astype(np.float32)
NEAREST = np.argsort(-(QUERIES @ BANK.T), axis=1)[:, :10].astype(np.int32)
TEXT_IDS = np.array([f"dök-{n}" for n in range(700)])


def array(folder: Path, name: str) -> Any:
    store = open_store(str(folder))
    if str(store.describe(name)["dtype"])[:2] in ("|S", "<U") or name == "text":
        return store.text(name)  # type: ignore[attr-defined]
    return np.array(store.source(name).read(0, store.source(name).shape[0]))


def test_a_file_of_ann_benchmarks_becomes_pairs_and_bank(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    with h5py.File(tmp_path / "glove.hdf5", "w") as file:
        file.create_dataset("train", data=BANK, chunks=(64, 8), compression="gzip")
        file["test"], file["neighbors"] = QUERIES, NEAREST
        file["distances"] = np.zeros((60, 10), np.float32)
        file["elsewhere"] = h5py.ExternalLink("/etc/passwd", "/x")
        file.attrs["distance"] = "euclidean"
    made = import_vectors(
        str(tmp_path / "glove.hdf5"), tmp_path / "out", wanted=Wanted(num_positives=3)
    )
    np.testing.assert_array_equal(array(tmp_path / "out" / "bank", "vectors"), BANK)
    np.testing.assert_array_equal(array(tmp_path / "out" / "pairs", "X_train"), QUERIES)
    np.testing.assert_array_equal(array(tmp_path / "out" / "pairs", "pos_train"), NEAREST[:, :3])
    assert "euclidean" in made.notes[0] and not verify(made.bank).problems
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["bank", "import.json", "pairs"]
    assert sorted(p.name for p in (tmp_path / "out" / "bank").iterdir()) == ["vectors.npy"]


def test_a_folder_of_texmex_is_base_queries_and_truth(tmp_path: Path) -> None:
    folder = tmp_path / "sift"
    folder.mkdir()
    octets = RNG.integers(0, 256, (90, 8)).astype(np.uint8)
    vecs(folder / "sift_base.bvecs", octets)
    vecs(folder / "sift_query.fvecs", QUERIES)
    vecs(folder / "sift_groundtruth.ivecs", NEAREST % 90)
    import_vectors(str(folder), tmp_path / "out")
    found = array(tmp_path / "out" / "bank", "vectors")
    assert found.dtype == np.float16
    np.testing.assert_array_equal(found.astype(np.uint8), octets)
    np.testing.assert_array_equal(array(tmp_path / "out" / "pairs", "X_train"), QUERIES)
    assert array(tmp_path / "out" / "pairs", "pos_train").shape == (60, 1)


@pytest.mark.parametrize("kind", ["FlatIP", "FlatL2", "IDMap", "IDMap2"])
def test_a_flat_index_gives_what_faiss_gives(kind: str, tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss", reason="faiss is not installed")
    index = (faiss.IndexFlatL2 if kind == "FlatL2" else faiss.IndexFlatIP)(8)
    ids = np.arange(700) * 7 + 10**10
    if kind.startswith("IDMap"):
        outer = faiss.IndexIDMap(index) if kind == "IDMap" else faiss.IndexIDMap2(index)
        outer.add_with_ids(BANK, ids)
    else:
        outer = index
        outer.add(BANK)
    faiss.write_index(outer, str(tmp_path / "a.faiss"))
    made = import_vectors(str(tmp_path / "a.faiss"), tmp_path / "out")
    bank = tmp_path / "out" / "bank"
    np.testing.assert_array_equal(array(bank, "vectors"), index.reconstruct_n(0, 700))
    if kind.startswith("IDMap"):
        np.testing.assert_array_equal(array(bank, "ids"), ids)
    assert bool(made.notes) == (kind == "FlatL2")
    faiss.write_index(faiss.index_factory(8, "SQ8"), str(tmp_path / "sq.faiss"))
    with pytest.raises(TtfError, match="no flat FAISS index: it holds 'IxSQ'"):
        import_vectors(str(tmp_path / "sq.faiss"), tmp_path / "other")


def test_tensors_are_imported_and_nothing_else_is_loaded(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    tensors = {"vectors": torch.from_numpy(BANK).bfloat16(), "ids": torch.arange(700), "note": "x"}
    torch.save(tensors, tmp_path / "a.pt")
    torch.save(torch.from_numpy(QUERIES.astype(np.float64)), tmp_path / "q.pt")
    vecs(tmp_path / "truth.ivecs", NEAREST)
    import_vectors(
        str(tmp_path / "a.pt"), tmp_path / "out", queries=str(tmp_path / "q.pt"),
        positives=str(tmp_path / "truth.ivecs"),
    )  # fmt: skip
    store = open_store(str(tmp_path / "out" / "bank"))
    assert store.source("vectors").dtype == "bfloat16"
    np.testing.assert_array_equal(
        store.source("vectors").read(0, 700), from_float32(BANK, "bfloat16")
    )
    np.testing.assert_array_equal(array(tmp_path / "out" / "pairs", "X_train"), QUERIES)
    imaginary = torch.complex(torch.zeros(BANK.shape), torch.from_numpy(BANK)).conj().imag
    torch.save(imaginary, tmp_path / "negative.pt")  # keeps the sign as a mark
    import_vectors(str(tmp_path / "negative.pt"), tmp_path / "negative")
    np.testing.assert_array_equal(array(tmp_path / "negative" / "bank", "vectors"), -BANK)
    torch.save({"a": Path("/")}, tmp_path / "evil.pt")
    with pytest.raises(TtfError, match="holds more than tensors"):
        import_vectors(str(tmp_path / "evil.pt"), tmp_path / "other")
    torch.save(torch.zeros(1).expand(1 << 30, 768), tmp_path / "large.pt")
    with pytest.raises(TtfError, match="repeats its numbers: the file has only 4 bytes"):
        import_vectors(str(tmp_path / "large.pt"), tmp_path / "other")
    _ask_for_a_bytearray(tmp_path / "q.pt", tmp_path / "greedy.pt")
    with pytest.raises(TtfError, match="holds more than tensors"):
        import_vectors(str(tmp_path / "greedy.pt"), tmp_path / "other")


def _ask_for_a_bytearray(like: Path, path: Path) -> None:
    """A file that torch loads with weights_only=True, and that makes a bytearray of 1 GB."""
    asked = b"\x80\x02cbuiltins\nbytearray\nJ" + struct.pack("<i", 1 << 30) + b"\x85R."
    with zipfile.ZipFile(like) as whole, zipfile.ZipFile(path, "w") as made:
        for name in whole.namelist():
            made.writestr(name, asked if name.endswith("data.pkl") else whole.read(name))


def test_a_table_keeps_its_ids_and_its_other_columns_stay(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {"doc_id": TEXT_IDS, "emb": list(BANK), "emb2": list(BANK), "text": ["t"] * 700}
    )
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=100)
    with pytest.raises(TtfError, match=r"several arrays of vectors.*emb 700x8 float32") as refused:
        import_vectors(str(tmp_path / "t.parquet"), tmp_path / "out")
    assert refused.value.hint == "Name one: --vectors emb"
    wanted = Wanted(vectors="emb", dtype="float16")
    import_vectors(str(tmp_path / "t.parquet"), tmp_path / "out", wanted=wanted)
    bank = tmp_path / "out" / "bank"
    np.testing.assert_array_equal(array(bank, "vectors"), BANK.astype(np.float16))
    assert open_store(str(bank)).text("ids").tolist() == TEXT_IDS.tolist()  # type: ignore[attr-defined]
    assert not verify(str(bank)).problems
    again = import_vectors(str(tmp_path / "t.parquet"), tmp_path / "out", wanted=wanted)
    assert again.resumed_at == 0
    with pytest.raises(ConfigError, match="already contains bank, import.json of something else"):
        import_vectors(str(tmp_path / "t.parquet"), tmp_path / "out", wanted=Wanted(vectors="emb2"))
    with pytest.raises(TtfError, match="no array 'emv'"):
        import_vectors(str(tmp_path / "t.parquet"), tmp_path / "new", wanted=Wanted(vectors="emv"))
    assert not (tmp_path / "new").exists()


def test_ids_are_any_text_column_and_what_is_no_column_is_told(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
    pq = pytest.importorskip("pyarrow.parquet")
    days = pa.array(range(700), pa.timestamp("us"))
    table = pa.table({"vectors": list(BANK), "sku": TEXT_IDS, "day": days})
    given = str(tmp_path / "t.parquet")
    pq.write_table(table, given)
    import_vectors(given, tmp_path / "out", wanted=Wanted(ids="sku"))
    assert array(tmp_path / "out" / "bank", "ids").tolist() == TEXT_IDS.tolist()
    with pytest.raises(BadData, match=r"day \(--ids\) cannot be read: .* type timestamp\[us\]"):
        import_vectors(given, tmp_path / "new", wanted=Wanted(ids="day"))


def test_texts_of_hdf5_are_ids_however_they_are_stored(tmp_path: Path) -> None:
    h5py = pytest.importorskip("h5py", reason="h5py is not installed")
    given = tmp_path / "t.h5"
    with h5py.File(given, "w") as file:
        file["v"], file["compound"] = BANK, np.zeros(700, [("a", "i4"), ("b", "f4")])
        file["vlen"] = TEXT_IDS.tolist()
        file["fixed"] = np.array([name.encode() for name in TEXT_IDS])
        file["latin"] = np.array([name.encode("latin-1") for name in TEXT_IDS])
    for name in ("vlen", "fixed"):
        import_vectors(str(given), tmp_path / name, wanted=Wanted(vectors="v", ids=name))
        assert array(tmp_path / name / "bank", "ids").tolist() == TEXT_IDS.tolist()
    for name, said in (("latin", "utf-8"), ("compound", r"cannot be read: it has the type .*i4")):
        with pytest.raises(BadData, match=said):
            import_vectors(str(given), tmp_path / "no", wanted=Wanted(vectors="v", ids=name))


_SLOW = """
import sys, time
from pathlib import Path
from ttf.data import writing
from ttf.tools.import_.run import import_vectors
writing.BLOCK_BYTES = 1 << 10
import_vectors(sys.argv[1], Path(sys.argv[2]), progress=lambda done, total: time.sleep(0.02))
"""


def test_who_is_killed_goes_on_and_ends_with_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = str(vecs(tmp_path / "a.fvecs", BANK))
    import_vectors(source, tmp_path / "whole")
    for wait in (0.15, 0.2):
        child = subprocess.Popen([sys.executable, "-c", _SLOW, source, str(tmp_path / "killed")])
        notes = tmp_path / "killed" / ".import" / "bank" / "blocks.bin"
        began = time.monotonic()
        while not notes.exists() and time.monotonic() - began < 30:
            time.sleep(0.01)
        time.sleep(wait)
        child.send_signal(signal.SIGKILL)
        child.wait()
    made = import_vectors(source, tmp_path / "killed")
    assert 0 < made.resumed_at < 700
    whole, killed = tmp_path / "whole" / "bank", tmp_path / "killed" / "bank"
    assert [p.name for p in killed.iterdir()] == [p.name for p in whole.iterdir()]
    assert (killed / "vectors.npy").read_bytes() == (whole / "vectors.npy").read_bytes()


@pytest.mark.parametrize("at", [0, 1])
def test_who_is_killed_between_two_names_goes_on(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, rows in (("bank.fvecs", BANK), ("q.fvecs", QUERIES), ("t.ivecs", NEAREST)):
        vecs(tmp_path / name, rows)
    how: dict[str, Any] = {
        "queries": str(tmp_path / "q.fvecs"),
        "positives": str(tmp_path / "t.ivecs"),
    }
    renamed = Path.rename
    done: list[Path] = []

    def killed(path: Path, target: Path) -> Path:
        if len(done) == at:
            raise KeyboardInterrupt
        done.append(path)
        return renamed(path, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KeyboardInterrupt):
            import_vectors(str(tmp_path / "bank.fvecs"), tmp_path / "out", **how)
    import_vectors(str(tmp_path / "bank.fvecs"), tmp_path / "out", **how)
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["bank", "import.json", "pairs"]
    np.testing.assert_array_equal(array(tmp_path / "out" / "bank", "vectors"), BANK)
    assert json.loads((tmp_path / "out" / "import.json").read_text())["resumed_at"] == 0


def test_a_file_that_changed_begins_anew_and_one_that_changes_meanwhile_is_refused(
    tmp_path: Path,
) -> None:
    path = vecs(tmp_path / "a.fvecs", BANK)

    def change(done: int, total: int) -> None:
        vecs(path, BANK[::-1].copy())

    with pytest.raises(TtfError, match="was changed, replaced or removed"):
        import_vectors(str(path), tmp_path / "out", progress=change)
    import_vectors(str(path), tmp_path / "out")
    np.testing.assert_array_equal(array(tmp_path / "out" / "bank", "vectors"), BANK[::-1])
    assert not (tmp_path / "out" / carry_out.STAGING).exists()


def test_a_large_array_that_changed_is_not_the_one_that_was_imported(tmp_path: Path) -> None:
    path = tmp_path / "vectors.npy"
    np.save(path, np.zeros((60_000, 16), np.float32))
    made = import_vectors(str(path), tmp_path / "out")
    assert import_vectors(str(path), tmp_path / "out") == made
    overwrite_and_set_back(path, path.stat().st_size // 2 + 9_000)
    with pytest.raises(TtfError, match="of something else"):
        import_vectors(str(path), tmp_path / "out")


def test_other_ids_of_the_same_rows_are_another_input(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    for names in (["a", "b"], ["a", "c"]):
        np.savez(path, vectors=BANK[:2], ids=np.array(names))
        made = import_vectors(str(path), tmp_path / "out", overwrite=True)
        assert import_vectors(str(path), tmp_path / "out") == made
        assert array(tmp_path / "out" / "bank", "ids").tolist() == names


def test_two_imports_into_one_folder_do_not_meet(tmp_path: Path) -> None:
    source = str(vecs(tmp_path / "a.fvecs", BANK))
    with carry_out.staging(tmp_path / "out"), pytest.raises(FolderInUse, match="Another import"):
        import_vectors(source, tmp_path / "out")
    import_vectors(source, tmp_path / "out")
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["bank", "import.json"]


def test_a_link_in_the_place_of_unfinished_work_leads_nowhere(tmp_path: Path) -> None:
    """What another import had left was removed through it, and all that lay beside."""
    other = tmp_path / "other"
    other.mkdir()
    for name in ("import.json", "mine.txt"):
        (other / name).write_text("{}")
    out = tmp_path / "received"
    out.mkdir()
    (out / ".import").symlink_to(other)
    np.save(tmp_path / "a.npy", BANK)
    with pytest.raises(TtfError, match="is a symbolic link"):
        import_vectors(str(tmp_path / "a.npy"), out)
    assert sorted(path.name for path in other.iterdir()) == ["import.json", "mine.txt"]


@pytest.mark.parametrize(("rows", "refused"), [(500, False), (1_000_000, True)])
def test_a_file_that_declares_what_it_cannot_hold_is_refused(rows: int, refused: bool) -> None:
    column = Column("vectors", (rows, 768), "float32", lambda start, stop: BANK)
    given = Input(
        uri="a.h5", what="", columns={"v": column}, identity="", check_unchanged=lambda: None
    )
    with pytest.raises(BadData, match=r"declares 3\.1 GB") if refused else nullcontext():
        refuse_inflated(given, 2048)
