"""The exchange of a step, measured, beside what `ttf train --nodes N --plan` says.

    python benchmarks/bench_exchange.py [--ranks 2,3,4] [--floats 4730000] [--repeats 9]
    python benchmarks/bench_exchange.py --mbit 100,1000     as root: two hosts and a cable of that rate
    python benchmarks/bench_exchange.py --far --floats 100000   100 Mb/s, 20 ms each way, 2% of packets lost

Ranks only exchange: nothing is computed. Without --mbit all of them are on the loopback interface.
With it, the plan gets what `ttf doctor --peers` would measure between the two hosts.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.kit.hosts import Host, Hosts, missing

from ttf.tools.doctor.peers.links import Answering, look_at
from ttf.training.plan._rates import LOCAL
from ttf.training.plan.scale import Link, Shape, exchange_s, summed

_PORT = 29500
_TOKEN = "of this benchmark"


def rank(
    rank: int, size: int, local: int, store: str, shards: int, floats: int, repeats: int
) -> None:
    """In a process of its own: prints the seconds of each exchange."""
    import torch

    from ttf.rundir.world_place import WorldPlace
    from ttf.world.gloo import join
    from ttf.world.tree import Fold, Node
    from ttf.world.world import plus

    torch.set_num_threads(1)
    world = join(WorldPlace(rank=rank, size=size, local_size=local, store=store), shards)
    value = torch.full((floats,), 1.0)
    took = []
    for _ in range(repeats + 2):
        fold = Fold[torch.Tensor](plus)
        for shard in world.own_shards:
            fold.add(Node(shard, 1), value.clone())
        world.meet(lambda: None)
        began = time.perf_counter()
        total = world.total(fold)
        took.append(time.perf_counter() - began)
        assert float(total[0]) == shards
    print(json.dumps(took[2:]), flush=True)
    world.close()


def _measured(shape: Shape, args: argparse.Namespace, hosts: Hosts | None) -> float:
    """Of the median exchange, the slowest rank."""
    address = "127.0.0.1" if hosts is None else hosts.a.address
    processes = []
    for number in range(shape.world):
        place = [] if hosts is None else (hosts.a, hosts.b)[number // shape.ranks].prefix
        argv = [*place, sys.executable, __file__, "--as-rank", str(number), str(shape.world),
                str(shape.ranks), f"{address}:{_PORT}", str(shape.shards), str(args.floats),
                str(args.repeats)]  # fmt: skip
        processes.append(subprocess.Popen(argv, stdout=subprocess.PIPE, text=True, cwd=ROOT,
                                          env=os.environ | {"OMP_NUM_THREADS": "1"}))  # fmt: skip
    found = [json.loads(process.communicate(timeout=300)[0]) for process in processes]
    return float(max(statistics.median(took) for took in found))


def answer(address: str) -> None:
    """In a process of the second host: answers until its parent closes the pipe."""
    answering = Answering(address)
    answering.token, answering.node = _TOKEN, 1
    print(answering.port, flush=True)
    sys.stdin.read()


def ask(address: str, port: str) -> None:
    print(json.dumps(look_at((address, int(port)), "", _TOKEN, 1, transfer=True)), flush=True)


def _link(hosts: Hosts) -> Link:
    def start(host: Host, *words: str) -> subprocess.Popen[str]:
        argv = [*host.prefix, sys.executable, __file__, *words]
        return subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    with start(hosts.b, "--as-answer", hosts.b.address) as answering:
        assert answering.stdout is not None
        port = answering.stdout.readline().strip()
        found = json.loads(start(hosts.a, "--as-ask", hosts.b.address, port).communicate()[0])
        answering.communicate()
    return Link(bytes_per_s=found["bytes_per_s"], latency_s=found["rtt_s"] / 2)


def _row(
    shape: Shape, args: argparse.Namespace, mbit: int, hosts: Hosts | None, network: Link
) -> None:
    sent = summed(shape, args.floats)
    planned = exchange_s(shape, sent, network, LOCAL)
    measured = _measured(shape, args, hosts)
    where = "loopback"
    if hosts is not None:
        where = f"{mbit:,} Mb/s, as measured {network.bytes_per_s * 8 / 1e6:,.1f}"
    print(
        f"| {where} | {shape.nodes} x {shape.ranks} | {sent.by_rank / 1e6:.1f} MB | "
        f"{planned * 1e3:.0f} ms | {measured * 1e3:.0f} ms | {measured / planned:.2f} |",
        flush=True,
    )


def _limited(hosts: Hosts, mbit: int) -> None:
    for host in (hosts.a, hosts.b):
        subprocess.run(
            ["tc", "-n", host.space, "qdisc", "replace", "dev", host.device, "root", "tbf", "rate",
             f"{mbit}mbit", "burst", "128kb", "latency", "10ms"],
            check=True,
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--ranks", default="2,3,4", help="of the whole run; with --mbit, of a node")
    parser.add_argument("--floats", type=int, default=4_730_000)
    parser.add_argument("--shards", type=int, default=8)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--mbit", default="")
    parser.add_argument("--far", action="store_true")
    for name in ("--as-rank", "--as-answer", "--as-ask"):
        parser.add_argument(name, nargs="*", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.as_answer or args.as_ask:
        if args.as_answer:
            answer(*args.as_answer)
        else:
            ask(*args.as_ask)
        return 0
    if args.as_rank:
        number, size, local, store, *rest = args.as_rank
        rank(int(number), int(size), int(local), store, *map(int, rest))
        return 0
    if (args.mbit or args.far) and (why := missing()):
        print(why, file=sys.stderr)
        return 2
    print("| link | nodes x ranks | a rank sends | planned | measured | ratio |")
    print("|---|---|---|---|---|---|")
    ranks = [int(text) for text in args.ranks.split(",")]
    if args.far:
        with Hosts(slow=True) as hosts:
            network = _link(hosts)
            for count in ranks:
                shape = Shape(nodes=2, ranks=count, shards=args.shards)
                _row(shape, args, 100, hosts, network)
        return 0
    with Hosts() if args.mbit else contextlib.nullcontext() as hosts:
        for mbit in map(int, filter(None, args.mbit.split(","))):
            assert hosts is not None
            _limited(hosts, mbit)
            network = _link(hosts)
            for count in ranks:
                _row(Shape(nodes=2, ranks=count, shards=args.shards), args, mbit, hosts, network)
        if hosts is None:
            for count in ranks:
                _row(Shape(ranks=count, shards=args.shards), args, 0, None, LOCAL)
    return 0


if __name__ == "__main__":
    sys.exit(main())
