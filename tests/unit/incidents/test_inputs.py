"""What became of the input files."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.kit.data_files import overwrite_and_set_back

from ttf.errors import DataChanged
from ttf.host.plugins import open_store
from ttf.incidents.inputs import InputFile, _state, changes, look_at, noted, refuse_changed
from ttf.rundir.documents import InputState


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "pairs.npz"
    file.write_bytes(os.urandom(100_000))
    return file


def test_an_untouched_file_has_not_changed(path: Path) -> None:
    assert InputFile.look(path).change() is None


def test_a_cut_file_shows_both_sizes_and_fingerprints(path: Path) -> None:
    before = InputFile.look(path)
    os.truncate(path, 4096)
    change = before.change()
    assert change is not None and change.cut
    assert change.was.startswith("100,000 bytes, fingerprint ")
    assert change.now.startswith("4,096 bytes, fingerprint ")
    assert change.was.split(",")[2] != change.now.split(",")[2]


def test_a_file_that_is_rewritten_in_place_at_the_same_size(path: Path) -> None:
    before = InputFile.look(path)
    path.write_bytes(os.urandom(100_000))
    change = before.change()
    assert change is not None and not change.cut
    assert change.was.split(",")[2] != change.now.split(",")[2], "fingerprints"


def test_a_touched_file_keeps_its_fingerprint(path: Path) -> None:
    before = InputFile.look(path)
    os.utime(path, (1, 1))
    change = before.change()
    assert change is not None and not change.cut
    assert change.was.split(",")[2] == change.now.split(",")[2]


def test_a_file_that_was_replaced_or_removed(path: Path) -> None:
    before = InputFile.look(path)
    other = path.with_name("other")
    shutil.copy2(path, other)
    other.rename(path)
    change = before.change()
    assert change is not None and not change.cut
    assert change.now.startswith("another file: 100,000 bytes")
    path.unlink()
    gone = before.change()
    assert gone is not None and gone.now == "gone"
    path.mkdir()
    assert before.change() is not None


def test_in_a_folder_of_chunks_the_cut_one_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "bank.zarr"
    for name in ("a/0", "a/1", "b/0"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(bytes(1000))
    before = InputFile.look(folder)
    assert before.change() is None
    (folder / "new").write_bytes(b"beside")
    assert before.change() is None, "what was not there is not read"
    os.utime(folder / "a/0", (1, 1))
    os.truncate(folder / "b/0", 10)
    change = before.change()
    assert change is not None and change.cut
    assert change.path == str(folder / "b/0")
    assert change.was.startswith("1,000 bytes, written ") and change.now.startswith("10 bytes")
    shutil.rmtree(folder)
    assert before.change() is not None


def test_what_is_not_local_is_not_watched(path: Path) -> None:
    assert [file.path for file in look_at(["s3://bucket/bank.zarr", path])] == [path]


def test_only_what_changed_is_told(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "empty"
    other.touch()
    inputs = look_at([path, other])
    os.truncate(path, 1)
    assert [change.path for change in changes(inputs)] == [str(path)]


def test_content_that_no_checksum_covers_is_said_to_be_unknown(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    rows = np.zeros((60_000, 16), np.float32)
    np.save(folder / "vectors.npy", rows)
    np.save(folder / "later.npy", rows[:1])
    os.utime(folder / "later.npy", (2e9, 2e9))  # stays the newest file
    np.savez(tmp_path / "bank.npz", vectors=rows)
    uris = [str(folder), str(folder / "vectors.npy"), str(tmp_path / "bank.npz")]
    stores = [open_store(uri) for uri in uris]
    before = noted(stores)
    assert refuse_changed(before, stores, pytest.fail) == []
    with (folder / "vectors.npy").open("r+b") as file:
        file.seek(rows.nbytes // 2 + 9_000)  # between the sampled pieces
        file.write(b"other content")
    first, second = refuse_changed(before, stores, pytest.fail)
    assert first.startswith(f"{folder} was written to") and "no checksums" in first
    assert second.startswith(f"{folder}/vectors.npy was written to")
    with (tmp_path / "bank.npz").open("r+b") as file:
        file.seek(rows.nbytes // 2 + 9_000)
        file.write(b"other content")
    said: list[str] = []
    with pytest.raises(DataChanged, match=r"bank\.npz has changed since the run began"):
        refuse_changed(before, stores, said.append)
    assert len(said) == 1 and "reads the whole file once" in said[0]
    for store in stores:
        store.close()


def test_content_that_was_written_in_place_is_found_if_its_time_was_set_back(
    tmp_path: Path,
) -> None:
    rows = np.zeros((60_000, 16), np.float32)
    np.savez(tmp_path / "bank.npz", vectors=rows)
    with contextlib.closing(open_store(str(tmp_path / "bank.npz"))) as store:
        before = noted([store])
        said: list[str] = []
        (tmp_path / "bank.npz").chmod(0o600)
        assert refuse_changed(before, [store], said.append) == []
        assert len(said) == 1 and "only its permissions or links are others" in said[0]
        overwrite_and_set_back(tmp_path / "bank.npz", rows.nbytes // 2 + 9_000)
        with pytest.raises(DataChanged, match=r"the array 'vectors' is damaged"):
            refuse_changed(before, [store], said.append)
        earlier = {uri: InputState(**{**seen, "ctimes": ""}) for uri, seen in before.items()}
        for seen in earlier.values():
            del seen["ctimes"]
        assert refuse_changed(earlier, [store], pytest.fail) == []


def test_without_checksums_a_time_that_was_set_back_is_told(tmp_path: Path) -> None:
    rows = np.zeros((60_000, 16), np.float32)
    np.save(tmp_path / "bank.npy", rows)
    with contextlib.closing(open_store(str(tmp_path / "bank.npy"))) as store:
        before = noted([store])
        assert refuse_changed(before, [store], pytest.fail) == []
        overwrite_and_set_back(tmp_path / "bank.npy", rows.nbytes // 2 + 9_000)
        (told,) = refuse_changed(before, [store], pytest.fail)
    assert "its time was set back, or only its permissions" in told and "no checksums" in told


def test_a_chunk_among_very_many_is_compared_or_said_not_to_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttf.incidents.inputs._MOST_FILES", 10)
    monkeypatch.setattr("ttf.incidents.inputs._MOST_COMPARED", 40)
    folder = tmp_path / "set"
    folder.mkdir()
    np.save(folder / "a.npy", np.zeros((4, 4), np.float32))

    def add(numbers: range) -> None:
        for number in numbers:
            (folder / f"chunk{number}").touch()

    add(range(10, 40))
    with contextlib.closing(open_store(str(folder))) as store:
        before = noted([store])
        assert refuse_changed(before, [store], pytest.fail) == []
        os.utime(folder / "chunk39", (1e9, 1e9))
        [touched] = refuse_changed(before, [store], pytest.fail)
        assert "was written to or replaced" in touched
        seen = _state(folder, 10)
        # What a version noted that looked at fewer files.
        earlier = InputState(
            bytes=seen["bytes"], mtime_ns=seen["mtime_ns"], fingerprint=seen["fingerprint"]
        )
        [cut] = refuse_changed({str(folder): earlier}, [store], pytest.fail)
        add(range(40, 60))
        [many] = refuse_changed(noted([store]), [store], pytest.fail)
        assert cut == many and f"{folder} has more files than ttf looks at" in many
