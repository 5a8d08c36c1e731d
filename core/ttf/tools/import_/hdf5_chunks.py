"""Whether the packed chunks of a data set of HDF5 unpack to what they declare; its library believes them.

A chunk is unpacked as a whole, however few of its rows are read. What its bytes unpack to is known only
to them: deflate makes 1,000 bytes of one, and the library takes as much memory as that needs. What other
filters unpack to is limited by `ttf.machine.memory.reading` alone.
"""

from __future__ import annotations

import itertools
import math
import zlib
from typing import Any, Final

from ttf.errors import BadData
from ttf.text.numbers import size

_MOST_BYTES: Final = 128 << 20
_MOST_TIMES: Final = 1032  # what deflate can reach
_DEFLATE: Final = 1
_SIZES_OF_THE_FILE: Final = {5, 6}  # nbit and scaleoffset


class Chunks:
    """Of one data set."""

    def __init__(self, dataset: Any, where: str) -> None:
        self._dataset, self._where = dataset, where
        plist = dataset.id.get_create_plist()
        self._filters = [plist.get_filter(n)[0] for n in range(plist.get_nfilters())]
        self._checked: set[int] = set()

    def check(self, start: int, stop: int) -> None:
        """Raises BadData if the chunks of these rows cannot be read within bounds."""
        if not self._filters or stop <= start:
            return
        chunk = self._dataset.chunks
        declared = math.prod(chunk) * int(self._dataset.dtype.itemsize)
        if not self._checked:
            self._check_kind(declared)
        for first in range(start - start % chunk[0], stop, chunk[0]):
            if first not in self._checked:
                self._checked.add(first)
                self._check_row(first, declared)

    def _check_kind(self, declared: int) -> None:
        if declared > _MOST_BYTES:
            raise BadData(
                f"{self._where} has packed chunks of {size(declared)}, but at most {size(_MOST_BYTES)} "
                "are unpacked at a time.",
                hint="Write it with smaller chunks: h5repack -l CHUNK=1000x100 IN OUT.",
            )
        if self._filters.count(_DEFLATE) > 1 or set(self._filters) & _SIZES_OF_THE_FILE:
            raise BadData(
                f"{self._where} is packed by the filters {', '.join(map(str, self._filters))} of HDF5, "
                "which may unpack to any size.",
                hint="Write it with gzip alone: h5repack -f GZIP=1 IN OUT.",
            )

    def _check_row(self, first: int, declared: int) -> None:
        if _DEFLATE not in self._filters:
            return
        chunk, shape = self._dataset.chunks, self._dataset.shape
        others = [range(0, shape[n], chunk[n]) for n in range(1, len(chunk))]
        for rest in itertools.product(*others):
            place = (first, *rest)
            stored = self._dataset.id.get_chunk_info_by_coord(place).size
            if stored * _MOST_TIMES > _MOST_BYTES:
                self._unpack(place, declared)

    def _unpack(self, place: tuple[int, ...], declared: int) -> None:
        _, packed = self._dataset.id.read_direct_chunk(place)
        unpacked = zlib.decompressobj()
        left, total = packed, 0
        while left and total <= declared and not unpacked.eof:
            total += len(unpacked.decompress(left, 1 << 20))
            left = unpacked.unconsumed_tail
        if total > declared:
            raise BadData(
                f"{self._where}: the chunk at {place} declares {size(declared)}, but unpacks to more.",
                hint="Copy the file again.",
            )
