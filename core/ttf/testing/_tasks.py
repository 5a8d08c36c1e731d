"""Tasks that the conformance tests run in child processes."""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.process.collector import paused_for_imports

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ttf.contracts import (
        Kind,
        Miner,
        MinerContext,
        MinerFactory,
        StoreWriter,
        VectorSource,
    )
    from ttf.hookspecs import Encoder
    from ttf.process.serve import Tell

# Third-party modules that ttf may already have loaded when it lists a plugin.
LIGHT: Final = frozenset({"click", "filelock", "platformdirs", "pluggy", "psutil", "ttf"})
ENOUGH_CPU_S: Final = 0.3


# --- loading ---------------------------------------------------------------------------------


def listing(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Loads the plugin, asks for its availability, and returns which foreign modules that
    imported."""
    from ttf.host import plugins

    kind, name = request["kind"], request["name"]
    module = plugins.find(kind, name).entry_point.module
    tell({"at": f"importing {module}"})
    before = set(sys.modules)
    factory = plugins.load(kind, name)
    tell({"at": "checking whether it can run here"})
    state = factory.availability()
    mine = {module.partition(".")[0], *LIGHT, *sys.stdlib_module_names}
    new = {m.partition(".")[0] for m in set(sys.modules) - before} - mine
    foreign = sorted(m for m in new if not m.startswith("_"))
    return {"foreign": foreign, "ok": state.ok, "reason": state.reason, "fix": state.fix}


def beside_torch(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Runs torch and the plugin in one process, in the requested order."""
    from ttf.tools.doctor.tasks import runtimes, torch_works

    kind, name = request["kind"], request["name"]
    torch_first = request["first"] == "torch"
    if torch_first:
        tell({"at": "computing with torch"})
        torch_works()
    tell({"at": "running the plugin"})
    exercise(kind, name, request["options"])
    if not torch_first:
        tell({"at": "computing with torch while the plugin is loaded"})
        torch_works()
        tell({"at": "running the plugin while torch is loaded"})
        exercise(kind, name, request["options"])
    tell({"at": "leaving"})
    return {"openmp": runtimes()}


def exercise(kind: Kind, name: str, options: Mapping[str, Any]) -> None:
    """Does the least real work of this kind."""
    from ttf.host import plugins
    from ttf.tools.doctor import tasks

    if kind == "miner":
        tasks.mine(plugins.usable("miner", name), name, {"options": options})
        return
    work = {
        "storage": _write_and_read,
        "tower": _forward,
        "device": _start,
        "encoder": _encode_two,
        "exporter": _create,
        "executor": _run_nothing,
    }[kind]
    work(name, options)


def _write_and_read(name: str, options: Mapping[str, Any]) -> None:
    import numpy as np

    from ttf.host import plugins

    factory = plugins.usable("storage", name)
    with tempfile.TemporaryDirectory() as folder:
        uri = str(Path(folder) / f"bank{factory.suffixes[0]}")
        rows = np.arange(60, dtype=np.float32).reshape(20, 3)
        write_array(factory.create(uri), rows)
        store = factory.open(uri)
        if not np.array_equal(store.source("vectors").read(0, 20), rows):
            raise RuntimeError(f"{uri} does not contain what was written")
        store.close()


def write_array(writer: StoreWriter, rows: NDArray[Any], step: int = 8) -> None:
    """Writes one float32 array `vectors` in small blocks."""
    array = writer.array("vectors", rows.shape, "float32")
    for start in range(0, len(rows), step):
        array.append(rows[start : start + step])
    writer.commit()


def _create(name: str, options: Mapping[str, Any]) -> None:
    from ttf.host import plugins
    from ttf.host.options import checked

    factory = plugins.usable("exporter", name)
    factory.create(checked(factory.options_type, options, f"exporter.{name}"))


def _run_nothing(name: str, options: Mapping[str, Any]) -> None:
    from ttf.host import plugins
    from ttf.host.options import checked
    from ttf.jobs import ExecutorContext

    factory = plugins.usable("executor", name)
    chosen = checked(factory.options_type, options, f"executor.{name}")
    factory.create(chosen, ExecutorContext(jobs=1)).close()


def _forward(name: str, options: Mapping[str, Any]) -> None:
    with paused_for_imports():
        import torch

    from ttf.contracts import TowerShape
    from ttf.host import plugins
    from ttf.host.options import checked

    factory = plugins.usable("tower", name)
    shape = TowerShape(in_dim=8, length=4, sequence=True, out_dim=8)
    module = factory.create(shape, checked(factory.options_type, options, f"tower.{name}"))
    module(torch.randn(2, 4, 8)).sum()


def _start(name: str, options: Mapping[str, Any]) -> None:
    from ttf.machine import devices

    policy = devices.choose(name, {name: options}, 1)
    devices.prepare(policy)
    policy.start()
    import torch

    policy.to_device(torch.ones(2)).sum()
    policy.synchronize()


def _encode_two(name: str, options: Mapping[str, Any]) -> None:
    encoder(name, options).encode(["a question", "an answer"], "query")


# --- encoders --------------------------------------------------------------------------------


def encoder(name: str, options: Mapping[str, Any]) -> Encoder:
    """Creates the encoder, as a command does."""
    from ttf.hookspecs import EncoderContext
    from ttf.host import plugins
    from ttf.host.options import checked

    factory = plugins.usable("encoder", name)
    chosen = checked(factory.options_type, options, f"encoder.{name}")
    with paused_for_imports():
        return factory.create(chosen, EncoderContext(threads=1))


def encode_elsewhere(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Encodes texts in this fresh process, which can reach no other machine."""
    import socket

    asked: list[str] = []

    def refuse(self: Any, address: Any) -> None:
        if not isinstance(address, str):  # a path is a socket of this machine
            asked.append(str(address))
            raise OSError("a test of ttf allows no connection")

    socket.socket.connect = refuse  # type: ignore[method-assign]
    made = encoder(request["name"], request["options"])
    rows = made.encode(request["texts"], "document")
    return {
        "fingerprint": made.fingerprint(),
        "rows": [row.tobytes().hex() for row in rows],
        "connections": asked,
    }


# --- miners ----------------------------------------------------------------------------------


class Announcing:
    """A miner that reports when it starts to save, so that a test can kill it there."""

    def __init__(self, miner: Miner, tell: Tell) -> None:
        self._miner, self._tell = miner, tell

    def __getattr__(self, name: str) -> Any:
        return getattr(self._miner, name)

    def save(self, path: Path) -> None:
        self._tell({"at": "saving", "pid": os.getpid()})
        began = time.perf_counter()
        self._miner.save(path)
        self._tell({"at": "saved", "seconds": time.perf_counter() - began})


def keep_index(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Prepares an index as a run does (from the cache or into it) and answers queries."""
    import numpy as np

    from ttf.mining.worker_main import ready_index

    bank = np.load(request["bank"], mmap_mode="r")
    factory, miner, _ = made(request)
    source = _source(bank)
    said: list[str] = []
    record = ready_index(
        Path(request["cache"]),
        {"conformance": factory.name},
        Announcing(miner, tell),
        source,
        Path(tempfile.mkdtemp()),
        said.append,
    )
    ids, scores = miner.search(np.load(request["queries"]), request["k"])
    np.savez(request["out"], ids=ids, scores=scores)
    miner.close()
    return {"origin": record.origin, "kept": record.path is not None, "said": said}


def threads_used(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Builds and searches with one thread for a while; returns the time of each thread."""
    from ttf.machine.thread_variables import thread_environment
    from ttf.testing._measuring import ThreadTimes

    os.environ.update(thread_environment(1))
    import numpy as np

    _, miner, _ = made({**request, "threads": 1, "deterministic": False})
    bank = np.load(request["bank"])
    queries = np.load(request["queries"])
    with ThreadTimes() as times:
        miner.build(_source(bank), Path(tempfile.mkdtemp()))
        while times.process_s() < ENOUGH_CPU_S:
            miner.search(queries, request["k"])
    miner.close()
    return {"seconds": times.seconds()}


def memory_used(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Builds and searches within a budget; returns how much anonymous memory rose."""
    import numpy as np

    from ttf.testing._measuring import PeakMemory

    bank = np.load(request["bank"], mmap_mode="r")
    queries = np.load(request["queries"])
    factory, warm, context = made(request)  # libraries and their buffers are loaded by a small one
    warm.build(_source(np.array(bank[:200])), Path(tempfile.mkdtemp()))
    warm.search(queries[:10], request["k"])
    warm.close()
    rows, dim = bank.shape
    options = chosen_options(factory, request)
    cost = factory.estimate(rows, dim, len(queries), request["k"], options, context)
    _, miner, _ = made(request)
    with PeakMemory() as peak:
        miner.build(_source(bank), Path(tempfile.mkdtemp()))
        ids, _ = miner.search(queries, request["k"])
    miner.close()
    return {"grown": peak.grown, "estimate": cost.anon_bytes, "answers": ids.nbytes * 3 // 2}


def made(request: Mapping[str, Any]) -> tuple[MinerFactory, Miner, MinerContext]:
    """Creates the miner of a request."""
    from ttf.contracts import MinerContext
    from ttf.host import plugins

    factory = plugins.usable("miner", request["name"])
    context = MinerContext(
        threads=request.get("threads", 1),
        seed=3,
        deterministic=request.get("deterministic", True),
        budget_bytes=request.get("budget_bytes", 256 << 20),
    )
    options = chosen_options(factory, request)
    with paused_for_imports():
        miner = factory.create(options, context)
    return factory, miner, context


def chosen_options(factory: Any, request: Mapping[str, Any]) -> Any:
    from ttf.host.options import checked

    return checked(factory.options_type, request["options"], f"miner.{request['name']}")


def _source(bank: NDArray[np.float32]) -> VectorSource:
    from ttf.data.sources import MemorySource

    return MemorySource(bank)


# --- storages --------------------------------------------------------------------------------


def write_store(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Writes a container in many blocks; reports when it starts."""
    import numpy as np

    from ttf.host import plugins

    rows = np.load(request["rows"])
    tell({"at": "saving", "pid": os.getpid()})
    began = time.perf_counter()
    writer = plugins.usable("storage", request["name"]).create(request["uri"])
    write_array(writer, rows, request["step"])
    return {"seconds": time.perf_counter() - began}


# --- a disk that takes only half ---------------------------------------------------------------


def save_half(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Saves an index, then saves it again with a file size limit of half its largest file."""
    import numpy as np

    _, miner, _ = made(request)
    miner.build(_source(np.load(request["bank"])), Path(tempfile.mkdtemp()))
    whole = Path(tempfile.mkdtemp())
    miner.save(whole)
    _no_larger_than(max(file.stat().st_size for file in whole.iterdir()) // 2)
    return _outcome(lambda: miner.save(Path(tempfile.mkdtemp())))


def write_half(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """Like `save_half` for a container. Also returns what is left in its folder after `abort`."""
    import numpy as np

    from ttf.host import plugins

    factory, rows = plugins.usable("storage", request["name"]), np.load(request["rows"])
    _no_larger_than(rows.nbytes // 2)
    writer = factory.create(request["uri"])
    outcome = _outcome(lambda: write_array(writer, rows, request["step"]))
    writer.abort()
    return outcome | {"left": [path.name for path in Path(request["uri"]).parent.iterdir()]}


def _no_larger_than(size_bytes: int) -> None:
    """Makes larger writes fail as on a full disk (with EFBIG instead of ENOSPC)."""
    import resource
    import signal

    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))


def _outcome(work: Callable[[], None]) -> dict[str, Any]:
    """Returns what `work` raised, and whether that is a TtfError."""
    from ttf.errors import TtfError

    try:
        work()
    except TtfError as error:
        return {"raised": type(error).__name__, "explained": True, "text": str(error)}
    except Exception as error:  # noqa: BLE001 - a stranger's code: told to the test
        return {"raised": type(error).__name__, "explained": False, "text": str(error)}
    return {"raised": "", "explained": False, "text": ""}
