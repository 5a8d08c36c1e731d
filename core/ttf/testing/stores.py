"""The conformance suite of storages: rows as numpy returns them, and no incomplete files."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import numpy as np
import pytest
from numpy.typing import NDArray

from ttf.contracts import DType, Kind
from ttf.data.vectors import DTYPES, from_float32, numpy_dtype
from ttf.errors import ArrayMissing, DataChanged, DataMissing, StorageError, TtfError
from ttf.host.plugins import open_store
from ttf.testing import _children, _runs
from ttf.testing.plugin import PluginTests

if TYPE_CHECKING:
    from ttf.contracts import Store

ROWS: Final = 53
_BLOCK: Final = 11
_LARGE: Final = (20_000, 64)
_KILLS: Final = (0.1, 0.5, 0.95)


class StoreTests(PluginTests):
    """Set `name`; `suffix` of its files if it differs from the name; `dtypes` that it can hold."""

    kind: ClassVar[Kind] = "storage"
    suffix: ClassVar[str] = ""
    dtypes: ClassVar[tuple[DType, ...]] = DTYPES

    def uri(self, folder: Path, stem: str = "bank") -> str:
        return str(folder / f"{stem}{self.suffix or '.' + self.name.rpartition(':')[2]}")

    def written(
        self, factory: Any, uri: str, rows: NDArray[Any], dtype: DType = "float32", **more: Any
    ) -> Store:
        """Writes `vectors` and `more` (float32 arrays) into a container and opens it."""
        writer = factory.create(uri)
        for name, array, held in [
            ("vectors", rows, dtype),
            *((n, a, "float32") for n, a in more.items()),
        ]:
            out = writer.array(name, array.shape, held)
            for start in range(0, len(array), _BLOCK):
                out.append(array[start : start + _BLOCK])
        writer.commit()
        store: Store = factory.open(uri)
        return store

    # --- reading ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("tail", [(6,), (3, 5)], ids=["2-D", "3-D"])
    def test_rows_come_back_as_numpy_gives_them(
        self, factory: Any, tmp_path: Path, tail: tuple[int, ...]
    ) -> None:
        for dtype in self.dtypes:
            rows = numbers(tail, dtype)
            store = self.written(factory, self.uri(tmp_path, dtype), rows, dtype)
            source = store.source("vectors")
            assert (source.shape, source.dtype) == (rows.shape, dtype)
            for ids in ([], [0], [ROWS - 1, 0, 7, 7, -1, -ROWS], range(ROWS), [5] * 70):
                wanted = np.array(ids, np.int64)
                found = source.gather(wanted)
                assert found.dtype == rows.dtype and found.flags.writeable
                np.testing.assert_array_equal(found, rows[wanted])
                out = np.full_like(found, 9)
                assert source.gather(wanted, out) is out
                np.testing.assert_array_equal(out, rows[wanted])
            for start, stop in ((0, 0), (0, ROWS), (10, 12), (ROWS, ROWS), (51, ROWS)):
                np.testing.assert_array_equal(source.read(start, stop), rows[start:stop])
                into = np.empty_like(rows[start:stop])
                assert source.read(start, stop, into) is into
                np.testing.assert_array_equal(into, rows[start:stop])
            store.close()

    def test_ids_out_of_range_are_refused_before_anything_is_read(
        self, factory: Any, tmp_path: Path
    ) -> None:
        store = self.written(factory, self.uri(tmp_path), numbers((6,), "float32"))
        source = store.source("vectors")
        for wrong in ([ROWS], [-ROWS - 1], [0, 2**40]):
            out = np.full((len(wrong), 6), 9, np.float32)
            with pytest.raises(IndexError):
                source.gather(np.array(wrong), out)
            assert (out == 9).all()
        with pytest.raises(IndexError):
            source.read(0, ROWS + 1)
        store.close()

    def test_empty_and_one_row_arrays(self, factory: Any, tmp_path: Path) -> None:
        one = numbers((6,), "float32")[:1]
        store = self.written(factory, self.uri(tmp_path), one, none=np.empty((0, 4), np.float32))
        assert store.source("none").shape == (0, 4)
        assert store.source("none").read(0, 0).shape == (0, 4)
        np.testing.assert_array_equal(store.source("vectors").gather(np.array([0, 0])), one[[0, 0]])
        store.close()

    def test_several_arrays_lie_in_one_container(self, factory: Any, tmp_path: Path) -> None:
        rows, other = numbers((6,), "float32"), numbers((2,), "float32")[:9]
        store = self.written(factory, self.uri(tmp_path), rows, other=other)
        assert sorted(store.names()) == ["other", "vectors"]
        np.testing.assert_array_equal(store.source("other").read(0, 9), other)
        np.testing.assert_array_equal(store.source("vectors").read(0, ROWS), rows)
        for name in store.names():
            assert store.describe(name)["bytes"] > 0
        assert list(store.verify()) == []
        store.check_unchanged()
        store.close()

    def test_threads_read_at_the_same_time(self, factory: Any, tmp_path: Path) -> None:
        from concurrent.futures import ThreadPoolExecutor

        rows = numbers((6,), "float32")
        store = self.written(factory, self.uri(tmp_path), rows)
        source = store.source("vectors")
        orders = [np.random.default_rng(seed).permutation(ROWS) for seed in range(40)]
        with ThreadPoolExecutor(4) as pool:
            for order, found in zip(orders, pool.map(source.gather, orders), strict=True):
                np.testing.assert_array_equal(found, rows[order])
        store.close()

    # --- identity --------------------------------------------------------------------------------

    def test_a_fingerprint_is_that_of_the_content(self, factory: Any, tmp_path: Path) -> None:
        rows = numbers((6,), "float32")
        other = rows.copy()
        other[17, 3] += 1
        prints = []
        for stem, array in (("a", rows), ("b", rows), ("c", other), ("d", rows[:-1])):
            store = self.written(factory, self.uri(tmp_path, stem), array)
            first = store.source("vectors").fingerprint()
            store.close()
            again = factory.open(self.uri(tmp_path, stem))
            assert again.source("vectors").fingerprint() == first, (
                "opening it again gave a different fingerprint"
            )
            again.close()
            prints.append(first)
        assert prints[2] != prints[0] and prints[3] != prints[0], (
            "the content is different, but the fingerprint is equal"
        )

    def test_a_file_that_was_rewritten_or_cut_is_noticed(
        self, factory: Any, tmp_path: Path
    ) -> None:
        uri = self.uri(tmp_path)
        store = self.written(factory, uri, numbers((6,), "float32"))
        store.source("vectors").read(0, 1)
        store.check_unchanged()
        largest = max(_files(Path(uri)), key=lambda path: path.stat().st_size)
        with largest.open("r+b") as file:
            file.truncate(largest.stat().st_size // 2)
        with pytest.raises(DataChanged):
            store.check_unchanged()
        store.close()

    # --- what it refuses -------------------------------------------------------------------------

    def test_a_missing_array_is_named_with_the_closest(self, factory: Any, tmp_path: Path) -> None:
        store = self.written(factory, self.uri(tmp_path), numbers((6,), "float32"))
        with pytest.raises(ArrayMissing, match="vectors"):
            store.source("vector")
        store.close()

    def test_a_missing_file_is_said_to_be_missing(self, factory: Any, tmp_path: Path) -> None:
        with pytest.raises(DataMissing, match="nothing-here"):
            open_store(self.uri(tmp_path, "nothing-here"), self.name)

    def test_a_torn_file_is_an_error_with_a_message_and_never_wrong_rows(
        self, factory: Any, tmp_path: Path
    ) -> None:
        # Truncated at several places: opening, reading or `verify` must report the damage.
        rows = numbers((6,), "float32")
        self.written(factory, self.uri(tmp_path, "whole"), rows).close()
        whole = Path(self.uri(tmp_path, "whole"))
        for share in (0.0, 0.3, 0.7, 0.99):
            torn = Path(self.uri(tmp_path, f"torn-{share}"))
            _copy(whole, torn)
            largest = max(_files(torn), key=lambda path: path.stat().st_size)
            with largest.open("r+b") as file:
                file.truncate(int(largest.stat().st_size * share))
            try:
                store = factory.open(str(torn))
                found = store.source("vectors").read(0, ROWS)
                problems = list(store.verify())
                store.close()
            except TtfError as refused:
                assert str(refused)
                continue
            np.testing.assert_array_equal(found, rows)
            assert problems, f"the file was truncated to {share:.0%}, and no error was raised"

    # --- writing ---------------------------------------------------------------------------------

    def test_nothing_is_visible_before_commit_nor_after_abort(
        self, factory: Any, tmp_path: Path
    ) -> None:
        uri, rows = self.uri(tmp_path), numbers((6,), "float32")
        writer = factory.create(uri)
        writer.array("vectors", rows.shape, "float32").append(rows)
        assert not Path(uri).exists()
        writer.abort()
        assert list(tmp_path.iterdir()) == []
        store = self.written(factory, uri, rows)
        store.close()
        assert [path.name for path in tmp_path.iterdir()] == [Path(uri).name]

    def test_a_container_takes_the_place_of_an_older_one(
        self, factory: Any, tmp_path: Path
    ) -> None:
        uri, rows = self.uri(tmp_path), numbers((6,), "float32")
        self.written(factory, uri, rows).close()
        store = self.written(factory, uri, rows[::-1])
        np.testing.assert_array_equal(store.source("vectors").read(0, ROWS), rows[::-1])
        store.close()
        assert [path.name for path in tmp_path.iterdir()] == [Path(uri).name]

    def test_rows_that_do_not_belong_to_the_array_are_refused(
        self, factory: Any, tmp_path: Path
    ) -> None:
        writer = factory.create(self.uri(tmp_path))
        array = writer.array("vectors", (10, 6), "float32")
        good = numbers((6,), "float32")
        for rows in (good[:2].astype(np.float64), good[:2, :2], good[:11]):
            with pytest.raises((ValueError, TtfError)):
                array.append(rows)
        array.append(good[:4])
        with pytest.raises((ValueError, TtfError)):
            writer.commit()
        writer.abort()
        assert list(tmp_path.iterdir()) == []

    def test_a_folder_that_is_not_there_is_a_storage_error(
        self, factory: Any, tmp_path: Path
    ) -> None:
        with pytest.raises((StorageError, DataMissing)):
            self.written(factory, self.uri(tmp_path / "nowhere"), numbers((6,), "float32"))

    def test_a_disk_that_takes_only_half_is_a_storage_error_and_keeps_nothing(
        self, factory: Any, tmp_path: Path
    ) -> None:
        request = _many_rows(self.name, tmp_path)
        found = _children.answer("write_half", uri=self.uri(tmp_path / "out"), **request)
        assert found["raised"], "commit did not report an incomplete write"
        assert found["explained"], (
            f"commit must raise ttf.StorageError, but it raised {found['raised']}: {found['text']}"
        )
        assert found["left"] == []

    def test_kill_9_in_mid_save_leaves_the_old_or_the_new(
        self, factory: Any, tmp_path: Path
    ) -> None:
        # A writer is killed three times while it saves; then one finishes.
        request = _many_rows(self.name, tmp_path)
        rows = np.load(request["rows"])
        uri = self.uri(tmp_path / "out")
        timed = _children.answer("write_store", uri=self.uri(tmp_path, "timed"), **request)
        self.written(factory, uri, numbers((6,), "float32")).close()
        for share in _KILLS:
            killer = _children.killed_while_saving(share * timed["seconds"])
            _children.ended("write_store", killer, uri=uri, **request)
            store = factory.open(uri)
            source = store.source("vectors")
            expected = numbers((6,), "float32") if source.shape[0] == ROWS else rows
            np.testing.assert_array_equal(source.read(0, source.shape[0]), expected)
            assert list(store.verify()) == []
            store.close()
        _children.answer("write_store", uri=uri, **request)
        store = factory.open(uri)
        np.testing.assert_array_equal(store.source("vectors").read(0, _LARGE[0]), rows)
        store.close()

    # --- in a run ------------------------------------------------------------------------------

    @pytest.fixture
    def data(self, factory: Any, tmp_path: Path) -> Mapping[str, Path]:
        """The small set, converted to this storage."""
        from ttf.data.convert import convert

        made = {}
        for role, path in _runs.small_set(tmp_path).items():
            made[role] = Path(self.uri(tmp_path / "converted", role))
            made[role].parent.mkdir(exist_ok=True)
            convert(str(path), str(made[role]), to_storage=self.name)
        return made


def numbers(tail: tuple[int, ...], dtype: DType) -> NDArray[Any]:
    """Distinct values in the stored type."""
    values = np.random.default_rng(7).standard_normal((ROWS, *tail)).astype(np.float32)
    if dtype in ("int32", "int64", "uint8"):
        return (np.abs(values) * 20).astype(numpy_dtype(dtype))
    return from_float32(values, dtype)


def _many_rows(name: str, folder: Path) -> dict[str, Any]:
    """A request to write them into the folder `out`."""
    rows = np.arange(_LARGE[0] * _LARGE[1], dtype=np.float32).reshape(_LARGE)
    np.save(folder / "rows.npy", rows)
    folder.joinpath("out").mkdir()
    return {"name": name, "rows": str(folder / "rows.npy"), "step": 1000}


def _files(path: Path) -> list[Path]:
    return [path] if path.is_file() else [p for p in path.rglob("*") if p.is_file()]


def _copy(path: Path, target: Path) -> None:
    import shutil

    if path.is_file():
        shutil.copy(path, target)
    else:
        shutil.copytree(path, target)
