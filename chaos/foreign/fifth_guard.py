"""The fifth round, under `ttf guard`: ranks, hosts, locks, limits, as users report them."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign

SPAWNED: Final = """\
import os, time
import torch, torch.distributed as dist, torch.multiprocessing as mp
def work(rank):
    torch.set_num_threads(1)
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="{port}", RANK=str(rank), WORLD_SIZE="2")
    dist.init_process_group("gloo")
    kept = []
    for step in range(300):
        {does}
if __name__ == "__main__":
    mp.spawn(work, nprocs=2)
"""
DAEMONS: Final = """\
import resource, threading, time
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
def poll():
    while True: time.sleep(0.0005)
for _ in range(16): threading.Thread(target=poll, daemon=True).start()
held = []
try:
    while True: held.append(open("/dev/null"))
except OSError as error:
    print(f"request failed: {error}")
graph = [[n] for n in range(2_000_000)]
"""
MANY_THREADS: Final = """\
import ctypes, threading
stop = threading.Event()
for _ in range(150): threading.Thread(target=stop.wait, daemon=True).start()
def score():
    print("OpenBLAS : Program is Terminated. Because you tried to allocate too many memory regions.")
    ctypes.string_at(0)
thread = threading.Thread(target=score)
thread.start()
thread.join()
"""

FIFTH_GUARD: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="two ranks of mp.spawn add tensors of different sizes",
        right=("cxx-exception", "ranks-disagree"),
        exit_codes=(1,),
        says="Received data size doesn't match expected size",
        never="OMP_NUM_THREADS",
        code=SPAWNED.replace("{port}", "29741").replace(
            "{does}", "dist.all_reduce(torch.ones(128 if rank == 0 or step < 4 else 64, 512))"
        ),
    ),
    Foreign(
        name="a rank of mp.spawn keeps its outputs until the control group is full",
        right=("oom-kill",),
        certain=True,
        exit_codes=(1,),
        says="killed a child process",
        memory_mb=1200,
        code=SPAWNED.replace("{port}", "29742").replace(
            "{does}",
            "dist.all_reduce(torch.ones(1))\n"
            "        if rank == 1: kept.append(torch.ones(4_000_000))\n        time.sleep(0.1)",
        ),
    ),
    Foreign(
        name="the name of the host with rank 0 is not known",
        right=("rendezvous-failed",),
        exit_codes=(1,),
        says="could not look up the name trainer-0.trainers.invalid",
        code="import os\nfrom datetime import timedelta\nimport torch.distributed as dist\n"
        "os.environ.update(MASTER_ADDR='trainer-0.trainers.invalid', MASTER_PORT='29500', RANK='1', "
        "WORLD_SIZE='2')\ndist.init_process_group('gloo', timeout=timedelta(seconds=6))",
    ),
    Foreign(
        name="more threads than OpenBLAS has memory regions for",
        right=("segfault",),
        exit_codes=(139,),
        says="Too many threads called OpenBLAS",
        never="ran no Python code",
        code=MANY_THREADS,
    ),
    Foreign(
        name="daemon threads at the end of Python, and no open file is left",
        right=("abort",),
        exit_codes=(134,),
        says="could not open another file",
        code=DAEMONS,
    ),
    Foreign(
        name="no folder takes a temporary file, because the disk is full",
        right=("disk-full",),
        exit_codes=(1,),
        says="found no folder that takes a temporary file",
        mounts=True,
        shell="mkdir {here}/disk && mount -t tmpfs -o size=300k tmpfs {here}/disk && "
        "{{ cat /dev/zero > {here}/disk/old-logs; exec {python} train.py; }}",
        code="import tempfile\ntempfile._candidate_tempdir_list = lambda: ['disk']\n"
        "tempfile.NamedTemporaryFile()",
    ),
    Foreign(
        name="the lock file of a build that was killed",
        right=("hang",),
        exit_codes=(137, 143),
        says="waited for a lock file",
        never="OMP_NUM_THREADS",
        options=("--hang-timeout", "10"),
        code="import os\nfrom torch.utils.cpp_extension import load_inline\n"
        "os.mkdir('build')\nopen('build/lock', 'w').close()\n"
        "load_inline('fused', cpp_sources='int one() { return 1; }', functions=['one'], "
        "build_directory='build')",
    ),
    Foreign(
        name="detectron2 stops at a loss that is infinite",
        right=("non-finite",),
        exit_codes=(1,),
        says="It wrote: FloatingPointError: Loss became infinite or NaN at iteration=3!",
        code="raise FloatingPointError('Loss became infinite or NaN at iteration=3!\\nloss_dict = {}')",
    ),
)
