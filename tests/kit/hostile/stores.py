"""Data files that lead out, hang, inflate, lie or execute."""

from __future__ import annotations

import functools
import gzip
import io
import json
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from tests.kit.hostile.table import (
    BOMB,
    DATA_COMMANDS,
    TERABYTE,
    Added,
    Place,
    hostile,
)

# --- stores -------------------------------------------------------------------------------------------


def zarr_store(place: Place, *, shape: tuple[int, ...] = (40, 8), chunks: tuple[int, ...] = (40, 8),
               compressor: dict[str, Any] | None = None, **more: Any) -> Path:  # fmt: skip
    """A good zarr v2 store `bad` of one array; returns the folder of the array."""
    folder = place.root / "bad" / "vectors"
    folder.mkdir(parents=True)
    (place.root / "bad" / ".zgroup").write_text('{"zarr_format": 2}')
    about = {
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "order": "C",
        "compressor": compressor, "filters": None, "fill_value": 0, **more,
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(about))
    rows = np.random.default_rng(0).standard_normal(chunks, np.float32)
    (folder / "0.0").write_bytes(rows.tobytes())
    return folder


def _store(name: str, bad: str = "bad") -> Added:
    every = tuple(words.replace("bad", bad) for words in DATA_COMMANDS)
    return hostile(name, *every[:3], every=every)


@_store("a chunk is a link to a device")
def _chunk_device(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "gzip", "level": 1})
    (folder / "0.0").unlink()
    (folder / "0.0").symlink_to("/dev/zero")


@_store("a chunk is a link out of the store")
def _chunk_link(place: Place) -> None:
    folder = zarr_store(place)
    (folder / "0.0").unlink()
    (folder / "0.0").symlink_to(place.outside / "vectors.npy")


@_store("a chunk is a pipe")
def _chunk_pipe(place: Place) -> None:
    folder = zarr_store(place)
    (folder / "0.0").unlink()
    os.mkfifo(folder / "0.0")


@_store("a compressed chunk is a pipe")
def _compressed_pipe(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "zstd", "level": 1})
    (folder / "0.0").unlink()
    os.mkfifo(folder / "0.0")


@_store("an array is a link out of the store")
def _array_link(place: Place) -> None:
    folder = zarr_store(place)
    folder.rename(place.outside.parent / "array")
    folder.symlink_to(place.outside.parent / "array")


@_store("a separator leads out of the store")
def _separator(place: Place) -> None:
    zarr_store(place, dimension_separator="/../../../../outside/")


@_store("a separator is no character")
def _no_separator(place: Place) -> None:
    zarr_store(place, dimension_separator="\0")


@_store("metadata of a store is a pipe")
def _meta_pipe(place: Place) -> None:
    folder = zarr_store(place)
    (folder / ".zarray").unlink()
    os.mkfifo(folder / ".zarray")


@_store("metadata of a store is deep")
def _meta_deep(place: Place) -> None:
    folder = zarr_store(place)
    (folder / ".zarray").write_text('{"a":' * 100_000)
    (folder / ".zattrs").write_text("[" * 100_000)


@_store("metadata of a store claims a terabyte")
def _meta_large(place: Place) -> None:
    folder = zarr_store(place)
    with (folder / ".zattrs").open("wb") as file:
        file.truncate(TERABYTE)


@functools.cache
def bomb(codec: str, size: int = BOMB) -> bytes:
    """`size` zeros, compressed to next to nothing."""
    if codec == "zstd":  # a frame that does not say its size, of blocks of one repeated byte
        block = ((128 << 10) << 3) | 2
        blocks = size >> 17
        head = b"\x28\xb5\x2f\xfd\x00\x50"
        body = b"".join(
            (block | (number == blocks - 1)).to_bytes(3, "little") + b"\0"
            for number in range(blocks)
        )
        return head + body
    return gzip.compress(bytes(size), 9) if size <= 1 << 26 else _gzip_of(size)


def _gzip_of(size: int) -> bytes:
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(size >> 20)) + packer.flush()


@_store("a chunk inflates without end")
def _gzip_bomb(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "gzip", "level": 1})
    (folder / "0.0").write_bytes(bomb("gzip"))


@_store("a chunk of unknown size inflates without end")
def _zstd_bomb(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "zstd", "level": 1})
    (folder / "0.0").write_bytes(bomb("zstd", 4 * BOMB))


@_store("a chunk claims two gigabytes")
def _blosc_claim(place: Place) -> None:
    folder = zarr_store(
        place, compressor={"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    )
    size = (1 << 31) - 1
    parts = (size, 1 << 20, 4000)
    head = bytes((2, 1, 0x21, 1)) + b"".join(part.to_bytes(4, "little") for part in parts)
    (folder / "0.0").write_bytes(head.ljust(4000, b"\0"))


@_store("an array declares chunks of a terabyte")
def _huge_chunk(place: Place) -> None:
    big = 1 << 35
    folder = zarr_store(place, compressor={"id": "zstd", "level": 1})
    about = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps(about | {"shape": [big, 8], "chunks": [big, 8]}))
    (folder / "0.0").write_bytes(bomb("zstd"))


@_store("a codec executes what it reads")
def _pickle(place: Place) -> None:
    folder = zarr_store(place, filters=[{"id": "pickle"}])
    (folder / "0.0").write_bytes(b"cos\nsystem\n(S'touch executed'\ntR.")


@_store("a chunk is compressed twice")
def _twice(place: Place) -> None:
    folder = zarr_store(
        place, compressor={"id": "gzip", "level": 1}, filters=[{"id": "gzip", "level": 1}]
    )
    (folder / "0.0").write_bytes(gzip.compress(bomb("gzip", BOMB >> 2)))


@_store("a zip file of zarr inflates without end", "bad.zarr.zip")
def _zip_bomb(place: Place) -> None:
    folder = zarr_store(place)
    documents = (folder.parent / ".zgroup").read_bytes(), (folder / ".zarray").read_bytes()
    (place.root / "bad.zarr.zip").write_bytes(_zarr_zip_of(*documents))


@functools.cache
def _zarr_zip_of(group: bytes, array: bytes) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        archive.writestr(".zgroup", group)
        archive.writestr("vectors/.zarray", array)
        with archive.open("vectors/0.0", "w", force_zip64=True) as member:
            for _ in range(BOMB >> 20):
                member.write(bytes(1 << 20))
    return made.getvalue()


@_store("strings of zarr claim to be billions")
def _text_claim(place: Place) -> None:
    folder = zarr_store(place)
    ids = folder.parent / "ids"
    ids.mkdir()
    about = json.loads((folder / ".zarray").read_text())
    about |= {"shape": [40], "chunks": [40], "dtype": "|O", "filters": [{"id": "vlen-utf8"}]}
    (ids / ".zarray").write_text(json.dumps(about | {"fill_value": ""}))
    (ids / "0").write_bytes((2**32 - 1).to_bytes(4, "little") + bytes(400))


@_store("strings of zarr inflate without end")
def _text_bomb(place: Place) -> None:
    _text_claim(place)
    ids = place.root / "bad" / "ids"
    about = json.loads((ids / ".zarray").read_text()) | {"compressor": {"id": "gzip", "level": 1}}
    (ids / ".zarray").write_text(json.dumps(about))
    (ids / "0").write_bytes(bomb("gzip", 2 * BOMB))


@_store("a zip file of zarr leads out", "bad.zarr.zip")
def _zip_out(place: Place) -> None:
    folder = zarr_store(place)
    with zipfile.ZipFile(place.root / "bad.zarr.zip", "w") as archive:
        archive.write(folder.parent / ".zgroup", ".zgroup")
        archive.write(folder / ".zarray", "vectors/.zarray")
        archive.write(folder / "0.0", "vectors/0.0")
        archive.write(place.outside / "vectors.npy", "../../outside/vectors.npy")


@_store("a shard at the end of an endless member of a zip file", "bad.zip")
def _zip_shard(place: Place) -> None:
    about = {
        "zarr_format": 3, "node_type": "array", "shape": [40, 8], "data_type": "float32",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [40, 8]}},
        "chunk_key_encoding": {"name": "default"}, "fill_value": 0, "attributes": {},
        "codecs": [{"name": "sharding_indexed", "configuration": {
            "chunk_shape": [40, 8], "codecs": [{"name": "bytes"}], "index_codecs": ["bytes"],
        }}],
    }  # fmt: skip
    with zipfile.ZipFile(
        place.root / "bad.zip", "w", zipfile.ZIP_DEFLATED, compresslevel=1
    ) as archive:
        archive.writestr("zarr.json", json.dumps({"zarr_format": 3, "node_type": "group"}))
        archive.writestr("vectors/zarr.json", json.dumps(about))
        with archive.open("vectors/c/0/0", "w", force_zip64=True) as member:
            for _ in range((BOMB >> 21) + 1):
                member.write(bytes(1 << 20))


@_store("an array has endless chunks that do not exist")
def _endless(place: Place) -> None:
    zarr_store(place, shape=(1 << 46, 8), chunks=(1, 1))


def _data_pipe(name: str) -> Callable[[Place], None]:
    return lambda place: os.mkfifo(place.root / name)


for _name in ("bad.npz", "bad.npy", "bad.zarr", "bad.zarr.zip"):
    _store(f"{_name} is a pipe", _name)(_data_pipe(_name))


def _npy(header: str, held: int = 0) -> bytes:
    text = header.encode()
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    return head + text + bytes(held)


def _npz(place: Place, shape: str, held: int = 0, *, deflated: bool = False) -> None:
    (place.root / "bad.npz").write_bytes(_npz_of(shape, held, deflated))


@functools.cache  # made anew for every command; three gigabytes take minutes
def _npz_of(shape: str, held: int, deflated: bool) -> bytes:
    made = io.BytesIO()
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(made, "w", method, compresslevel=1) as archive:
        for name in ("vectors", "X_train", "X_val"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(_npy(text))
                for _ in range(held >> 20):
                    member.write(bytes(1 << 20))
    return made.getvalue()


def _shaped(shape: str) -> Callable[[Place], None]:
    return lambda place: _npz(place, shape)


for _name, _shape in {
    "no width and a huge length": f"({1 << 62}, 0)",
    "no length and a huge width": f"(0, {1 << 62})",
    "a huge shape": f"({1 << 40}, {1 << 40})",
    "many dimensions": str((1,) * 60),
    "a shape beyond integers": f"({10**30}, 8)",
}.items():
    _store(f"an array declares {_name}", "bad.npz")(_shaped(_shape))


@_store("a deflated member inflates without end", "bad.npz")
def _npz_bomb(place: Place) -> None:
    _npz(place, "(40, 8)", BOMB, deflated=True)
