"""What the plugins of tests share: a table of real faults, and an exact miner to act in.

`SOURCE` is a module that lies beside a plugin's own, in the folder that is on its path. A plugin
says when something is done: `saboteur` at a place and step of a run, `sabotaged_miner` and
`faulty_plugins` as a test tells their miner, `planted_training` by the seed of a run.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

NAME: Final = "native_faults"
SOURCE: Final = '''
"""Faults are real: native calls, signals, pages that are gone."""
import ctypes, faulthandler, mmap, os, signal, sys, tempfile, time
from ttf.contracts import Availability, MinerCost, MinerTraits


def touch_cut_file():
    with tempfile.TemporaryFile() as file:
        file.truncate(1 << 16)
        pages = mmap.mmap(file.fileno(), 1 << 16)
        file.truncate(0)
        pages[1 << 15]


def run_no_instruction():
    pages = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    pages.write({"x86_64": bytes([0x0F, 0x0B])}.get(os.uname().machine, bytes(4)))
    ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(pages)))()


def sleep_in_c():
    """Holds the interpreter's lock; a signal ends it."""
    ctypes.PyDLL(None).sleep(600)


def hold():
    """The same, whatever signals come."""
    while True:
        sleep_in_c()


def fail():
    raise RuntimeError("what a plugin says")


ACTS = {
    "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
    "segv": lambda: ctypes.string_at(0),
    "abrt": os.abort,
    "bus": touch_cut_file,
    "ill": run_no_instruction,
    "fpe": lambda: faulthandler._sigfpe(),
    "exit": lambda: os._exit(0),
    "leave": lambda: sys.exit(0),
    "raise": fail,
    "stop": lambda: os.kill(os.getpid(), signal.SIGSTOP),
    "hang": lambda: time.sleep(600),
    "hold": hold,
}


class ExactMiner:
    """`before` is called with what it is asked for."""

    def __init__(self, options):
        self.options = options
        self.before("create")

    def before(self, what):
        pass

    def build(self, source, workdir):
        self.source = source
        self.before("build")

    def search(self, queries, k):
        import numpy as np

        self.before("search")
        rows = np.asarray(self.source.read(0, self.source.shape[0]), np.float32)
        scores = np.asarray(queries @ rows.T, np.float32)
        ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return ids, np.take_along_axis(scores, ids, axis=1)

    def save(self, path):
        path.joinpath("index").touch()

    def load(self, path, source):
        self.source = source

    def close(self):
        pass


class MinerFactory:
    """`name`, `options_type` and `miner` are the plugin's."""

    exact = True

    def availability(self):
        return Availability(ok=True)

    def traits(self, options, context):
        return MinerTraits(exact=self.exact, deterministic=True, has_index=False)

    def estimate(self, rows, dim, queries, k, options, context):
        return MinerCost(build_s=0, search_s=0, anon_bytes=0, disk_bytes=0)

    def create(self, options, context):
        return self.miner(options)
'''


def write_into(site: Path) -> None:
    (site / f"{NAME}.py").write_text(SOURCE)
