"""Containers that ttf can open, but whose content was never meant for it."""

from __future__ import annotations

import warnings
from pathlib import Path
from zipfile import ZipFile

import numpy as np
import pytest
import zarr
from scipy import sparse

from ttf.data.convert import convert
from ttf.data.dataset import vectors_of
from ttf.data.inspect import inspect, verify
from ttf.errors import ArrayMissing, BadData
from ttf.host.plugins import open_store


@pytest.mark.parametrize("compressed", [False, True])
def test_a_sparse_matrix_is_named_with_the_line_that_makes_it_dense(
    tmp_path: Path, compressed: bool
) -> None:
    path = str(tmp_path / "sparse.npz")
    sparse.save_npz(path, sparse.csr_matrix(np.eye(3)), compressed=compressed)
    dense = f"scipy.sparse.load_npz({path!r}).toarray().astype('float32')"
    for seen in inspect(path), verify(path):
        assert seen.problems == [f"{path} holds a sparse matrix, whose rows ttf cannot read."]
        assert dense in seen.hints[0]
    with pytest.raises(BadData, match="holds a sparse matrix") as refused:
        convert(path, str(tmp_path / "out.npz"))
    assert dense in refused.value.hint
    with pytest.raises(ArrayMissing) as missing:
        vectors_of(open_store(path), {})
    assert dense in missing.value.hint


def test_a_zarr_group_of_groups_is_refused_with_the_path_to_give(tmp_path: Path) -> None:
    path = str(tmp_path / "outer.zarr")
    group = zarr.open_group(path, mode="w").create_group("inner")
    group.create_array("vectors", data=np.ones((3, 2), np.float32))
    seen = inspect(path)
    assert seen.problems == [f"{path} contains no arrays."]
    assert seen.hints[0].endswith(f"{path}/GROUP")
    assert inspect(f"{path}/inner").problems == []


def test_a_zip_file_without_arrays_is_said_to_be_none_of_numpy(tmp_path: Path) -> None:
    path = str(tmp_path / "torch.npz")
    with ZipFile(path, "w") as file:
        file.writestr("archive/data.pkl", b"")
    with pytest.raises(BadData, match="contains no arrays") as refused:
        convert(path, str(tmp_path / "out.npz"))
    assert "torch.save" in refused.value.hint


def test_codecs_of_numcodecs_are_read_without_a_warning(tmp_path: Path) -> None:
    codecs = pytest.importorskip("zarr.codecs.numcodecs", reason="this zarr has no such codecs")
    rows = np.arange(6, dtype=np.float32).reshape(3, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what zarr tells those who write them
        group = zarr.open_group(str(tmp_path / "in.zarr"), mode="w")
        group.create_array("vectors", data=rows, compressors=[codecs.LZ4()])
    convert(str(tmp_path / "in.zarr"), str(tmp_path / "out.npz"))  # a warning is an error here
    with np.load(tmp_path / "out.npz") as out:
        assert np.array_equal(out["vectors"], rows)
