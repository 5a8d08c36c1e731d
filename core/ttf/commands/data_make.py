"""`ttf data synth`: a seeded set of any size."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import click

from ttf.commands import _options as options
from ttf.commands._data_common import check_outputs, progress_lines
from ttf.text.numbers import size
from ttf.text.shell import quoted
from ttf.text.terminal import next_command, show_result


@click.command(
    "synth",
    short_help="Create a synthetic data set of any size.",
    epilog="""\b
Examples:
  ttf data synth --out data/demo
  ttf data synth --out data/large --pairs 35904 --val 2048 --seq-len 100 --dim 768 --bank 771115
  ttf data synth --out data/half --dtype bf16 --format zarr --json""",
)
@options.path("--out", required=True, metavar="DIR", help="Folder for both files.")
@click.option("--pairs", type=options.POSITIVE, default=8192, help="Training pairs.")
@click.option("--val", type=options.NATURAL, default=1024, help="Validation pairs.")
@click.option("--seq-len", type=options.POSITIVE, default=16, help="Vectors per query.")
@click.option("--dim", type=click.IntRange(min=2), default=64, help="Width.")
@click.option("--bank", type=click.IntRange(min=2), default=16384, help="Documents.")
@click.option("--seed", type=options.NATURAL, default=0, help="Seed; equal seeds give equal files.")
@options.one_of("--format", "npz", "zarr", default="npz", help="Format of the files.")
@options.dtype(default="f32", help="Type of the vectors.")
@click.option("--targets", is_flag=True, help="Also write Y_train and Y_val.")
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
    """Create a synthetic data set that needs a sequence tower: a mean of the steps is not enough.

    One step of each query has a marker, and the next step is the target document. Writes pairs and
    bank to DIR. The memory use is small for any size.
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
