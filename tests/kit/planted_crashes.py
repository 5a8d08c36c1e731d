"""Forty crashes and two more: scripts that know nothing of ttf, what is done to them from outside, and
what an honest guard says about it."""

from __future__ import annotations

import signal
import textwrap
from dataclasses import dataclass
from typing import Final, Literal

TRAIN: Final = """\
import ctypes, os, signal, sys, threading, time
import torch
torch.manual_seed(0)
model = torch.nn.Linear(16, 16)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    loss = model(torch.randn(8, 16)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, file=sys.stderr, flush=True)
"""
PLAIN: Final = "import ctypes, os, signal, sys, threading, time\n"
SAYS: Final = """\
sys.stdout.buffer.write(bytes(range(256)))
sys.stdout.flush()

def ready(name="ready"):
    with open(name + ".tmp", "w") as file:
        file.write(str(os.getpid()))
    os.rename(name + ".tmp", name)

def wait_for_go():
    while not os.path.exists("go"):
        time.sleep(0.01)
"""
MACHINE_CODE: Final = """\
import mmap
page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
page.write(bytes.fromhex("{code}"))
ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
"""
RECURSE: Final = """\
sys.setrecursionlimit(10**9)
def deeper(x):
    return sorted([x], key=deeper)
"""
WORKERS: Final = """\
from torch.utils.data import DataLoader, Dataset
class Rows(Dataset):
    def __len__(self):
        return 1000
    def __getitem__(self, i):
        {row}
        return torch.zeros(4)
if __name__ == "__main__":
    for batch in DataLoader(Rows(), batch_size=2, num_workers=1):
        pass
"""
MAPPED: Final = """\
import numpy as np
np.zeros((1000, 256), np.float32).tofile("bank.f32")
bank = np.memmap("bank.f32", np.float32, mode="r", shape=(1000, 256))
float(bank[0, 0])
ready()
wait_for_go()
"""
LIMITED: Final = """\
import resource
used = int(next(line for line in open("/proc/self/status") if line.startswith("VmData")).split()[1])
resource.setrlimit(resource.RLIMIT_DATA, ((used << 10) + ({more}),) * 2)
"""
OPENMP: Final = """\
for path in sys.argv[1:]:
    ctypes.CDLL(path).omp_get_max_threads()
"""
HANDLED: Final = """\
import traceback
try:
    torch.load("missing.pt")
except FileNotFoundError:
    traceback.print_exc()
for step in range(40):
    print("going on", step, file=sys.stderr)
sys.exit(1)
"""
FORKED: Final = """\
torch.set_num_threads(2)
a = torch.randn(700, 700)
(a @ a).sum()
if os.fork() == 0:
    (a @ a).sum()
    os._exit(0)
os.wait()
"""

Act = Literal["", "truncate", "rewrite", "kill worker", "join group", "tree joins group"]
Needs = Literal["", "group", "disk", "openmp"]


@dataclass(frozen=True, kw_only=True)
class Planted:
    """One way to end. `{disk}` in `code` stands for a small file system."""

    name: str
    code: str
    expected: str
    exit_code: int
    certain: bool | None = False
    """Whether the evidence proves the cause (None: if the guard looked in time); a wrong class must
    never be certain."""
    torch: bool = True
    shell: bool = False
    """Started by a shell, which gives 128 + n on."""
    options: tuple[str, ...] = ()
    send: int | None = None
    """A signal that somebody sends to the script."""
    act: Act = ""
    needs: Needs = ""
    quick: bool = False
    """Also in the everyday test run."""

    @property
    def source(self) -> str:
        return (TRAIN if self.torch else PLAIN) + SAYS + textwrap.dedent(self.code)


def _signal(name: str, signum: signal.Signals, *, quick: bool = False) -> Planted:
    return Planted(
        name=name,
        code="ready()\ntime.sleep(60)",
        expected="killed",
        exit_code=128 + signum,
        certain=signum != signal.SIGINT,  # code may have raised KeyboardInterrupt itself
        send=signum,
        torch=not quick,
        quick=quick,
    )


def _hang(name: str, code: str, **more: object) -> Planted:
    return Planted(
        name=name,
        code=code,
        expected="hang",
        exit_code=137,
        options=("--hang-timeout", "3"),
        **more,  # type: ignore[arg-type]
    )


PLANTED: Final[tuple[Planted, ...]] = (
    # --- native crashes ----------------------------------------------------------------------------
    Planted(
        name="segfault-main",
        code="ctypes.string_at(0)",
        expected="segfault",
        exit_code=139,
    ),
    Planted(
        name="segfault-plain",
        code="ctypes.string_at(0)",
        expected="segfault",
        exit_code=139,
        torch=False,
        quick=True,
    ),
    Planted(
        name="segfault-thread",
        code="threading.Thread(target=ctypes.string_at, args=(0,)).start()\ntime.sleep(60)",
        expected="segfault",
        exit_code=139,
    ),
    Planted(
        name="segfault-in-dataloader-worker",
        code=WORKERS.format(row="ctypes.string_at(0) if i == 20 else None"),
        expected="segfault",
        exit_code=1,
    ),
    Planted(
        name="segfault-through-a-shell",
        code="ctypes.string_at(0)",
        expected="segfault",
        exit_code=139,
        shell=True,
        torch=False,
        quick=True,
    ),
    Planted(
        name="stack-overflow-main",
        code=RECURSE + "deeper(1)",
        expected="segfault",
        exit_code=139,
    ),
    Planted(
        name="stack-overflow-thread",
        code=RECURSE + "threading.Thread(target=deeper, args=(1,)).start()\ntime.sleep(60)",
        expected="segfault",
        exit_code=139,
    ),
    Planted(name="abort", code="os.abort()", expected="abort", exit_code=134),
    Planted(
        name="cxx-terminate",
        code='ctypes.CDLL("libstdc++.so.6")._ZSt9terminatev()',
        expected="cxx-exception",
        exit_code=134,
    ),
    Planted(
        name="bad-alloc-uncaught",
        code='ctypes.CDLL("libstdc++.so.6")._Znwm(ctypes.c_size_t(1 << 62))',
        expected="alloc-failure",
        exit_code=134,
    ),
    Planted(
        name="double-free",
        code="""
            libc = ctypes.CDLL(None)
            libc.malloc.restype = ctypes.c_void_p
            block = ctypes.c_void_p(libc.malloc(64))
            libc.free(block)
            libc.free(block)
        """,
        expected="heap-corruption",
        exit_code=134,
    ),
    Planted(
        name="illegal-instruction",
        code=MACHINE_CODE.format(code="0f0b"),
        expected="illegal-instruction",
        exit_code=132,
    ),
    Planted(
        name="integer-divided-by-zero",
        code=MACHINE_CODE.format(code="31c9b80100000099f7f9c3"),
        expected="illegal-instruction",
        exit_code=136,
        torch=False,
        quick=True,
    ),
    Planted(
        name="two-openmp-runtimes",
        code=OPENMP,
        expected="omp-duplicate",
        exit_code=134,
        certain=None,
        needs="openmp",
    ),
    # --- files -------------------------------------------------------------------------------------
    Planted(
        name="memmap-cut",
        code=MAPPED + "float(bank[-1, -1])",
        expected="bus-error",
        exit_code=135,
        certain=True,
        act="truncate",
    ),
    Planted(
        name="torch-from-file-cut",
        code="""
            with open("bank.f32", "wb") as file:
                file.truncate(1024_000)
            bank = torch.from_file("bank.f32", shared=True, size=256_000)
            ready()
            wait_for_go()
            float(bank[-1])
        """,
        expected="bus-error",
        exit_code=135,
        certain=True,
        act="truncate",
    ),
    Planted(
        name="memmap-on-a-full-disk",
        code="""
            import numpy as np
            cache = np.memmap("{disk}/cache", np.float32, mode="w+", shape=(1 << 21,))
            cache[:] = 1
        """,
        expected="bus-error",
        exit_code=135,
        needs="disk",
    ),
    Planted(
        name="memmap-rewritten",
        code=MAPPED + "if bank[-1, -1] != 0: raise ValueError('row 999 has the wrong norm')",
        expected="data-changed",
        exit_code=1,
        act="rewrite",
    ),
    Planted(
        name="disk-full",
        code='import numpy as np\nnp.save("{disk}/bank.npy", np.zeros(1 << 20))',
        expected="disk-full",
        exit_code=1,
        certain=True,
        needs="disk",
        torch=False,
        quick=True,
    ),
    Planted(
        name="checkpoint-on-a-full-disk",
        code='torch.save(torch.zeros(1 << 20), "{disk}/model.pt")',
        expected="disk-full",
        exit_code=1,
        certain=True,
        needs="disk",
    ),
    # --- memory ------------------------------------------------------------------------------------
    Planted(
        name="torch-allocation-refused",
        code=LIMITED.format(more="256 << 20") + "torch.zeros(1 << 28)",
        expected="alloc-failure",
        exit_code=1,
    ),
    Planted(
        name="numpy-allocation-refused",
        code=LIMITED.format(more="256 << 20") + "import numpy as np\nnp.ones((1 << 14, 1 << 14))",
        expected="alloc-failure",
        exit_code=1,
        torch=False,
        quick=True,
    ),
    Planted(
        name="openblas-leaves-without-a-word",
        code=LIMITED.format(more="40 << 20") + "import numpy",
        expected="alloc-failure",
        exit_code=1,
        torch=False,
    ),
    Planted(
        name="oom-kill",
        code="ready()\nwait_for_go()\nkeep = bytearray(256 << 20)",
        expected="oom-kill",
        exit_code=137,
        certain=True,
        act="join group",
        needs="group",
    ),
    Planted(
        name="oom-kill-of-a-shells-child",
        code="ready()\nwait_for_go()\nkeep = bytearray(256 << 20)",
        expected="oom-kill",
        exit_code=137,
        certain=True,
        shell=True,
        act="tree joins group",
        needs="group",
    ),
    Planted(
        name="our-memory-limit",
        code="""
            keep = []
            while True:
                keep.append(bytearray(8 << 20))
                time.sleep(0.02)
        """,
        expected="memory-limit",
        exit_code=143,
        certain=True,
        options=("--memory-limit", "700M"),
    ),
    # --- ended from outside ------------------------------------------------------------------------
    _signal("kill-9", signal.SIGKILL, quick=True),
    _signal("kill-9-torch", signal.SIGKILL),
    _signal("terminated", signal.SIGTERM),
    _signal("terminal-closed", signal.SIGHUP),
    _signal("interrupted", signal.SIGINT),
    Planted(
        name="processor-time-used-up",
        code="""
            import resource
            resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 2, 60))
            while True:
                pass
        """,
        expected="cpu-limit",
        exit_code=152,
        certain=None,
    ),
    Planted(
        name="file-too-large",
        code="""
            import resource
            signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
            torch.save(torch.zeros(1 << 20), "model.pt")
        """,
        expected="killed",
        exit_code=153,
        certain=True,
    ),
    Planted(
        name="broken-pipe",
        code="""
            signal.signal(signal.SIGPIPE, signal.SIG_DFL)
            reader, writer = os.pipe()
            os.close(reader)
            os.write(writer, b"x")
        """,
        expected="killed",
        exit_code=141,
        certain=True,
        torch=False,
        quick=True,
    ),
    Planted(
        name="dataloader-worker-killed",
        code=WORKERS.format(row="(ready('worker'), time.sleep(60)) if i == 20 else None"),
        expected="killed",
        exit_code=1,
        act="kill worker",
    ),
    # --- hangs -------------------------------------------------------------------------------------
    _hang("hang-with-the-interpreter-lock", "ctypes.PyDLL(None).sleep(60)"),
    _hang("deadlock", "lock = threading.Lock()\nlock.acquire()\nlock.acquire()"),
    _hang("fork-after-openmp", FORKED),
    _hang("stopped-by-somebody", "ready()\ntime.sleep(60)", send=signal.SIGSTOP),
    # --- ends of its own ---------------------------------------------------------------------------
    Planted(
        name="left-with-os-exit",
        code="os._exit(0)",
        expected="vanished",
        exit_code=0,
        torch=False,
        quick=True,
    ),
    Planted(
        name="a-library-calls-exit",
        code="ctypes.CDLL(None).exit(0)",
        expected="vanished",
        exit_code=0,
    ),
    Planted(
        name="its-own-exit-code",
        code="sys.exit(3)",
        expected="unknown",
        exit_code=3,
        torch=False,
        quick=True,
    ),
    Planted(
        name="python-error",
        code="{}['rows']",
        expected="python-error",
        exit_code=1,
        certain=True,
        torch=False,
        quick=True,
    ),
    Planted(
        name="loss-is-nan",
        code='loss = loss * float("nan")\nif loss != loss: raise ValueError(f"loss is {loss} at step 12")',
        expected="non-finite",
        exit_code=1,
    ),
    Planted(
        name="an-old-error-that-was-handled",
        code=HANDLED,
        expected="unknown",
        exit_code=1,
    ),
)
