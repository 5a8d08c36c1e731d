"""Tasks about the environment, done in a throw-away process: plugins, torch, devices, miners."""

from __future__ import annotations

import os
import resource
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import PluginBroken, TtfError
from ttf.host import plugins
from ttf.process.collector import paused_for_imports

if TYPE_CHECKING:
    from ttf.contracts import MinerFactory
    from ttf.process.serve import Tell

LOADING_CHECK: Final = "loading the check"
_ROWS: Final = 200
_DIM: Final = 32
_QUERIES: Final = 16
_K: Final = 10
_BUDGET: Final = 64 << 20
_MOST_THREADS: Final = 4


def load_plugins(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    for kind, name in request["plugins"]:
        reference = f"{kind}.{name}"
        tell({"at": reference})
        tell({"plugin": reference, **_state(kind, name)})
    return {}


def _state(kind: Any, name: str) -> dict[str, Any]:
    try:
        if kind == "observer":
            state = plugins.offered_observer(name)[2]
        elif kind == "check":
            plugins.load(kind, name)
            return {"ok": True}
        else:
            state = plugins.load(kind, name).availability()
    except TtfError as error:
        return {"broken": str(error), "fix": error.hint}
    except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code
        return {"broken": f"its availability() raised {type(error).__name__}: {error}", "fix": ""}
    return {"ok": state.ok, "reason": state.reason, "fix": state.fix}


def torch_alone(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    tell({"at": "importing torch"})
    began = time.perf_counter()
    with paused_for_imports():
        import torch

    took = time.perf_counter() - began
    tell({"at": "an operation of torch"})
    torch_works()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return {
        "version": torch.__version__,
        "import_s": took,
        "threads": torch.get_num_threads(),
        "peak_bytes": peak if sys.platform == "darwin" else peak << 10,
        "openmp": runtimes(),
    }


def torch_works() -> None:
    with paused_for_imports():
        import torch

    torch.manual_seed(0)
    wide = torch.randn(512, 512, requires_grad=True)
    layer = torch.nn.GRU(16, 16, batch_first=True)
    out, _ = layer(torch.randn(32, 8, 16))
    loss = (wide @ wide).square().mean() + out.square().mean()
    loss.backward()
    if not bool(torch.isfinite(loss)):
        raise RuntimeError(f"torch computed {loss.item()}, but the result must be finite")


def runtimes() -> list[str]:
    """The OpenMP runtimes mapped into this process; empty if the system cannot list them."""
    from ttf.incidents import _linux

    return list(_linux.openmp_runtimes(os.getpid()))


# --- devices ---------------------------------------------------------------------------------------


def device(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.machine import devices

    for name in plugins.choices("device"):
        tell({"at": f"device.{name}"})
        tell({"device": name, **_state("device", name)})
    policy = devices.choose(request["name"], request["options"], request["threads"])
    tell({"at": f"starting {policy.name}"})
    notes = devices.prepare(policy).notes
    policy.start()
    import torch

    on_device = policy.to_device(torch.ones(64, 64))
    total = float((on_device @ on_device).sum())
    policy.synchronize()
    if total != 64.0**3:
        raise RuntimeError(
            f"the device {policy.name} computed {total}, but the correct result is {64.0**3}"
        )
    return {
        "name": policy.name,
        "reason": policy.reason,
        "threads": policy.threads,
        "notes": list(notes),
    }


# --- a miner beside torch --------------------------------------------------------------------------


def coload(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    name, torch_first = request["miner"], request["first"] == "torch"
    if torch_first:
        _report_stage(tell, "torch")
        torch_works()
    _report_stage(tell, "loading the plugin")
    factory: Any = plugins.load("miner", name)
    state = factory.availability()
    if not state.ok:
        return {"unavailable": state.reason}
    _report_stage(tell, "building and searching")
    mine(factory, name, request)
    _report_stage(tell, "computing with torch")
    torch_works()
    if not torch_first:
        _report_stage(tell, "searching after torch has computed")
        mine(factory, name, request)
    _report_stage(tell, "leaving")
    return {"openmp": runtimes()}


def _report_stage(tell: Tell, what: str) -> None:
    tell({"at": what, "openmp": runtimes()})


def mine(factory: MinerFactory, name: str, request: Mapping[str, Any]) -> None:
    """Builds an index of random rows and searches it as a run does. Raises BadAnswer."""
    import numpy as np

    from ttf.contracts import MinerContext
    from ttf.data.sources import MemorySource
    from ttf.mining.checked_answers import checked_search

    draw = np.random.default_rng(0)
    rows = draw.standard_normal((_ROWS, _DIM), dtype=np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    threads = min(_MOST_THREADS, os.cpu_count() or 1)
    context = MinerContext(threads=threads, seed=0, deterministic=True, budget_bytes=_BUDGET)
    options = _options(factory, request.get("options"))
    with paused_for_imports():
        miner = factory.create(options, context)
    try:
        folder = Path(tempfile.mkdtemp())  # the doctor removes it
        miner.build(MemorySource(rows), folder)
        checked_search(miner, rows[:_QUERIES], _K, _ROWS, name=name)
    finally:
        miner.close()


def _options(factory: MinerFactory, values: Mapping[str, Any] | None) -> Any:
    if not values:
        return factory.options_type()
    from ttf.mining.choose import checked_options

    return checked_options(factory, values)


# --- a plugin's check ----------------------------------------------------------------------


def check(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.hookspecs import CheckContext, Verdict

    name, run_toml = request["name"], request["run_toml"]
    tell({"at": LOADING_CHECK})
    found = plugins.check(name)
    tell({"at": "running the check", "title": str(getattr(found, "title", ""))})
    verdict: object = found.run(
        CheckContext(
            run_toml=None if run_toml is None else Path(run_toml), settings=request["settings"]
        )
    )
    if not isinstance(verdict, Verdict):
        raise PluginBroken(
            f"The check {name!r} returned a {type(verdict).__name__}, but it must return a "
            "ttf.Verdict."
        )
    return verdict.to_json()
