"""How near a process is to the nearest limit, by memory that cannot be dropped, and whether processes
wait for memory. Page cache is no pressure: the kernel drops it when somebody needs the room."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.machine.memory.limits import group_folders, group_limits, group_words, physical_bytes

_MEMINFO: Final = ("MemTotal:", "MemAvailable:")


@dataclass(frozen=True, kw_only=True)
class Headroom:
    """Bytes; `used` is anonymous and shared memory of everybody whom the limit holds."""

    used: int
    limit: int
    source: str
    stalled: float | None
    """Share of the last ten seconds in which some process waited for memory; None: this system
    does not tell (pressure-stall information, Linux 4.20 and later)."""

    @property
    def share(self) -> float:
        return self.used / self.limit


def headroom(root: Path = Path("/")) -> Headroom:
    """That of the limit which is nearest. `root` replaces / in tests."""
    stalled = _stalled(root)
    found = [
        Headroom(used=used, limit=limit, source=source, stalled=stalled)
        for used, limit, source in (*_groups(root), *_machine(root))
    ]
    return max(found, key=lambda each: each.share)


def _groups(root: Path) -> Iterator[tuple[int, int, str]]:
    for folder, limit in group_limits(root):
        words = group_words(folder / "memory.stat")
        counts = dict(zip(words[::2], map(int, words[1::2]), strict=False))
        used = counts.get("anon", counts.get("total_rss"))
        if used is not None and limit.bytes > 0:
            yield used + counts.get("shmem", 0), limit.bytes, limit.source


def _machine(root: Path) -> Iterator[tuple[int, int, str]]:
    words = group_words(root / "proc/meminfo")
    if "MemAvailable:" in words:
        total, free = (int(words[words.index(name) + 1]) << 10 for name in _MEMINFO)
        yield total - free, total, "physical memory"
        return
    import psutil  # type: ignore[import-untyped, unused-ignore]

    memory = psutil.virtual_memory()
    yield physical_bytes() - int(memory.available), physical_bytes(), "physical memory"


def _stalled(root: Path) -> float | None:
    """Of the control group, else of the machine."""
    groups = [folder / "memory.pressure" for folder in group_folders("memory", root)]
    for file in (*groups, root / "proc/pressure/memory"):
        try:
            words = group_words(file)
        except OSError:  # EOPNOTSUPP: built in, but switched off
            continue
        average = next((word for word in words if word.startswith("avg10=")), None)
        if average is not None:
            return float(average.removeprefix("avg10=")) / 100
    return None
