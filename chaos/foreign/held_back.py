"""Scripts that were run once only after the rules had been mended for the others."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.under_guard import ENGINE, HEAD

HELD_BACK: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a library of LD_PRELOAD crashes before Python begins",
        right=("segfault",),
        exit_codes=(139,),
        native="""
            __attribute__((constructor)) static void early(void) { *(volatile int *)0 = 1; }
        """,
        shell="LD_PRELOAD={here}/engine.so exec {python} train.py",
        code="pass",
    ),
    Foreign(
        name="a library uses Python without the interpreter's lock",
        right=("abort", "segfault"),
        exit_codes=(134, 139),
        says="GIL|thread state|invalid memory address",
        never="wrote no reason",
        code=HEAD + "ctypes.CDLL(None).PyErr_SetNone(None)",
    ),
    Foreign(
        name="a worker thread died of an error, and its reader waits for ever",
        right=("hang",),
        exit_codes=(137, 143),
        says="train.py",
        options=("--hang-timeout", "3"),
        code=HEAD + "import queue\nrows = queue.Queue()\n"
        "def work(): rows.put(1 // 0)\n"
        "threading.Thread(target=work).start()\nrows.get()",
    ),
    Foreign(
        name="the user may start no more threads (ulimit -u)",
        right=("python-error", "alloc-failure"),
        certain=True,
        exit_codes=(1,),
        says="can't start new thread",
        mounts=True,
        code=HEAD + "import resource\nresource.setrlimit(resource.RLIMIT_NPROC, (1, 1))\n"
        "os.setuid(65534)\nthreading.Thread(target=print).start()\n"
        "threading.Thread(target=print).start()",
    ),
    Foreign(
        name="several errors at once (an exception group)",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="two shards|ValueError",
        code="raise ExceptionGroup('two shards failed', [ValueError('shard 3'), OSError('shard 4')])",
    ),
    Foreign(
        name="it opens a named pipe that nobody writes",
        right=("hang",),
        exit_codes=(137, 143),
        says="train.py",
        options=("--hang-timeout", "3"),
        code=HEAD + "os.mkfifo('rows')\nopen('rows')",
    ),
    Foreign(
        name="a script that does not exist",
        right=("unknown", "python-error"),
        exit_codes=(2,),
        says="can't open file",
        never="without an error message",
        shell="exec {python} train_v2.py",
    ),
    Foreign(
        name="a library traps itself on purpose (__builtin_trap)",
        right=("illegal-instruction", "abort"),
        exit_codes=(132,),
        never="that this processor does not have",
        native="void step(void) { __builtin_trap(); }",
        code=ENGINE + "engine.step()",
    ),
)
