"""The built-in exporters pass what a stranger's must."""

from __future__ import annotations

from tests.kit.suites import Variant

from ttf.testing import ExporterTests


class TestNpy(ExporterTests):
    name = "npy"


class TestFaiss(Variant, ExporterTests):
    name = "faiss"


class TestTorchExport(Variant, ExporterTests):
    name = "torch-export"


class TestOnnx(Variant, ExporterTests):
    name = "onnx"
