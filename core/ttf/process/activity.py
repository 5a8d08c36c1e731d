"""What a process has done so far, as the kernel counts it. Linux; elsewhere nothing is known."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

IN_THE_KERNEL: Final = "a thread of it waited inside the kernel, where no signal reaches it"
FOR_INPUT: Final = "it was reading from standard input, and nothing came"
_READ: Final = {"x86_64": 0, "aarch64": 63}  # the number of the system call
_AFTER_VFORK: Final = "vfork"  # a wait for a child, in the same state as a wait for a disk


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


def has_ended(pid: int) -> bool:
    """Whether a process is gone or a zombie: then the kernel no longer tells its control groups."""
    try:
        text = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return True
    return text[text.rindex(b")") + 2 :][:1] in (b"Z", b"X")


def waits_for_our_input(pid: int) -> bool:
    """Whether the main thread of a process reads from the standard input that it shares with us."""
    try:
        call = Path(f"/proc/{pid}/syscall").read_text().split()
        if call[:2] != [str(_READ.get(os.uname().machine)), "0x0"]:
            return False
        its, ours = Path(f"/proc/{pid}/fd/0").stat(), os.fstat(0)
    except OSError:
        return False
    return (its.st_dev, its.st_ino) == (ours.st_dev, ours.st_ino)


def waits_in_the_kernel(pid: int, root: Path = Path("/")) -> bool:
    """Whether a thread of a process is in state D and does not wait for a child of vfork.

    `root` replaces / in tests.
    """
    tasks = root / f"proc/{pid}/task"
    try:
        return any(_in_state_d(task) for task in tasks.iterdir())
    except OSError:
        return False


def _in_state_d(task: Path) -> bool:
    try:
        text = (task / "stat").read_bytes()
        where = (task / "wchan").read_text(errors="replace")
        had_children = bool((task / "children").read_text().strip())
    except OSError:
        return False
    if not text[text.rindex(b")") + 2 :].startswith(b"D"):
        return False
    # Without the name of the wait, a parent of processes perhaps waits for one of them.
    return not had_children if where in ("", "0") else _AFTER_VFORK not in where


def held(pid: int, root: Path = Path("/")) -> str:
    """What keeps a process from running, for a sentence about it; '' if nothing is known to.

    `root` replaces / in tests.
    """
    return _traced(pid, root) or _frozen(pid, root)


def _traced(pid: int, root: Path) -> str:
    try:
        status = (root / f"proc/{pid}/status").read_text(errors="replace")
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        tracer = int(fields["TracerPid"])
        if not tracer or fields["State"].split()[0] != "t":  # t: a tracing stop
            return ""
    except (OSError, KeyError):
        return ""
    return f"stopped by a debugger (process {tracer}{_named(tracer, root)})"


def _named(pid: int, root: Path) -> str:
    try:
        return f", {(root / f'proc/{pid}/comm').read_text(errors='replace').strip()}"
    except OSError:
        return ""


def _frozen(pid: int, root: Path) -> str:
    try:
        lines = (root / f"proc/{pid}/cgroup").read_text(errors="replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        _, controllers, group = line.split(":", 2)
        if controllers == "freezer":
            state = root / "sys/fs/cgroup/freezer" / group.lstrip("/") / "freezer.state"
        elif not controllers:
            state = root / "sys/fs/cgroup" / group.lstrip("/") / "cgroup.events"
        else:
            continue
        if _says_frozen(state):
            return (
                f"frozen together with its control group {group} (a paused container, for example)"
            )
    return ""


def _says_frozen(state: Path) -> bool:
    try:
        text = state.read_text()
    except OSError:
        return False
    return text.strip() == "FROZEN" or "frozen 1" in text.splitlines()
