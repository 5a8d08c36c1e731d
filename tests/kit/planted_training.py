"""Plugins with one real fault in them, planted where the environment says, and a study around them.

PLANTED holds {"fault": name, "p": rate, "act": how it dies}. The fault shows under its condition
alone (more than four micro-batches a step, more than one thread, ...), in that share of the runs
which their seeds say: the same in every repetition of a test. {"acts": {seed: act}} says for each
seed how it dies; an act "once-..." spares the run that goes on after it.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.conftest import FakeDistribution
from tests.kit import native_faults

VARIABLE: Final = "PLANTED"
MARK: Final = "TTF_BISECT_TEST"
STEPS: Final = 3
FAULTS: Final = (
    "accumulation",
    "threads",
    "isolation",
    "batch-size",
    "mining",
    "memory-bank",
    "precision",
    "sequence-length",
    "miner",
    "tower",
    "storage",
    "data-subset",
)
"""Named as the ingredient that is to be found."""

MODULE: Final = '''
"""Faults are real: native calls and signals in the process they are met in."""
import hashlib, json, os, sys
from pathlib import Path

from native_faults import ACTS, ExactMiner, MinerFactory
from ttf import hookimpl
from ttf.host.options import NoOptions
from ttf_storage.npz_store import NpzStorage
from ttf_towers.linear import LinearFactory

PLANTED = json.loads(os.environ.get("PLANTED", "{}"))
ACTS |= {"oom": lambda: [bytearray(b"x" * (64 << 20)) for _ in range(1000)],
         "alloc": lambda: DUE.append("alloc")}


def seed_of_run():
    """From the command line of `ttf train`, which started us or the one who did."""
    pid = os.getpid()
    while pid > 1:
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\\0")
        if b"--seed" in words:
            return int(words[words.index(b"--seed") + 1])
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        pid = int(stat[stat.rindex(b")") + 2:].split()[1])
    return None


SEED = seed_of_run()
DUE = []


def perhaps(fault, condition=True):
    wanted = PLANTED.get("fault", [])
    if fault not in ([wanted] if isinstance(wanted, str) else wanted) or not condition or SEED is None:
        return
    if "acts" in PLANTED:
        act = PLANTED["acts"].get(str(SEED), "")
        again = RUN and any((Path(RUN[0]) / "incidents").iterdir())
        if act and not (act.startswith("once-") and again):
            ACTS[act.removeprefix("once-")]()
        return
    digest = hashlib.sha256(f"run {SEED}".encode()).digest()
    if int.from_bytes(digest[:8], "big") < PLANTED.get("p", 1.0) * 2**64:
        ACTS[PLANTED.get("act", "segv")]()


class Tower(LinearFactory):
    name = "planted"

    def create(self, shape, options):
        import torch

        made = super().create(shape, options)
        seen = {"version": -1, "parts": 0}

        class Planted(type(made)):
            def forward(self, x, lengths=None):
                if DUE:  # not in an observer, whose errors end nothing
                    bytearray(1 << 60)
                out = super().forward(x, lengths)
                if x.dim() == 3 and torch.is_grad_enabled():
                    # The optimizer writes the weights in place: between two writes is a step.
                    version = next(self.parameters())._version
                    seen["parts"] = seen["parts"] + 1 if version == seen["version"] else 1
                    seen["version"] = version
                    perhaps("accumulation", seen["parts"] > 4)
                    perhaps("threads", torch.get_num_threads() > 1)
                    perhaps("batch-size", len(x) > 8)
                    perhaps("precision", torch.is_autocast_enabled("cpu"))
                    perhaps("sequence-length", x.shape[1] == 1)
                    perhaps("data-subset", bool((x[..., 0] > 4).any()))
                    perhaps("tower")
                return out

        made.__class__ = Planted
        return made


class Miner(ExactMiner):
    def before(self, what):
        if what == "search":
            perhaps("miner")
            perhaps("isolation", "ttf.training.trainer" in sys.modules)


class Factory(MinerFactory):
    name = "planted"
    options_type = NoOptions
    miner = Miner


class Storage(NpzStorage):
    name = "planted"

    def claims(self, uri):
        return False

    def open(self, uri):
        perhaps("storage")
        return super().open(uri)


@hookimpl
def ttf_tower(name):
    return Tower() if name == "planted" else None


@hookimpl
def ttf_miner(name):
    return Factory() if name == "planted" else None


@hookimpl
def ttf_storage(name):
    return Storage() if name == "planted" else None


CONFIG = {}
RUN = []


@hookimpl
def ttf_run_started(run_dir, config, resumed_from):
    CONFIG.update(config)
    RUN.append(run_dir)


@hookimpl
def ttf_step(record):
    if record.step == 2:
        perhaps("mining", CONFIG["miner"]["negatives"] > 0)
        perhaps("memory-bank", CONFIG["loss"]["memory_bank"] > 0)
'''

TOML: Final = """
observers = ["planted"]
[data]
pairs = "pairs.npz"
bank = "bank.npz"
storage = "planted"
[tower.query]
name = "planted"
[tower.doc]
name = "linear"
[miner]
name = "planted"
isolation = "none"
negatives = 2
k = 10
fallback = ["exact"]
[negatives]
min_yield = 0.0
[loss]
memory_bank = 64
[train]
batch_size = 16
accumulate = 6
fuse = 1
steps = 3
[device]
name = "cpu"
threads = 2
precision = "bf16"
"""
"""Every ingredient is in it."""


@dataclass(kw_only=True)
class Place:
    """Data, plugins and the configuration, and studies of it in processes of their own."""

    root: Path
    home: Path
    command: str = "bisect"
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    @property
    def toml(self) -> Path:
        return self.root / "run.toml"

    def environment(self, fault: Mapping[str, Any] | None) -> dict[str, str]:
        path = os.pathsep.join([str(self.root / "site"), os.environ.get("PYTHONPATH", "")])
        own = {"PYTHONPATH": path.rstrip(os.pathsep), "TTF_HOME": str(self.home), "NO_COLOR": "1"}
        own["OMP_WAIT_POLICY"] = (
            "passive"  # two threads that spin for a core are slow on a busy one
        )
        planted = {VARIABLE: json.dumps(fault)} if fault else {}
        return {**os.environ, **own, MARK: self.mark, **planted}

    def start(
        self, *argv: str | Path, fault: Mapping[str, Any] | None = None
    ) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-m", "ttf", self.command, *map(str, argv)],
            env=self.environment(fault),
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def study(
        self, *argv: str | Path, fault: Mapping[str, Any] | None = None
    ) -> tuple[int, dict[str, Any], str]:
        """Exit code, the document of --json, and what was said."""
        process = self.start(*argv, "--json", fault=fault)
        out, err = process.communicate(timeout=1500)
        return process.returncode, json.loads(out) if out.strip() else {}, err

    def living(self) -> list[str]:
        """Processes of the tests here that have not ended."""
        wanted, found = f"{MARK}={self.mark}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if wanted in (entry / "environ").read_bytes().split(b"\0"):
                        line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                        found.append(f"{entry.name} {line}")
                except OSError:
                    continue
        return found


def build(root: Path, home: Path, command: str = "bisect") -> Place:
    """A few kilobytes of data; every pair of the second half begins with a 5."""
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.standard_normal((620, 1, 8), np.float32).clip(-3, 3)
    x[300:600, 0, 0] = 5.0
    positives = rng.integers(0, 100, 620)
    np.savez(
        root / "pairs.npz",
        X_train=x[:600],
        X_val=x[600:],
        pos_train=positives[:600],
        pos_val=positives[600:],
    )
    np.savez(root / "bank.npz", vectors=rng.standard_normal((100, 8), np.float32))
    site = FakeDistribution(folder=root / "site")
    kinds = ("tower", "miner", "storage", "observer")
    site.add("planted", {f"{kind}.planted": "planted_plugin" for kind in kinds})
    site.module("planted_plugin", MODULE)
    native_faults.write_into(site.folder)
    (root / "run.toml").write_text(TOML)
    return Place(root=root, home=home, command=command)
