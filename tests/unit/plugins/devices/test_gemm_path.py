"""Which way float32 products go: the table row by row, the tuned row, and what is recorded."""

from __future__ import annotations

import json
import platform
import sys
from pathlib import Path

import pytest

from ttf.machine import measured, processor
from ttf.machine.processor import Processor
from ttf_devices import _gemm
from ttf_devices.cpu import CpuOptions, CpuPolicy

ZEN5 = Processor(
    arch="x86_64",
    vendor="AuthenticAMD",
    family=26,
    flags=frozenset({"avx2", "avx512f", "avx512_bf16"}),
)
SAPPHIRE = Processor(
    arch="x86_64",
    vendor="GenuineIntel",
    family=6,
    flags=frozenset({"avx2", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"}),
)
X86 = """processor\t: 0
vendor_id\t: {vendor}
cpu family\t: {family}
model name\t: some processor
flags\t\t: fpu {flags} sse

processor\t: 1
flags\t\t: amx_bf16
"""
ARM = """processor\t: 0
BogoMIPS\t: 100.00
Features\t: fp {flags}
CPU implementer\t: 0x41
CPU part\t: 0xd40
"""
INTEL, AMD = "GenuineIntel", "AuthenticAMD"


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TTF_HOME", str(tmp_path / "home"))


def row(**changes: object) -> measured.TunedRow:
    values = {
        "fingerprint": processor.fingerprint(),
        "date": "2026-11-18",
        "torch": "2",
        "threads": 2,
        "float32": "medium",
        "why": "medium is 1.5 times as fast",
        "measured": (measured.Measured(path="medium", shape="1x1x1", gflops=1.0, error=1e-7),),
        "bf16_gain": 2.5,
    }
    return measured.TunedRow(**{**values, **changes})  # type: ignore[arg-type]


# --- the table -------------------------------------------------------------------------------


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/cpuinfo's format")
@pytest.mark.parametrize(
    ("arch", "text", "name", "path", "unit"),
    [
        (
            "x86_64",
            X86.format(vendor=INTEL, family=6, flags="avx2 avx512f avx512_bf16 amx_bf16"),
            "x86 with AMX",
            "highest",
            "amx_bf16",
        ),
        (
            "x86_64",
            X86.format(vendor=AMD, family=26, flags="avx2 avx512f avx512_bf16"),
            "AMD Zen 5",
            "medium",
            "avx512_bf16",
        ),
        (
            "x86_64",
            X86.format(vendor=AMD, family=26, flags="avx2 avx512f avx512_bf16 amx_bf16"),
            "x86 with AMX",
            "highest",
            "amx_bf16",
        ),
        (
            "x86_64",
            X86.format(vendor=AMD, family=25, flags="avx2 avx512f avx512_bf16"),
            "AMD with AVX-512",
            "highest",
            "avx512_bf16",
        ),
        (
            "x86_64",
            X86.format(vendor=INTEL, family=6, flags="avx2 avx512f"),
            "x86 with AVX-512",
            "highest",
            "",
        ),
        ("x86_64", X86.format(vendor=AMD, family=23, flags="avx2"), "x86", "highest", ""),
        # A hypervisor that hides AVX-512 of a Zen 5 hides oneDNN's path as well.
        ("x86_64", X86.format(vendor=AMD, family=26, flags="avx2"), "x86", "highest", ""),
        ("aarch64", ARM.format(flags="asimd bf16 i8mm"), "Arm with bf16", "highest", "bf16"),
        ("aarch64", ARM.format(flags="asimd"), "any other", "highest", ""),
        ("x86_64", "", "any other", "highest", ""),
        ("riscv64", "processor\t: 0\nisa\t: rv64gc\n", "any other", "highest", ""),
    ],
)
def test_each_row_of_the_table_is_found_by_its_cpuinfo(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arch: str,
    text: str,
    name: str,
    path: str,
    unit: str,
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: arch)
    file = tmp_path / "cpuinfo"
    file.write_text(text)
    found = processor.processor(file)
    assert _gemm.row_of(found).name == name
    settled = _gemm.settle(found)
    assert settled.value == path and settled.reason.startswith(f"table, {name}: ")
    assert not settled.note
    assert found.bf16_unit == unit


def test_apple_takes_its_only_path() -> None:
    apple = Processor(arch="arm64", vendor="Apple", model="Apple M3", flags=frozenset({"bf16"}))
    assert _gemm.row_of(apple).name == "Apple"
    assert _gemm.settle(apple).value == "highest"
    assert "never measured" in _gemm.bf16_unit(apple)


def test_no_row_of_the_table_is_out_of_reach() -> None:
    assert _gemm.TABLE[-1].fits(Processor(arch=""))
    assert len({r.name for r in _gemm.TABLE}) == len(_gemm.TABLE)


def test_a_missing_cpuinfo_is_no_fault(tmp_path: Path) -> None:
    if sys.platform == "linux":
        assert processor.processor(tmp_path / "none").flags == frozenset()


# --- the tuned row ---------------------------------------------------------------------------


def test_a_tuned_row_goes_before_the_table() -> None:
    measured.save_row(row())
    settled = _gemm.settle(SAPPHIRE)
    assert settled.value == "medium"
    assert settled.reason == "measured on this machine on 2026-11-18: medium is 1.5 times as fast"
    assert "2.5 times" in _gemm.bf16_unit(SAPPHIRE)


def test_a_tuned_row_without_a_winner_leaves_it_to_the_table_and_says_so() -> None:
    measured.save_row(row(float32=None, why="no clear winner", bf16_gain=None))
    settled = _gemm.settle(ZEN5)
    assert settled.value == "medium" and "no clear winner" in settled.reason
    assert settled.reason.startswith("table, AMD Zen 5: ")
    assert "1.7 to 1.9" in _gemm.bf16_unit(ZEN5)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"float32": "low"}', "\x00"])
def test_a_damaged_tuned_row_is_said_and_the_table_used(text: str) -> None:
    file = measured.row_file()
    file.parent.mkdir(parents=True)
    file.write_text(text)
    settled = _gemm.settle(ZEN5)
    assert settled.value == "medium"
    assert str(file) in settled.note and "ttf bench --tune" in settled.note
    assert "damaged" in settled.reason
    assert "avx512_bf16" in _gemm.bf16_unit(ZEN5)


def test_a_row_with_a_path_nobody_knows_is_damaged() -> None:
    file = measured.save_row(row())
    file.write_text(json.dumps({**json.loads(file.read_text()), "float32": "fastest"}))
    assert _gemm.settle(SAPPHIRE).value == "highest"
    assert "'fastest'" in _gemm.settle(SAPPHIRE).note


# --- the policy ------------------------------------------------------------------------------


def test_auto_is_settled_when_the_policy_is_made_and_an_option_given_stays() -> None:
    assert CpuPolicy(CpuOptions(), 1, ZEN5).float32_matmul == "medium"
    assert CpuPolicy(CpuOptions(), 1, SAPPHIRE).float32_matmul == "highest"
    given = CpuPolicy(CpuOptions(float32_matmul="high"), 1, ZEN5)
    assert given.float32_matmul == "high"
    assert given.settled()["float32_matmul"].value == "medium"


def test_what_was_settled_once_stays_for_the_process() -> None:
    policy = CpuPolicy(CpuOptions(), 1, SAPPHIRE)
    assert policy.float32_matmul == "highest"
    measured.save_row(row())
    assert policy.float32_matmul == "highest"


def test_auto_precision_is_exact_and_names_the_unit() -> None:
    precision = CpuPolicy(CpuOptions(), 1, ZEN5).precision("auto")
    assert precision.name == "fp32" and not precision.note
    assert precision.reason.startswith(
        "exact and bitwise repeatable on the cpu; this processor has "
    )
    assert (
        "avx512_bf16" in precision.reason and "--precision bf16 may be faster" in precision.reason
    )
    plain = CpuPolicy(CpuOptions(), 1, Processor(arch="x86_64")).precision("auto")
    assert plain.reason == "exact and bitwise repeatable on the cpu"


def test_bf16_without_a_unit_is_granted_and_said() -> None:
    slow = CpuPolicy(CpuOptions(), 1, Processor(arch="x86_64")).precision("bf16")
    assert slow.name == "bf16" and "no bf16 unit" in slow.note and "--precision fp32" in slow.note
    fast = CpuPolicy(CpuOptions(), 1, ZEN5).precision("bf16")
    assert not fast.note and "avx512_bf16" in fast.reason
