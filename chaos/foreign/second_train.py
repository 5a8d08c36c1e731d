"""The second round, in `ttf train`: in the trainer, or in the library of the miner's process."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.under_train import FORWARD

SERVER: Final = """\
import http.client, socket
server = socket.socket()
server.bind(("127.0.0.1", 0))
server.listen()
asked = http.client.HTTPConnection("127.0.0.1", server.getsockname()[1])
asked.request("POST", "/log", body=b"{}")
asked.getresponse()
"""

SECOND_TRAIN: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="the address space of the trainer is limited",
        under="train",
        right=("alloc-failure",),
        exit_codes=(0,),
        says="could not get the memory",
        code="import resource\nused = int(open('/proc/self/statm').read().split()[0]) * 4096\n"
        "limit = used + 100_000_000\n"
        "resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))\n"
        + FORWARD.replace("{does}", "torch.ones(500, 1_000_000)"),
    ),
    Foreign(
        name="an observer asks a server that never answers",
        under="train",
        right=("hang",),
        exit_codes=(0,),
        says="network",
        settings={"supervise.hang_timeout_s": 5},
        code=SERVER,
    ),
    Foreign(
        name="a thread of the miner's library frees a wrong pointer",
        under="miner",
        right=("heap-corruption",),
        says="heap",
        native="""
            #include <pthread.h>
            #include <stdlib.h>
            static void *clean(void *nothing) { free((char *)malloc(256) + 16); return nothing; }
            int omp_get_max_threads(void) {
                pthread_t thread;
                pthread_create(&thread, 0, clean, 0);
                pthread_join(thread, 0);
                return 1;
            }
        """,
    ),
    Foreign(
        name="the miner's own index is truncated while it is mapped",
        under="miner",
        right=("bus-error",),
        says="truncated",
        native="""
            #include <stdio.h>
            #include <sys/mman.h>
            #include <unistd.h>
            int omp_get_max_threads(void) {
                FILE *file = tmpfile();
                ftruncate(fileno(file), 1 << 20);
                char *rows = mmap(0, 1 << 20, PROT_READ, MAP_SHARED, fileno(file), 0);
                ftruncate(fileno(file), 4096);
                return rows[1 << 19];
            }
        """,
    ),
    Foreign(
        name="a linear solver of a tower is given NaN",
        under="train",
        right=("non-finite",),
        exit_codes=(4,),
        says="non-finite",
        code=FORWARD.replace("{does}", "torch.linalg.svd(torch.full((4, 4), float('nan')))"),
    ),
    Foreign(
        name="the reader of a client library's pipe is gone",
        under="train",
        right=("killed",),
        certain=True,
        exit_codes=(0,),
        says="SIGPIPE",
        code="import signal\nsignal.signal(signal.SIGPIPE, signal.SIG_DFL)\n"
        "reader, writer = os.pipe()\nos.close(reader)\nos.write(writer, b'step 12')",
    ),
    Foreign(
        name="a worker of a tower's pool is killed",
        under="train",
        right=("killed",),
        exit_codes=(0,),
        says="worker process",
        code=FORWARD.replace(
            "{does}",
            "import concurrent.futures, os\n"
            "    with concurrent.futures.ProcessPoolExecutor(1) as pool:\n"
            "        pid = pool.submit(os.getpid).result()\n"
            "        pool.submit(os.kill, pid, 9).result()",
        ),
    ),
    Foreign(
        name="the quit key for the trainer alone",
        under="train",
        right=("killed",),
        certain=True,
        exit_codes=(0,),
        says="SIGQUIT",
        code="import signal\nsignal.signal(signal.SIGQUIT, signal.SIG_DFL)\n"
        "os.kill(os.getpid(), signal.SIGQUIT)",
    ),
    Foreign(
        name="a tower asks for a GPU where torch has none",
        under="train",
        right=("python-error",),
        certain=True,
        says="CUDA",
        code=FORWARD.replace(
            "{does}", "raise AssertionError('Torch not compiled with CUDA enabled')"
        ),
    ),
    Foreign(
        name="a program that the miner started never ends",
        under="miner",
        right=("hang",),
        says="did not finish within",
        settings={"miner.deadline_s": 8},
        native="""
            #include <stdlib.h>
            int omp_get_max_threads(void) { return system("sleep 600"); }
        """,
    ),
)
