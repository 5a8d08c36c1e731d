"""A small disk of one's own: a tmpfs in a mount namespace, gone with the process that holds it."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = b"\0" * 65536


def why_not() -> str:
    if os.geteuid() != 0 or not shutil.which("unshare") or not shutil.which("nsenter"):
        return "a small disk needs root, unshare and nsenter"
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=1m tmpfs /mnt"],
        capture_output=True,
        text=True,
        check=False,
    )
    return f"nothing can be mounted here: {done.stderr.strip()}" if done.returncode else ""


@dataclass(frozen=True, kw_only=True)
class SmallDisk:
    """`inside` is its path for processes that were started with `prefix`, `outside` for us."""

    inside: Path
    outside: Path
    prefix: tuple[str, ...]

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """To the last byte, until the end of the block."""
        filler = self.outside / "filler"
        try:
            with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
                while file.write(_BLOCK):
                    pass
            yield
        finally:
            filler.unlink(missing_ok=True)


@contextlib.contextmanager
def small_disk(folder: Path, size_mb: int) -> Iterator[SmallDisk]:
    """Mounted over `folder`, for nobody but who is asked in."""
    folder.mkdir(parents=True, exist_ok=True)
    script = f'mount -t tmpfs -o size={size_mb}m tmpfs "$0" && echo ready && exec cat'
    # It lives as long as its standard input is open: also where we are killed.
    holder = subprocess.Popen(
        ["unshare", "-m", "sh", "-c", script, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    with holder:
        try:
            assert holder.stdout is not None
            if holder.stdout.readline() != b"ready\n":
                raise OSError(f"no small disk could be mounted over {folder}")
            yield SmallDisk(
                inside=folder,
                outside=Path(f"/proc/{holder.pid}/root{folder}"),
                prefix=("nsenter", "-m", "-t", str(holder.pid)),
            )
        finally:
            holder.kill()
