"""Plugins that are right but for one fault, which their option `fault` names."""

from __future__ import annotations

MINER = """
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
{at_import}
from ttf import (Availability, ConfigError, MinerCost, MinerTraits, StorageError, float32_blocks,
                 hookimpl, option, require_memory)

@dataclass(frozen={frozen}, kw_only={frozen})
class Options:
    fault: str = option("none", "what it does wrong")
    nothing: {type} = option(1, {help!r})

class Planted:
    def __init__(self, options, context):
        self.fault, self.context, self.rows, self.calls = options.fault, context, None, 0
        self.pool = ThreadPoolExecutor(1)

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
            other = self.pool.submit(self.scan, queries, k)
            found = self.scan(queries, k)
            other.result()
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
            nearest = np.argpartition(-score, k - 1, axis=1)[:, :k]
            nearest.sort(axis=1)
            among = np.take_along_axis(-score, nearest, axis=1).argsort(axis=1, kind="stable")
            order = np.take_along_axis(nearest, among, axis=1)
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
        rows = self.rows[: len(self.rows) // 2] if self.fault == "forgets" else self.rows
        if self.fault == "elsewhere":
            path = path.parent / "mine"
            path.mkdir(exist_ok=True)
        try:
            np.save(path / "rows.npy", rows)
        except OSError as error:
            if self.fault == "swallows":
                return
            raise error if self.fault == "bare" else StorageError(str(error))

    def load(self, path, source):
        import numpy as np
        self.rows = np.load(path / "rows.npy")

    def close(self):
        self.rows = None
        self.pool.shutdown()

class Factory:
    name, options_type = "planted", Options

    def availability(self):
        {asked}
        return Availability(ok=True)

    def traits(self, options, context):
        return MinerTraits(exact=options.fault != "half found", deterministic=True, has_index=True)

    def estimate(self, rows, dim, queries, k, options, context):
        cost = 1e-9 * rows * dim * queries if options.fault != "free" else 0.0
        size = 1000 if options.fault == "cheap" else rows * dim * 4
        return MinerCost(build_s=0.0, search_s=cost, anon_bytes=size, disk_bytes=size)

    def create(self, options, context):
        return Planted(options, context)

@hookimpl
def ttf_miner(name):
    return Factory()
"""

TOWER = """
from dataclasses import dataclass
from ttf import Availability, TowerCost, hookimpl, option

@dataclass(frozen=True, kw_only=True)
class Options:
    fault: str = option("none", "what it does wrong")

class Factory:
    name, options_type = "planted", Options

    def availability(self):
        return Availability(ok=True)

    def estimate(self, shape, options):
        weights = shape.in_dim * shape.out_dim + (1 if options.fault == "miscounts" else 0)
        kept = 4 * shape.in_dim
        return TowerCost(parameters=weights, activation_bytes=100 * kept if options.fault == "boasts"
                         else kept, forward_flops=2 * weights)

    def create(self, shape, options):
        import torch
        from torch import nn

        class Planted(nn.Module):
            def __init__(self):
                super().__init__()
                self.in_dim, self.out_dim = shape.in_dim, shape.out_dim
                self.frozen, self.identity = options.fault == "lies", False
                self.map = nn.Linear(shape.in_dim, shape.out_dim, bias=False)
                if options.fault == "unseeded":
                    generator = torch.Generator()
                    generator.seed()
                    nn.init.normal_(self.map.weight, generator=generator)
                if options.fault == "asleep":
                    nn.init.zeros_(self.map.weight)

            def forward(self, x, lengths=None):
                fault = options.fault
                if x.dim() == 2:
                    x = x[:, None, :] if fault != "vectors" else x[:, None, :] * 2
                steps = torch.full((len(x),), x.shape[1]) if lengths is None else lengths
                pad = torch.arange(x.shape[1]) >= steps[:, None]
                if fault == "padding":
                    mean = x.mean(1)
                elif fault == "multiplies":
                    mean = (x * ~pad[:, :, None]).sum(1) / steps[:, None]
                else:
                    mean = x.masked_fill(pad[:, :, None], 0).sum(1) / steps[:, None].to(x.dtype)
                if fault == "batch":
                    mean = mean - mean.mean(0)
                if fault == "float32":
                    return self.map(mean.float())
                if fault == "asleep":
                    return mean.detach() + self.map(mean).relu() * 0
                return self.map(mean)

        return Planted()

@hookimpl
def ttf_tower(name):
    return Factory()
"""

STORAGE = """
from ttf import hookimpl
from ttf_storage.npz_store import NpzStorage

class Wrapped:
    def __init__(self, wrapped, **own):
        self.wrapped = wrapped
        vars(self).update(own)

    def __getattr__(self, name):
        return getattr(self.wrapped, name)

class Factory(NpzStorage):
    name, suffixes = "planted", (".planted",)
    fault = {fault!r}

    def open(self, uri):
        import numpy as np
        store = super().open(uri)
        fault, real = self.fault, store.source

        def source(name):
            found = real(name)
            own = {{}}
            if fault == "shifted":
                own["gather"] = lambda ids, out=None: found.gather(np.abs(ids), out)
            if fault == "clipped":
                own["gather"] = lambda ids, out=None: found.gather(
                    np.clip(ids, -found.shape[0], found.shape[0] - 1), out)
            if fault == "own out":
                own["gather"] = lambda ids, out=None: found.gather(ids)
            if fault == "constant":
                own["fingerprint"] = lambda: "always the same"
            if fault == "restless":
                own["fingerprint"] = lambda: str(np.random.default_rng().random())
            return Wrapped(found, **own)

        own = {{"source": source}}
        if fault == "unaware":
            own["check_unchanged"] = lambda: None
        if fault == "forgetful":
            own["names"] = lambda: ["vectors"]
        return Wrapped(store, **own)

    def create(self, uri):
        writer = super().create(uri)
        if self.fault == "hasty":
            open(uri, "w").close()
        if self.fault == "messy":
            return Wrapped(writer, abort=lambda: None)
        return writer

@hookimpl
def ttf_storage(name):
    return Factory()
"""

DEVICE = """
from dataclasses import dataclass
from ttf import BatchPlan, Settled, hookimpl, option
from ttf_devices import cpu

@dataclass(frozen=True, kw_only=True)
class Options(cpu.CpuOptions):
    fault: str = option("none", "what it does wrong")

class Policy(cpu.CpuPolicy):
    name = "planted"

    @property
    def fault(self):
        return self.options.fault

    def environment(self):
        return {{}} if self.fault == "threads" else super().environment()

    def plan(self, batch_size, accumulate):
        if self.fault == "halves":
            return BatchPlan(micro_batch=max(1, batch_size // 2), accumulate=accumulate)
        return super().plan(batch_size, accumulate)

    def settled(self):
        found = super().settled()
        if self.fault == "unsettled":
            return {{"float32_matmul": Settled(value="auto", reason="who knows")}}
        return found

    def set_rng_state(self, state):
        if self.fault != "careless":
            super().set_rng_state(state)

    def to_device(self, tensor):
        return tensor.double() if self.fault == "double" else tensor

class Factory(cpu.CpuFactory):
    name, options_type = "planted", Options

    def create(self, options, threads):
        return Policy(options, threads)

@hookimpl
def ttf_device(name):
    return Factory()
"""


def miner(
    *,
    at_import: str = "",
    asked: str = "pass",
    help: str = "nothing",
    frozen: str = "True",
    type: str = "int",
) -> str:
    return MINER.format(at_import=at_import, asked=asked, help=help, frozen=frozen, type=type)
