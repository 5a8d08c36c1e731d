"""What ttf promises about every device, asked of this one."""

from __future__ import annotations

from ttf.testing import DeviceTests


class TestYourName(DeviceTests):
    name = "your-name"


class TestYourNameWithALimit(DeviceTests):
    """YOUR DEVICE: a class for each setting that takes another path through it."""

    name = "your-name"
    options = {"max_rows": 24, "deterministic": False}
