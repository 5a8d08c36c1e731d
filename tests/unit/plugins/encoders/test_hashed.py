"""The encoder `hash`: near texts are near, and a text's vector is its own."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from ttf_encoders._hashed_grams import HashEncoder

QUESTION = "How do I reset my password?"


def test_texts_that_share_words_or_parts_of_words_are_near() -> None:
    near = ["how do i reset my passwords", "Resetting your password", "HOW DO I RESET MY PASSWORD"]
    far = ["The weather in Paris is mild", "Trains leave every hour"]
    rows = HashEncoder(512, 0).encode([QUESTION, *near, *far], "query")
    scores = rows[1:] @ rows[0]
    assert scores[:3].min() > 0.15 > scores[3:].max()
    assert scores[2] > 0.95


def test_the_fingerprint_names_the_options() -> None:
    made = [HashEncoder(64, 0), HashEncoder(64, 1), HashEncoder(128, 0)]
    assert len({encoder.fingerprint() for encoder in made}) == 3


@given(st.lists(st.text(min_size=1, max_size=60), min_size=2, max_size=12))
def test_a_row_does_not_depend_on_the_other_texts_in_any_bit(texts: list[str]) -> None:
    encoder = HashEncoder(32, 0)
    together = encoder.encode(texts, "document")
    assert np.isfinite(together).all()
    np.testing.assert_allclose(np.linalg.norm(together, axis=1), 1, rtol=1e-6)
    assert np.array_equal(encoder.encode(texts[1:], "document"), together[1:])


def test_texts_of_more_bytes_than_are_computed_at_once_are_computed_in_parts() -> None:
    texts = [f"{n} " + "many words " * 3000 for n in range(5)]
    encoder = HashEncoder(32, 0)
    together = encoder.encode(texts, "document")
    assert np.array_equal(
        np.concatenate([encoder.encode([t], "document") for t in texts]), together
    )
