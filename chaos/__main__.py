"""The long campaign of real faults against real runs: `python -m chaos`, or `make chaos`.

    python -m chaos                              the whole table into docs/reliability.md
    python -m chaos --quick                      a few of each; prints the table, writes no page
    python -m chaos --only trainer-death --runs 4 --seed 7
    python -m chaos --soak 60                    one long run, a death every 20 s on average
    python -m chaos --soak 30 --hosts            the same on two hosts, a failure every 60 s

Linux; root for the faults that mount or limit (they are left out otherwise, and the table says so).
Exit code 1 if any run did not keep a promise; its folder is kept and its command is printed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shlex
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from chaos import report
from chaos.campaign import Row, run_fault
from chaos.faults import ALL
from chaos.soak import soak
from chaos.soak_of_hosts import soak_of_hosts
from chaos.world import ROOT, World


def main(argv: Sequence[str] | None = None) -> int:
    options = _options().parse_args(argv)
    seed = options.seed if options.seed is not None else random.SystemRandom().randrange(10**6)
    folder = Path(tempfile.mkdtemp(prefix="ttf-chaos-", dir=options.work))
    _say(f"seed {seed}, {options.jobs} at a time, in {folder}")
    world = World(folder=folder, seed=seed)
    command = shlex.join(["python", "-m", "chaos", *(sys.argv[1:] if argv is None else argv)])
    ok = _soak(world, command, options) if options.soak else _campaign(world, command, options)
    if ok:
        shutil.rmtree(folder)
    else:
        _say(f"see {folder}")
    return 0 if ok else 1


def _campaign(world: World, command: str, options: argparse.Namespace) -> bool:
    rows = [_row(world, name, options) for name in options.only or [f.name for f in ALL]]
    print(f"\n{report.plain(rows)}\n")
    print("\n".join(line for line in report.phases(rows) if line))
    if options.json:
        options.json.write_text(json.dumps(_document(rows, world.seed), indent=2))
    if _is_whole(options):
        table = report.markdown(rows, world.seed, options.jobs, command)
        report.write_into(report.PAGE, table)
        _say(f"written into {report.PAGE.relative_to(ROOT)}")
    failed = [row.fault.name for row in rows if not row.ok]
    if failed:
        _say(f"NOT WELL: {', '.join(failed)}")
    return not failed


def _soak(world: World, command: str, options: argparse.Namespace) -> bool:
    made = (soak_of_hosts if options.hosts else soak)(world, options.soak)
    lines = made.lines()
    print("", *lines, sep="\n")
    if not options.no_write:
        told = report.about(command, world.seed, made.seconds / 60)
        text = "\n\n".join([told, *lines])
        alone, hosts = (
            (report.SOAK_BEGIN, report.SOAK_END),
            (report.HOSTS_BEGIN, report.HOSTS_END),
        )
        report.write_into(report.PAGE, text, *(hosts if options.hosts else alone))
    return made.verdict.ok


def _row(world: World, name: str, options: argparse.Namespace) -> Row:
    fault = next(fault for fault in ALL if fault.name == name)
    runs = options.runs or (fault.quick if options.quick else fault.runs)
    return run_fault(fault, world, runs=runs, first=options.first, jobs=options.jobs, say=_say)


def _is_whole(options: argparse.Namespace) -> bool:
    """What goes into the page is never a part."""
    return not (options.only or options.quick or options.runs or options.first or options.no_write)


def _document(rows: Sequence[Row], seed: int) -> dict[str, object]:
    return {
        "seed": seed,
        "rows": [
            {
                "fault": row.fault.name,
                "skipped": row.skipped,
                "runs": len(row.verdicts),
                "struck": row.deaths,
                "phases": dict(row.phases),
                "problems": [p for verdict in row.verdicts for p in verdict.problems],
            }
            for row in rows
        ],
    }


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--seed", type=int, help="of all random numbers; a random one is told")
    parser.add_argument(
        "--only", action="append", choices=[f.name for f in ALL], help="this fault; repeatable"
    )
    parser.add_argument("--runs", type=int, default=0, metavar="N", help="repetitions of each")
    parser.add_argument(
        "--first", type=int, default=0, metavar="N", help="number of the first repetition"
    )
    parser.add_argument("--quick", action="store_true", help="a few repetitions of each")
    parser.add_argument(
        "--jobs", type=int, default=min(4, os.cpu_count() or 1), metavar="N", help="runs at a time"
    )
    parser.add_argument(
        "--soak", type=float, default=0.0, metavar="MINUTES", help="one long run instead"
    )
    parser.add_argument(
        "--hosts", action="store_true", help="the soak: on two hosts, by namespaces"
    )
    parser.add_argument("--no-write", action="store_true", help="leave docs/reliability.md alone")
    parser.add_argument("--work", type=Path, help="folder for the runs; a disk, not a tmpfs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="the outcome, for programs")
    return parser


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", flush=True)


if __name__ == "__main__":
    sys.exit(main())
