"""The fourth round, under `ttf guard`: loaders, launchers, libraries, as users report them."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.second_guard import says_and_aborts

LOADER: Final = """\
import torch
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self): return 100_000
    def __getitem__(self, row):
        {row}
if __name__ == "__main__":
    kept = []
    for batch in DataLoader(Rows(), batch_size=8, num_workers=1{options}):
        {batch}
"""
RANKS: Final = "exec {python} -m torch.distributed.run --standalone --nproc_per_node 2 train.py"
GLOO: Final = """\
import os, signal, sys, time
from datetime import timedelta
import torch, torch.distributed as dist
torch.set_num_threads(1)
dist.init_process_group("gloo", timeout=timedelta(seconds=TIMEOUT))
rank = dist.get_rank()
"""
FROZEN: Final = """\
truncate -s 32M {here}/image && mkfs.ext4 -q {here}/image && mkdir {here}/disk &&
mount -o loop {here}/image {here}/disk && touch {here}/mounted
for _ in $(seq 100); do test -e {here}/disk/begun && break; sleep 0.3; done
fsfreeze -f {here}/disk; sleep 12; fsfreeze -u {here}/disk
sleep 2; umount -l {here}/disk
"""

FOURTH_GUARD: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a loader's worker caches every sample until the control group is full",
        right=("oom-kill",),
        certain=True,
        exit_codes=(1,),
        says="killed a child process",
        memory_mb=600,
        code=LOADER.replace("{options}", "")
        .replace("{batch}", "pass")
        .replace("{row}", "kept.append(torch.ones(250_000)); return kept[-1]")
        .replace("class Rows", "kept = []\nclass Rows"),
    ),
    Foreign(
        name="a loader's worker waits for a lock, and the loader's time is over",
        right=("hang",),
        exit_codes=(1,),
        says="workers of its DataLoader",
        never="fork and set|faulthandler.txt",
        code="import fcntl\nheld = open('lock', 'w')\nfcntl.flock(held, fcntl.LOCK_EX)\n"
        + LOADER.replace("{options}", ", timeout=3")
        .replace("{batch}", "pass")
        .replace(
            "{row}",
            "with open('lock', 'w') as file: fcntl.flock(file, fcntl.LOCK_EX)\n"
            "        return torch.ones(4)",
        ),
    ),
    Foreign(
        name="an index of faiss is written anew while it is mapped",
        right=("bus-error",),
        certain=True,
        exit_codes=(135,),
        says="truncated",
        code="import time, faiss, numpy as np\nrows = np.random.default_rng(0).standard_normal("
        "(60_000, 64), np.float32)\ndef write(count):\n"
        "    index = faiss.IndexIVFFlat(faiss.IndexFlatL2(64), 64, 16)\n"
        "    index.train(rows[:2000])\n    index.add(rows[:count])\n"
        "    faiss.write_index(index, 'ivf.index')\nwrite(60_000)\n"
        "index = faiss.read_index('ivf.index', faiss.IO_FLAG_MMAP)\nindex.nprobe = 16\n"
        "for step in range(100):\n    index.search(rows[:8], 10)\n    time.sleep(0.1)\n"
        "    if step == 50: write(2000)",
    ),
    Foreign(
        name="torch saves a checkpoint to a full disk",
        right=("disk-full",),
        certain=True,
        exit_codes=(1,),
        says="disk is full",
        mounts=True,
        shell="mkdir {here}/disk && mount -t tmpfs -o size=10m tmpfs {here}/disk && "
        "exec {python} train.py",
        code="import torch\nfor epoch in range(9): torch.save(torch.ones(1_000_000), "
        "f'disk/{epoch}.pt')",
    ),
    Foreign(
        name="a library with thread-local memory is loaded too late",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="static TLS block",
        native='static __thread char block[1 << 20] __attribute__((tls_model("initial-exec")));\n'
        "char *at(int i) { return &block[i]; }",
        code="import ctypes, os, torch\nctypes.CDLL(os.path.abspath('engine.so'))",
    ),
    Foreign(
        name="batches that are kept use up the open files",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="Too many open files|ancdata",
        code="import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (128, 128))\n"
        + LOADER.replace("{options}", "")
        .replace("{batch}", "kept.append(batch)")
        .replace("{row}", "return [torch.ones(4) for _ in range(4)]"),
    ),
    Foreign(
        name="one rank has fewer batches and is done",
        right=("peer-lost",),
        exit_codes=(1,),
        says="Connection closed by peer",
        shell=RANKS,
        code=GLOO.replace("TIMEOUT", "60")
        + "for step in range(20 - 3 * rank): dist.all_reduce(torch.ones(4))",
    ),
    Foreign(
        name="one rank evaluates for longer than the others wait",
        right=("hang",),
        exit_codes=(1,),
        says="did not answer in time",
        never="faulthandler.txt|--hang-timeout",
        shell=RANKS,
        code=GLOO.replace("TIMEOUT", "5")
        + "for step in range(20):\n    dist.all_reduce(torch.ones(4))\n"
        "    if rank == 0 and step == 10: time.sleep(60)",
    ),
    Foreign(
        name="a loss that is not finite, and sys.exit(1)",
        right=("non-finite",),
        exit_codes=(1,),
        says="NaN or infinite",
        code="import math, sys, torch\nloss = torch.tensor(1e38) * 10\n"
        "if not math.isfinite(loss.item()):\n"
        "    print(f'Loss is {loss.item()}, stopping training')\n    sys.exit(1)",
    ),
    Foreign(
        name="torchrun gets the hangup of a closed connection",
        right=("killed",),
        exit_codes=(1,),
        says="SIGHUP",
        shell=RANKS,
        code=GLOO.replace("TIMEOUT", "60")
        + "for step in range(2000):\n    dist.all_reduce(torch.ones(4))\n    time.sleep(0.05)\n"
        "    if rank == 0 and step == 40: os.kill(os.getppid(), signal.SIGHUP)",
    ),
    Foreign(
        name="the terminal of the output is closed",
        right=("python-error", "killed"),
        certain=True,
        exit_codes=(1,),
        says="terminal that was closed",
        code="import os, pty\nmaster, slave = pty.openpty()\nos.dup2(slave, 1)\nos.close(slave)\n"
        "print('step 0', flush=True)\nos.close(master)\nprint('step 1', flush=True)",
    ),
    Foreign(
        name="a window on a server without a display (Qt)",
        right=("abort",),
        exit_codes=(134,),
        says="aborted itself: qt.qpa.xcb: could not connect to display",
        code=says_and_aborts(
            "qt.qpa.xcb: could not connect to display \nqt.qpa.plugin: Could not load the Qt platform "
            'plugin "xcb" in "" even though it was found.\nThis application failed to start because no '
            "Qt platform plugin could be initialized. Reinstalling the application may fix this "
            "problem.\n\nAvailable platform plugins are: xcb.\n\n"
        ),
    ),
    Foreign(
        name="a loader's worker asks for all similarities at once",
        right=("alloc-failure",),
        exit_codes=(1,),
        says="Unable to allocate",
        code="import numpy as np\n"
        + LOADER.replace("{options}", "")
        .replace("{batch}", "pass")
        .replace("{row}", "return np.empty((300_000, 300_000))[row]"),
    ),
    Foreign(
        name="a pointer through ctypes without restype",
        right=("segfault",),
        exit_codes=(139,),
        says="train.py:3",
        native="""
            #include <stdlib.h>
            int *table(void) { return calloc(1000, 1 << 20); }
            int first(int *rows) { return rows[0]; }
        """,
        code="import ctypes, os\nengine = ctypes.CDLL(os.path.abspath('engine.so'))\n"
        "engine.first(engine.table())",
    ),
    Foreign(
        name="faiss searches in a forked worker after it searched in the parent",
        right=("hang",),
        exit_codes=(137, 143),
        says="waiting",
        options=("--hang-timeout", "6"),
        code="import multiprocessing, faiss, numpy as np\nfaiss.omp_set_num_threads(2)\n"
        "rows = np.random.default_rng(0).standard_normal((20_000, 64), np.float32)\n"
        "index = faiss.IndexFlatL2(64)\nindex.add(rows)\nindex.search(rows[:500], 10)\n"
        "def search(start): return index.search(rows[start : start + 500], 10)[1]\n"
        "if __name__ == '__main__':\n    with multiprocessing.get_context('fork').Pool(2) as pool:\n"
        "        pool.map(search, range(0, 20_000, 500))",
    ),
    Foreign(
        name="a launch script with an option that the script does not know",
        right=("unknown", "python-error"),
        exit_codes=(2,),
        says="unrecognized arguments: --local-rank=0",
        shell="set -e; echo starting; {python} train.py --local-rank=0",
        code="import argparse\nargparse.ArgumentParser().parse_args()",
    ),
    Foreign(
        name="a file system that no longer answers while a checkpoint is written",
        right=("hang",),
        exit_codes=(137, 143),
        says="a disk or a network file system does not answer",
        never="faulthandler.txt|fork",
        mounts=True,
        beside=FROZEN,
        options=("--hang-timeout", "4"),
        code="import os, time\nwhile not os.path.exists('mounted'): time.sleep(0.1)\n"
        "for step in range(10_000):\n    with open('disk/begun', 'wb') as file:\n"
        "        file.write(bytes(1_000_000))\n        os.fsync(file.fileno())\n    time.sleep(0.05)",
    ),
)
