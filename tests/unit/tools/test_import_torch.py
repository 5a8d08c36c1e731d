"""Of a file of torch only tensors are read, and whatever it names is never called."""

from __future__ import annotations

import struct
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ttf.errors import BadData
from ttf.tools.import_ import torch_pickle
from ttf.tools.import_.torch_file import open_torch

ROWS = np.random.default_rng(0).standard_normal((300, 8)).astype(np.float32)


@pytest.mark.parametrize("protocol", [2, 4, 5])
@pytest.mark.parametrize("zipped", [True, False])
def test_tensors_of_all_kinds_are_read_as_torch_reads_them(
    tmp_path: Path, protocol: int, *, zipped: bool
) -> None:
    whole = torch.from_numpy(ROWS.copy())
    layer = torch.nn.Linear(8, 4).double()
    tensors: dict[str, torch.Tensor] = {
        "whole": whole,
        "some": whole[10:90:2],
        "turned": whole.T,
        "short": whole.half(),
        "brain": whole.bfloat16(),
        "numbers": torch.arange(300, dtype=torch.int16),
        "octets": torch.arange(200, dtype=torch.uint8).reshape(20, 10),
        "learned": layer.weight,
        "none": torch.empty(0, 8),
        **layer.state_dict(),
    }
    others: dict[Any, Any] = {"flags": torch.ones(3) > 0, "one": torch.tensor(1.0), "note": "x", "list": [1, whole],
              "size": whole.shape, "set": {1, 2}, "kind": torch.float32, 3: None}  # fmt: skip
    torch.save(
        {**tensors, **others}, tmp_path / "a.pt", pickle_protocol=protocol,
        _use_new_zipfile_serialization=zipped,
    )  # fmt: skip
    found = open_torch(tmp_path / "a.pt")
    assert set(found.columns) == set(tensors)
    for name, tensor in tensors.items():
        column = found.columns[name]
        assert column.shape == tuple(tensor.shape)
        read = column.read(0, column.shape[0])
        wanted = tensor.detach()
        if name == "brain":
            wanted, read = wanted.view(torch.int16), read.view(np.int16)
        assert torch.equal(torch.from_numpy(np.array(read)), _as_read(wanted)), name
    found.close()


def _as_read(tensor: torch.Tensor) -> torch.Tensor:
    if tensor.dtype == torch.int16 and tensor.dim() == 1:
        return tensor.int()
    return tensor.float() if tensor.dtype == torch.float64 else tensor


def _with_pickle(path: Path, content: bytes, compression: int = zipfile.ZIP_STORED) -> Path:
    torch.save({"vectors": torch.from_numpy(ROWS)}, path.with_suffix(".like"))
    with zipfile.ZipFile(path.with_suffix(".like")) as like, zipfile.ZipFile(path, "w") as made:
        for name in like.namelist():
            of_tensors = not name.endswith("data.pkl")
            how = zipfile.ZIP_STORED if of_tensors else compression
            made.writestr(name, like.read(name) if of_tensors else content, how)
    return path


# Pairs of pairs of pairs: to hash the last one, or to print it, takes 2 ** 60 steps.
_PAIRS = b"K\x00\x85q\x00" + b"".join(b"h%ch%c\x86q%c" % (n, n, n + 1) for n in range(60))


def _text(text: str) -> bytes:
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data


@pytest.mark.parametrize(
    "steps",
    [
        b"}" + _PAIRS + b"K\x01s.",  # a key of a dict
        b"(" + _PAIRS + b"l.",  # a step that torch does not write
        _PAIRS + _PAIRS + b"\x93.",  # the name of a function
        _PAIRS + b"Q.",  # a storage
        b"ctorch._utils\n_rebuild_tensor_v2\n" + _PAIRS + b"R.",
        b"c_codecs\nencode\n" + _text("\u4e00" * 10_000) + _text("punycode") + b"\x86R.",
        b"cbuiltins\nbytearray\nJ\xff\xff\xff\x7f\x85R.",
        b"ctorch\nempty\nJ\xff\xff\xff\x7f\x85R.",
        b"cos\nsystem\n" + _text("touch evil") + b"\x85R.",
        b"ctorch\n_utils.os.system\n" + _text("touch evil") + b"\x85R.",
        b"N0" * 501 + b"N.",
        b"K\x01r\xff\xff\xff\x7f.",
        b"h\x07.",
        b"}t.",
        b"",
    ],
    ids=lambda steps: repr(steps[:12]),
)
def test_a_pickle_is_never_executed(
    tmp_path: Path, steps: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(torch_pickle, "_MOST_STEPS", 1000)
    path = _with_pickle(tmp_path / "a.pt", b"\x80\x02" + steps)
    try:
        found = open_torch(path)
    except BadData:
        pass
    else:
        assert not found.columns
        found.close()
    assert not (tmp_path / "evil").exists()


def test_a_packed_pickle_is_not_unpacked(tmp_path: Path) -> None:
    path = _with_pickle(tmp_path / "a.pt", b"N0" * (1 << 20), zipfile.ZIP_DEFLATED)
    with pytest.raises(BadData, match="is packed, which torch never does"):
        open_torch(path)


@pytest.mark.parametrize(
    ("offset", "shape", "stride"),
    [
        (0, (301, 8), (8, 1)),
        (1, (300, 8), (8, 1)),
        (0, (2, 2), (1 << 40, 1)),
        (0, (8,), (1, 1)),
        (1 << 50, (1, 8), (8, 1)),
    ],
)
def test_a_tensor_beyond_its_storage_is_refused(
    tmp_path: Path, offset: int, shape: Any, stride: Any
) -> None:
    """The numbers behind it are those of another tensor, or of nobody."""
    steps = b"\x80\x02}" + _text("vectors") + b"ctorch._utils\n_rebuild_tensor_v2\n(("
    steps += _text("storage") + b"ctorch\nFloatStorage\n" + _text("0") + _text("cpu")
    steps += _number(ROWS.size) + b"tQ" + _number(offset) + _tuple(shape) + _tuple(stride)
    path = _with_pickle(tmp_path / "a.pt", steps + b"\x89NtRs.")
    with pytest.raises(BadData, match="is not whole"):
        open_torch(path)


def _number(value: int) -> bytes:
    return b"\x8a\x08" + struct.pack("<q", value)


def _tuple(values: Any) -> bytes:
    return b"(" + b"".join(map(_number, values)) + b"t"
