"""`ttf data convert` and `ttf data subset`: make new files from existing files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import click

from ttf.commands import _options as options
from ttf.commands._data_common import check_outputs, progress_lines, train_command
from ttf.commands._output import next_command, say, show_result
from ttf.text.shell import quoted


@click.command(
    "convert",
    short_help="Rewrite a file: another format, type or layout.",
    epilog="""\b
Examples:
  ttf data convert packed.npz plain.npz            a compressed file, made mappable
  ttf data convert bank.npz bank.zarr
  ttf data convert bank.npz bank-half.npz --dtype bf16
  ttf data convert all.npz vectors.npz --array vectors""",
)
@click.argument("source", metavar="IN")
@click.argument("target", metavar="OUT")
@options.dtype(
    help="Of the vectors (vectors, X_*, Y_*, whatever is floating point). [default: as it is]"
)
@click.option("--array", "arrays", multiple=True, metavar="NAME", help="Only this one; repeatable.")
@options.storage
@options.plugin(
    "--to-storage", "storage", "auto", default="auto", help="Writes OUT; auto: by its ending."
)
@options.overwrite
@options.as_json
def convert_command(
    source: str,
    target: str,
    dtype: str | None,
    overwrite: bool,
    as_json: bool,
    **how: Any,
) -> None:
    """Rewrite a container: uncompressed, page-aligned, in another format or type.

    Streams with bounded memory. float64 becomes float32, short integers int32; pickled objects are
    refused. With --json: {"path", "arrays": [{"name", "shape", "dtype"}], "left_out"}.
    """
    from ttf.data.convert import convert
    from ttf.data.vectors import parse_dtype

    check_outputs([target], overwrite)
    done = convert(
        source,
        target,
        dtype=parse_dtype(dtype) if dtype else None,
        progress=progress_lines("converting"),
        **how,
    )
    lines = [f"{a['name']}  {'x'.join(map(str, a['shape']))}  {a['dtype']}" for a in done.arrays]
    show_result(done, "\n".join(lines), as_json)
    for name in done.left_out:
        say(f"Left out {name!r}: a single value, not rows.")
    named = "" if how["to_storage"] == "auto" else f" --storage {how['to_storage']}"
    next_command(f"ttf data inspect {quoted(target)}{named}")


@click.command(
    "subset",
    short_help="Fewer pairs, and a smaller bank if you like.",
    epilog="""\b
Examples:
  ttf data subset pairs.npz small.npz --train 1000              the first 1000 pairs
  ttf data subset pairs.npz small.npz --train 1000 --seed 0     1000 random ones
  ttf data subset pairs.npz small.npz --train 1000 --bank bank.npz --bank-out small-bank.npz
  ttf data subset pairs.npz small.npz --train 1000 --bank bank.npz --bank-out small-bank.npz \\
      --context context.npz
\b
Where there is seq_* and the bank is cut, say what seq_* refers to: --context FILE, whose rows keep
their numbers, or --context-is-bank.""",
)
@click.argument("pairs", metavar="PAIRS")
@click.argument("out", metavar="OUT")
@options.count("--train", help="Training pairs. [default: all]")
@options.count("--val", help="Validation pairs. [default: all]")
@click.option(
    "--seed", type=options.NATURAL, metavar="N", help="Random pairs. [default: the first ones]"
)
@click.option("--bank", metavar="FILE", help="Cut this bank as well, to the rows that are needed.")
@click.option("--bank-out", metavar="FILE", help="Where to write the cut bank.")
@click.option(
    "--distractors",
    type=options.NATURAL,
    default=0,
    metavar="N",
    help="Random further rows that the cut bank keeps.",
)
@click.option("--context", metavar="FILE", help="seq_* numbers rows of this file; it is not cut.")
@click.option(
    "--context-is-bank", is_flag=True, help="seq_* numbers rows of the bank; renumbered with it."
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
    """Cut a set down to fewer pairs, and the bank with it if you like.

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
