"""The texts that lie beside vectors: `texts` (UTF-8, one after another) and `text_ends` (int64)."""

from __future__ import annotations

from typing import Final, Self

from ttf.contracts import Store, VectorSource

TEXTS: Final = "texts"
TEXT_ENDS: Final = "text_ends"


class TextRows:
    """Reads one text at a time."""

    def __init__(self, texts: VectorSource, ends: VectorSource) -> None:
        self._texts, self._ends = texts, ends

    @classmethod
    def of(cls, store: Store, rows: int) -> Self | None:
        """None if the store has no texts for so many rows."""
        if not {TEXTS, TEXT_ENDS} <= set(store.names()):
            return None
        texts, ends = store.source(TEXTS), store.source(TEXT_ENDS)
        fits = ends.shape == (rows,) and ends.dtype == "int64" and texts.dtype == "uint8"
        return cls(texts, ends) if fits else None

    def text(self, row: int) -> str:
        begin = int(self._ends.read(row - 1, row)[0]) if row else 0
        end = int(self._ends.read(row, row + 1)[0])
        if not 0 <= begin <= end <= self._texts.shape[0]:
            return ""
        return self._texts.read(begin, end).tobytes().decode("utf-8", "replace")
