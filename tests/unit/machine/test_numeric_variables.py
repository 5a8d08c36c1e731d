"""`ttf.machine.numeric_variables`: a run's numbers go on under the variables that it began with."""

from __future__ import annotations

import os
import sys

import pytest

from ttf.machine import devices, numeric_variables
from ttf.machine.numeric_variables import NAMES, noted, set_again
from ttf.machine.processor import processor
from ttf.rundir.documents import Numeric


@pytest.fixture(autouse=True)
def nothing_loaded_and_nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (devices.MARKER, *NAMES):
        # Set first, so that what the test leaves behind is undone in any case.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)
    monkeypatch.setattr(numeric_variables, "_READERS", ("a_library",))


def begun_with(**variables: str) -> Numeric:
    return {"variables": variables, "instructions": processor().instructions}


def test_the_variables_of_the_start_are_set_again_and_others_removed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENBLAS_CORETYPE", "Prescott")
    monkeypatch.setenv("MKL_CBWR", "AVX2")
    monkeypatch.setenv("MKL_DYNAMIC", "TRUE")
    before = begun_with(ONEDNN_MAX_CPU_ISA="AVX2", MKL_CBWR="COMPATIBLE", MKL_DYNAMIC="TRUE")
    (said,) = set_again(before, processor().instructions)
    assert noted() == before["variables"]
    for change in (
        "ONEDNN_MAX_CPU_ISA=AVX2 (was unset)",
        "MKL_CBWR=COMPATIBLE (was 'AVX2')",
        "OPENBLAS_CORETYPE unset (was 'Prescott')",
    ):
        assert change in said
    assert "MKL_DYNAMIC" not in said
    assert set_again(before, processor().instructions) == []


def test_only_names_of_the_list_and_harmless_values_are_set() -> None:
    before = begun_with(
        LD_PRELOAD="/tmp/stranger.so",
        PYTHONSTARTUP="/tmp/stranger.py",
        GLIBC_TUNABLES="glibc.malloc.check=3",
        MKL_CBWR="/tmp/stranger",
        OPENBLAS_CORETYPE="Zen\nLD_PRELOAD=x",
        ONEDNN_MAX_CPU_ISA="A" * 201,
    )
    environment = dict(os.environ)
    assert set_again(before, processor().instructions) == []
    assert dict(os.environ) == environment


def test_a_value_that_may_not_be_set_stays_a_difference() -> None:
    before = begun_with(MKL_CBWR="/tmp/stranger")
    set_again(before, processor().instructions)
    assert noted() != before["variables"]


def test_what_prepare_set_is_neither_noted_nor_removed() -> None:
    devices.prepare(devices.choose("cpu", {}, 1))
    assert os.environ["OMP_NUM_THREADS"] == "1" and noted() == {}
    assert set_again(begun_with(), processor().instructions) == []
    assert os.environ["OMP_NUM_THREADS"] == "1"


def test_it_does_nothing_after_a_library_was_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "a_library", sys)
    assert set_again(begun_with(MKL_CBWR="COMPATIBLE"), processor().instructions) == []
    assert noted() == {}


def test_on_a_processor_with_other_instructions_nothing_is_set() -> None:
    """A variable may name instructions that this one lacks."""
    before = begun_with(ATEN_CPU_CAPABILITY="avx512")
    before["instructions"] = "asimd sve"
    assert set_again(before, processor().instructions) == [] and noted() == {}


def test_a_run_of_an_older_version_changes_no_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert set_again({"torch": "2.13.0"}, processor().instructions) == []
    assert noted() == {"MKL_CBWR": "COMPATIBLE"}


def test_variables_of_the_loader_are_noted_and_never_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLIBC_TUNABLES", "glibc.cpu.hwcaps=-FMA")
    assert "GLIBC_TUNABLES" not in noted()
    assert "GLIBC_TUNABLES" in noted(numeric_variables.LOADER_NAMES)
    assert not set(NAMES) & set(numeric_variables.LOADER_NAMES)
