"""What a file is that no storage plugin reads, and how its vectors get into one that ttf reads.

By the ending, or by the names in a folder: the file is not opened.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.text.shell import quoted


@dataclass(frozen=True, kw_only=True)
class Foreign:
    """`what` completes "FILE is ..."; `do` is what the user can do today."""

    what: str
    do: str


_VECTORS: Final = "ttf trains on vectors."
_TEXT: Final = (
    f"{_VECTORS} Encode the texts with a model first, then save the vectors: "
    "numpy.savez('pairs.npz', X_train=..., pos_train=...) and numpy.savez('bank.npz', vectors=...)."
)
_ENCODED: Final = (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet")  # by ttf data encode
# {source} is the file as a literal of Python.
_LINES: Final = {
    "table": "pandas.read_csv({source}).to_numpy()",
}
_NEEDS: Final = {
    "table": "pandas",
}
_BY_ENDING: Final = {
    ".csv": ("a table as text", "table"),
    ".tsv": ("a table as text", "table"),
    ".txt": ("text", ""),
    ".json": ("text", ""),
    ".jsonl": ("text", ""),
    ".ndjson": ("text", ""),
    ".pt": ("a file of torch", "import"),
    ".pth": ("a file of torch", "import"),
    ".faiss": ("a FAISS index", "import"),
    ".index": ("probably a FAISS index", "import"),
    ".h5": ("an HDF5 file", "import"),
    ".hdf5": ("an HDF5 file", "import"),
    ".fvecs": ("a file of vectors in the format fvecs", "import"),
    ".bvecs": ("a file of vectors in the format bvecs", "import"),
    ".ivecs": ("a file of row numbers in the format ivecs", "import"),
    ".pkl": ("a pickle, which can execute code when it is loaded", "pickle"),
    ".pickle": ("a pickle, which can execute code when it is loaded", "pickle"),
}
_BEIR: Final = ("corpus.jsonl", "queries.jsonl")


def recognized(uri: str) -> Foreign | None:
    """None for a file of an unknown kind."""
    path = Path(uri)
    if path.is_dir():
        return _folder(path)
    known = _BY_ENDING.get(_ending(path))
    if known is None:
        return None
    what, kind = known
    if kind in _LINES:
        return Foreign(what=what, do=_by_line(path, kind, is_text=kind == "table"))
    if kind == "import":
        return Foreign(what=what, do=_by_import(path))
    if kind == "pickle":
        return Foreign(what=what, do="Save the arrays where they were made, with numpy.savez.")
    return Foreign(what=what, do=_encode_first(path))


def _ending(path: Path) -> str:
    packed = path.suffix.lower() in (".gz", ".bz2", ".xz", ".zst")
    return Path(path.stem).suffix.lower() if packed else path.suffix.lower()


def _folder(path: Path) -> Foreign | None:
    if all((path / name).exists() for name in _BEIR):
        return Foreign(
            what="a data set of texts in the format of BEIR", do=_encode_first(path, whole=True)
        )
    return None


def _by_import(path: Path) -> str:
    out = path.name.split(".")[0] or "imported"
    return (
        f"Import it once: ttf data import {quoted(str(path))} --out {quoted(out)}. Then train on what "
        f"lies in that folder."
    )


def _encode_first(path: Path, *, whole: bool = False) -> str:
    if not whole and _ending(path) not in _ENCODED:
        return _TEXT
    encode = f"ttf data encode {quoted(path)} --encoder hash --out data"
    return f"{_VECTORS} Encode the texts with a model first: {encode} (ttf data encode --help)"


def _by_line(path: Path, kind: str, *, is_text: bool) -> str:
    source = _LINES[kind].format(source=_literal(str(path)))
    target = _literal(f"{path.stem.split('.')[0]}.npy")
    needs = f"numpy, {_NEEDS[kind]}"
    command = f"python -c {quoted(f'import {needs}; numpy.save({target}, {source})')}"
    line = f"write its vectors to a .npy file, which ttf reads: {command}"
    texts = is_text or _ending(path) in _ENCODED
    if not texts:
        return line[:1].upper() + line[1:]
    return f"If its columns are texts: {_encode_first(path)}. If they are numbers, {line}"


def _literal(text: str) -> str:
    """Of Python, in double quotes where that is possible: the shell takes the single ones."""
    said = repr(text)
    return f'"{said[1:-1]}"' if said[0] == "'" and '"' not in said else said
