"""`ttf.training.manifest.differences`: why a resumed run may have other numbers."""

from __future__ import annotations

import pytest

from ttf.rundir.documents import Numeric
from ttf.training.manifest import differences

START: Numeric = {
    "torch": "2.13.0",
    "threads": 2,
    "cpu_capability": "AVX512",
    "machine": "x86_64",
    "device": "cpu",
    "plugins": {"tower.gru": "twotower 1.0"},
    "arithmetic": 1,
    "libraries": {"numpy": "2.4.6"},
    "instructions": "avx2 fma",
    "variables": {"MKL_CBWR": "AVX2"},
    "bits": {"numpy": "a1", "torch": "b2"},
    "processor": "AMD EPYC",
    "loader": {},
}
OTHER_BITS: Numeric = {"bits": {"numpy": "a1", "torch": "ff"}}


def now(*changes: Numeric) -> Numeric:
    found = START.copy()
    for change in changes:
        found |= change
    return found


def test_the_same_process_again_is_no_difference() -> None:
    assert differences(START, now()) == []


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"arithmetic": 2}, "arithmetic was 1, is 2"),
        ({"libraries": {"numpy": "2.5"}}, "the library numpy was '2.4.6', is '2.5'"),
        ({"variables": {}}, "the variable MKL_CBWR was 'AVX2', is not there"),
        ({"instructions": "avx2"}, "instructions was 'avx2 fma', is 'avx2'"),
        ({"plugins": {}}, "the plugin tower.gru was 'twotower 1.0', is not there"),
    ],
)
def test_each_cause_is_named(change: Numeric, says: str) -> None:
    assert differences(START, now(change)) == [says]


@pytest.mark.parametrize(
    "change", [{"loader": {"GLIBC_TUNABLES": "glibc.malloc.check=3"}}, {"processor": "AMD EPYC 2"}]
)
def test_what_only_explains_other_bits_is_no_difference_by_itself(change: Numeric) -> None:
    assert differences(START, now(change)) == []


def test_other_bits_are_explained_by_what_else_differs() -> None:
    tunables: Numeric = {"loader": {"GLIBC_TUNABLES": "glibc.cpu.hwcaps=-FMA"}}
    (said,) = differences(START, now(OTHER_BITS, tunables))
    assert said == (
        "the same calculations give different bits (torch): the variable GLIBC_TUNABLES was not there, "
        "is 'glibc.cpu.hwcaps=-FMA'"
    )
    (said,) = differences(START, now(OTHER_BITS, {"processor": "Xeon"}))
    assert said.endswith(": the processor was 'AMD EPYC', is 'Xeon'")
    variable, said = differences(START, now(OTHER_BITS, {"variables": {}}))
    assert "MKL_CBWR" in variable
    assert said == "the same calculations give different bits (torch)"


def test_other_bits_that_nothing_explains_are_told() -> None:
    (said,) = differences(START, now(OTHER_BITS))
    assert said.startswith(
        "the same calculations give different bits (torch): no recorded difference"
    )


def test_of_a_run_of_an_older_version_too_little_is_known() -> None:
    old: Numeric = {"torch": "2.12.0", "threads": 2, "plugins": START["plugins"]}
    torch, record = differences(old, now())
    assert torch == "torch was '2.12.0', is '2.13.0'"
    assert "an older version of ttf started the run" in record
