"""Words, pairs of words and parts of words, each added to a few numbers of the vector by its hash.

All texts of a call are one array of bytes, so that the work is numpy's: T bytes, W words, F features.
Short words (mostly "the", "of") count less, as nothing is known of how frequent a word is.
"""

from __future__ import annotations

import hashlib
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf import Role

_VERSION: Final = 1  # Of the arithmetic below: it is part of the fingerprint.
_BYTES_AT_ONCE: Final = 1 << 16  # What is computed with then fits the caches of a core.
_GRAMS: Final = (3, 4, 5)
_SHORT: Final = 3
_WEIGHTS: Final = {"word": 1.0, "short": 0.3, "pair": 0.5, "part": 0.25, "whole": 0.05}
_BASE: Final = np.uint64(0x100000001B3)
_POWERS: Final = np.cumprod(np.full(256, _BASE, np.uint64), dtype=np.uint64)
_U64 = np.uint64


class HashEncoder:
    """See `ttf.Encoder`. Query and document are treated alike."""

    def __init__(self, dim: int, seed: int) -> None:
        self.dim = dim
        self.about: Mapping[str, Any] = {"model": "none (hashed words)", "dim": dim, "seed": seed}
        self._salt = _mixed(np.array([seed + 1], _U64))[0]

    def fingerprint(self) -> str:
        facts = f"hash {_VERSION} {self.dim} {self._salt}"
        return hashlib.sha256(facts.encode()).hexdigest()[:32]

    def encode(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        rows = np.zeros((len(texts), self.dim), np.float32)
        for first, part in _parts([_plain(text) for text in texts]):
            rows[first : first + len(part)] = self._encoded(part)
        return rows

    def _encoded(self, texts: Sequence[bytes]) -> NDArray[np.float32]:
        places, values = [], []
        for row_F, hash_F, weight_F in _features(texts):
            mixed_F = _mixed(hash_F ^ self._salt)
            inside_F = ((mixed_F >> _U64(32)) * _U64(self.dim)) >> _U64(32)
            places.append(row_F * self.dim + inside_F.view(np.int64))
            values.append(np.where(mixed_F & _U64(1), weight_F, -weight_F))
        size = len(texts) * self.dim
        sums = np.bincount(np.concatenate(places), np.concatenate(values), minlength=size)
        vectors = sums.reshape(len(texts), self.dim)
        lengths = np.sqrt((vectors * vectors).sum(1, keepdims=True))
        cancelled = lengths[:, 0] == 0  # Two features may take each other away.
        vectors[cancelled, 0], lengths[cancelled] = 1.0, 1.0
        unit: NDArray[np.float32] = (vectors / lengths).astype(np.float32)
        return unit


def _plain(text: str) -> bytes:
    return unicodedata.normalize("NFKC", text).casefold().encode("utf-8", "replace")


def _parts(texts: Sequence[bytes]) -> Iterator[tuple[int, Sequence[bytes]]]:
    """(first, texts) with a bounded number of bytes; sums over a part do not depend on the others."""
    first = size = 0
    for row, text in enumerate(texts):
        if size and size + len(text) > _BYTES_AT_ONCE:
            yield first, texts[first:row]
            first, size = row, 0
        size += len(text)
    if texts:
        yield first, texts[first:]


Feature = tuple[NDArray[np.int64], NDArray[np.uint64], Any]


def _features(texts: Sequence[bytes]) -> Iterator[Feature]:
    """(row of the text, hash, weight) of each feature, kind by kind."""
    whole_F = [int.from_bytes(hashlib.blake2b(text, digest_size=8).digest()) for text in texts]
    yield np.arange(len(texts)), np.array(whole_F, _U64), _WEIGHTS["whole"]
    # Each text has a space of its own before it and after it.
    data_T = np.frombuffer(b" " + b"  ".join(texts) + b" ", np.uint8)
    sizes = np.array([len(text) + 2 for text in texts])
    row_T = np.repeat(np.arange(len(texts)), sizes)
    inside_T = _LETTERS[data_T]
    begin_W = np.flatnonzero(inside_T & ~np.concatenate([[False], inside_T[:-1]]))
    if not len(begin_W):
        return
    end_W = np.flatnonzero(inside_T & ~np.concatenate([inside_T[1:], [False]])) + 1
    row_W, size_W = row_T[begin_W], end_W - begin_W
    word_W = _word_hashes(data_T, begin_W, size_W)
    weight_W = np.where(size_W <= _SHORT, _WEIGHTS["short"], _WEIGHTS["word"])
    yield row_W, word_W, weight_W
    next_to = row_W[1:] == row_W[:-1]
    pair_W = _mixed(word_W[:-1]) + word_W[1:] * _BASE
    yield row_W[1:][next_to], pair_W[next_to], _WEIGHTS["pair"]
    yield from _word_parts(data_T, inside_T, row_T)


def _word_hashes(
    data_T: NDArray[np.uint8], begin_W: NDArray[np.int64], size_W: NDArray[np.int64]
) -> NDArray[np.uint64]:
    """A polynomial of each word's bytes, modulo 2**64."""
    number_T = np.repeat(np.arange(len(begin_W)), size_W)
    offset_T = np.arange(len(number_T)) - np.repeat(np.cumsum(size_W) - size_W, size_W)
    bytes_T = data_T[begin_W[number_T] + offset_T].astype(_U64) + _U64(1)
    terms_T = bytes_T * _POWERS[offset_T % len(_POWERS)]
    starts_W = np.cumsum(size_W) - size_W
    return _mixed(np.add.reduceat(terms_T, starts_W))


def _word_parts(
    data_T: NDArray[np.uint8], inside_T: NDArray[np.bool_], row_T: NDArray[np.int64]
) -> Iterator[Feature]:
    """Neighbouring bytes of a word with the places before and after it."""
    near_T = inside_T.copy()
    near_T[1:] |= inside_T[:-1]
    near_T[:-1] |= inside_T[1:]
    for size in _GRAMS:
        count = len(data_T) - size + 1
        if count <= 0:
            return
        hash_F = np.full(count, size, _U64)
        # Only the first and the last byte may lie outside of the word.
        whole_F = near_T[:count] & near_T[size - 1 :]
        for at in range(size):
            step_F = data_T[at : at + count]
            hash_F = hash_F * _BASE + np.where(inside_T[at : at + count], step_F, 32) + _U64(1)
            if 0 < at < size - 1:
                whole_F &= inside_T[at : at + count]
        yield row_T[:count][whole_F], hash_F[whole_F], _WEIGHTS["part"]


def _mixed(values: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """The finalizer of splitmix64: each bit of the result depends on every bit."""
    x = (values ^ (values >> _U64(30))) * _U64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> _U64(27))) * _U64(0x94D049BB133111EB)
    return x ^ (x >> _U64(31))


def _letters() -> NDArray[np.bool_]:
    table = np.zeros(256, np.bool_)
    table[128:] = True  # Every byte of a letter that is not ASCII.
    for letter in b"0123456789abcdefghijklmnopqrstuvwxyz":
        table[letter] = True
    return table


_LETTERS: Final = _letters()
