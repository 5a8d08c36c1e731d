"""What ttf promises about every storage, asked of this one."""

from __future__ import annotations

from ttf.testing import StoreTests


class TestYourName(StoreTests):
    name = "your-name"
    # YOUR LIBRARY: dtypes = ("float32",) if it can hold nothing else.
