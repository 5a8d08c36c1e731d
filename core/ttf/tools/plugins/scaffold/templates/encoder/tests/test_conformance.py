"""What ttf promises about every encoder, asked of this one."""

from __future__ import annotations

from ttf.testing import EncoderTests


class TestYourName(EncoderTests):
    name = "your-name"


class TestShortYourName(EncoderTests):
    """YOUR MODEL: a class for each setting that takes another path through it."""

    name = "your-name"
    options = {"dim": 32, "longest": 5}
