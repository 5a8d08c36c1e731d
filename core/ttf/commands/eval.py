"""`ttf eval`: exact metrics of a run against the full bank."""

from __future__ import annotations

from pathlib import Path

import click

from ttf.commands import _options as options
from ttf.text.numbers import number
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import next_command, say, show_result


@click.command(
    epilog="""\b
Examples:
  ttf eval runs/run-001
  ttf eval runs/run-001 --k 1,5,50
  ttf eval runs/run-001 --pairs test.npz --bank other.npz --json
  ttf eval runs/run-001 --pairs test.npz --set data.names.X_val=queries"""
)
@click.argument("run_dir", type=options.PATH, metavar="RUN_DIR")
@options.data(
    "--pairs",
    help="Other pairs: their X_val, or all of X_train if there is none. [default: the validation "
    "pairs of the run]",
)
@options.data("--bank", help="Another bank of documents. [default: that of the run]")
@click.option(
    "--k",
    "ks",
    type=options.INT_LIST,
    default="1,10,100,500",
    help="Numbers of documents for which recall is computed.",
)
@click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY.PATH=VALUE",
    help="Set a key of [data], e.g. data.names.X_val=queries. The value is TOML.",
)
@options.allow_remote
@options.as_json
def command(
    run_dir: Path,
    pairs: Path | str | None,
    bank: Path | str | None,
    ks: tuple[int, ...],
    sets: tuple[str, ...],
    allow_remote: bool,
    as_json: bool,
) -> None:
    """Compute exact recall@k, MRR@10 and nDCG@10 of the validation pairs with the full bank."""
    from ttf import api

    found = api.evaluate_run(
        run_dir, k=ks, pairs=pairs, bank=bank, sets=sets, allow_remote=allow_remote
    )
    metrics = found["metrics"]
    show_result(found, table([(name, number(value)) for name, value in metrics.items()]), as_json)
    for note in found["notes"]:
        say(note)
    next_command(f"ttf search {quoted(run_dir)} --queries FILE -k {max(ks[0], 10)}")
