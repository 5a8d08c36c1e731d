"""The second round, under `ttf guard`: processes that wait for ever, and several ranks."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.second_guard import STEPS

HANGS: Final = ("--hang-timeout", "4")
FREE_PORT: Final = """\
import socket
with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    port = free.getsockname()[1]
"""
RANKS: Final = """\
import os, signal, sys, time
from datetime import timedelta
import torch, torch.distributed as dist, torch.multiprocessing as mp
def rank(number, port):
    at = f"tcp://127.0.0.1:{port}"
    dist.init_process_group("gloo", at, timedelta(seconds=60), 2, number)
    for step in range(100):
        if number == 1 and step == 5:
            os.kill(os.getpid(), signal.SIGKILL)
        dist.all_reduce(torch.ones(8))
if __name__ == "__main__":
"""

SECOND_WAITING: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a helper fills a pipe that nobody reads",
        right=("hang",),
        exit_codes=(137, 143),
        says="train.py",
        options=HANGS,
        code=STEPS + "import subprocess\nhelper = subprocess.Popen([sys.executable, '-c', "
        "\"print('token ' * 100_000)\"], stdout=subprocess.PIPE)\nhelper.wait()",
    ),
    Foreign(
        name="a worker is joined before its queue is read",
        right=("hang",),
        exit_codes=(137, 143),
        says="train.py|join",
        options=HANGS,
        code=STEPS + "import multiprocessing\ndef encode(queue): queue.put(bytes(8_000_000))\n"
        "if __name__ == '__main__':\n    queue = multiprocessing.Queue()\n"
        "    worker = multiprocessing.Process(target=encode, args=(queue,))\n"
        "    worker.start()\n    worker.join()",
    ),
    Foreign(
        name="a tracking server takes the connection and never answers",
        right=("hang",),
        exit_codes=(137, 143),
        says="network",
        options=HANGS,
        code=STEPS + "import http.client, socket\nserver = socket.socket()\n"
        "server.bind(('127.0.0.1', 0))\nserver.listen()\n"
        "asked = http.client.HTTPConnection('127.0.0.1', server.getsockname()[1])\n"
        "asked.request('POST', '/runs', body=b'{}')\nasked.getresponse()",
    ),
    Foreign(
        name="a pool waits for the task of a worker that was killed",
        right=("hang", "killed"),
        exit_codes=(137, 143),
        says="train.py|waiting",
        options=HANGS,
        code=STEPS + "import multiprocessing\ndef encode(number):\n"
        "    if number == 3: os.kill(os.getpid(), signal.SIGKILL)\n    return number\n"
        "if __name__ == '__main__':\n    with multiprocessing.Pool(2) as pool:\n"
        "        pool.map(encode, range(8), chunksize=1)",
    ),
    Foreign(
        name="one of two ranks is killed",
        right=("killed", "peer-lost"),
        says="SIGKILL|[Cc]onnection",
        code=FREE_PORT + RANKS + "    ranks = mp.spawn(rank, (port,), 2, join=False)\n"
        "    while not ranks.join(): pass",
    ),
    Foreign(
        name="the port of the ranks is in use",
        right=("rendezvous-failed", "python-error"),
        exit_codes=(1,),
        says="EADDRINUSE",
        code="import socket, torch.distributed as dist\nother = socket.socket(socket.AF_INET6)\n"
        "other.bind(('::', 0))\nother.listen()\ndist.init_process_group('gloo', "
        "init_method=f'tcp://127.0.0.1:{other.getsockname()[1]}', rank=0, world_size=2)",
    ),
    Foreign(
        name="the other rank never starts",
        right=("rendezvous-failed",),
        exit_codes=(1,),
        says="1/2 clients joined",
        code=FREE_PORT + "from datetime import timedelta\nimport torch.distributed as dist\n"
        "dist.init_process_group('gloo', f'tcp://127.0.0.1:{port}', timedelta(seconds=3), 2, 0)",
    ),
)
