"""`ttf data encode`: texts to pairs and bank, through an encoder."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import click

from ttf.commands import _hosts, _options as options
from ttf.text.tables import table
from ttf.text.terminal import next_command, say, show_result

if TYPE_CHECKING:
    from ttf.tools.encode.encode import Encoded


@click.command(
    "encode",
    short_help="Make vectors of texts: pairs and bank for ttf train.",
    epilog="""\b
Examples:
  ttf data encode faq.csv --encoder hash --out data
  ttf data encode faq.csv --query question --document answer --encoder sentence-transformers
      --model all-MiniLM-L6-v2 --out data
  ttf data encode beir/scifact --encoder sentence-transformers --model ./my-model --out data
  ttf data encode triplets.parquet --negative negative --encoder hash --out data
  ttf data encode faq.csv --encoder hash --out data --nodes 2 --rendezvous 10.0.0.1:29400

\b
INPUT is a CSV, TSV, JSONL or Parquet file (the first two also with .gz), a folder of Parquet files, a
folder of BEIR (corpus.jsonl, queries.jsonl, qrels/), or a data set of datasets.save_to_disk.
A cell of documents or negatives may hold a list. To continue an interrupted command, run it again.""",
)
@click.argument("inputs", nargs=-1, required=True, type=options.PATH, metavar="INPUT...")
@options.plugin(
    "--encoder",
    "encoder",
    required=True,
    help="Encoder, see: ttf plugins list --kind encoder",
)
@click.option("--model", metavar="PATH_OR_NAME", help="Model of the encoder, on this machine.")
@options.path("--out", required=True, metavar="DIR", help="Folder for pairs, bank and card.")
@click.option(
    "--query", multiple=True, metavar="COL", help="Column of the queries. [default: by its name]"
)
@click.option(
    "--document",
    multiple=True,
    metavar="COL",
    help="Column of the documents; several are joined. [default: by its name]",
)
@click.option(
    "--sequence", metavar="COL", help="Column with a list of passages that are the query, in order."
)
@click.option("--query-id", metavar="COL", help="Column of the ids of queries.")
@click.option("--document-id", metavar="COL", help="Column of the ids of documents.")
@click.option("--negative", multiple=True, metavar="COL", help="Column of your hard negatives.")
@click.option("--grade", metavar="COL", help="Column that says how relevant each document is.")
@click.option("--score", metavar="COL", help="Column of a teacher's scores of the documents.")
@click.option("--negative-score", metavar="COL", help="The same of the negatives.")
@options.one_of("--dtype", "f32", "f16", default="f32", help="Type of the vectors.")
@click.option(
    "--val-split",
    type=options.Parsed("F", lambda text: _share(text)),
    default="auto",
    help="Share of the pairs for validation, drawn by document; auto: 5%, at least 200 pairs, at "
    "most 5,000 and a fifth; 0: none.",
)
@click.option("--seed", type=options.NATURAL, default=0, help="Seed of that draw.")
@options.count("--threads", help="CPU threads. [default: all cores]")
@click.option("--encoding", default="utf-8", metavar="NAME", help="Encoding of text files.")
@click.option("--delimiter", metavar="CHAR", help="Separator of a CSV file. [default: by its head]")
@click.option("--skip-empty", is_flag=True, help="Leave out rows with an empty text.")
@click.option(
    "--set", "sets", multiple=True, metavar="OPTION=VALUE", help="An option of the encoder."
)
@_hosts.hosts
@options.overwrite
@options.as_json
def encode_command(
    inputs: tuple[Path, ...],
    encoder: str,
    model: str | None,
    out: Path,
    dtype: Literal["f32", "f16"],
    val_split: float | Literal["auto"],
    seed: int,
    threads: int | None,
    encoding: str,
    delimiter: str | None,
    skip_empty: bool,
    sets: tuple[str, ...],
    overwrite: bool,
    as_json: bool,
    **columns: Any,
) -> None:
    """Read texts, encode them, and write pairs.npz, bank.npz and a card to DIR.

    Equal documents become one row of the bank. Unless the input has validation pairs, some are drawn,
    so that no document is on both sides. The encoder runs in a process of its own; models are never
    downloaded. Memory stays small for any number of texts.

    With --json: {"out", "pairs", "bank", "context", "counts", "dim", "encoder", "fingerprint",
    "split", "train_command", "already_there", "notes"}.
    """
    from ttf.data.writing import sigterm_raised
    from ttf.text.progress import make_reporter
    from ttf.tools.encode.collect import Reading
    from ttf.tools.encode.encode import Wanted, encode_inputs, help_node_0
    from ttf.tools.encode.encoder_options import chosen
    from ttf.tools.encode.read.columns import Columns

    place = _hosts.place(columns)
    wanted = Wanted(
        inputs=inputs,
        out=out,
        encoder=chosen(encoder, model, sets, threads),
        reading=Reading(
            columns=Columns(**columns),
            encoding=encoding,
            delimiter=_one_letter(delimiter),
            skip_empty=skip_empty,
        ),
        dtype=dtype,
        val_split=val_split,
        seed=seed,
        overwrite=overwrite,
        limited=True,
    )
    with (
        sigterm_raised("Stopped by SIGTERM. To continue, run the same command again."),
        make_reporter(json=as_json) as reporter,
    ):
        if place is not None and not place.is_node_0:
            _hosts.told_at_the_end(help_node_0(wanted, place, reporter), as_json=as_json)
            return
        with _hosts.desk_at(place, reporter.note) as desk:
            made = encode_inputs(wanted, reporter, desk)
    for note in made.notes:
        say(f"note: {note}")
    show_result(made, table(_rows(made)), as_json)
    next_command(made.train_command)


def _share(text: str) -> float | str:
    if text == "auto":
        return text
    try:
        share = float(text)
    except ValueError:
        share = -1.0
    if not 0 <= share < 1:
        raise ValueError(f"{text!r} is not a share: write a number from 0 to 1, such as 0.05.")
    return share


def _one_letter(delimiter: str | None) -> str | None:
    from ttf.errors import ConfigError

    if delimiter is None:
        return None
    letter = "\t" if delimiter in ("\\t", "tab") else delimiter
    if len(letter) != 1 or letter in '\r\n"':
        raise ConfigError(f"--delimiter {delimiter!r}: it must be one character, or tab.")
    return letter


def _rows(made: Encoded) -> list[tuple[str, str]]:
    state = " (already there, nothing to do)" if made.already_there else ""
    files = [made.bank, made.pairs] + ([made.context] if made.context else [])
    rows = [("files", f"{', '.join(files)}{state}")]
    rows += [(name.replace("_", " "), f"{value:,}") for name, value in made.counts.items()]
    rows.append(("vectors", f"{made.dim} numbers, by {made.encoder}"))
    rows.append(("validation", made.split))
    return rows
