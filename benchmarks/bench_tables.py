"""A trainable table against what people use instead: all rows in RAM, and a memory map with an LRU cache.

Two towers over item numbers (`table_towers.py`: 128 values a row, MLPs of 256, 4,096 pairs a step). The
arms are processes that take turns, a block of steps at a time; ratios are medians over blocks. `limit`:
a memory control group of version 1 (root), which counts the page cache too, so that the disk cannot
hide in memory. Processor time is given beside the time of the clock: it does not see a busy machine.

    python benchmarks/bench_tables.py --only fits        # against nn.Embedding and SparseAdam
    python benchmarks/bench_tables.py --only four-times  # table of four times the memory, both orders
    python benchmarks/bench_tables.py --only lru         # against a memory map with an LRU cache
    python benchmarks/bench_tables.py --only zipf        # requests that wait for no disk
    python benchmarks/bench_tables.py --only ten-million # 10,000,000 x 128 with 1 GB
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

_GROUPS = Path("/sys/fs/cgroup/memory")
_DIM = 128
_OTHER_BYTES = 750 << 20
"""What a process needs beside its rows: torch, 4,096 x 4,096 scores and their gradient."""


@dataclass(frozen=True, kw_only=True)
class Arm:
    name: str
    kind: str  # ram, table, lru
    order: str
    rows: int
    optimizer: str = "adam"
    budget: int = 1 << 40
    ahead: int = 0
    batch: int = 4096
    threads: int = 2
    limit: int = 0  # Of the control group; 0: none.
    environment: dict[str, str] = field(default_factory=dict)


# --- the process of an arm -------------------------------------------------------------------------


def serve(arm: Arm, folder: Path) -> None:
    """Does as many steps as each line of the input says, and answers with a line of JSON."""
    import torch
    from table_towers import InRam, InTable, MapAndLru, Training, batches

    torch.set_num_threads(arm.threads)
    torch.set_float32_matmul_precision("medium")  # oneDNN's products, as `ttf` chooses here
    rows: InRam | InTable | MapAndLru
    if arm.kind == "ram":
        rows = InRam(arm.rows, _DIM)
    elif arm.kind == "table":
        rows = InTable(folder / "table", arm.rows, _DIM, arm.budget, arm.optimizer)
    else:
        rows = MapAndLru(folder / "map", arm.rows, _DIM, arm.budget)
    ids = batches(arm.order, arm.rows, arm.batch, 10**9)
    training = Training(rows, ids, dim=_DIM, ahead=arm.ahead)
    print("{}", flush=True)
    for line in sys.stdin:
        before = _figures(rows)
        done = training.run(int(line))
        after = _figures(rows)
        answer: dict[str, Any] = {name: after[name] - before[name] for name in after}
        answer |= {"seconds": sum(done.seconds), "cpu_s": done.cpu_s, "loss": done.losses[-1]}
        answer["anon"] = _anonymous()
        print(json.dumps(answer), flush=True)


def _figures(rows: Any) -> dict[str, float]:
    if hasattr(rows, "table"):
        stats = rows.table.stats()
        names = ("requests", "hits", "demand_loads", "disk_loads", "stall_s", "bytes_read")
        return {name: getattr(stats, name) for name in names}
    return {"requests": getattr(rows, "requests", 0), "demand_loads": rows.demand_loads}


def _anonymous() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon"))


# --- taking turns ----------------------------------------------------------------------------------


@contextlib.contextmanager
def started(arm: Arm) -> Iterator[subprocess.Popen[str]]:
    folder = Path(tempfile.mkdtemp(prefix="ttf-tables-", dir=os.environ.get("TTF_BENCH_DIR")))
    group = _GROUPS / f"ttf-bench-{os.getpid()}-{time.monotonic_ns()}"
    words = [sys.executable, __file__, "--serve", json.dumps(asdict(arm)), str(folder)]
    if arm.limit:
        group.mkdir()
        (group / "memory.limit_in_bytes").write_text(str(arm.limit))
        words = ["sh", "-c", f'echo $$ > {group}/cgroup.procs && exec "$@"', "sh", *words]
    environment = os.environ | arm.environment
    process = subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
    )
    try:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder)
        for _ in range(100 if arm.limit else 0):
            with contextlib.suppress(OSError):
                group.rmdir()
                break
            time.sleep(0.05)


def ask(process: subprocess.Popen[str], steps: int) -> dict[str, float]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{steps}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    if not answer:
        raise SystemExit(f"an arm ended with status {process.wait()}")
    return dict(json.loads(answer))


def compare(arms: list[Arm], *, warm: list[int], block: int, blocks: int) -> None:
    """The first arm is what the others are compared with."""
    found: dict[str, list[dict[str, float]]] = {arm.name: [] for arm in arms}
    with contextlib.ExitStack() as stack:
        running = {arm.name: stack.enter_context(started(arm)) for arm in arms}
        for arm, steps in zip(arms, warm, strict=True):
            ask(running[arm.name], steps)
        for number in range(blocks):
            for arm in arms if number % 2 == 0 else arms[::-1]:
                found[arm.name].append(ask(running[arm.name], block))
    first = found[arms[0].name]
    for arm in arms:
        _print(arm, found[arm.name], first, block)


def _print(
    arm: Arm, blocks: list[dict[str, float]], first: list[dict[str, float]], steps: int
) -> None:
    def ratio(name: str) -> float:
        return median(a[name] / b[name] for a, b in zip(first, blocks, strict=True))

    total = {name: sum(each[name] for each in blocks) for name in blocks[0]}
    seconds = median(b["seconds"] for b in blocks) / steps
    words = [
        f"{arm.name}: {seconds:.3f} s a step",
        f"{ratio('seconds'):.3f} of the first arm's speed",
        f"processor {median(b['cpu_s'] for b in blocks) / steps:.3f} s ({ratio('cpu_s'):.3f})",
        f"{total['demand_loads']:,.0f} demand loads",
    ]
    if "stall_s" in total:
        words += [
            f"stall {total['stall_s'] / total['seconds']:.2%}",
            f"hits {total['hits'] / max(1, total['requests']):.2%}",
            f"{total['bytes_read'] / 1e6 / steps / len(blocks):.1f} MB read a step",
        ]
    print(", ".join([*words, f"anonymous {max(b['anon'] for b in blocks) / 1e6:.0f} MB"]))


# --- the rows of the issue -------------------------------------------------------------------------


def fits(args: argparse.Namespace) -> None:
    for order in ("zipf", "shuffled"):
        print(f"-- {order}, 200,000 rows, everything in memory, lazy Adam")
        torch = Arm(name="torch", kind="ram", order=order, rows=200_000, threads=args.threads)
        table = replace(torch, name="table", kind="table")
        compare([torch, table], warm=[5, 26], block=args.block, blocks=args.blocks)


def four_times(args: argparse.Namespace) -> None:
    for order in ("shuffled", "zipf"):
        print(f"-- {order}, 1,000,000 rows of 576 bytes, row-wise Adagrad, memory for a quarter")
        # L1 is a quarter of the file; what is kept of each row beside it is 16 bytes.
        quarter = 1_000_000 * 576 // 4
        whole = Arm(
            name="all in memory",
            kind="table",
            order=order,
            rows=1_000_000,
            optimizer="adagrad",
            threads=args.threads,
        )
        ahead = replace(
            whole,
            name="a quarter, looking ahead",
            budget=quarter + 16_000_000,
            ahead=args.ahead,
            limit=quarter + _OTHER_BYTES,
        )
        passive = replace(
            ahead, name="... threads that sleep", environment={"OMP_WAIT_POLICY": "passive"}
        )
        compare([whole, ahead, passive], warm=[130] * 3, block=args.block, blocks=args.blocks)


def against_lru(args: argparse.Namespace) -> None:
    print("-- shuffled, 400,000 rows, Adam, memory for a quarter")
    quarter = 400_000 * 1600 // 4
    lru = Arm(
        name="map and LRU",
        kind="lru",
        order="shuffled",
        rows=400_000,
        budget=quarter,
        threads=args.threads,
        limit=quarter + _OTHER_BYTES,
    )
    table = replace(lru, name="table", kind="table", ahead=args.ahead)
    compare([lru, table], warm=[55, 55], block=args.block, blocks=args.blocks)


def zipf(args: argparse.Namespace) -> None:
    print(
        "-- Zipf(1.0), 771,115 rows, memory for a quarter, batch 512, with and without look-ahead"
    )
    quarter = 771_115 * 576 // 4
    alone = Arm(
        name="not announced",
        kind="table",
        order="zipf",
        rows=771_115,
        optimizer="adagrad",
        budget=quarter + 16 * 771_115,
        batch=512,
        threads=args.threads,
        limit=quarter + _OTHER_BYTES,
    )
    announced = replace(alone, name="announced", ahead=args.ahead)
    compare([alone, announced], warm=[400, 400], block=4 * args.block, blocks=args.blocks)


def ten_million(args: argparse.Namespace) -> None:
    import torch

    import ttf

    folder = Path(tempfile.mkdtemp(prefix="ttf-tables-", dir=os.environ.get("TTF_BENCH_DIR")))
    draw, steps = np.random.default_rng(0), args.steps
    try:
        with ttf.EmbeddingTable(folder, rows=10_000_000, dim=_DIM, budget="1GB") as table:
            table.update(draw.permutation(10_000_000)[:100_000], torch.zeros(100_000, _DIM))
        began = time.perf_counter()
        table = ttf.EmbeddingTable(folder, rows=10_000_000, dim=_DIM, budget="1GB")
        print(f"opened in {1e3 * (time.perf_counter() - began):.1f} ms")
        held: list[tuple[int, int]] = []
        for step in range(steps):
            ids = draw.integers(0, 10_000_000, 1024)
            table.apply_gradients(ids, table.get(ids))
            if step % 100 == 99:
                held.append((step, _anonymous()))
        later = np.array(held[len(held) // 2 :], np.float64)
        slope = np.polyfit(later[:, 0] / 1000, later[:, 1] / 1e6, 1)[0]
        print(f"{steps:,} steps; anonymous {later[-1, 1] / 1e6:.0f} MB, slope {slope:.3f} MB/1,000")
        print(table.stats().line())
        table.abandon()
    finally:
        shutil.rmtree(folder)


ALL = {
    "fits": fits,
    "four-times": four_times,
    "lru": against_lru,
    "zipf": zipf,
    "ten-million": ten_million,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=ALL)
    parser.add_argument("--block", type=int, default=10)
    parser.add_argument("--blocks", type=int, default=7)
    parser.add_argument("--ahead", type=int, default=40)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=10_000, help="of ten-million")
    parser.add_argument("--serve", nargs=2, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        serve(Arm(**json.loads(args.serve[0])), Path(args.serve[1]))
        return
    for name, measure in ALL.items():
        if args.only in (None, name):
            measure(args)


if __name__ == "__main__":
    main()
