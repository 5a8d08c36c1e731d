"""`ttf data synth`: a seeded set of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from ttf.commands import _options as options
from ttf.commands._data_common import check_outputs, progress_lines
from ttf.commands._output import next_command, show_result
from ttf.text.numbers import size
from ttf.text.shell import quoted


@click.command(
    "synth",
    short_help="Make a set of any size to try things on.",
    epilog="""\b
Examples:
  ttf data synth --out data/demo
  ttf data synth --out data/large --pairs 35904 --val 2048 --seq-len 100 --dim 768 --bank 771115
  ttf data synth --out data/half --dtype bf16 --format zarr --json""",
)
@options.path("--out", required=True, metavar="DIR", help="Folder of both files.")
@click.option("--pairs", type=options.POSITIVE, default=8192, help="Training pairs.")
@click.option("--val", type=options.NATURAL, default=1024, help="Validation pairs.")
@click.option("--seq-len", type=options.POSITIVE, default=16, help="Vectors per query.")
@click.option("--dim", type=click.IntRange(min=2), default=64, help="Width.")
@click.option("--bank", type=click.IntRange(min=2), default=16384, help="Documents.")
@click.option("--seed", type=options.NATURAL, default=0, help="Equal seed, equal set.")
@options.one_of("--format", "npz", "zarr", default="npz", help="Of the files.")
@options.dtype(default="f32", help="Of the vectors.")
@click.option("--targets", is_flag=True, help="Write Y_train and Y_val besides pos_train, pos_val.")
@options.overwrite
@options.as_json
def synth_command(
    out: Path,
    format: Literal["npz", "zarr"],
    dtype: str,
    targets: bool,
    overwrite: bool,
    as_json: bool,
    **shape: Any,
) -> None:
    """Make a set that a sequence tower can learn and no average of the sequence can.

    One step of each query carries a marker; the step after it is the target document. Writes
    pairs and bank into DIR with bounded memory, whatever the size.
    With --json: {"pairs", "bank", "bytes", "seed"}.
    """
    from ttf.data.synth import SynthShape, write_synth
    from ttf.data.vectors import parse_dtype

    check_outputs([str(out / f"{name}.{format}") for name in ("pairs", "bank")], overwrite)
    made = write_synth(
        out,
        SynthShape(**shape),
        container=format,
        dtype=parse_dtype(dtype),
        targets=targets,
        progress=progress_lines("writing"),
    )
    num_bytes = sum(_bytes(path) for path in made.values())
    document = {**made, "bytes": num_bytes, "seed": shape["seed"]}
    show_result(document, f"{made['pairs']} and {made['bank']}, {size(num_bytes)}", as_json)
    pairs = quoted(made["pairs"])
    next_command(f"ttf train --pairs {pairs} --bank {quoted(made['bank'])}")


def _bytes(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file())
