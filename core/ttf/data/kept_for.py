"""What is kept of an array belongs to its content as it is on this machine now.

A fingerprint is the same on every machine, and reads little. Where the format has no checksums, it is
of a sample, so rows may change and it does not. What is kept, such as an index in the cache, then also
depends on the size and the times of the files. The time of the last change (ctime) cannot be set back.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from ttf.contracts import VectorSource
from ttf.data.sources import StackedRows, WithColumn
from ttf.data.vectors import RowView, UnitRows
from ttf.incidents.inputs import files_below


def content_key(source: VectorSource) -> str:
    """Another one if the content, or only the times of files without checksums, changed."""
    uris = {part.uri for part in _stored(source) if not _is_whole(part)}
    return "|".join((source.fingerprint(), *map(times_of, sorted(uris))))


def times_of(uri: str) -> str:
    """Of all files of a container; empty if it is not on this machine."""
    path = Path(uri)
    if not path.exists():
        return ""
    digest = hashlib.blake2b(digest_size=16)
    for file in files_below(path) if path.is_dir() else [path]:
        found = file.stat()
        told = str(file.relative_to(path)), found.st_size, found.st_mtime_ns, found.st_ctime_ns
        digest.update(repr(told).encode())
    return digest.hexdigest()


def _stored(source: VectorSource) -> Iterator[VectorSource]:
    """The arrays of storages that a view reads."""
    if isinstance(source, StackedRows):
        for part in source.parts:
            yield from _stored(part)
    elif isinstance(source, RowView | UnitRows | WithColumn):
        yield from _stored(source.source)
    else:
        yield source


def _is_whole(source: VectorSource) -> bool:
    return getattr(source, "fingerprint_is_whole", False) is True
