"""Vectors of texts. YOUR MODEL goes here.

Shapes: B texts, D width.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from ttf import Role

from .plugin import Options

VERSION = 1
"""Increase it whenever the same text gets another vector: it is part of the fingerprint."""


class YourNameEncoder:
    """A count of words, put together by their hashes; every vector has the length 1."""

    def __init__(self, options: Options) -> None:
        self.dim = options.dim
        self._longest = options.longest
        self.about: Mapping[str, Any] = {
            "model": "your-name",
            "longest": options.longest,
        }
        """For the card of the data: plain JSON."""

    def fingerprint(self) -> str:
        """YOUR MODEL: also a hash of the content of its files."""
        facts = f"your-name {VERSION} {self.dim} {self._longest}"
        return hashlib.sha256(facts.encode()).hexdigest()

    def encode(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """`role` is "query" or "document": a model with prompts for both needs it."""
        rows_BD = np.zeros((len(texts), self.dim), np.float32)
        for row_D, text in zip(rows_BD, texts, strict=True):
            for word in words(text)[: self._longest]:
                row_D[place(word) % self.dim] += 1
        lengths_B = np.linalg.norm(rows_BD, axis=1)
        unit_BD: NDArray[np.float32] = rows_BD / lengths_B[:, None]
        return unit_BD

    def too_long(self, texts: Sequence[str], role: Role) -> NDArray[np.bool_]:
        """Of which texts the end is not read; leave this out if all of every text is."""
        return np.array([len(words(text)) > self._longest for text in texts], np.bool_)


def words(text: str) -> list[str]:
    """The text itself if it has none, so that no vector is zero."""
    return re.findall(r"\w+", text.lower()) or [text]


def place(word: str) -> int:
    """The same in every process, unlike Python's `hash`."""
    return int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big")
