"""Full file systems of this machine: a command may have written anywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

from ttf.incidents.facts import DISK_LOW

_MOUNTS: Final = Path("/proc/self/mounts")
# Others may not answer, and statvfs would hang the guard.
_LOCAL: Final = frozenset(
    ["tmpfs", "ext2", "ext3", "ext4", "xfs", "btrfs", "zfs", "f2fs", "overlay", "vfat", "exfat"]
)
_SYSTEM: Final = ("/dev", "/proc", "/sys", "/run")


def full_disks() -> Iterator[Path]:
    """Writable mount points without room or without inodes; none without /proc."""
    try:
        lines = _MOUNTS.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        _, mount, kind, options, *_ = line.split()
        path = Path(mount.encode().decode("unicode_escape"))  # a blank is written as \\040
        if kind not in _LOCAL or "rw" not in options.split(",") or mount.startswith(_SYSTEM):
            continue
        with suppress(OSError):
            found = os.statvfs(path)
            no_room = found.f_blocks and found.f_bavail * found.f_frsize < DISK_LOW
            if no_room or (found.f_files and not found.f_favail):
                yield path
