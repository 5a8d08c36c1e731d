"""`ttf data convert` and `ttf data subset`: make new files from existing files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ttf.commands import _options as options
from ttf.commands._data_common import check_outputs, progress_lines, train_command
from ttf.text.shell import quoted
from ttf.text.terminal import next_command, say, show_result


@click.command(
    "convert",
    short_help="Convert a file to another format, type or layout.",
    epilog="""\b
Examples:
  ttf data convert packed.npz plain.npz            uncompressed, so that it can be mapped
  ttf data convert bank.npz bank.zarr
  ttf data convert bank.npz bank-half.npz --dtype bf16
  ttf data convert all.npz vectors.npz --array vectors
  ttf data convert sparse.zarr whole.npz --missing-is-fill""",
)
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@options.dtype(help="Type of the vectors (all floating-point arrays). [default: unchanged]")
@click.option(
    "--array",
    "arrays",
    multiple=True,
    metavar="NAME",
    help="Convert only this array; may be given several times.",
)
@options.storage
@options.plugin(
    "--to-storage",
    "storage",
    "auto",
    default="auto",
    help="Storage plugin that writes OUT; auto: by the file ending.",
)
@click.option(
    "--missing-is-fill",
    is_flag=True,
    help=(
        "Chunks of Zarr that do not exist were never written, because they hold only the fill value "
        "(not: they were lost). [default: refused]"
    ),
)
@options.overwrite
@options.as_json
def convert_command(
    source: str,
    target: str,
    dtype: str | None,
    missing_is_fill: bool,
    overwrite: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Convert a file to another format or type, uncompressed and page-aligned.

    The memory use is small for any size. float64 becomes float32, short integers become int32, and
    pickled objects are refused.
    With --json: {"path", "arrays": [{"name", "shape", "dtype"}], "left_out",
    "notes"}.
    """
    from ttf.data.convert import convert
    from ttf.data.vectors import parse_dtype
    from ttf.machine.memory.reading import limited_reading

    check_outputs([target], overwrite)
    with limited_reading(source):
        done = convert(
            source,
            target,
            dtype=parse_dtype(dtype) if dtype else None,
            missing="fill" if missing_is_fill else "refuse",
            progress=progress_lines("converting"),
            **how,
        )
    lines = [f"{a['name']}  {'x'.join(map(str, a['shape']))}  {a['dtype']}" for a in done.arrays]
    show_result(done, "\n".join(lines), as_json)
    for note in done.notes:
        say(note)
    named = "" if how["to_storage"] == "auto" else f" --storage {how['to_storage']}"
    next_command(f"ttf data inspect {quoted(target)}{named}")


@click.command(
    "subset",
    short_help="Write fewer pairs, and optionally a smaller bank.",
    epilog="""\b
Examples:
  ttf data subset pairs.npz small.npz --train 1000              the first 1000 pairs
  ttf data subset pairs.npz small.npz --train 1000 --seed 0     1000 random pairs
  ttf data subset pairs.npz small.npz --train 1000 --bank bank.npz --bank-out small-bank.npz
  ttf data subset pairs.npz small.npz --train 1000 --bank bank.npz --bank-out small-bank.npz \\
      --context context.npz

\b
If the pairs have seq_* and the bank is cut, ttf must know to which file the row numbers belong:
use --context FILE or --context-is-bank.""",
)
@click.argument("pairs", metavar="PAIRS")
@click.argument("out", metavar="OUT")
@options.count("--train", help="Training pairs. [default: all]")
@options.count("--val", help="Validation pairs. [default: all]")
@click.option(
    "--seed",
    type=options.NATURAL,
    metavar="N",
    help="Choose random pairs with this seed. [default: the first pairs]",
)
@click.option(
    "--bank", metavar="FILE", help="Cut this bank too: keep only the rows that the pairs need."
)
@click.option("--bank-out", metavar="FILE", help="File for the smaller bank.")
@click.option(
    "--distractors",
    type=options.NATURAL,
    default=0,
    metavar="N",
    help="Number of further random rows that the smaller bank keeps.",
)
@click.option(
    "--context", metavar="FILE", help="seq_* contains row numbers of this file; they stay the same."
)
@click.option(
    "--context-is-bank",
    is_flag=True,
    help="seq_* contains row numbers of the bank; they get the new numbers.",
)
@options.overwrite
@options.as_json
def subset_command(
    pairs: str,
    out: str,
    bank: str | None,
    bank_out: str | None,
    overwrite: bool,
    as_json: bool,
    **keep: Any,
) -> None:
    """Write fewer pairs, and optionally a smaller bank.

    With --json: {"pairs", "rows": {"train", "val"}, "bank", "bank_rows"}.
    """
    from ttf.data.companions import companions
    from ttf.data.subset import Subset, subset

    check_outputs([p for p in (out, bank_out) if p], overwrite)
    done = subset(pairs, out, Subset(**keep), bank=bank, bank_out=bank_out)
    rows = ", ".join(f"{count} {split}" for split, count in done["rows"].items())
    cut = f"; {bank_out}: {done['bank_rows']} rows" if bank_out else ""
    show_result(done, f"{out}: {rows}{cut}", as_json)
    found = companions(out)
    if found is not None:
        if keep["context_is_bank"]:
            found = replace(found, needs_context=False)
        elif keep["context"]:
            found = replace(found, context=keep["context"])
        next_command(train_command(replace(found, bank=bank_out or found.bank)))
