"""What a process has done so far, as the kernel counts it. Linux; elsewhere nothing is known."""

from __future__ import annotations

from pathlib import Path


def bytes_moved(pid: int) -> int | None:
    """Bytes that a process has read and written so far; None if unknown."""
    try:
        text = Path(f"/proc/{pid}/io").read_bytes()
    except OSError:
        return None
    words = text.split()
    return int(words[1]) + int(words[3])  # rchar: N wchar: N


def ticks(pid: int) -> int | None:
    """Processor time so far, in clock ticks; None if unknown."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = text[text.rindex(b")") + 2 :].split()
    return int(fields[11]) + int(fields[12])
