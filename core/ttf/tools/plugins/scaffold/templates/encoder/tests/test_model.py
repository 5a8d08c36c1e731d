"""What is particular to this encoder; what holds for every encoder is in test_conformance.py."""

from __future__ import annotations

import numpy as np

from ttf_encoder_your_name._model import YourNameEncoder
from ttf_encoder_your_name.plugin import Options


def test_texts_that_share_words_are_near() -> None:
    encoder = YourNameEncoder(Options(dim=4096))
    rows_BD = encoder.encode(["a red house", "the red house", "much rain today"], "document")
    scores_BB = rows_BD @ rows_BD.T
    assert scores_BB[0, 1] > 0.6
    assert scores_BB[0, 2] < 0.1


def test_only_the_first_words_of_a_long_text_count() -> None:
    encoder = YourNameEncoder(Options(longest=2))
    short, long = encoder.encode(["one two", "one two three"], "query")
    assert np.array_equal(short, long)
    assert encoder.too_long(["one two", "one two three"], "query").tolist() == [False, True]
