"""Scripts that know nothing of ttf, under `ttf guard`."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign

HEAD: Final = "import ctypes, os, signal, sys, threading, time\n"
ENGINE: Final = HEAD + 'engine = ctypes.CDLL(os.path.abspath("engine.so"))\n'
HELD: Final = HEAD + 'engine = ctypes.PyDLL(os.path.abspath("engine.so"))\n'
"""Its functions keep the interpreter's lock."""

UNDER_GUARD: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a buffer on the stack overflows (compiler's canary)",
        right=("heap-corruption", "abort"),
        exit_codes=(134,),
        says="stack smashing",
        never="allocator found",
        native="""
            #include <string.h>
            int step(const char *name) { char small[8]; strcpy(small, name); return small[2]; }
        """,
        flags=("-fstack-protector-all", "-U_FORTIFY_SOURCE"),
        code=ENGINE + "engine.step(b'x' * 200)",
    ),
    Foreign(
        name="zeros written behind the last block of the heap",
        right=("heap-corruption",),
        exit_codes=(134,),
        says="malloc",
        native="""
            #include <stdlib.h>
            #include <string.h>
            void step(void) {
                char *rows = malloc(100000);
                memset(rows, 0, 100000 + 64);
                for (int i = 0; i < 100; i++) malloc(100000);
            }
        """,
        flags=("-O0", "-U_FORTIFY_SOURCE"),
        code=ENGINE + "engine.step()",
    ),
    Foreign(
        name="a C++ exception leaves a std::thread",
        right=("cxx-exception",),
        exit_codes=(134,),
        says="shard 7 has no rows",
        native="""
            #include <stdexcept>
            #include <thread>
            extern "C" void step() {
                std::thread worker([] { throw std::out_of_range("shard 7 has no rows"); });
                worker.join();
            }
        """,
        code=ENGINE + "engine.step()",
    ),
    Foreign(
        name="AddressSanitizer finds a use after free",
        right=("heap-corruption", "segfault"),
        exit_codes=(1,),
        says="heap-use-after-free",
        never="without an error message",
        native="""
            #include <stdlib.h>
            int step(void) { int *rows = malloc(64); free(rows); return *(volatile int *)rows; }
        """,
        flags=("-fsanitize=address", "-g"),
        shell="LD_PRELOAD=$(gcc -print-file-name=libasan.so) ASAN_OPTIONS=detect_leaks=0 "
        "exec {python} train.py",
        code=ENGINE + "engine.step()",
    ),
    Foreign(
        name="a panic of Rust (panic=abort)",
        right=("abort",),
        exit_codes=(134,),
        says="panicked at",
        never="wrote no reason",
        native=r"""
            #include <stdio.h>
            #include <stdlib.h>
            void step(void) {
                fputs("thread '<unnamed>' panicked at src/tokenizer.rs:88:14:\n"
                      "index out of bounds: the len is 4 but the index is 9\n"
                      "note: run with `RUST_BACKTRACE=1` environment variable to display a "
                      "backtrace\n", stderr);
                abort();
            }
        """,
        code=ENGINE + "engine.step()",
    ),
    Foreign(
        name="a library lacks a function (bound when it is called)",
        right=("unknown", "python-error"),
        exit_codes=(127,),
        says="undefined symbol",
        never="without an error message",
        native="int of_a_newer_version(void); int step(void) { return of_a_newer_version(); }",
        flags=("-Wl,-z,lazy",),
        # ctypes itself asks for every function at once.
        code=HEAD + "libc = ctypes.CDLL(None)\nlibc.dlopen.restype = ctypes.c_void_p\n"
        "opened = libc.dlopen(os.path.abspath('engine.so').encode(), 1)\n"
        "libc.dlsym.restype = ctypes.c_void_p\n"
        "ctypes.CFUNCTYPE(ctypes.c_int)(libc.dlsym(ctypes.c_void_p(opened), b'step'))()",
    ),
    Foreign(
        name="PYTHONHOME of another installation",
        right=("unknown", "python-error"),
        exit_codes=(1,),
        says="init_fs_encoding|encodings",
        never="without an error message",
        shell="PYTHONHOME=/nowhere exec {python} train.py",
        code="pass",
    ),
    Foreign(
        name="Python's own check of its heap (PYTHONMALLOC=debug)",
        right=("heap-corruption",),
        exit_codes=(134,),
        says="pad byte|Debug memory block",
        shell="PYTHONMALLOC=debug exec {python} train.py",
        code=HEAD
        + "api = ctypes.pythonapi\napi.PyMem_Malloc.restype = ctypes.c_void_p\n"
        + "block = api.PyMem_Malloc(16)\nctypes.memset(block, 1, 20)\n"
        + "api.PyMem_Free(ctypes.c_void_p(block))",
    ),
    Foreign(
        name="a script that was saved half",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="SyntaxError",
        code="import os\nfor step in range(10:\n    print(step)\n",
    ),
    Foreign(
        name="nobody reads standard output any more",
        right=("killed", "unknown", "python-error"),
        exit_codes=(120,),
        says="[Bb]roken ?[Pp]ipe",
        shell="unset PYTHONUNBUFFERED; {python} train.py | head -n 1 > first.txt; exit ${{PIPESTATUS[0]}}",
        code=HEAD + "print('step 0', flush=True)\n"
        "while not os.path.getsize('first.txt'): time.sleep(0.01)\n"
        "time.sleep(0.5)\nprint('step 1')",
    ),
    Foreign(
        name="the program `timeout` ends it",
        right=("killed",),
        exit_codes=(124,),
        says="timeout",
        never="without an error message",
        shell="exec timeout 2 {python} train.py",
        code=HEAD + "time.sleep(60)",
    ),
    Foreign(
        name="a disk with free space and no inode",
        right=("disk-full",),
        certain=True,
        exit_codes=(1,),
        says="inode",
        never="finds free space",
        shell="mkdir {here}/disk && mount -t tmpfs -o size=8m,nr_inodes=20 tmpfs {here}/disk && "
        "exec {python} train.py",
        mounts=True,
        code=HEAD + "kept = [open('disk/log', 'w')]\ntime.sleep(1.5)\n"
        "for step in range(100):\n    open(f'disk/{step}', 'w').write('x')",
    ),
    Foreign(
        name="it waits in the kernel for a child (vfork), deaf to signals",
        right=("hang",),
        exit_codes=(137, 143),
        native="""
            #include <unistd.h>
            void step(void) { if (vfork() == 0) { sleep(600); _exit(0); } }
        """,
        options=("--hang-timeout", "3"),
        code=ENGINE + "engine.step()",
    ),
    Foreign(
        name="torch was not built for this GPU",
        right=("python-error",),
        certain=True,
        exit_codes=(1,),
        says="no kernel image",
        never="A new process often can",
        code='raise RuntimeError("CUDA error: no kernel image is available for execution on the '
        'device\\nCUDA kernel errors might be asynchronously reported at some other API call")',
    ),
    Foreign(
        name="another rank is stuck, and NCCL's watchdog ends this one",
        right=("hang",),
        exit_codes=(134,),
        says="Watchdog caught|collective",
        native=r"""
            #include <cstdio>
            #include <stdexcept>
            #include <thread>
            extern "C" void step() {
                fputs("[rank0]:[E1119 08:12:01.310 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog "
                      "caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, "
                      "NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600029 milliseconds "
                      "before timing out.\n", stderr);
                std::thread watchdog([] { throw std::runtime_error(
                    "[PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread "
                    "terminated with exception: [Rank 0] Watchdog caught collective operation "
                    "timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE)"); });
                watchdog.join();
            }
        """,
        code=ENGINE + "engine.step()",
    ),
)
