"""What happens to the trainer or the miner's process of `ttf train`, through plugins of strangers."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign

HEAD: Final = "import signal, sys, threading\n"
ENGINE: Final = HEAD + "engine = ctypes.CDLL('{here}/engine.so')\n"
FORWARD: Final = (
    HEAD
    + """\
import torch
def fail(*_):
    {does}
torch.nn.modules.module.register_module_forward_pre_hook(fail)
"""
)
CHECK: Final = r"""
    #include <stdio.h>
    #include <stdlib.h>
    int omp_get_max_threads(void) {
        fputs("F1119 08:12:01.310000 77 index.cc:212] Check failed: rows_ > 0 (0 vs. 0) "
              "the index is empty\n*** Check failure stack trace: ***\n", stderr);
        abort();
    }
"""

UNDER_TRAIN: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a failed check of glog in the miner's library",
        under="miner",
        right=("abort",),
        says="Check failed: rows_ > 0",
        never="wrote no reason",
        native=CHECK,
    ),
    Foreign(
        name="a thread of a library crashes, one that Python does not know",
        under="train",
        right=("segfault",),
        exit_codes=(0,),
        never="Python was at",
        native="""
            #include <pthread.h>
            #include <unistd.h>
            static void *work(void *nothing) { *(volatile int *)nothing = 1; return 0; }
            void step(void) { pthread_t t; pthread_create(&t, 0, work, 0); sleep(60); }
        """,
        code=ENGINE + "engine.step()",
    ),
    Foreign(
        name="a plugin turns the process into another program (exec)",
        under="train",
        right=("vanished",),
        exit_codes=(0,),
        code="os.execv('/bin/true', ['true'])",
    ),
    Foreign(
        name="no more open files",
        under="train",
        right=("python-error",),
        certain=True,
        says="Too many open files",
        never="disk is full|ttf finds free space",
        settings={"checkpoint.retry_s": 2},
        code="import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))",
    ),
    Foreign(
        name="a limit of file size, where Python ignores the signal",
        under="train",
        right=("killed", "disk-full", "python-error"),
        certain=True,
        exit_codes=(8,),
        says="File too large",
        never="disk is full|ttf finds free space",
        settings={"checkpoint.retry_s": 2},
        code="import resource\nresource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))",
    ),
    Foreign(
        name="a library ends the process with its last words (sys.exit)",
        under="train",
        right=("unknown", "python-error"),
        certain=True,  # the trainer reports the exception itself
        says="license of the encoder",
        never="without an error message",
        code=FORWARD.replace("{does}", "sys.exit('the license of the encoder has expired')"),
    ),
    Foreign(
        name="a lock of a library and the interpreter's lock, taken in two orders",
        under="train",
        right=("hang",),
        exit_codes=(0,),
        native="""
            #include <pthread.h>
            static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
            void take(void) { pthread_mutex_lock(&lock); }
            void leave(void) { pthread_mutex_unlock(&lock); }
        """,
        settings={"supervise.hang_timeout_s": 4},
        code=ENGINE
        + "held = ctypes.PyDLL('{here}/engine.so')\n"
        + "def other():\n    engine.take()\n    taken.set()\n    sum(range(10**8))\n    engine.leave()\n"
        + "taken = threading.Event()\n"
        + "threading.Thread(target=other, daemon=True).start()\ntaken.wait()\nheld.take()",
    ),
    Foreign(
        name="a plugin kills its whole process group",
        under="train",
        right=("killed",),
        certain=True,
        exit_codes=(0,),
        code="import signal\nos.killpg(0, signal.SIGKILL)",
    ),
    Foreign(
        name="a batch system announces the end (SIGUSR1, nobody handles it)",
        under="train",
        right=("killed",),
        certain=True,
        exit_codes=(0,),
        says="SIGUSR1",
        code="import signal\nsignal.signal(signal.SIGUSR1, signal.SIG_DFL)\n"
        "os.kill(os.getpid(), signal.SIGUSR1)",
    ),
    Foreign(
        name="a library crashes while the finished process takes leave",
        under="train",
        right=("", "segfault"),
        exit_codes=(0,),
        native="""
            #include <stdlib.h>
            static void late(void) { *(volatile int *)0 = 1; }
            void step(void) { atexit(late); }
        """,
        code=ENGINE + "engine.step()",
    ),
)
