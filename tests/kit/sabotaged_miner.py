"""A miner that does what its options say, at the moment they say; and jobs for it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from ttf.contracts import Progress
from ttf.incidents.death import Death
from ttf.mining.job import Isolation, MinerChoice, MiningJob, MiningReport
from ttf.mining.worker_client import MinerWorkers

MODULE = '''
"""Faults are real: signals, native calls, native memory, bytes on descriptors."""
import ctypes, os, signal, subprocess, sys, time
from dataclasses import dataclass
from pathlib import Path
import native_faults
from native_faults import ExactMiner, MinerFactory, sleep_in_c
from ttf import hookimpl, option


@dataclass(frozen=True, kw_only=True)
class Options:
    act: str = option("answer", "what to do")
    when: str = option("search", "create, build, or search")
    first: int = option(0, "the first time that it is done, counting from 0")
    times: int = option(99, "how often it is done")
    counter: str = option("", "file that counts; without it every time is the first")
    arg: str = option("", "for the act")


def instead_of_the_report(act):
    """`act` gets the bytes and the descriptor of this request's final message."""
    from ttf.process import messages

    real = messages.write

    def write(fd, message):
        if "answer" not in message:
            return real(fd, message)
        act(fd, message, real)

    messages.write = write


def cut_report(fd, message, real):
    from ttf.process import messages

    data = messages.encode(message)
    os.write(fd, data[: len(data) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def changed(**changes):
    def act(fd, message, real):
        real(fd, {**message, "answer": {**message["answer"], **changes}})

    return act


def scribble_on(name, how):
    def act(fd, message, real):
        path = Path(message["answer"]["ids_path"]).with_name(name)
        how(path)
        real(fd, message)

    return act


def overwrite(path):
    with path.open("r+b") as file:
        file.seek(-8, 2)
        file.write(bytes(8))


def believed_by_the_worker(**lies):
    """Answers that only the trainer can refuse: the worker itself does not check any more."""
    import numpy as np
    from ttf.mining import worker_main

    def search(miner, queries, k, rows, *, name, **_):
        ids = np.tile(np.arange(k), (len(queries), 1))
        scores = np.ones(ids.shape, np.float32)
        if "id" in lies:
            ids[-1, -1] = lies["id"]
        if "score" in lies:
            scores[-1, -1] = lies["score"]
        return ids, scores

    worker_main.checked_search = search


def half_a_chunk():
    """Killed while the answers of a chunk are being written."""
    from ttf.mining import growing_arrays

    def fsync(*_):
        os.kill(os.getpid(), signal.SIGKILL)

    growing_arrays.fsync_file = fsync


ACTS = {
    **{name: lambda arg, act=act: act() for name, act in native_faults.ACTS.items()},
    "exit": lambda arg: os._exit(int(arg or 0)),
    "hang-in-c": lambda arg: sleep_in_c(),
    "flood": lambda arg: [os.write(2, b"x" * 999 + b"\\n") for _ in range(int(arg))],
    "flood-and-segv": lambda arg: (ACTS["flood"](arg), ctypes.string_at(0)),
    "talk-and-segv": lambda arg: (print(arg, file=sys.stderr, flush=True), ctypes.string_at(0)),
    "scribble": lambda arg: [os.write(fd, b"no frame, but long enough to look like one")
                             for fd in own_files() if is_pipe_end(fd)],
    "close-pipes": lambda arg: ([os.close(fd) for fd in own_files()], time.sleep(600)),
    "cut-report": lambda arg: instead_of_the_report(cut_report),
    "report": lambda arg: instead_of_the_report(changed(**eval(arg))),
    "message": lambda arg: instead_of_the_report(
        lambda fd, message, real: real(fd, {"number": message["number"], **eval(arg)})),
    "unasked": lambda arg: instead_of_the_report(
        lambda fd, message, real: real(fd, {**message, "number": message["number"] + 1})),
    "no-object": lambda arg: instead_of_the_report(lambda fd, message, real: raw(fd, arg.encode())),
    "overwrite": lambda arg: instead_of_the_report(scribble_on(arg, overwrite)),
    "truncate": lambda arg: instead_of_the_report(
        scribble_on(arg, lambda path: os.truncate(path, path.stat().st_size - 4))),
    "remove": lambda arg: instead_of_the_report(scribble_on(arg, Path.unlink)),
    "lie": lambda arg: believed_by_the_worker(**eval(arg)),
    "half-a-chunk": lambda arg: half_a_chunk(),
    "wait-for": lambda arg: [time.sleep(0.01) for _ in iter(Path(arg).exists, True)],
    "fork": lambda arg: os.fork() or time.sleep(600),
    "children": lambda arg: children(arg),
    "children-then-hang-in-c": lambda arg: (children(arg), sleep_in_c()),
    "truncate-bank": lambda arg: os.truncate(arg, 4096),
    "allocate": lambda arg: [b"x" * (1 << 20) for _ in range(int(arg))],
    "dlopen": lambda arg: [ctypes.CDLL(path).omp_get_max_threads() for path in arg.split(":")],
    "touch": lambda arg: Path(arg).touch(),
}


def own_files():
    """Beyond the standard ones; their numbers are those the process that started us had."""
    return [fd for fd in map(int, os.listdir("/proc/self/fd")) if fd > 2 and is_open(fd)]


def is_open(fd):
    """Not the folder's own, which was read for the list."""
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def is_pipe_end(fd):
    """Of a pipe that can be written to: not the life line."""
    import fcntl, stat

    return stat.S_ISFIFO(os.fstat(fd).st_mode) and fcntl.fcntl(fd, fcntl.F_GETFL) & os.O_WRONLY


def raw(fd, payload):
    import struct, zlib

    os.write(fd, struct.pack("<II", len(payload), zlib.crc32(payload)) + payload)


def children(arg):
    """One in our session, one in its own; `arg` appears when both run."""
    for own in (False, True):
        subprocess.Popen(["sleep", "600"], start_new_session=own)
    Path(arg).touch()


class Saboteur(ExactMiner):
    def before(self, what):
        if what == self.options.when and self._is_time():
            ACTS[self.options.act](self.options.arg)

    def _is_time(self):
        if self.options.act == "answer":
            return False
        seen = 0
        if self.options.counter:
            path = Path(self.options.counter)
            seen = int(path.read_text()) if path.exists() else 0
            path.write_text(str(seen + 1))
        return self.options.first <= seen < self.options.first + self.options.times


class Factory(MinerFactory):
    name = "saboteur"
    options_type = Options
    miner = Saboteur
    exact = False


@hookimpl
def ttf_miner(name):
    return Factory() if name == "saboteur" else None
'''

BANK = np.random.default_rng(0).standard_normal((200, 8)).astype(np.float32)
QUERIES = BANK[:30]
TRUTH = np.argsort(-(QUERIES @ BANK.T), axis=1, kind="stable")[:, :5]
PRELUDE = """
import sys, json
from ttf.mining.job import MinerChoice, MiningJob
from ttf.mining.worker_client import MinerWorkers
from ttf.rundir.typed_json import dataclass_from
job = dataclass_from(MiningJob, json.loads(sys.argv[1]))
"""
"""Of a script that mines in a process of its own, given a job."""


@dataclass
class Deaths:
    """What `on_death` was told."""

    all: list[Death] = field(default_factory=list)
    remedies: list[str] = field(default_factory=list)

    def __call__(self, death: Death, remedy: str) -> None:
        self.all.append(death)
        self.remedies.append(remedy)

    @property
    def signals(self) -> list[int | None]:
        return [death.signal for death in self.all]


def sabotaged(job: MiningJob, act: str, **options: Any) -> MiningJob:
    return job.with_miner(MinerChoice(name="saboteur", options={"act": act, **options}))


def nothing(done: int, total: int) -> None:
    """Progress that nobody looks at."""


def run(
    job: MiningJob,
    isolation: Isolation = "process",
    deadline_s: float = 60,
    progress: Progress = nothing,
    **given: Any,
) -> MiningReport:
    """One attempt, in a process that ends with it."""
    with MinerWorkers(isolation=isolation, **{"say": print, **given}) as workers:
        return workers.run(job, deadline_s, progress)


def mine(
    job: MiningJob,
    fallback: Sequence[str] = (),
    say: Callable[[str], None] = print,
    deadline_s: float = 60,
    **given: Any,
) -> MiningReport:
    """With retries and those that take over."""
    with MinerWorkers(say=say, **{"isolation": "process", **given}) as workers:
        return ask(workers, job, fallback, deadline_s)


def ask(
    workers: MinerWorkers, job: MiningJob, fallback: Sequence[str] = (), deadline_s: float = 60
) -> MiningReport:
    return workers.mine(
        job,
        [MinerChoice(name=name) for name in fallback],
        deadline_s=lambda _: deadline_s,
        progress=nothing,
    )


def is_right(report: MiningReport) -> bool:
    return bool((np.load(report.ids_path) == TRUTH).all())


def family() -> list[psutil.Process]:
    """Living processes that can import this test's plugins, ourselves excepted: workers, and all
    that they started."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            path = process.environ().get("PYTHONPATH", "").split(os.pathsep)
            if (
                os.environ["PYTHONPATH"] in path
                and process.pid != os.getpid()
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
    return found


def write_inputs(folder: Path) -> None:
    np.savez(folder / "bank.npz", vectors=BANK)
    np.save(folder / "queries.npy", QUERIES)
