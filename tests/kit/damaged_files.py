"""Files and folders damaged at random, by a seed: NPZ, Zarr, TOML, and folders of runs."""

from __future__ import annotations

import io
import json
import os
import random
import re
import shutil
import struct
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

NUMBERS: Final = (
    0,
    1,
    2,
    7,
    127,
    128,
    255,
    1 << 15,
    (1 << 16) - 1,
    1 << 31,
    (1 << 32) - 1,
    1 << 62,
)
VALUES: Final[tuple[Any, ...]] = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**30, -(2**63), 0.5, 1e308, -0.0),
    *(float("nan"), float("inf"), "", " ", "0", "../x", "/dev/zero", "a\0b", "\x1b]0;owned\x07"),
    *("\ud800", "x" * 5000, [], {}, [[]], [0, 0], {"": {}}, [None] * 100, "<f4", "|O", ">f8"),
)
LITERALS: Final = (
    *(
        "0",
        "-1",
        "1",
        "2147483648",
        "9223372036854775807",
        "1e308",
        "-1e-308",
        "nan",
        "inf",
        "-inf",
    ),
    *(
        "true",
        "false",
        '""',
        '"auto"',
        '"../x"',
        '"/dev/zero"',
        '"\\u0000"',
        "[]",
        "{}",
        "[[[[]]]]",
    ),
    *("1979-05-27", "0x10", "1_0", '"' + "x" * 3000 + '"', "[" * 500, "'''", "{a.b = 1}", ""),
)


# --- bytes ----------------------------------------------------------------------------------------


def damaged(data: bytes, rng: random.Random) -> bytes:
    """One to four wounds; half of them in the first or the last 300 bytes, where formats have heads."""
    wounded = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        _WOUNDS[rng.randrange(len(_WOUNDS))](wounded, rng)
    return bytes(wounded)


def _place(data: bytearray, rng: random.Random) -> int:
    if not data:
        return 0
    near = min(300, len(data))
    return rng.choice((rng.randrange(len(data)), rng.randrange(near), len(data) - 1 - rng.randrange(near)))  # fmt: skip


def _flip(data: bytearray, rng: random.Random) -> None:
    if data:
        data[_place(data, rng)] ^= 1 << rng.randrange(8)


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[_place(data, rng) :]


def _remove(data: bytearray, rng: random.Random) -> None:
    at = _place(data, rng)
    del data[at : at + rng.choice((1, 2, 4, 30, 1000))]


def _repeat(data: bytearray, rng: random.Random) -> None:
    at = _place(data, rng)
    data[at:at] = data[at : at + rng.choice((1, 4, 60, 2000))] * rng.choice((1, 2, 50))


def _number(data: bytearray, rng: random.Random) -> None:
    at, format_ = _place(data, rng), rng.choice(("B", "<H", "<I", "<Q", ">I"))
    size = struct.calcsize(format_)
    value = rng.choice(NUMBERS) & ((1 << (8 * size)) - 1)
    data[at : at + size] = struct.pack(format_, value)


def _noise(data: bytearray, rng: random.Random) -> None:
    at, size = _place(data, rng), rng.choice((1, 8, 100))
    data[at : at + size] = rng.randbytes(size)


def _digits(data: bytearray, rng: random.Random) -> None:
    found = list(re.finditer(rb"\d+", data[:100_000]))
    if found:
        one = rng.choice(found)
        data[one.start() : one.end()] = str(rng.choice((*NUMBERS, 10**40, -1))).encode()


_WOUNDS: Final = (_flip, _flip, _cut, _remove, _repeat, _number, _number, _noise, _digits)


# --- NPZ ------------------------------------------------------------------------------------------


def damage_npz(path: Path, rng: random.Random) -> None:
    """Half of them byte by byte; of the others, a member is damaged and the archive is whole."""
    if rng.random() < 0.5:
        path.write_bytes(damaged(path.read_bytes(), rng))
        return
    with zipfile.ZipFile(path) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    chosen = rng.choice(list(members))
    head = 10 + int.from_bytes(members[chosen][8:10], "little")
    how = rng.randrange(5)
    if how < 2:  # the head of the array
        wounded = damaged(members[chosen][:head], rng)
        members[chosen] = wounded + members[chosen][head:]
    elif how == 2:
        members[rng.choice(("../x.npy", "x", "vectors.npy/y.npy", "\x1b[2J.npy", "a" * 300))] = members.pop(chosen)  # fmt: skip
    elif how == 3:
        members[chosen] = _other_array(rng)
    else:
        members[chosen] = damaged(members[chosen], rng)
    method = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(path, "w", method) as archive:
        for name, data in members.items():
            archive.writestr(name, data)


def _other_array(rng: random.Random) -> bytes:
    made = io.BytesIO()
    shape = rng.choice(((), (0,), (0, 8), (40, 0), (64,), (3, 8), (64, 8, 2), (1, 1, 1, 1, 8)))
    kind = rng.choice(("<f4", ">f4", "<f8", "<f2", "<i8", "u1", "?", "c8", "U3", "S2", "M8[s]"))
    array = np.zeros(shape, kind)
    if array.dtype.kind == "f" and array.size:
        with np.errstate(over="ignore"):  # 1e30 as a half
            array.flat[rng.randrange(array.size)] = rng.choice((np.nan, np.inf, 1e30, -1.0))
    np.save(made, np.asfortranarray(array) if rng.random() < 0.3 else array)
    return made.getvalue()


# --- Zarr -----------------------------------------------------------------------------------------


def damage_zarr(folder: Path, rng: random.Random) -> None:
    """One or two of its files: documents by value or by byte, chunks by byte, either as something
    that is no file."""
    for _ in range(rng.choice((1, 1, 2))):
        files = sorted(path for path in folder.rglob("*") if path.is_file())
        if files:
            _damage_file(rng.choice(files), rng)


def _damage_file(path: Path, rng: random.Random) -> None:
    how = rng.random()
    if how < 0.1:
        _replace(path, rng)
    elif how < 0.6 and _is_json(path):
        path.write_text(json.dumps(changed(json.loads(path.read_bytes()), rng)))
    else:
        path.write_bytes(damaged(path.read_bytes(), rng))


def _is_json(path: Path) -> bool:
    try:
        json.loads(path.read_bytes())
    except (ValueError, RecursionError):
        return False
    return True


def _replace(path: Path, rng: random.Random) -> None:
    path.unlink()
    what = rng.randrange(6)
    if what == 1:
        path.mkdir()
    elif what == 2:
        os.mkfifo(path)
    elif what == 3:
        path.symlink_to("/dev/zero")
    elif what == 4:
        path.symlink_to(path.name)
    elif what == 5:
        path.write_bytes(b"[" * 100_000)


def changed(document: Any, rng: random.Random) -> Any:
    """A document with one value, one key or one entry other than it was."""
    places = list(_places(document))
    if not places:
        return rng.choice(VALUES)
    holder, key = rng.choice(places)
    how = rng.randrange(4)
    if how == 0 and isinstance(holder, dict):
        del holder[key]
    elif how == 1 and isinstance(holder, dict):
        holder[rng.choice(("", "zarr_format", "x" * 300, "\x1b[2J"))] = holder.pop(key)
    else:
        holder[key] = rng.choice(VALUES)
    return document


def _places(document: Any) -> Iterator[tuple[Any, Any]]:
    if isinstance(document, dict):
        keys: list[Any] = list(document)
    else:
        keys = list(range(len(document))) if isinstance(document, list) else []
    for key in keys:
        yield document, key
        yield from _places(document[key])


# --- TOML and runs --------------------------------------------------------------------------------


def damage_toml(path: Path, rng: random.Random) -> None:
    """Half of them byte by byte; of the others, values are other ones, and lines elsewhere."""
    if rng.random() < 0.4:
        path.write_bytes(damaged(path.read_bytes(), rng))
        return
    lines = path.read_text().splitlines()
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(lines))
        key, equals, _ = lines[at].partition(" = ")
        how = rng.randrange(5)
        if equals and how < 3:
            lines[at] = f"{key} = {rng.choice(LITERALS)}"
        elif how == 3:
            lines.insert(rng.randrange(len(lines)), lines[at])
        else:
            lines[at] = rng.choice(
                ("", "[[x]]", "[data]", "a" + ".b" * 400 + " = 1", "x = ", "\x00")
            )
    path.write_text("\n".join(lines) + "\n")


def damage_run(folder: Path, rng: random.Random) -> None:
    """One to three of its files; some go altogether."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    for path in rng.sample(files, min(len(files), rng.choice((1, 1, 2, 3)))):
        if path.suffix == ".toml" and rng.random() < 0.5:
            damage_toml(path, rng)
        elif path.suffix == ".jsonl" and rng.random() < 0.5:
            _damage_lines(path, rng)
        else:
            _damage_file(path, rng)
    if rng.random() < 0.05:
        shutil.rmtree(rng.choice([path for path in folder.iterdir() if path.is_dir()]))


def _damage_lines(path: Path, rng: random.Random) -> None:
    lines = path.read_text().splitlines()
    if lines:
        at = rng.randrange(len(lines))
        lines[at] = json.dumps(changed(json.loads(lines[at]), rng))
    path.write_text("\n".join(lines) + "\n")


DAMAGES: Final[dict[str, Callable[[Path, random.Random], None]]] = {
    "npz": damage_npz,
    "zarr": damage_zarr,
    "toml": damage_toml,
    "run": damage_run,
}
