"""The built-in exporters pass what a stranger's must; those of extras where their library is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.kit.suites import Variant
from tests.kit.widely import wide

from ttf.testing import ExporterTests


class Short(Variant):
    """One export of the suite's seven: the others start the same processes."""

    @wide
    @pytest.mark.parametrize("ids", ["none", "numbers", "texts"])
    def test_an_export_answers_as_the_run_does(
        self, factory: Any, tmp_path: Path, ids: Any
    ) -> None:
        super().test_an_export_answers_as_the_run_does(factory, tmp_path, ids)  # type: ignore[misc]

    @wide
    def test_smaller_vectors_are_exported_or_refused(self, factory: Any, tmp_path: Path) -> None:
        super().test_smaller_vectors_are_exported_or_refused(factory, tmp_path)  # type: ignore[misc]


class TestNpy(Short, ExporterTests):
    name = "npy"


class TestFaiss(Short, ExporterTests):
    name = "faiss"


@wide
class TestTorchExport(Variant, ExporterTests):
    name = "torch-export"


@pytest.mark.extras
class TestOnnx(Short, ExporterTests):
    name = "onnx"


@pytest.mark.extras
class TestTrec(Short, ExporterTests):
    name = "trec"


@pytest.mark.extras
class TestBeir(Short, ExporterTests):
    name = "beir"


@pytest.mark.extras
class TestHfCard(Short, ExporterTests):
    name = "hf-card"


@pytest.mark.extras
class TestQdrant(Short, ExporterTests):
    name = "qdrant"
    options = {"batch": 7}


@pytest.mark.extras
class TestLance(Short, ExporterTests):
    name = "lance"


@pytest.mark.extras
class TestPgvector(Short, ExporterTests):
    name = "pgvector"
