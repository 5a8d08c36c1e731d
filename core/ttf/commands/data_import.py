"""`ttf data import`: vectors of other containers and of servers, as folders that ttf trains on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ttf.commands import _options as options
from ttf.commands._data_common import progress_lines
from ttf.text.shell import quoted
from ttf.text.terminal import next_command, say, show_result


@click.command(
    "import",
    short_help="Import vectors of other containers and servers.",
    epilog="""\b
Examples:
  ttf data import glove-100-angular.hdf5 --out data/glove       train, test and neighbors
  ttf data import sift/ --out data/sift                         fvecs, bvecs, ivecs
  ttf data import docs.faiss --out data/docs                    a flat index, with its ids
  ttf data import docs.parquet --vectors embedding --ids doc_id --out data/docs
  ttf data import docs.pt --queries queries.pt --positives truth.ivecs --out data/docs

\b
After a kill, the same command goes on where it was.""",
)
@click.argument("source", metavar="INPUT")
@options.path(
    "--out", required=True, metavar="DIR", help="Folder for bank/, pairs/ and import.json."
)
@click.option("--vectors", metavar="NAME", help="Array or column of the documents' vectors.")
@click.option("--ids", metavar="NAME", help="Array or column of their ids; none: leave them out.")
@click.option(
    "--queries",
    metavar="NAME|FILE",
    help="Vectors of queries: an array of INPUT, or another file. none: write no pairs.",
)
@click.option(
    "--positives",
    metavar="NAME|FILE",
    help="For each query, the rows of its documents, best first: an array of INPUT, or another file.",
)
@options.count(
    "--num-positives", default=1, help="How many of them are positives; the others are left out."
)
@options.dtype(help="Type of the vectors. [default: unchanged]")
@options.storage
@options.overwrite
@options.as_json
def import_command(
    source: str,
    out: Path,
    queries: str | None,
    positives: str | None,
    dtype: str | None,
    storage: str,
    overwrite: bool,
    as_json: bool,
    **wanted: Any,
) -> None:
    """Import vectors of other containers and servers into folders of .npy files.

    Reads HDF5 of ann-benchmarks, fvecs/bvecs/ivecs, flat FAISS indexes, tensors of torch (.pt),
    Parquet, Arrow, safetensors, and whatever a storage plugin reads. The memory use is small for any
    size. What was written is read back before it gets its name.
    With --json: {"source", "what", "key", "bank", "pairs", "arrays": [{"container", "name", "shape",
    "dtype"}], "notes", "resumed_at"}.
    """
    from ttf.data.vectors import parse_dtype
    from ttf.machine.memory.reading import limited_reading
    from ttf.tools.import_.roles import Wanted
    from ttf.tools.import_.run import import_vectors

    with limited_reading(source, queries, positives):
        done = import_vectors(
            source,
            out,
            queries=queries,
            positives=positives,
            wanted=Wanted(dtype=parse_dtype(dtype) if dtype else None, **wanted),
            storage=storage,
            overwrite=overwrite,
            progress=progress_lines("importing"),
        )
    lines = [
        f"{a['container']}/{a['name']}  {'x'.join(map(str, a['shape']))}  {a['dtype']}"
        for a in done.arrays
    ]
    show_result(done, "\n".join(lines), as_json)
    if done.resumed_at:
        say(f"{done.resumed_at:,} rows were there from an earlier attempt.")
    for note in done.notes:
        say(note)
    pairs = "FILE" if done.pairs is None else quoted(done.pairs)
    next_command(f"ttf train --pairs {pairs} --bank {quoted(done.bank)}")
