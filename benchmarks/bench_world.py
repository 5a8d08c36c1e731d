"""What two processes of one run pay for being together, against the same two without exchange.

Two processes of one thread each take turns between arms: both do an arm at the same time, and the
slower one counts. Neighbouring turns are compared; printed are medians of paired ratios with 95%
bounds. Both arms share the memory bandwidth of the machine, so only the exchange differs. On a machine
with other work the seconds say little; the processor time of both processes is printed too.

    python benchmarks/bench_world.py mining                  # queries and rows of a shared round
    python benchmarks/bench_world.py exchange --length 100   # optimizer steps
    python benchmarks/bench_world.py exchange --length 1 --samples 4096
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Final

import numpy as np

from ttf.config.resolve import resolve
from ttf.data.synth import SynthShape, write_synth
from ttf.machine import devices
from ttf.rundir.world_place import WorldPlace
from ttf.tools.bench.paired import in_turns, ratio

RANKS: Final = 2
Arms = Mapping[str, Callable[[], object]]


# --- the two processes ------------------------------------------------------------------------------


def mining_arms(given: argparse.Namespace, rank: int, place: WorldPlace) -> Iterator[Arms]:
    """Each searches a half; a shared round gives all answers to both."""
    from ttf.data.sources import MemorySource
    from ttf.mining.scan.bf16_bank import open_half
    from ttf.mining.scan.certified_top_k import Scan
    from ttf.mining.scan.merged_parts import best_of, keys_of
    from ttf.mining.scan.scan_counters import ScanTally
    from ttf.training.best_of_parts import best_of_parts
    from ttf.training.team import Team
    from ttf.world.gloo import join

    rng = np.random.default_rng(0)
    bank = unit(rng.standard_normal((given.rows, given.dim), np.float32))
    queries = unit(rng.standard_normal((given.queries, given.dim), np.float32))
    world, k = join(place, RANKS), given.k
    team, joined, moved, said = Team(world), world.joined, [0], list[str]()

    def counted(rows: Any, counts: Sequence[int]) -> Any:
        found = joined(rows, counts)
        moved[0] += found.nbytes
        return found

    parts, halves = team.parts(len(queries), 1024), team.parts(len(bank), 64)
    asked, own = team.mine(parts), team.mine(halves)
    everything = [range(len(queries))] * RANKS

    def scan_of(rows: np.ndarray[Any, Any]) -> Scan:
        half = open_half(MemorySource(rows), Path(given.folder) / f"cache-{rank}", say)
        return Scan(bank=half, threads=1, budget_bytes=1 << 30, first=given.first)

    whole, part = scan_of(bank), scan_of(bank[own.start : own.stop])

    def half_of_queries() -> Any:
        return whole.top_k(queries[asked.start : asked.stop], k, ScanTally())

    def half_of_rows() -> Any:
        return part.top_k(queries, k, ScanTally())

    def shared_queries() -> None:
        found = team.stage("mining", half_of_queries)
        out = np.empty((len(queries), k), np.int64), np.empty((len(queries), k), np.float32)
        for into, rows in zip(out, found, strict=True):
            read = partial(slice_of, rows)
            for start, piece in team.pieces(parts, read, (k,), into.dtype):
                into[start : start + len(piece)] = piece

    def shared_rows() -> None:
        keys = keys_of(team.stage("mining", half_of_rows), own.start)
        world.joined = counted  # type: ignore[method-assign]
        for _, best in best_of_parts(team, everything, lambda a, b: keys[a:b], k):
            best_of(best, k)
        world.joined = joined  # type: ignore[method-assign]
        if rank == 0 and not said:
            said.append(
                f"answers by rows: {moved[0]:,} B in a round, {moved[0] / len(queries) / k:.2f} B "
                "each; by queries 12 B each"
            )
            say(said[0])

    yield {
        "half of the queries": half_of_queries,
        "shared queries": shared_queries,
        "half of the rows": half_of_rows,
        "shared rows": shared_rows,
    }


def say(text: str) -> None:
    print(text, file=sys.stderr)


def slice_of(rows: np.ndarray[Any, Any], start: int, stop: int) -> np.ndarray[Any, Any]:
    return rows[start:stop]


def unit(rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True), np.float32)


@contextlib.contextmanager
def exchange_arms(given: argparse.Namespace, rank: int, place: WorldPlace) -> Iterator[Arms]:
    """The same optimizer steps; without exchange each goes on with its own half of the gradient."""
    length = given.length
    resolved = resolve(
        sets=["tower.query.hidden=512", "miner.negatives=0", f"train.shards={RANKS}"],
        flags={
            "pairs": str(Path(given.folder) / "pairs.npz"),
            "bank": str(Path(given.folder) / "bank.npz"),
            "steps": 100_000,
            "batch_size": given.samples,
            "tower": "gru" if length > 1 else "mlp",
        },
    )
    policy = devices.choose("cpu", {}, 1)
    devices.prepare(policy)
    from torch import Tensor

    from ttf.rundir.run_folder import RunFolder
    from ttf.text.progress import Reporter
    from ttf.training.session import open_session
    from ttf.world.gloo import GlooWorld
    from ttf.world.tree import Fold

    class Switched(GlooWorld):
        together = True

        def total(self, fold: Fold[Tensor]) -> Tensor:
            if self.together:
                return super().total(fold)
            ((_, own),) = fold.nodes()
            return own

        def joined(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
            if self.together:
                return super().joined(rows, counts)
            return rows.repeat(RANKS, *[1] * (rows.ndim - 1))[: sum(counts)]

    world = Switched(place, RANKS)
    folder = RunFolder.new(Path(given.folder) / f"run-{rank}")
    with open_session(resolved, folder, policy, Reporter(), world=world) as session:
        parameters = sum(p.numel() for p in session.parts.model.parameters() if p.requires_grad)
        if rank == 0:
            print(f"{parameters:,} trained values", file=sys.stderr)
        number = iter(range(0, 10**9, given.steps))

        def steps(together: bool) -> None:
            world.together = together
            start = next(number)
            with session.load(start, start + given.steps, None) as loader:
                for head, micro_batches in loader:
                    session.parts.stepper(head, micro_batches, 1e-4)

        yield {"with exchange": lambda: steps(True), "without": lambda: steps(False)}


ARMS: Final = {"mining": contextlib.contextmanager(mining_arms), "exchange": exchange_arms}


def rank_main(given: argparse.Namespace) -> None:
    """Does the arm of each line, and answers with its seconds."""
    place = WorldPlace(
        rank=given.rank,
        size=RANKS,
        local_rank=given.rank,
        local_size=RANKS,
        store=given.store,
        interface="lo",
    )
    with ARMS[given.what](given, given.rank, place) as arms:
        print(json.dumps(list(arms)), flush=True)
        for line in sys.stdin:
            began, used = time.perf_counter(), time.process_time()
            arms[json.loads(line)]()
            found = time.perf_counter() - began, time.process_time() - used
            print(json.dumps(found), flush=True)


# --- who asks them ----------------------------------------------------------------------------------


class Pair:
    """Both processes."""

    def __init__(self, given: argparse.Namespace, folder: str) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            store = f"127.0.0.1:{probe.getsockname()[1]}"
        words = [*sys.argv[1:], "--folder", folder, "--store", store]
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
        self._processes = [
            subprocess.Popen(
                [sys.executable, __file__, *words, "--rank", str(rank)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                env=environment,
            )
            for rank in range(RANKS)
        ]
        self.used: dict[str, list[float]] = {}
        (self.names, *_) = [json.loads(line) for line in self._answers()]

    def _answers(self) -> list[str]:
        found = [process.stdout.readline() for process in self._processes if process.stdout]
        if not all(found):
            raise SystemExit("A process ended; see above.")
        return found

    def do(self, name: str) -> float:
        """Seconds of the slower one; notes the processor time of both."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write(json.dumps(name) + "\n")
            process.stdin.flush()
        found = [json.loads(line) for line in self._answers()]
        self.used.setdefault(name, []).append(sum(used for _, used in found))
        return max(float(wall) for wall, _ in found)

    def end(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


def measure(given: argparse.Namespace, folder: str) -> None:
    if given.what == "exchange":
        shape = SynthShape(
            pairs=4 * given.samples, val=32, seq_len=given.length, dim=768, bank=20_000, seed=0
        )
        write_synth(Path(folder), shape)
    pair = Pair(given, folder)
    print(f"load {os.getloadavg()[0]:.1f} at the start, {os.cpu_count()} cores")
    try:
        arms = {name: (lambda name=name: pair.do(name)) for name in pair.names}
        seconds = in_turns(arms, given.repeats)
    finally:
        pair.end()
    used = {name: taken[-given.repeats :] for name, taken in pair.used.items()}
    for name, taken in seconds.items():
        print(f"{name}: {np.median(taken):.3f} s, processor time {np.median(used[name]):.3f} s")
    for one, other in zip(pair.names[::2], pair.names[1::2], strict=True):
        print(f"{one} / {other}: {ratio(seconds[one], seconds[other])}")
        # Where others use the machine too, only this is steady; it does not see who waits.
        print(f"    of the processor time: {ratio(used[one], used[other])}")
    print(f"load {os.getloadavg()[0]:.1f} at the end")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=sorted(ARMS))
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--dim", type=int, default=384)
    parser.add_argument("--queries", type=int, default=4096)
    parser.add_argument("--k", type=int, default=20)
    parser.add_argument("--first", choices=["bf16", "fp32"], default="bf16")
    parser.add_argument("--length", type=int, default=100)
    parser.add_argument("--samples", type=int, default=64)
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--store", help=argparse.SUPPRESS)
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        return rank_main(given)
    with tempfile.TemporaryDirectory() as folder:
        measure(given, folder)
    return None


if __name__ == "__main__":
    main()
