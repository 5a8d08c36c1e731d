"""Bad inputs of `ttf data import`, `ttf export` and `ttf search --text`."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tests.kit.bad_inputs.row import Change, Row, words

IMPORTS = words("data import")


def flat(rows: int, dim: int, numbers: int, kind: bytes = b"IxFI", payload: int = 64) -> bytes:
    return kind + struct.pack("<iqqqBiQ", dim, rows, 1, 1, 1, 0, numbers) + bytes(payload)


DAMAGED: dict[str, tuple[bytes, str]] = {
    "short.fvecs": (struct.pack("<i2f", 2, 1, 2)[:-1], "is truncated"),
    "empty.fvecs": (b"", "is empty"),
    "huge.fvecs": (struct.pack("<i", 2**30) + bytes(60), "begins with the row length"),
    "minus.ivecs": (struct.pack("<i", -5) + bytes(60), "begins with the row length -5"),
    "ragged.fvecs": (struct.pack("<i2fi2f", 2, 1, 2, 3, 1, 2), "row 1 has the length 3"),
    "rows.faiss": (flat(2**50, 4, 16), "its header declares"),
    "numbers.faiss": (flat(4, 4, 2**60), "declares 4 rows of 4"),
    "cut.faiss": (flat(4, 4, 16, payload=60), "should have"),
    "tail.faiss": (flat(4, 4, 16, payload=70), "should have"),
    "head.faiss": (b"IxFI\0\0", "its header is cut"),
    "other.faiss": (b"\x89PNG" + bytes(50), "no flat FAISS index"),
    "ids.faiss": (flat(4, 4, 0, b"IxMp", 0)[:-8] + flat(4, 4, 16), "ends too early"),
    "no.hdf5": (b"nothing of HDF5", "no HDF5 file"),
    "no.pt": (b"no torch", "no file of torch"),
    "no.parquet": (b"PAR1 and no more PAR1", "damaged"),
    "no.arrow": (b"ARROW1\0\0 and no more", "damaged"),
    "no.safetensors": (b"\xff" * 40, "no safetensors file"),
}
# Beside bank.fvecs (700 x 8), q.fvecs (60 x 8) and truth.ivecs (60 x 10).
PARTS: dict[str, tuple[str, int, str]] = {
    "positives of no queries": ("--positives truth.ivecs", 2, "without --queries"),
    "a positive that is no row": (
        "--queries q.fvecs --positives far.ivecs",
        3,
        "row 2: the positive 9999 is no row",
    ),
    "fewer positives": ("--queries q.fvecs --positives few.ivecs", 3, "59 rows of positives"),
    "another width": ("--queries thin.fvecs --positives truth.ivecs", 3, "the queries have 4"),
    "too few columns": (
        "--queries q.fvecs --positives truth.ivecs --num-positives 11",
        2,
        "10 row numbers for each query, but 11",
    ),
    "ids that are vectors": ("--ids vectors", 3, "ids must be whole numbers or strings"),
    "too large for float16": ("--dtype f16", 3, "row 3 contains numbers that are too large"),
    "an array that is not there": ("--vectors emv", 3, "no array 'emv'"),
}
EXPORTS: tuple[tuple[str, int, str], ...] = (
    ("run nyp --out out", 2, "Did you mean 'npy'?"),
    ("nix npy --out out", 3, "nix"),
    ("run npy", 2, "--out"),
    ("run npy --out bank.npz", 2, "is a file"),
    ("run npy --out run", 2, "not empty"),
    ("run npy --out run --overwrite", 2, "not an earlier export"),
    ("run npy --out /dev/full", 2, "device"),
    ("run npy --out out --calibrated", 2, "for encoders"),
    ("run npy --out out --dims 9", 2, "8 dimensions"),
    ("run npy --out out --dims 0", 2, "--dims"),
    ("run npy --out out --dtype int4", 2, "int8"),
    ("run npy --out out --set k=3", 2, "no such option"),
    ("run npy --out out --set k", 2, "option=value"),
    ("run npy --out out --bank nix.npz", 3, "nix.npz"),
    ("run npy --out out --bank pairs.npz", 3, "vectors"),
    ("run npy --out out --encoder nix", 2, "no such folder"),
    ("run npy --out out --query-texts nix.txt", 2, "no such file"),
    ("run npy --out out --document-texts pairs.npz", 3, "pairs.npz"),
    ("run torch-export --out out --dims 4", 2, "exports none"),
    ("run torch-export --out out --calibrated", 2, "ttf calibrate run"),
)
SEARCHES: tuple[tuple[str, int, str], ...] = (
    ("run --text words", 2, "no card of ttf data encode"),
    ("run --text words --queries pairs.npz", 2, "--text"),
    ("nix --text words", 3, "nix"),
    ("run --text words -k 0", 2, "-k"),
)


def rows() -> Iterator[Row]:
    for name, (content, said) in DAMAGED.items():
        yield Row(
            id=f"import: {name}",
            change=_content(name, content),
            argv=(*IMPORTS, name, "--out", "out"),
            code=3,
            says=(said,),
            needs="h5py" if name.endswith(".hdf5") else "",
        )
    for id, (options, code, said) in PARTS.items():
        yield Row(
            id=f"import: {id}",
            change=_parts,
            argv=(*IMPORTS, "bank.fvecs", *words(options), "--out", "out"),
            code=code,
            says=(said,),
        )
    pipe: Change = lambda folder: os.mkfifo(folder / "p.faiss")
    for id, change, name, said in (
        ("import: a pipe", pipe, "p.faiss", "is a named pipe"),
        ("import: no such file", _parts, "nothing.faiss", "there is no such file"),
    ):
        yield Row(id=id, change=change, argv=(*IMPORTS, name, "--out", "o"), code=3, says=(said,))
    for line, code, said in EXPORTS:
        yield Row(id=f"export: {line}", argv=words(f"export {line}"), code=code, says=(said,))
    for line, code, said in SEARCHES:
        yield Row(id=f"search: {line}", argv=words(f"search {line}"), code=code, says=(said,))
    blank = ("search", "run", "--text", "  ")
    yield Row(id="search: no words", argv=blank, code=2, says=("--text number 1 is empty",))


def _content(name: str, data: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(data)


def write_vecs(path: Path, rows: Any) -> Path:
    """fvecs, bvecs or ivecs, by the type of the rows."""
    lengths = np.full((len(rows), 1), rows.shape[1], "<i4")
    parts = [np.concatenate([lengths[i].view("u1"), rows[i].view("u1")]) for i in range(len(rows))]
    path.write_bytes(np.concatenate(parts).tobytes())
    return path


def _parts(folder: Path) -> None:
    random = np.random.default_rng(5)
    bank = random.standard_normal((700, 8)).astype(np.float32)
    queries = random.standard_normal((60, 8)).astype(np.float32)
    truth = np.argsort(-(queries @ bank.T), axis=1)[:, :10].astype(np.int32)
    far = truth.copy()
    far[2, 0] = 9999
    bank[3, 3] = 1e9
    for name, rows in (("bank", bank), ("q", queries), ("thin", queries[:, :4].copy())):
        write_vecs(folder / f"{name}.fvecs", rows)
    for name, numbers in (("truth", truth), ("far", far), ("few", truth[:59])):
        write_vecs(folder / f"{name}.ivecs", numbers)
