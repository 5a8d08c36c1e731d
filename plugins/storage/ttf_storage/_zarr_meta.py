"""Reads the metadata of an array, zarr.json (v3) or .zarray (v2): can its chunks be mapped?"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

from ttf import BadData, DType, open_inside
from ttf_storage._npy_header import beyond
from ttf_storage._stored_rows import READ_AS

_TOO_LARGE: Final = 1 << 48
MOST_METADATA_BYTES: Final = 16 << 20
_SEPARATORS: Final = ("/", ".")
_INDEX_CODECS: Final = ({"bytes"}, {"bytes", "crc32c"})
_CONVERTED: Final = ("uint16", "uint64")  # not read by rows, but by `ttf data convert`
_TEXT_CODEC: Final = "vlen-utf8"
TEXT: Final = "<U"  # strings of any length


@dataclass(frozen=True)
class ShardIndex:
    at_end: bool
    checksum: bool
    order: str  # "<" or ">"


@dataclass(frozen=True)
class ArrayMeta:
    """An array as its metadata declares it. `plain`: stored like numpy's memory."""

    shape: tuple[int, ...]
    dtype: str
    marker: str | None  # 'bfloat16' if an attribute says that uint16 stands for it
    files: tuple[int, ...]  # shape of one file: a shard, or a chunk without shards
    chunks: tuple[int, ...]
    index: ShardIndex | None
    stored: str
    codecs: tuple[str, ...]  # of a chunk, in the order of encoding; that of strings is left out
    plain: bool
    fill: Any  # what a chunk that does not exist stands for, as JSON has it; None: nothing is said
    prefix: str
    separator: str
    raw: bytes

    @property
    def by_rows(self) -> bool:
        """Whether every chunk holds whole rows."""
        return self.plain and len(self.shape) > 0 and self.chunks[1:] == self.shape[1:]

    @property
    def is_text(self) -> bool:
        return self.dtype[:2] in ("<U", ">U", "|S")

    @property
    def grid(self) -> tuple[int, ...]:
        """Number of files along each axis."""
        return tuple(-(-n // f) for n, f in zip(self.shape, self.files, strict=True))

    def file_keys(self) -> Iterator[tuple[tuple[int, ...], str]]:
        """Yields grid position and relative path of every required file."""
        grid = self.grid
        for number in range(math.prod(grid)):
            position, rest = [], number
            for extent in reversed(grid):
                rest, along = divmod(rest, extent)
                position.append(along)
            position.reverse()
            yield tuple(position), self.prefix + self.separator.join(map(str, position))

    def position_of(self, key: str) -> tuple[int, ...]:
        """The inverse of `file_keys`."""
        return tuple(map(int, key.removeprefix(self.prefix).split(self.separator)))


def find_arrays(root: Path) -> dict[str, Path]:
    """Returns the arrays of a local group by name. A single array is named 'vectors'."""
    if _array_file(root) is not None:
        return {"vectors": root}
    if not any((root / mark).is_file() for mark in ("zarr.json", ".zgroup")):
        raise BadData(
            f"{root} is not a zarr group: it has neither zarr.json nor .zgroup.",
            hint="Check the path. Perhaps the hidden files were not copied.",
        )
    return {p.name: p for p in sorted(root.iterdir()) if p.is_dir() and _array_file(p) is not None}


def read_meta(folder: Path, root: Path, where: str) -> ArrayMeta:
    """The metadata of an array in the folder `root`. Raises BadData if it is damaged."""
    path = _array_file(folder)
    assert path is not None, folder
    with _understood(f"{where}: {path.name}"):
        raw = _bytes_of(path, root)
        values = json.loads(raw)
        _require_version(values, 3 if path.name == "zarr.json" else 2)
        if path.name == "zarr.json":
            return _version_3(values, raw)
        extra = folder / ".zattrs"
        attributes = json.loads(_bytes_of(extra, root)) if extra.exists() else {}
        return _version_2(values, raw, attributes)


def _require_version(values: Mapping[str, Any], version: int) -> None:
    if values["zarr_format"] != version:
        raise ValueError(f"zarr_format is {values['zarr_format']!r}, not {version}")


def parsed_meta(values: Mapping[str, Any], where: str) -> ArrayMeta:
    """From the metadata as the zarr library has read it."""
    with _understood(f"{where}: its metadata"):
        if values["zarr_format"] == 3:
            return _version_3(values, b"")
        return _version_2(values, b"", values.get("attributes") or {})


def with_fill_value(raw: bytes) -> bytes:
    """A zarr.json as zarr takes it: some writers have null for the fill value of an array."""
    try:
        values = json.loads(raw)
        null = values["node_type"] == "array" and values["fill_value"] is None
        kind = _type_name(values["data_type"]) if null else ""
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        return raw  # zarr says what is wrong with it
    if not null:
        return raw
    fill: Any = "" if kind[:2] in ("<U", "|S") else kind != "bool" and 0
    return json.dumps(values | {"fill_value": fill}).encode()


@contextlib.contextmanager
def _understood(what: str) -> Iterator[None]:
    try:
        yield
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadData(
            f"{what} is truncated or damaged ({type(error).__name__}: {str(error)[:300]}).",
            hint="Write or copy the store again.",
        ) from error


def _bytes_of(path: Path, root: Path) -> bytes:
    with open_inside(path, root) as file:
        raw = file.read(MOST_METADATA_BYTES + 1)
    if len(raw) > MOST_METADATA_BYTES:
        raise ValueError(f"it has more than {MOST_METADATA_BYTES:,} bytes")
    return raw


def contract_dtype(name: str, marker: str | None, where: str, convert: str) -> DType:
    """Returns the contract's dtype, or raises BadData with the command that converts."""
    if marker == "bfloat16" and name in ("uint16", "bfloat16"):
        return "bfloat16"
    if marker not in (None, name):
        raise BadData(f"{where} is marked as {marker!r}, but it has the type {name}.")
    if name not in READ_AS:
        raise BadData(
            f"{where} has the type {name}, but it must be float32, float16, float64, bfloat16, "
            "int32, int64 or uint8.",
            hint=(
                f"Convert it: {convert}"
                if name in _CONVERTED
                else "Write the array with one of these types."
            ),
        )
    return READ_AS[name]


def _array_file(folder: Path) -> Path | None:
    """Returns the metadata file of an array, or None if the folder is no array."""
    legacy = folder / ".zarray"
    if legacy.is_file():
        return legacy
    path = folder / "zarr.json"
    if not path.is_file():
        return None
    try:
        values = json.loads(_bytes_of(path, path.parent))
    except (ValueError, RecursionError):
        return path  # damaged: read_meta says so, with the array's name
    group = isinstance(values, dict) and values.get("node_type") == "group"
    return None if group else path


def _version_3(values: Mapping[str, Any], raw: bytes) -> ArrayMeta:
    shape, files = _extent(values["shape"]), _grid(values)
    if len(files) != len(shape):
        raise ValueError(f"chunks {files} do not fit the shape {shape}")
    names, plain, index, chunks = _codecs(values["codecs"], files)
    if values.get("storage_transformers"):
        plain = False
    prefix, separator = _key_encoding(values.get("chunk_key_encoding", {"name": "default"}))
    dtype = values["data_type"]
    name = _type_name(dtype)
    return ArrayMeta(
        shape=shape,
        dtype=name,
        marker="bfloat16" if dtype == "bfloat16" else _marker(values.get("attributes") or {}),
        files=files,
        chunks=chunks,
        index=index,
        stored=_compressors(names) or "stored",
        codecs=names[1:] if name == TEXT and names[:1] == (_TEXT_CODEC,) else names,
        plain=plain,
        fill=values.get("fill_value"),
        prefix=prefix,
        separator=separator,
        raw=raw,
    )


def _version_2(values: Mapping[str, Any], raw: bytes, attributes: Mapping[str, Any]) -> ArrayMeta:
    shape, chunks = _extent(values["shape"]), _extent(values["chunks"], least=1)
    if len(chunks) != len(shape):
        raise ValueError(f"chunks {chunks} do not fit the shape {shape}")
    dtype = np.dtype(values["dtype"] if isinstance(values["dtype"], str) else "V1")
    compressor, filters = values.get("compressor"), values.get("filters")
    codecs = tuple(str(c["id"]) for c in (*(filters or ()), *([compressor] if compressor else ())))
    text = dtype.hasobject and codecs[:1] == (_TEXT_CODEC,)
    plain = not compressor and not filters and values.get("order", "C") == "C"
    return ArrayMeta(
        shape=shape,
        dtype=TEXT if text else dtype.str if dtype.kind in "US" else dtype.name,
        marker=_marker(attributes),
        files=chunks,
        chunks=chunks,
        index=None,
        stored=str(compressor["id"]) if compressor else "stored",
        codecs=codecs[1:] if text else codecs,
        plain=plain and dtype.byteorder != ">",
        fill=values.get("fill_value"),
        prefix="",
        separator=_separator(values.get("dimension_separator") or "."),
        raw=raw + json.dumps(attributes, sort_keys=True).encode(),
    )


def _type_name(given: Any) -> str:
    """numpy's name of the type, where numpy has it."""
    name, options = _codec(given)
    if name == "string":
        return TEXT
    if name == "fixed_length_utf32":
        return f"<U{int(options['length_bytes']) // 4}"
    if name == "null_terminated_bytes":
        return f"|S{int(options['length_bytes'])}"
    return name


def _grid(values: Mapping[str, Any]) -> tuple[int, ...]:
    grid = values["chunk_grid"]
    if grid["name"] != "regular":
        raise ValueError(f"chunk grid {grid['name']!r} is not supported")
    return _extent(grid["configuration"]["chunk_shape"], least=1)


def _codecs(
    given: Any, files: tuple[int, ...]
) -> tuple[tuple[str, ...], bool, ShardIndex | None, tuple[int, ...]]:
    """Returns the names, whether bytes are plain, the index, and the chunk shape."""
    codecs = [_codec(c) for c in given]
    if len(codecs) == 1 and codecs[0][0] == "sharding_indexed":
        options = codecs[0][1]
        inner = [_codec(c) for c in options["codecs"]]
        chunks = _extent(options["chunk_shape"], least=1)
        if len(chunks) != len(files) or any(f % c for f, c in zip(files, chunks, strict=True)):
            raise ValueError(
                f"the size of chunks {chunks} does not divide the size of shards {files}"
            )
        plain = _is_plain(inner) and options.get("index_location", "end") in ("end", "start")
        return _names(inner), plain, _shard_index(options), chunks
    return _names(codecs), _is_plain(codecs), None, files


def _names(codecs: list[tuple[str, Mapping[str, Any]]]) -> tuple[str, ...]:
    return tuple(name.removeprefix("numcodecs.") for name, _ in codecs)


def _shard_index(options: Mapping[str, Any]) -> ShardIndex:
    codecs = [_codec(c) for c in options["index_codecs"]]
    names = [name for name, _ in codecs]
    if set(names) not in _INDEX_CODECS or names[0] != "bytes":
        raise ValueError(f"index codecs {names} are not supported")
    order = ">" if codecs[0][1].get("endian", "little") == "big" else "<"
    return ShardIndex(options.get("index_location", "end") == "end", "crc32c" in names, order)


def _codec(given: Any) -> tuple[str, Mapping[str, Any]]:
    if isinstance(given, str):
        return given, {}
    return str(given["name"]), given.get("configuration") or {}


def _is_plain(codecs: list[tuple[str, Mapping[str, Any]]]) -> bool:
    return (
        len(codecs) == 1
        and codecs[0][0] == "bytes"
        and codecs[0][1].get("endian", "little") == "little"
    )


def _compressors(names: tuple[str, ...]) -> str:
    return "+".join(name for name in names if name not in ("bytes", "transpose", _TEXT_CODEC))


def _separator(given: Any) -> str:
    # Anything else would make paths of it, to any place.
    if given not in _SEPARATORS:
        raise ValueError(f"the separator {str(given)[:20]!r} is not one of {_SEPARATORS}")
    return str(given)


def _key_encoding(encoding: Any) -> tuple[str, str]:
    name, options = _codec(encoding)
    if name == "default":
        separator = _separator(options.get("separator", "/"))
        return f"c{separator}", separator
    if name == "v2":
        return "", _separator(options.get("separator", "."))
    raise ValueError(f"chunk keys {name!r} are not supported")


def _extent(values: Any, least: int = 0) -> tuple[int, ...]:
    extent = tuple(values)
    if any(type(n) is not int or not least <= n < _TOO_LARGE for n in extent) or beyond(extent, 1):
        raise ValueError(f"{str(list(extent))[:200]} is not a valid shape")
    return extent


def _marker(attributes: Mapping[str, Any]) -> str | None:
    marker = attributes.get("dtype")
    return marker if isinstance(marker, str) else None
