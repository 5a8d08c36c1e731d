"""What lies where in the folder: a table of the arrays, and a .npy file for each of them.

    bank.your-name/
        arrays.json     [{"name": "vectors", "dtype": "bfloat16", "digest": "..."}, ...]
        0.npy           the first array of the table, bfloat16 as its bits in uint16
        1.npy           the second

Files are numbered, so that an array may have any name: no name can leave the folder, and two names
never are the same file (as X and x are on a Mac).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final, get_args

from ttf import BadData, DataMissing, DType, open_inside

TABLE: Final = "arrays.json"
_MOST_BYTES: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One array, as the table has it."""

    name: str
    dtype: DType
    digest: str
    """Of all its bytes: what the content is known by without reading it."""


def array_file(folder: Path, number: int) -> Path:
    return folder / f"{number}.npy"


def new_digest() -> hashlib.blake2b:
    return hashlib.blake2b(digest_size=16)


def table_bytes(entries: Sequence[Entry]) -> bytes:
    return json.dumps([asdict(entry) for entry in entries], indent=1).encode()


def read_table(folder: Path) -> list[Entry]:
    """Raises DataMissing where there is no such folder, and BadData for one of another kind."""
    file = folder / TABLE
    try:
        # No link inside the folder is followed, and no pipe is waited for.
        with open_inside(file, folder) as opened:
            values = json.loads(opened.read(_MOST_BYTES))
        return [_entry(value) for value in values]
    except FileNotFoundError:
        if not folder.exists():
            raise DataMissing(
                f"{folder}: there is no such folder.", hint="Check the path."
            ) from None
        raise BadData(f"{folder} has no {TABLE}.", hint="Write it with ttf data convert.") from None
    except OSError as error:
        raise BadData(f"{file} cannot be read: {error.strerror or error}.") from error
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        raise BadData(f"{file} is damaged: {error!r}", hint="Write or copy it again.") from error


def _entry(value: Any) -> Entry:
    name, dtype, digest = value["name"], value["dtype"], value["digest"]
    if not isinstance(name, str) or not isinstance(digest, str) or dtype not in get_args(DType):
        raise ValueError(f"{value!r} does not describe an array")
    return Entry(name=name, dtype=dtype, digest=digest)
