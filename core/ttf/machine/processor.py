"""The facts about this machine that decide its speed: processor, memory, versions of torch and
numpy.

Reads system files and does not load torch: a GEMM path must be chosen before that.
"""

from __future__ import annotations

import functools
import hashlib
import os
import platform
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Literal

from ttf.machine.memory.limits import group_folders, group_words
from ttf.process import platform as system
from ttf.rundir.cache import cache_dir

# Allowed error of a float32 product, relative to its largest element.
MOST_ERROR: Final = 2e-6
CPUINFO: Final = Path("/proc/cpuinfo")
# Processor features that matter for matrix products. `bf16` is Arm's (FEAT_BF16).
FLAGS: Final = (
    "avx2",
    "fma",
    "avx512f",
    "avx512bw",
    "avx512_vnni",
    "avx512_bf16",
    "avx_ne_convert",
    "amx_tile",
    "amx_bf16",
    "amx_fp16",
    "asimd",
    "sve",
    "bf16",
    "i8mm",
)
BF16_UNITS: Final = ("amx_bf16", "avx512_bf16", "bf16")


@dataclass(frozen=True, kw_only=True)
class Processor:
    """One processor as the system describes it. "" and 0 stand for unknown."""

    arch: str
    vendor: str = ""
    family: int = 0
    model: str = ""
    flags: frozenset[str] = frozenset()

    @property
    def apple(self) -> bool:
        return self.vendor == "Apple"

    @property
    def bf16_unit(self) -> str:
        """Name of its instructions for bf16 products; "" if it has none of the known ones."""
        return next((unit for unit in BF16_UNITS if unit in self.flags), "")

    @property
    def instructions(self) -> str:
        """Those that matter for products, as runs note them."""
        return " ".join(sorted(self.flags))

    @property
    def arm(self) -> bool:
        return self.arch in ("arm64", "aarch64")


def processor(cpuinfo: Path = CPUINFO) -> Processor:
    """Returns the first processor that the system lists."""
    if system.MACOS:
        return _mac_processor()
    fields = dict(_first_block(cpuinfo))
    words = set(fields.get("flags", fields.get("Features", "")).split())
    return Processor(
        arch=platform.machine(),
        vendor=fields.get("vendor_id", fields.get("CPU implementer", "")),
        family=_number(fields.get("cpu family", fields.get("CPU part", ""))),
        model=fields.get("model name", fields.get("CPU part", "")),
        flags=frozenset(words.intersection(FLAGS)),
    )


def name() -> str:
    """Returns the model, or the architecture where the system names no model."""
    found = processor()
    return found.model or found.arch


def _first_block(cpuinfo: Path) -> Iterator[tuple[str, str]]:
    # Up to the empty line: the file repeats the block for every processor.
    if not cpuinfo.is_file():
        return
    with cpuinfo.open(encoding="utf-8", errors="replace") as lines:
        for line in lines:
            key, colon, value = line.partition(":")
            if not colon:
                return
            yield key.strip(), value.strip()


def _number(text: str) -> int:
    try:
        return int(text, 0)
    except ValueError:
        return 0


def _mac_processor() -> Processor:
    model = _sysctl("machdep.cpu.brand_string")
    has_bf16 = _sysctl("hw.optional.arm.FEAT_BF16") == "1"
    flags = {"bf16"} if has_bf16 else set()
    vendor = "Apple" if platform.machine() == "arm64" else _sysctl("machdep.cpu.vendor")
    return Processor(arch=platform.machine(), vendor=vendor, model=model, flags=frozenset(flags))


def _sysctl(name: str) -> str:
    # sysctl prints nothing if this system has no such entry.
    asked = subprocess.run(
        ["/usr/sbin/sysctl", "-n", name], capture_output=True, text=True, check=False
    )
    return asked.stdout.strip()


# --- what of it a process may use ------------------------------------------------------------


def usable_threads(root: Path = Path("/")) -> int:
    """Returns how many processors this process may use, by affinity mask and cgroup."""
    allowed, quota = usable_processors(), cgroup_quota(root)
    return max(1, allowed if quota is None else min(allowed, int(quota)))


def usable_processors() -> int:
    """Returns the size of this process's affinity mask, which containers and taskset reduce."""
    if system.LINUX:
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def cgroup_quota(root: Path = Path("/")) -> float | None:
    """Returns how many processors the cgroup grants (2.5 = two and a half); None: no limit.

    With more threads than that, every parallel region waits for throttled threads.
    """
    quotas: list[float] = []
    for folder in group_folders("cpu", root):
        v2 = group_words(folder / "cpu.max")
        if len(v2) == 2 and v2[0] != "max":
            quotas.append(int(v2[0]) / int(v2[1]))
        quota = group_words(folder / "cpu.cfs_quota_us")
        period = group_words(folder / "cpu.cfs_period_us")
        if quota and period and int(quota[0]) > 0:
            quotas.append(int(quota[0]) / int(period[0]))
    return min(quotas) if quotas else None


# --- its products ---------------------------------------------------------------------------


FirstPass = Literal["bf16", "fp32"]


@functools.cache
def first_pass() -> FirstPass:
    """Returns the precision of a scan's first pass: bf16 if the processor has units for it and
    torch's product keeps the error bound; else fp32."""
    return "bf16" if processor().bf16_unit and _bf16_is_accurate() else "fp32"


def _bf16_is_accurate() -> bool:
    # Compares a fixed product with float64. Sums must be kept in float32 and rounded once, at the
    # end. The row is long and its terms have one sign: sums kept in bfloat16 would be off by
    # percents.
    import torch

    wave = torch.arange(96 * 1024, dtype=torch.float64).mul(0.7).sin().add(1.5)
    left = wave[: 32 * 1024].view(32, 1024).bfloat16()
    right = wave[32 * 1024 :].view(64, 1024).bfloat16()
    exact = left.double() @ right.double().T
    error = ((left @ right.T).double() - exact).abs() / exact
    return bool(error.max() <= 2.0**-8 + 1024 * 2.0**-23)


# --- its name --------------------------------------------------------------------------------


def describe() -> dict[str, Any]:
    """Returns what decides the speed of a machine, without host or user names."""
    found = processor()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": found.model or found.arch,
        "vendor": found.vendor,
        "family": found.family,
        "flags": sorted(found.flags),
        "threads": usable_threads(),
        "memory_gib": round(memory / 2**30),  # the kernel's share differs from boot to boot
        "torch": _version("torch"),
        "numpy": _version("numpy"),
    }


@functools.cache  # it parses a long text
def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def fingerprint() -> str:
    """Returns a readable folder name for this machine; it differs if `describe` differs."""
    facts = describe()
    digest = hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:10]
    slug = re.sub(r"[^a-z0-9]+", "-", str(facts["processor"]).lower()).strip("-")[:40]
    return f"{slug}-{facts['threads']}t-{digest}"


def machine_dir() -> Path:
    """Returns the folder for measurements of this machine. Writers create it."""
    return cache_dir() / "machine" / fingerprint()
