"""The settings of a reproducer, from the run's files: libraries, shapes and repetitions."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ttf.host.installed import ours
from ttf.rundir.documents import FiledIncident
from ttf.tools.report.page import RunFiles

# The library of each built-in miner.
LIBRARIES: Final = {"faiss": "faiss", "hnswlib": "hnswlib", "exact": "torch"}
_DISTRIBUTIONS: Final = {"torch": "torch", "faiss": "faiss-cpu", "hnswlib": "hnswlib"}
MOST_STEPS: Final = 20_000
_FEWEST_STEPS: Final = 20
_CELLS: Final = ("gru", "lstm", "mlp", "linear", "transformer")
_VERSION: Final = re.compile(r"[0-9][\w.!]*(\+[\w.]*)?", re.ASCII)
_ASSUMED: Final = {"query_dim": 384, "query_steps": 1, "bank_dim": 384, "bank_rows": 50_000}


def value(run: RunFiles, key: str, default: Any) -> Any:
    """A configuration value. `default` if it is missing, "auto" or of another type."""
    found = next((setting.value for setting in run.config if setting.key == key), None)
    if isinstance(default, float) and isinstance(found, int) and not isinstance(found, bool):
        return float(found)
    return found if type(found) is type(default) else default


def shape(run: RunFiles, name: str) -> int:
    """The size in the manifest; an assumed one if it is missing."""
    return _known_shapes(run).get(name) or _ASSUMED[name]


def guessed(run: RunFiles) -> list[str]:
    """The shapes that are assumed."""
    if run.guarded:
        return []
    known = _known_shapes(run)
    return [f"{name} = {n:,}" for name, n in _ASSUMED.items() if not known.get(name)]


def _known_shapes(run: RunFiles) -> dict[str, int]:
    data: Mapping[str, Any] = run.manifest.get("data", {})
    return {name: data.get(name, 0) for name in _ASSUMED}


def miner(run: RunFiles) -> str:
    """The miner that was asked for, or chosen."""
    name = run.setting("miner.name")[0]
    if name not in ("", "auto"):
        return name
    return next((line["miner"] for line in run.mining[-1:] if line.get("miner")), "exact")


def pins(run: RunFiles, values: Mapping[str, Any]) -> list[str]:
    """'torch==2.13.0' for each library of the script, without the local part of the version. They
    are pasted into a shell: what is no version is left out."""
    used = {"numpy", *_used(values)}
    return [
        f"{name}=={version.partition('+')[0]}"
        for name, version in run.manifest.get("versions", {}).items()
        if name in used and _VERSION.fullmatch(str(version))
    ]


def _used(values: Mapping[str, Any]) -> set[str]:
    named = {str(v) for key in ("LIBRARY", "MINER_LIBRARY") if (v := values.get(key))}
    named |= {str(name) for name in values.get("LIBRARIES", ())}
    if values.get("WITH_TORCH") or "CELL" in values:
        named.add("torch")
    return {_DISTRIBUTIONS[name] for name in named if name in _DISTRIBUTIONS}


# --- by script --------------------------------------------------------------------------------


def openmp(run: RunFiles, found: FiledIncident) -> dict[str, Any]:
    # In the order of the run: torch loads first, the miner at the first mining.
    libraries = ["torch"]
    library = LIBRARIES.get(miner(run), "")
    alone = found.get("process") == "miner"
    if run.guarded:
        libraries = []
    elif library:
        libraries = [library] if alone else [*dict.fromkeys(("torch", library))]
    return {"LIBRARIES": libraries, "RUNTIMES": runtimes(found)}


def runtimes(found: FiledIncident) -> list[str]:
    """The mapped OpenMP runtimes in the evidence: 'torch/lib/libgomp.so.1'."""
    texts = [entry.get("text", "") for entry in found.get("evidence", ())]
    paths = [
        p for text in texts for p in re.findall(r"[^\s,;:]*lib(?:gomp|omp|iomp5)[^\s,;:]*", text)
    ]
    short = [re.sub(r"^<(?:site-packages|python)>/", "", path) for path in paths]
    return [*dict.fromkeys(p if not p.startswith("<") else p.rpartition("/")[2] for p in short)]


def mining(run: RunFiles, found: FiledIncident) -> dict[str, Any]:
    name = miner(run)
    last = found.get("step") or 0
    rounds = sum(1 for line in run.mining if line.get("step", 0) <= last)
    queries = next((q for line in run.mining[-1:] if (q := line.get("queries"))), 0)
    seed = value(run, "train.seed", 0)
    return {
        "LIBRARY": LIBRARIES[name],
        "KIND": value(run, "miner.faiss.kind", "flat") if name == "faiss" else "",
        "ROWS": shape(run, "bank_rows"),
        "DIM": shape(run, "bank_dim"),
        "QUERIES": queries or run.manifest.get("data", {}).get("train_pairs") or 1000,
        "K": value(run, "miner.k", 200),
        "LINKS": value(run, f"miner.{name}.M", 32),
        "EF_CONSTRUCTION": value(run, f"miner.{name}.ef_construction", 200),
        "EF_SEARCH": value(run, f"miner.{name}.ef_search", 256),
        "LISTS": value(run, f"miner.{name}.nlist", 0),
        "PROBES": value(run, f"miner.{name}.nprobe", 64),
        "THREADS": _threads(run, "miner.threads"),
        "ONE_BUILDER": value(run, "miner.deterministic", True),
        "WITH_TORCH": value(run, "miner.isolation", "process") == "none",
        "ROUNDS": max(3, rounds + 1),
        "SEED": seed,
        "HANG_AFTER_S": 600.0 if found.get("class") == "hang" else 0.0,
    }


def training(run: RunFiles, found: FiledIncident) -> dict[str, Any]:
    cell = value(run, "tower.query.name", "gru")
    width = "width" if cell == "transformer" else "hidden"
    fused = value(run, "train.fuse", 1)
    micro = value(run, "train.batch_size", 256) * fused
    parts = max(1, value(run, "train.accumulate", 1) // fused)
    steps = found.get("step") or 0
    mines = value(run, "miner.negatives", 4) > 0
    shared = mines and value(run, "miner.isolation", "process") == "none"
    return {
        "CELL": cell if cell in _CELLS else "mlp",
        "INPUT": shape(run, "query_dim"),
        "LENGTH": shape(run, "query_steps"),
        "HIDDEN": value(run, f"tower.query.{width}", 256),
        "LAYERS": value(run, "tower.query.layers", 1),
        "BIDIRECTIONAL": value(run, "tower.query.bidirectional", True),
        "DROPOUT": value(run, "tower.query.dropout", 0.1),
        "OUTPUT": shape(run, "bank_dim"),
        "BATCH": micro,
        "ACCUMULATE": parts,
        "DOCUMENTS": _documents(run, micro * parts),
        "TEMPERATURE": value(run, "loss.temperature", 0.05),
        "LEARNING_RATE": value(run, "train.lr", 1e-3),
        "THREADS": _threads(run, "device.threads"),
        "DEVICE": device
        if (device := value(run, "device.name", "cpu")) in ours("device")
        else "cpu",
        "PRECISION": value(run, "device.precision", "fp32"),
        "STEPS": min(MOST_STEPS, max(_FEWEST_STEPS, steps + steps // 10 + 1)),
        "MINER_LIBRARY": LIBRARIES.get(miner(run), "") if shared else "",
        "SEED": value(run, "train.seed", 0),
        "HANG_AFTER_S": 600.0 if found.get("class") == "hang" else 0.0,
    }


def memory(run: RunFiles, found: FiledIncident) -> dict[str, Any]:
    # The memory held at the death and the limit, from the lines before the incident.
    end = found.get("time", float("inf"))
    lines = [line for line in run.memory if line.get("time", 0) <= end + 1] or run.memory
    held = [line.get("anon", 0) + line.get("shared", 0) for line in lines]
    limits = [limit for line in lines if (limit := line.get("limit")) and limit > 0]
    peak = max([line.get("peak", 0) for line in lines] + held, default=0)
    limit = limits[-1] if limits else 0
    beyond = found.get("class") in ("oom-kill", "memory-limit")
    return {
        "NEED": max(peak, limit if beyond else 0) or 1 << 30,
        "LIMIT": limit,
        "HELD": held[-1] if held else 0,
    }


def _documents(run: RunFiles, samples: int) -> int:
    """The documents of a step: its own, its mined negatives, the memory bank."""
    mined: int = value(run, "miner.negatives", 4) * samples
    banked: int = value(run, "loss.memory_bank", 0)
    return max(2, samples + mined + banked)


def _threads(run: RunFiles, key: str) -> int:
    """The trainer's threads if the miner has no own number; 0: the library's choice."""
    own: int = value(run, key, 0)
    noted = run.manifest.get("numeric", {}).get("threads", 0)
    of_all: int = value(run, "device.threads", noted)
    return own or of_all
