"""Training against pytorch-metric-learning and Lightning: the same tower, data and memory bank.

The loop by hand, the two libraries and ours (fp32 and bf16) take turns within one process; a table of
ratios with 95% bounds is printed. The peers come with pip install 'twotower[peers]'.

    python benchmarks/bench_peers.py [--repeats 5] [--quick]
"""

from __future__ import annotations

import argparse
import dataclasses

import click

from ttf.machine.measured import kept_ceilings
from ttf.tools.bench.peers import INSTALL, PEERS
from ttf.tools.bench.sizes import QUICK, REFERENCE
from ttf.tools.bench.table import lines_of
from ttf.tools.bench.training import measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    size = dataclasses.replace(QUICK if given.quick else REFERENCE, repeats=given.repeats)
    names = ("plain-torch", "pytorch-metric-learning", "lightning")
    for name in names:
        print(f"{name} {PEERS[name].version or INSTALL}")
    here = [name for name in names if PEERS[name].installed]
    kept = kept_ceilings()
    figures = {} if kept is None else kept.to_json()
    for line in lines_of(measured("mean", size.length, size, here, figures)):
        click.echo(line)


if __name__ == "__main__":
    main()
