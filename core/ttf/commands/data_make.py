"""`ttf data synth`: a seeded set of any size."""

from __future__ import annotations

from pathlib import Path

import click

from ttf.commands._common import (
    NATURAL,
    PATH,
    POSITIVE,
    choice,
    emit_json,
    json_option,
    next_command,
    quoted,
    show,
)
from ttf.commands._data_common import (
    DTYPE,
    check_outputs,
    overwrite_option,
    progress_lines,
)
from ttf.text.numbers import size


@click.command(
    "synth",
    short_help="Make a set of any size to try things on.",
    epilog="""\b
Examples:
  ttf data synth --out data/demo
  ttf data synth --out data/large --pairs 35904 --val 2048 --seq-len 100 --dim 768 --bank 771115
  ttf data synth --out data/half --dtype bf16 --format zarr --json""",
)
@click.option("--out", type=PATH, required=True, metavar="DIR", help="Folder of both files.")
@click.option("--pairs", type=POSITIVE, default=8192, show_default=True, help="Training pairs.")
@click.option("--val", type=NATURAL, default=1024, show_default=True, help="Validation pairs.")
@click.option("--seq-len", type=POSITIVE, default=16, show_default=True, help="Vectors per query.")
@click.option("--dim", type=click.IntRange(min=2), default=64, show_default=True, help="Width.")
@click.option(
    "--bank", type=click.IntRange(min=2), default=16384, show_default=True, help="Documents."
)
@click.option("--seed", type=NATURAL, default=0, show_default=True, help="Equal seed, equal set.")
@click.option(
    "--format",
    "container",
    type=choice("format", "npz", "zarr"),
    default="npz",
    show_default=True,
    metavar="npz|zarr",
    help="Of the files.",
)
@click.option(
    "--dtype",
    type=DTYPE,
    default="f32",
    show_default=True,
    metavar="f32|f16|bf16",
    help="Of the vectors.",
)
@click.option("--targets", is_flag=True, help="Write Y_train and Y_val besides pos_train, pos_val.")
@overwrite_option
@json_option
def synth_command(
    out: Path,
    pairs: int,
    val: int,
    seq_len: int,
    dim: int,
    bank: int,
    seed: int,
    container: str,
    dtype: str,
    targets: bool,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Make a set that a sequence tower can learn and no average of the sequence can.

    One step of each query carries a marker; the step after it is the target document. Writes
    pairs and bank into DIR with bounded memory, whatever the size.
    With --json: {"pairs", "bank", "bytes", "seed"}.
    """
    from ttf.data.synth import SynthShape, write_synth
    from ttf.data.vectors import parse_dtype

    ending = "zarr" if container == "zarr" else "npz"
    check_outputs([str(out / f"{name}.{ending}") for name in ("pairs", "bank")], overwrite)
    made = write_synth(
        out,
        SynthShape(pairs=pairs, val=val, seq_len=seq_len, dim=dim, bank=bank, seed=seed),
        container="zarr" if container == "zarr" else "npz",
        dtype=parse_dtype(dtype),
        targets=targets,
        progress=progress_lines("writing"),
    )
    num_bytes = sum(_bytes(path) for path in made.values())
    if as_json:
        emit_json({**made, "bytes": num_bytes, "seed": seed})
    else:
        show(f"{made['pairs']} and {made['bank']}, {size(num_bytes)}")
    if val:
        next_command(f"ttf train --pairs {quoted(made['pairs'])} --bank {quoted(made['bank'])}")
    else:  # training needs validation pairs
        next_command(f"ttf data inspect {quoted(made['pairs'])}")


def _bytes(path: Path) -> int:
    files = [path] if path.is_file() else path.rglob("*")
    return sum(f.stat().st_size for f in files if f.is_file())
