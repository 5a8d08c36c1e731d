"""The second round, under `ttf guard`: written before the rules or the other cases had been seen."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.under_guard import HEAD

STEPS: Final = HEAD + "for step in range(5): print('step', step, flush=True)\n"
TORCH: Final = STEPS + "import torch\n"
SMALL_DISK: Final = (
    "mkdir {here}/disk && mount -t tmpfs -o size=2m tmpfs {here}/disk && exec {python} train.py"
)
READ_ONLY: Final = (
    "mkdir {here}/disk && mount -t tmpfs -o ro tmpfs {here}/disk && exec {python} train.py"
)


def says_and_aborts(words: str) -> str:
    return STEPS + f"os.write(2, {words.encode()!r})\nos.abort()"


SECOND_GUARD: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a library writes past the end of an array of numpy",
        right=("heap-corruption", "segfault"),
        exit_codes=(134, 139),
        native="void fill(float *rows, long n) { for (long i = 0; i < n + 8; i++) rows[i] = 1.0f; }",
        flags=("-O1",),
        code=STEPS + "import numpy as np\nengine = ctypes.CDLL(os.path.abspath('engine.so'))\n"
        "rows = [np.zeros(1000, np.float32) for _ in range(8)]\n"
        "for row in rows:\n    engine.fill(ctypes.c_void_p(row.ctypes.data), ctypes.c_long(row.size))\n"
        "del row\nrows.clear()\nrows = [np.zeros(1003, np.float32) for _ in range(64)]",
    ),
    Foreign(
        name="tcmalloc is given a pointer of another allocator",
        right=("heap-corruption",),
        exit_codes=(134,),
        says="Attempt to free invalid pointer",
        never="refused the request for memory",
        code=says_and_aborts(
            "src/tcmalloc.cc:332] Attempt to free invalid pointer 0x5581a1b2c3d0 \n"
        ),
    ),
    Foreign(
        name="Rust's allocator is refused memory",
        right=("alloc-failure",),
        exit_codes=(134,),
        says="34359738368 bytes",
        code=says_and_aborts("memory allocation of 34359738368 bytes failed\n"),
    ),
    Foreign(
        name="a wheel for a newer processor stops itself",
        right=("illegal-instruction", "abort"),
        exit_codes=(134,),
        says="AVX",
        code=says_and_aborts(
            "2026-11-19 21:14:07.1: F tensorflow/core/platform/cpu_feature_guard.cc:37] The TensorFlow "
            "library was compiled to use AVX instructions, but these aren't available on your machine.\n"
        ),
    ),
    Foreign(
        name="an operation in place on a tensor of a read-only file",
        right=("segfault",),
        exit_codes=(139,),
        says="not writable",
        never="cannot cause it",
        code=TORCH + "import numpy as np\nnp.save('rows.npy', np.ones((1000, 64), np.float32))\n"
        "torch.from_numpy(np.load('rows.npy', mmap_mode='r')).mul_(0.5)",
    ),
    Foreign(
        name="a database on a full disk (sqlite)",
        right=("disk-full",),
        certain=True,
        exit_codes=(1,),
        says="full",
        shell=SMALL_DISK,
        mounts=True,
        code=STEPS + "import sqlite3\nstudy = sqlite3.connect('disk/study.db')\n"
        "study.execute('create table trial (id integer, log text)')\n"
        "for number in range(100):\n"
        "    study.execute('insert into trial values (?, ?)', (number, 'x' * 100_000))\n"
        "    study.commit()",
    ),
    Foreign(
        name="a disk that is mounted read-only",
        right=("disk-full", "python-error"),
        certain=True,
        exit_codes=(1,),
        says="Read-only file system",
        never="is full",
        shell=READ_ONLY,
        mounts=True,
        code=STEPS + "open('disk/model.pt', 'wb')",
    ),
    Foreign(
        name="libgomp gets no threads (ulimit -v)",
        right=("alloc-failure",),
        exit_codes=(1,),
        says="ulimit -u",
        never="killed no process",
        code=TORCH + "import resource\n"
        "used = int(open('/proc/self/statm').read().split()[0]) * 4096 + 40_000_000\n"
        "rows = torch.ones(2000, 2000)\nresource.setrlimit(resource.RLIMIT_AS, (used, used))\n"
        "resource.setrlimit(resource.RLIMIT_STACK, (64_000_000, -1))\n"
        "torch.set_num_threads(64)\nrows.add_(1)",
    ),
    Foreign(
        name="words of memory in an error of the program's own",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="memory slots",
        code=STEPS + "raise RuntimeError('replay memory: out of memory slots (capacity 100)')",
    ),
    Foreign(
        name="a GPU is asked for where torch has none",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="CUDA",
        code=TORCH
        + "if torch.cuda.is_available(): raise AssertionError('Torch not compiled with CUDA')\n"
        "torch.nn.Linear(4, 4).to('cuda')",
    ),
    Foreign(
        name="a distribution is given NaN",
        right=("non-finite",),
        exit_codes=(1,),
        says="NaN",
        code=TORCH + "torch.distributions.Normal(torch.full((3, 2), float('nan')), 1.0)",
    ),
    Foreign(
        name="skipped batches with NaN, and later a kill",
        right=("killed",),
        certain=True,
        exit_codes=(137,),
        says="SIGKILL",
        never="NaN|invalid numbers",
        code=STEPS + "print('step 5: loss is nan, skipping batch', file=sys.stderr, flush=True)\n"
        "time.sleep(0.5)\nos.kill(os.getpid(), signal.SIGKILL)",
    ),
    Foreign(
        name="a harmless note of OpenMP, then another crash",
        right=("segfault",),
        exit_codes=(139,),
        never="OpenMP",
        code=STEPS + "print('OMP: Info #276: omp_set_nested routine deprecated, please use "
        "omp_set_max_active_levels instead.', file=sys.stderr, flush=True)\nctypes.memset(0x20, 0, 64)",
    ),
    Foreign(
        name="a full disk that was survived, then a plain mistake",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="IndexError",
        never="disk",
        code=STEPS
        + "print('WARNING cache disabled: [Errno 28] No space left on device', file=sys.stderr)\n"
        "print([0, 1, 2][17])",
    ),
    Foreign(
        name="the log tells of an older crash, then a wrong shape",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="matmul",
        never="killed|crashed",
        code=STEPS
        + "print('INFO previous attempt: Killed (exit code 137), Segmentation fault in worker "
        "3', file=sys.stderr)\nimport numpy as np\nnp.ones((3, 4)) @ np.ones((3, 4))",
    ),
    Foreign(
        name="Slurm ends the job at its time limit",
        right=("killed",),
        exit_codes=(143,),
        says="TIME LIMIT",
        shell="{python} train.py & sleep 1; echo 'slurmstepd: error: *** STEP 48213.0 ON node17 CANCELLED "
        "AT 2026-11-19T21:14:07 DUE TO TIME LIMIT ***' >&2; kill -TERM $!; wait $!",
        code=STEPS + "time.sleep(60)",
    ),
)
