"""Shows what a file does that becomes shorter while it is mapped: SIGBUS, in a child process.

Whether the run's own file was cut cannot be shown without it: the incident's evidence says what it
was and what it is. Writing to a full tmpfs (/dev/shm) through a map ends in the same signal.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import signal
import subprocess
import sys
import tempfile

# --- settings: what the run had ---
BYTES: int = 1 << 20
# --- end of the settings ---


def touch_what_is_gone() -> None:
    faulthandler.enable()
    with tempfile.NamedTemporaryFile() as file:
        file.truncate(BYTES)
        pages = mmap.mmap(file.fileno(), BYTES, prot=mmap.PROT_READ)
        print(f"mapped {BYTES:,} bytes; truncating the file to one page", flush=True)
        os.truncate(file.name, mmap.PAGESIZE)
        print(f"the last byte is {pages[BYTES - 1]}", flush=True)


def main() -> int:
    if sys.argv[1:] == ["child"]:
        touch_what_is_gone()
        return 0
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 1
    for number in range(1, rounds + 1):
        done = subprocess.run([sys.executable, __file__, "child"], check=False)
        if done.returncode < 0:
            name = signal.Signals(-done.returncode).name
            print(f"round {number}: {name} ended the child process, as in the run")
            print("A file was truncated or overwritten while it was mapped. Write new data to a")
            print("new file in the same folder, then rename the new file over the old one.")
            return 0
    print(f"did not crash in {rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
