"""What ttf promises about every exporter, asked of this one."""

from __future__ import annotations

from ttf.testing import ExporterTests


class TestYourName(ExporterTests):
    name = "your-name"


class TestYourNameInSmallBlocks(ExporterTests):
    """YOUR LIBRARY: a class for each setting that takes another path through it."""

    name = "your-name"
    options = {"block_rows": 7}
