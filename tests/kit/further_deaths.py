"""Deaths of training processes that the table of causes was not made with: each by what really kills
them, under `ttf guard` or in the middle of `ttf train`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal


@dataclass(frozen=True, kw_only=True)
class Further:
    name: str
    code: str
    right: tuple[str, ...]
    """Classes that say what happened; any of them may be certain only if `certain`."""
    certain: bool = False
    """Whether something other than words proves the cause."""
    under: Literal["guard", "train"] = "guard"
    options: tuple[str, ...] = ()
    shell: str = ""
    """A line of shell that starts the script as {python} train.py."""


SPAWN: Final = """\
import torch.multiprocessing as mp
def work(rank):
    {work}
if __name__ == "__main__":
    mp.spawn(work, nprocs=1)
"""
POOL: Final = """\
from concurrent.futures import ProcessPoolExecutor
import multiprocessing
def work(row):
    {work}
if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        list(pool.map(work, range(4)))
"""
LIBC: Final = "libc = ctypes.CDLL(None)\nlibc.malloc.restype = ctypes.c_void_p\n"
HOOK: Final = """\
import torch
def fail(*_):
    raise {error}
torch.nn.modules.module.register_module_forward_pre_hook(fail)
"""
SECCOMP: Final = "ctypes.CDLL(None).prctl(22, 1)\nos.getpid()\nopen('x', 'w')"

FURTHER: Final[tuple[Further, ...]] = (
    Further(
        name="its own KeyboardInterrupt",
        code="raise KeyboardInterrupt",
        right=("killed",),
    ),
    Further(
        name="hard limit of processor time",
        code="while True: pass",
        right=("cpu-limit",),
        shell="ulimit -t 4; exec {python} train.py",
    ),
    Further(
        name="hard limit of processor time, behind a shell",
        code="while True: pass",
        right=("cpu-limit",),
        shell="ulimit -t 4; {python} train.py; exit $?",
    ),
    Further(
        name="words of a full disk",
        code='raise SystemExit("could not save: No space left on device")',
        right=("disk-full", "unknown"),
    ),
    Further(
        name="a traceback that was printed, and os._exit",
        code="import traceback\ntry: {}['rows']\nexcept KeyError: traceback.print_exc()\n"
        "sys.stderr.flush()\nos._exit(1)",
        right=("python-error",),
    ),
    Further(
        name="recursion without end",
        code="def deeper(n): return deeper(n + 1)\ndeeper(0)",
        right=("python-error",),
        certain=True,
    ),
    Further(
        name="no more open files",
        code="kept = []\nwhile True: kept.append(open(__file__))",
        right=("python-error",),
        certain=True,
        shell="ulimit -n 64; exec {python} train.py",
    ),
    Further(
        name="memory map refused",
        code="import mmap, resource\nresource.setrlimit(resource.RLIMIT_AS, (2 << 30, 2 << 30))\n"
        "mmap.mmap(-1, 8 << 30)",
        right=("alloc-failure",),
    ),
    Further(
        name="worker of torch.multiprocessing crashes",
        code=SPAWN.format(work="ctypes.string_at(0)"),
        right=("segfault",),
    ),
    Further(
        name="worker of torch.multiprocessing is killed",
        code=SPAWN.format(work="os.kill(os.getpid(), signal.SIGKILL)"),
        right=("killed",),
    ),
    Further(
        name="worker of torch.multiprocessing raises",
        code=SPAWN.format(work="raise ValueError('row 7')"),
        right=("python-error",),
        certain=True,
    ),
    Further(
        name="worker of a process pool leaves",
        code=POOL.format(work="os._exit(3)"),
        right=("killed",),
    ),
    Further(
        name="a program that it runs crashes",
        code="import subprocess\nsubprocess.run([sys.executable, '-c', 'import ctypes; "
        "ctypes.string_at(0)'], check=True)",
        right=("segfault",),
    ),
    Further(
        name="launcher of torch reports a crash",
        code="open('rank.py', 'w').write('import ctypes; ctypes.string_at(0)')\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'torch.distributed.run', "
        "'--nproc-per-node=1', 'rank.py'])",
        right=("segfault",),
    ),
    Further(
        name="invalid pointer freed",
        code=LIBC + "libc.free(ctypes.c_void_p(libc.malloc(64) + 8))",
        right=("heap-corruption",),
    ),
    Further(
        name="pure virtual function",
        code='ctypes.CDLL("libstdc++.so.6").__cxa_pure_virtual()',
        right=("cxx-exception", "abort"),
    ),
    Further(
        name="fatal error of Python",
        code='ctypes.pythonapi.Py_FatalError(b"reference count below zero")',
        right=("abort",),
    ),
    Further(
        name="sandbox that allows nothing",
        code=SECCOMP,
        right=("killed",),
        certain=True,
    ),
    Further(
        name="an alarm without a handler",
        code="signal.alarm(1)\ntime.sleep(60)",
        right=("killed",),
    ),
    Further(
        name="a profiling timer",
        code="signal.setitimer(signal.ITIMER_PROF, 0.2)\nwhile True: pass",
        right=("killed",),
    ),
    Further(
        name="its own watchdog of faulthandler",
        code="import faulthandler\nfaulthandler.dump_traceback_later(1, exit=True)\ntime.sleep(60)",
        right=("hang",),
    ),
    Further(
        name="a busy loop without output",
        code="while True: pass",
        right=("hang",),
        options=("--hang-timeout", "3"),
    ),
    Further(
        name="exit code of a kill, chosen by a shell",
        code="",
        right=("killed", "unknown"),
        shell="{python} train.py; exit 137",
    ),
    Further(
        name="NaN under detect_anomaly",
        code="torch.autograd.set_detect_anomaly(True)\nx = torch.zeros(2, requires_grad=True)\n"
        "(x.sqrt() * 0).sum().backward()",
        right=("non-finite",),
    ),
    Further(
        name="checkpoint cut short",
        code="torch.save(model.state_dict(), 'm.pt')\nos.truncate('m.pt', 900)\ntorch.load('m.pt')",
        right=("python-error",),
        certain=True,
    ),
    # --- in a run of ttf: a plugin does it after step 12, once --------------------------------------
    Further(
        name="KeyboardInterrupt", code="raise KeyboardInterrupt", right=("killed",), under="train"
    ),
    Further(name="os._exit(120)", code="os._exit(120)", right=("killed", "unknown"), under="train"),
    Further(
        name="words of a full disk in an error",
        code=HOOK.format(error='RuntimeError("No space left on device")'),
        right=("disk-full", "python-error"),
        under="train",
    ),
    Further(
        name="a MemoryError of its own",
        code=HOOK.format(error='MemoryError("too many rows")'),
        right=("alloc-failure", "python-error"),
        under="train",
    ),
    Further(
        name="words of two runtimes, and abort",
        code='os.write(2, b"OMP: Error #15: Initializing a.so, but found b.so already initialized.'
        '\\n")\nos.abort()',
        right=("omp-duplicate", "abort"),
        under="train",
    ),
    Further(
        name="processor time used up",
        code="import resource\nused = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (used + 2, used + 2))\nwhile True: pass",
        right=("cpu-limit",),
        under="train",
    ),
    Further(
        name="a thread that aborts",
        code="import threading\nt = threading.Thread(target=os.abort)\nt.start()\nt.join()",
        right=("abort",),
        under="train",
    ),
    Further(
        name="an exit by a library",
        code="ctypes.CDLL(None).exit(0)",
        right=("vanished",),
        under="train",
    ),
)
