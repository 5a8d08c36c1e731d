"""Loads the run's libraries into one process, in its order, and computes with each in turn.

Two OpenMP runtimes in one process abort ("OMP: Error #15"), crash or hang, depending on which they
are and in which order they start. Those that were mapped when it happened are started as well,
where they are installed here.
"""

from __future__ import annotations

import ctypes
import faulthandler
import importlib
import importlib.metadata
import sys
from pathlib import Path

# --- settings: what the run had ---
LIBRARIES: list[str] = ["torch"]
RUNTIMES: list[str] = []
ROUNDS: int = 20
# --- end of the settings ---


def compute(name: str) -> None:
    """Enough to start the threads of a library."""
    import numpy as np

    rng = np.random.default_rng(0)
    if name == "torch":
        torch = importlib.import_module("torch")
        cell = torch.nn.GRU(64, 64, batch_first=True)
        states, _ = cell(torch.randn(64, 16, 64))
        states.square().mean().backward()
    elif name == "faiss":
        faiss = importlib.import_module("faiss")
        bank = rng.standard_normal((4096, 64), dtype=np.float32)
        index = faiss.IndexFlatIP(64)
        index.add(bank)
        index.search(bank[:256], 10)
    elif name == "hnswlib":
        hnswlib = importlib.import_module("hnswlib")
        index = hnswlib.Index(space="ip", dim=64)
        index.init_index(max_elements=1024)
        index.add_items(rng.standard_normal((1024, 64), dtype=np.float32))
        index.knn_query(rng.standard_normal((64, 64), dtype=np.float32), k=10)


def started(name: str) -> bool:
    """Whether that runtime is installed here; then it is loaded and asked for its threads."""
    for folder in {*map(Path, sys.path), Path(sys.prefix), Path(sys.prefix) / "lib"}:
        if (path := folder / name).is_file():
            print(f"starting {path.name} ({name})", flush=True)
            ctypes.CDLL(str(path)).omp_get_max_threads()
            return True
    return False


def mapped() -> list[str]:
    maps = Path("/proc/self/maps")
    if not maps.is_file():
        return []
    found = {line.split(maxsplit=5)[5].strip() for line in maps.open() if "/" in line}
    return sorted(p for p in found if Path(p).name.startswith(("libgomp", "libomp", "libiomp5")))


def main() -> int:
    faulthandler.enable()
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    for name in LIBRARIES:
        print(f"loading {name}", flush=True)
        importlib.import_module(name)
        compute(name)
    missing = [name for name in RUNTIMES if not started(name)]
    if missing:
        print(f"not installed here, so not tested: {', '.join(missing)}")
    for path in mapped():
        print(f"loaded into this process: {path}")
    for number in range(1, rounds + 1):
        for name in LIBRARIES:
            compute(name)
        print(f"round {number} of {rounds}", flush=True)
    print(f"did not crash in {rounds} rounds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
