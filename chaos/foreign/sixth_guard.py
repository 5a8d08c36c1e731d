"""The sixth round, under `ttf guard`: refused threads and memory, questions, and what libraries check."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign

# A filter that answers clone3 with EPERM, as an old docker does, and then the script.
OLD_DOCKER: Final = """\
import ctypes, os, struct, sys
if len(sys.argv) == 1:
    one = lambda *code: struct.pack("HBBI", *code)
    program = ctypes.create_string_buffer(
        one(0x20, 0, 0, 0) + one(0x15, 0, 1, 435) + one(6, 0, 0, 0x50001) + one(6, 0, 0, 0x7FFF0000))
    class Filter(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("program", ctypes.c_void_p)]
    libc = ctypes.CDLL(None)
    assert not libc.prctl(38, 1, 0, 0, 0)
    assert not libc.prctl(22, 2, ctypes.byref(Filter(4, ctypes.addressof(program))), 0, 0)
    os.execv(sys.executable, [sys.executable, __file__, "inside"])
os.environ["OPENBLAS_NUM_THREADS"] = "2"
import numpy
"""
DECODES: Final = """\
import ctypes, torch
class Clips(torch.utils.data.Dataset):
    def __len__(self): return 40
    def __getitem__(self, n):
        if n == 20: ctypes.CDLL("./engine.so").decode(n)
        return torch.ones(3)
if __name__ == "__main__":
    for batch in torch.utils.data.DataLoader(Clips(), batch_size=4, num_workers=2): pass
"""
DECODER: Final = """\
#include <stdlib.h>
void decode(int n) {
    char *part[16];
    for (int i = 0; i < 16; i++) part[i] = malloc(48);
    for (int i = 0; i < 16; i++) free(part[i]);
    for (int i = 7; i < 16; i++) *(volatile size_t *)part[i] = 0x1234567 + n;
    free(malloc(100000));
}
"""

SIXTH_GUARD: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="an old docker forbids the threads of a newer C library",
        right=("alloc-failure",),
        says="was not permitted to start a thread",
        never="smaller batch",
        code=OLD_DOCKER,
    ),
    Foreign(
        name="hnswlib reserves more than the machine has",
        right=("alloc-failure",),
        exit_codes=(1,),
        says="Not enough memory",
        code="import hnswlib\nhnswlib.Index('ip', 1 << 20).init_index(4_000_000)",
    ),
    Foreign(
        name="a daemon thread reads standard input while Python ends",
        right=("abort",),
        exit_codes=(134,),
        says="Python was shutting down",
        never="OMP_NUM_THREADS",
        input_open=True,
        code="import sys, threading, time\n"
        "def listen(stream): stream.readline()\n"
        "threading.Thread(target=listen, args=(sys.stdin.buffer,), daemon=True).start()\ntime.sleep(1)",
    ),
    Foreign(
        name="malloc finds damage in a worker of a loader",
        right=("heap-corruption",),
        exit_codes=(1,),
        says=r"It wrote: malloc_consolidate\(\): unaligned fastbin chunk detected",
        native=DECODER,
        flags=("-O0",),
        code=DECODES,
    ),
    Foreign(
        name="a lock of multiprocessing where shared memory is read-only",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="/dev/shm is missing here",
        mounts=True,
        shell="mount -t tmpfs -o ro tmpfs /dev/shm && exec {python} train.py",
        code="import multiprocessing\nmultiprocessing.Lock()",
    ),
    Foreign(
        name="a library asks a question that nobody answers",
        right=("hang",),
        exit_codes=(137, 143),
        says="it waited for an answer",
        never="spawn",
        options=("--hang-timeout", "8"),
        input_open=True,
        code="input('Do you wish to run the custom code? [y/N] ')",
    ),
    Foreign(
        name="the data in /dev/shm fill the control group",
        right=("oom-kill",),
        certain=True,
        says="files in memory",
        memory_mb=900,
        code="import os, time, torch\nblock = bytes(8 << 20)\nwith open('/dev/shm/' + os.urandom(8).hex(), 'w+b') as file:\n"
        "    os.unlink(file.name)\n    while True: file.write(block); file.flush(); time.sleep(0.05)",
    ),
    Foreign(
        name="more files are open than select() can take",
        right=("abort", "heap-corruption"),
        exit_codes=(134,),
        says="FD_SETSIZE|buffer overflow detected",
        native="#include <sys/select.h>\nint ready(int fd) { fd_set all; FD_ZERO(&all); FD_SET(fd, &all); "
        "struct timeval now = {0, 0}; return select(fd + 1, &all, 0, 0, &now); }\n",
        flags=("-O2", "-D_FORTIFY_SOURCE=2"),
        code="import ctypes, os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))\n"
        "held = [open('/dev/null') for _ in range(1500)]\n"
        "ctypes.CDLL('./engine.so').ready(os.pipe()[0])",
    ),
)
