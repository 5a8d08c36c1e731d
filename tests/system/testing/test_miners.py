"""The built-in miners pass what a stranger's must."""

from __future__ import annotations

from tests.kit.suites import OneOfMany, SavedAlike, Variant

from ttf.testing import MinerTests


class TestExact(Variant, MinerTests):
    name = "exact"


class TestFaissFlat(OneOfMany, MinerTests):
    name = "faiss"


class TestFaissHnsw(SavedAlike, MinerTests):
    name = "faiss"
    options = {"kind": "hnsw", "M": 16}


class TestFaissIvf(SavedAlike, MinerTests):
    name = "faiss"
    options = {"kind": "ivf", "nprobe": 16}


class TestHnswlib(Variant, MinerTests):
    name = "hnswlib"
    options = {"M": 16}
