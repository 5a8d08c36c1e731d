"""Allocates what the run held when it ended, under the limit it met, and prints what it holds.

The limit is set on this process (RLIMIT_DATA), so that it ends in a MemoryError here and not in
the kernel's killer; where this machine has less to give than that, nothing is allocated.
"""

from __future__ import annotations

import faulthandler
import resource
import sys
from pathlib import Path

# --- settings: what the run had ---
NEED: int = 64_000_000
LIMIT: int = 0
HELD: int = 0
# --- end of the settings ---

BLOCK = 32 << 20


def available() -> int:
    """Bytes that could be taken now, by the kernel and by the control group; 0: unknown."""
    found = []
    info = Path("/proc/meminfo")
    if info.is_file():
        lines = (line.split() for line in info.read_text().splitlines())
        found += [int(words[1]) * 1024 for words in lines if words[0] == "MemAvailable:"]
    for file, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        path, now = Path("/sys/fs/cgroup") / file, Path("/sys/fs/cgroup") / used
        if path.is_file() and now.is_file() and path.read_text().strip().isdigit():
            found.append(int(path.read_text()) - int(now.read_text()))
    return min(found, default=0)


def mb(count: float) -> str:
    return f"{count / 1e6:,.0f} MB"


def main() -> int:
    faulthandler.enable()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    print(f"the run needed at least {mb(NEED)}; at the last measurement it used {mb(HELD)}")
    print(f"its limit was {mb(LIMIT)}" if LIMIT else "its limit is unknown")
    here = available()
    if here and 0.9 * here < NEED:
        print(
            f"only {mb(here)} are available here, which is not enough for this test; did not crash"
        )
        return 0
    if LIMIT:
        hard = resource.getrlimit(resource.RLIMIT_DATA)[1]
        bound = LIMIT if hard == resource.RLIM_INFINITY else min(LIMIT, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (bound, hard))
    for number in range(1, rounds + 1):
        blocks: list[bytearray] = []
        while len(blocks) * BLOCK < NEED:
            try:
                block = bytearray(BLOCK)
            except MemoryError:
                print(
                    f"MemoryError: the script has {mb(len(blocks) * BLOCK)}, and {mb(BLOCK)} "
                    "more were"
                )
                print(f"refused, with the limit of {mb(LIMIT)}: the same happened in the run")
                return 1
            block[::4096] = b"x" * len(range(0, BLOCK, 4096))  # touched, so that it is really there
            blocks.append(block)
            if len(blocks) % 16 == 0:
                print(f"uses {mb(len(blocks) * BLOCK)} of {mb(NEED)}", flush=True)
        print(f"round {number} of {rounds}: used {mb(len(blocks) * BLOCK)}", flush=True)
    print(f"did not crash in {rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
