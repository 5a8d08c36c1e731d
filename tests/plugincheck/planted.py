"""Plugins that are right but for one fault, which their option `fault` names."""

from __future__ import annotations

MINER = """
import os, threading
from dataclasses import dataclass
from pathlib import Path
{at_import}
from ttf import (Availability, ConfigError, MinerCost, MinerTraits, float32_blocks, hookimpl, option,
                 require_memory)

@dataclass(frozen=True, kw_only=True)
class Options:
    fault: str = option("none", "what it does wrong")
    nothing: int = option(1, {help!r})

class Planted:
    def __init__(self, options, context):
        self.fault, self.context, self.rows, self.calls = options.fault, context, None, 0

    def build(self, source, workdir):
        import numpy as np
        rows, dim = source.shape
        if self.fault != "greedy":
            require_memory(rows * dim * 4, self.context.budget_bytes, "The planted index")
        self.rows = np.empty((rows, dim), np.float32)
        if self.fault == "careless":
            self.rows[:] = source.read(0, rows)
        else:
            for start, block in float32_blocks(source, 4096):
                self.rows[start : start + len(block)] = block
        if self.fault == "random":
            self.rows = self.rows + np.random.default_rng().normal(0, 0.05, self.rows.shape).astype("f")

    def search(self, queries, k):
        import numpy as np
        if self.rows is None and self.fault == "zombie":
            return np.zeros((len(queries), 1), np.int64), np.zeros((len(queries), 1), np.float32)
        if self.rows is None:
            raise ConfigError("it is closed")
        if self.fault == "two threads":
            other = threading.Thread(target=self.scan, args=(queries, k))
            other.start()
            found = self.scan(queries, k)
            other.join()
            return found
        if self.fault == "abort" and len(queries) == 3:
            os.abort()
        return self.scan(queries, k)

    def scan(self, queries, k):
        import numpy as np
        k = k if self.fault == "long k" else min(k, len(self.rows))
        if self.fault == "hungry":
            scores = queries.astype(np.float64) @ self.rows.T.astype(np.float64)
        ids = np.empty((len(queries), min(k, len(self.rows))), np.int64)
        best = np.empty(ids.shape, np.float32)
        for start in range(0, len(queries), 128):
            score = queries[start : start + 128] @ self.rows.T
            order = np.argsort(-score, axis=1, kind="stable")[:, :k]
            ids[start : start + 128] = order
            best[start : start + 128] = np.take_along_axis(score, order, axis=1)
        if self.fault == "half found" and ids.shape[1] > 10:
            ids[:, ::2] = ids[:, 1::2][:, : ids[:, ::2].shape[1]]
        if self.fault == "int32":
            ids = ids.astype(np.int32)
        if self.fault == "worst first":
            ids, best = ids[:, ::-1].copy(), best[:, ::-1].copy()
        if self.fault == "distances":
            best = 1 - best
        if self.fault == "paddings" and k > 500:
            ids[:, -1] = -1
        return ids, best

    def save(self, path):
        import numpy as np
        rows = self.rows[:-1] if self.fault == "forgets" else self.rows
        if self.fault == "elsewhere":
            path = path.parent / "mine"
            path.mkdir(exist_ok=True)
        np.save(path / "rows.npy", rows)

    def load(self, path, source):
        import numpy as np
        self.rows = np.load(path / "rows.npy")

    def close(self):
        self.rows = None

class Factory:
    name, options_type = "planted", Options

    def availability(self):
        {asked}
        return Availability(ok=True)

    def traits(self, options, context):
        return MinerTraits(exact=options.fault != "half found", deterministic=True, has_index=True)

    def estimate(self, rows, dim, queries, k, options, context):
        cost = 1e-9 * rows * dim * queries if options.fault != "free" else 0.0
        return MinerCost(build_s=0.0, search_s=cost, anon_bytes=rows * dim * 4, disk_bytes=rows * dim * 4)

    def create(self, options, context):
        return Planted(options, context)

@hookimpl
def ttf_miner(name):
    return Factory()
"""


def miner(*, at_import: str = "", asked: str = "pass", help: str = "nothing") -> str:
    return MINER.format(at_import=at_import, asked=asked, help=help)
