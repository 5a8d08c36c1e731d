"""The exact miner against FAISS IndexFlatIP and against the bare bfloat16 product.

Arms take turns in one process. "product" is the bfloat16 product alone, in the best block found,
with nothing selected: the ceiling. Memory is measured in a process of its own, beyond the mapped
bank. Certificates: the share of queries whose first pass vouched for the answer, on random vectors
and on the real sets in --data.

    python benchmarks/bench_exact.py                                # small, a minute
    python benchmarks/bench_exact.py --rows 500000 --queries 10000  # what the issue asks for
    python benchmarks/bench_exact.py --bars --data ../shared/data   # small bank, hot cluster, rounds
"""

from __future__ import annotations

import argparse
import itertools
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch
from numpy.typing import NDArray

from ttf.contracts import DType, MinerContext
from ttf.data.sources import VectorRef, open_ref
from ttf.data.vectors import UnitRows
from ttf.host.plugins import create_store, open_store
from ttf.mining.job import MiningJob
from ttf.mining.scan.scan_counters import ScanTally
from ttf.mining.worker_client import MinerWorkers
from ttf.tools.bench.paired import in_turns, ratio
from ttf_miners._exact_scan import ExactMiner

BUDGET = 1 << 30
BARS = ("small", "hot", "round", "large-round")
BLOCKS = ((512, 2048), (512, 4096), (1024, 2048), (1024, 4096), (2048, 2048), (2048, 4096))


def main() -> None:
    args = _arguments()
    torch.set_num_threads(args.threads)
    faiss.omp_set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as temp:
        folder = Path(temp)
        if args.bars is not None:
            bars(folder, args)
            return
        for dim in args.dims:
            bank = write_bank(folder / f"bank-{dim}.npz", args.rows, dim)
            if args.memory_only:
                print(f"{peak_bytes(bank, args, dim) / 2**20:,.0f} MiB beyond the mapped bank")
                continue
            compare(bank, folder, args, dim)
        for path in sorted(args.data.glob("*/bank.npz")) if args.data else []:
            certificates(path, args)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--queries", type=int, default=2_000)
    parser.add_argument("--dims", type=int, nargs="+", default=[384, 768])
    parser.add_argument("-k", type=int, default=200)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--data", type=Path, help="folder of real sets, each with a bank.npz")
    parser.add_argument("--memory-only", action="store_true")
    parser.add_argument("--bars", nargs="*", choices=BARS, help="some, or without names all")
    return parser.parse_args()


def unit_vectors(rows: int, dim: int, seed: int) -> NDArray[np.float32]:
    found = np.random.default_rng(seed).standard_normal((rows, dim), dtype=np.float32)
    found /= np.linalg.norm(found, axis=1, keepdims=True)
    return found


def write_bank(path: Path, rows: int, dim: int) -> Path:
    writer = create_store(str(path))
    array = writer.array("vectors", (rows, dim), "float32")
    for start in range(0, rows, 50_000):
        array.append(unit_vectors(min(50_000, rows - start), dim, start))
    writer.commit()
    return path


def miner(threads: int, cache: Path | None) -> ExactMiner:
    return ExactMiner(
        MinerContext(
            threads=threads,
            seed=0,
            deterministic=True,
            budget_bytes=BUDGET,
            cache=None if cache is None else str(cache),
        )
    )


def compare(path: Path, folder: Path, args: argparse.Namespace, dim: int) -> None:
    queries = unit_vectors(args.queries, dim, 1)
    ref = VectorRef(uri=str(path), array="vectors", storage="npz")
    with open_ref(ref) as bank:
        kept, flying = miner(args.threads, folder), miner(args.threads, None)
        for one in (kept, flying):
            one.build(bank.source, folder)
        flat = faiss.IndexFlatIP(dim)
        flat.add(bank.source.read(0, args.rows))
        block = best_block(dim, args.threads)
        product = Product(bank.source.read(0, args.rows), queries, block, args.threads)
        arms: dict[str, Callable[[], object]] = {
            "faiss": lambda: flat.search(queries, args.k),
            "kept copy": lambda: kept.search(queries, args.k),
            "on the fly": lambda: flying.search(queries, args.k),
            "product": product,
        }
        seconds = in_turns(arms, args.repeats)
        flops = 2.0 * args.rows * args.queries * dim
        print(f"\n{args.queries:,} queries x {args.rows:,} x {dim}, k = {args.k}")
        print("| arm | s | GF/s | times faiss | of the product |\n|---|---|---|---|---|")
        for name, taken in seconds.items():
            rate = flops / float(np.median(taken)) / 1e9
            print(
                f"| {name} | {np.median(taken):.2f} | {rate:.0f} | {ratio(seconds['faiss'], taken)}"
                f" | {ratio(seconds['product'], taken)} |"
            )
        print(f"best block of the product: {block[0]} queries x {block[1]} rows")
        print(f"certified by the first pass: {kept.tally.rate:.4f}")
        print(f"same top k as faiss: {same(kept, flat, queries, args.k)}")
        for one in (kept, flying):
            one.close()
    print(f"peak beyond the mapped bank: {measured_apart(path, args, dim) / 2**20:,.0f} MiB")


class Product:
    """The bfloat16 product alone, a tile of queries a thread, rows converted beforehand."""

    def __init__(
        self,
        rows: NDArray[np.float32],
        queries: NDArray[np.float32],
        block: tuple[int, int],
        threads: int,
    ) -> None:
        self._blocks = _cut(torch.from_numpy(np.array(rows)).bfloat16(), block[1])
        self._tiles = _cut(torch.from_numpy(queries).bfloat16(), block[0])
        self._threads = threads

    def __call__(self) -> None:
        before = torch.get_num_threads()
        torch.set_num_threads(1)
        with ThreadPoolExecutor(self._threads) as pool:
            list(pool.map(self._share, range(self._threads)))
        torch.set_num_threads(before)

    def _share(self, thread: int) -> None:
        for rows in self._blocks:
            for tile in self._tiles[thread :: self._threads]:
                torch.mm(tile, rows.T)


def _cut(rows: torch.Tensor, size: int) -> list[torch.Tensor]:
    return [rows[at : at + size] for at in range(0, len(rows), size)]


def best_block(dim: int, threads: int) -> tuple[int, int]:
    rows, queries = unit_vectors(16_384, dim, 2), unit_vectors(4096, dim, 3)
    arms = {block: Product(rows, queries, block, threads) for block in BLOCKS}
    taken = in_turns({str(block): arm for block, arm in arms.items()}, 5)
    return min(BLOCKS, key=lambda block: float(np.median(taken[str(block)])))


def same(ours: ExactMiner, flat: faiss.IndexFlatIP, queries: NDArray[np.float32], k: int) -> bool:
    """Row by row the same set; where two differ, their scores are equal to rounding."""
    scores, ids = flat.search(queries, k)
    own_ids, own_scores = ours.search(queries, k)
    differs = (np.sort(ids, axis=1) != np.sort(own_ids, axis=1)).any(axis=1)
    return bool(np.allclose(scores[differs], own_scores[differs], rtol=0, atol=2e-6))


def measured_apart(path: Path, args: argparse.Namespace, dim: int) -> int:
    command = [sys.executable, __file__, "--memory-only", "--dims", str(dim)]
    for name in ("rows", "queries", "threads"):
        command += [f"--{name}", str(getattr(args, name))]
    done = subprocess.run([*command, "-k", str(args.k)], capture_output=True, text=True, check=True)
    return int(float(done.stdout.split(" MiB")[0].replace(",", "")) * 2**20)


def peak_bytes(path: Path, args: argparse.Namespace, dim: int) -> int:
    """Anonymous memory at its highest during a search, less what was there before it; the queries
    themselves and the answers are counted."""
    with open_ref(VectorRef(uri=str(path), array="vectors", storage="npz")) as bank:
        one = miner(args.threads, path.parent)
        one.build(bank.source, path.parent)
        one.search(unit_vectors(200, dim, 5), args.k)
        before, highest, over = anonymous(), [0], threading.Event()

        def watch() -> None:
            while not over.wait(0.005):
                highest[0] = max(highest[0], anonymous())

        watcher = threading.Thread(target=watch)
        watcher.start()
        one.search(unit_vectors(args.queries, dim, 1), args.k)
        over.set()
        watcher.join()
        one.close()
    return highest[0] - before


def anonymous() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("this system does not say how much memory is anonymous")


# --- the bars of small banks, hot clusters and rounds -----------------------------------------------


def bars(folder: Path, args: argparse.Namespace) -> None:
    wanted = args.bars or BARS
    if "small" in wanted:
        bank, queries = wordnet(args.data, 52_000, 5_000)
        against_faiss("wordnet-definitions, float16", folder, bank, queries, args)
    if "hot" in wanted:
        bank, queries = with_cluster()
        against_faiss("a cluster of 2,000 nearly equal rows", folder, bank, queries, args)
    if "round" in wanted:
        bank, queries = wordnet(args.data, 28_444, 20_000)
        for k in (40, 64, args.k):
            mining_round(folder, bank, queries, k, args)
    if "large-round" in wanted:
        mining_round(folder, unit_vectors(150_000, 384, 0), unit_vectors(20_000, 384, 1), 40, args)


def wordnet(data: Path, rows: int, queries: int) -> tuple[NDArray[Any], NDArray[np.float32]]:
    folder = data / "wordnet-definitions"
    bank = np.load(folder / "bank.npz")["vectors"][:rows]
    return bank, np.load(folder / "pairs.npz")["X_train"][:queries].astype(np.float32)


def with_cluster() -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """200,000 rows of which 2,000 differ by a thousandth of their length, and 4,096 queries of
    which 1% are near them."""
    rng = np.random.default_rng(0)
    bank, queries, centre = (unit_vectors(n, 768, 10 + n) for n in (200_000, 4_096, 1))
    rows, near = rng.choice(len(bank), 2_000, replace=False), rng.choice(4_096, 41, replace=False)
    bank[rows] = centre + 1e-3 * unit_vectors(2_000, 768, 3)
    queries[near] = centre + 0.3 * unit_vectors(41, 768, 4)
    for vectors in (bank, queries):
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    return bank, queries


def written(path: Path, rows: NDArray[Any]) -> VectorRef:
    writer = create_store(str(path))
    stored: DType = "float16" if rows.dtype == np.float16 else "float32"
    writer.array("vectors", rows.shape, stored).append(rows)
    writer.commit()
    return VectorRef(uri=str(path), array="vectors", storage="npz")


def against_faiss(
    what: str,
    folder: Path,
    rows: NDArray[Any],
    queries: NDArray[np.float32],
    args: argparse.Namespace,
) -> None:
    dim = rows.shape[1]
    flat = faiss.IndexFlatIP(dim)
    flat.add(rows.astype(np.float32))
    product = Product(rows.astype(np.float32), queries, best_block(dim, args.threads), args.threads)
    with open_ref(written(folder / f"rows-{len(rows)}.npz", rows)) as bank:
        exact = miner(args.threads, folder)
        exact.build(bank.source, folder)
        arms: dict[str, Callable[[], object]] = {
            "faiss": lambda: flat.search(queries, args.k),
            "exact": lambda: exact.search(queries, args.k),
            "product": product,
        }
        seconds = in_turns(arms, args.repeats)
        print(f"\n{what}: {len(queries):,} queries x {len(rows):,} x {dim}, k = {args.k}")
        print(", ".join(f"{name} {np.median(taken):.2f} s" for name, taken in seconds.items()))
        print(f"times faiss: {ratio(seconds['faiss'], seconds['exact'])}")
        print(f"of the product: {ratio(seconds['product'], seconds['exact'])}")
        print(f"same top k: {same(exact, flat, queries, args.k)}; certified {exact.tally.rate:.4f}")
        exact.close()


def mining_round(
    folder: Path,
    rows: NDArray[Any],
    queries: NDArray[np.float32],
    k: int,
    args: argparse.Namespace,
) -> None:
    """A round as the trainer asks for it: files, a worker that is warm, and checked answers."""
    ref, dim = written(folder / f"round-{len(rows)}.npz", rows), rows.shape[1]
    np.save(folder / "queries.npy", queries)
    product = Product(rows.astype(np.float32), queries, best_block(dim, args.threads), args.threads)
    numbers = itertools.count()
    with MinerWorkers(isolation="process", say=print) as workers, open_ref(ref) as bank:
        exact = miner(args.threads, folder)
        exact.build(bank.source, folder)

        def once() -> None:
            context = MinerContext(
                threads=args.threads, seed=0, deterministic=True, budget_bytes=BUDGET
            )
            out = folder / f"found-{next(numbers)}"
            job = MiningJob(
                bank=ref,
                queries=str(folder / "queries.npy"),
                k=k,
                miner="exact",
                context=context,
                out=str(out),
                cache=str(folder),
            )
            workers.run(job, 600.0, lambda done, total: None)

        seconds = in_turns(
            {"round": once, "scan": lambda: exact.search(queries, k), "product": product},
            args.repeats,
        )
        print(f"\na round: {len(queries):,} queries x {len(rows):,} x {dim}, k = {k}")
        print(", ".join(f"{name} {np.median(taken):.2f} s" for name, taken in seconds.items()))
        for name in ("round", "scan"):
            print(f"{name}, times the product: {ratio(seconds[name], seconds['product'])}")
        exact.close()


# --- certificates -----------------------------------------------------------------------------------


def certificates(path: Path, args: argparse.Namespace) -> None:
    store = open_store(str(path), "npz")
    try:
        source = UnitRows(store.source("vectors"))
        one = miner(args.threads, None)
        one.build(source, path.parent)
        rows = np.random.default_rng(0).choice(source.shape[0], 2000, replace=False)
        queries = source.gather(np.sort(rows))
        noisy = queries + 0.3 * unit_vectors(len(queries), source.shape[1], 7)
        print(f"\n{path.parent.name}, {source.shape[0]:,} x {source.shape[1]}, k = {args.k}:")
        for name, asked in (("rows of the bank", queries), ("rows with noise", noisy)):
            one.tally = ScanTally()
            one.search(asked, args.k)
            print(f"  {name}: {one.tally.rate:.4f} certified by the first pass")
    finally:
        store.close()


if __name__ == "__main__":
    main()
