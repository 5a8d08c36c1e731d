"""`ttf search`: ids and scores of the best documents for the queries of a file."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from ttf.commands import _options as options
from ttf.errors import ConfigError
from ttf.text.shell import quoted
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.training.found import Found
    from ttf.training.inference import Model

_LONGEST: Final = 100  # letters of a text in the table


@click.command(
    epilog="""\b
Examples:
  ttf search runs/run-001 --queries queries.npz -k 10 | head
  ttf search runs/run-001 --text "how do I reset my password?"
  ttf search runs/run-001 --queries queries.npz -k 100 --out found.npz
  ttf search runs/run-001 --queries queries.npz --bank new-bank.npz

\b
--text needs data of ttf data encode: the card beside them names the encoder.
The file with the queries needs an array `vectors`, X_*, or seq_* (rows of the run's context).
Lengths of sequences X_test are read from len_test (int64), or from mask_test (True for each valid
step)."""
)
@click.argument("run_dir", type=options.PATH, metavar="RUN_DIR")
@options.data("--queries", help="File with the queries.")
@click.option(
    "--text", "texts", multiple=True, metavar="WORDS", help="A query in words; may be repeated."
)
@options.data("--bank", help="Another bank of documents. [default: that of the run]")
@options.count("-k", "--k", "k", default=10, metavar="K", help="Documents per query.")
@options.path(
    "--out",
    metavar="FILE.npz",
    help=(
        "Write `ids` (Q, K) int64 and `scores` (Q, K) float32 to this file. [default: print a "
        "table]"
    ),
)
@options.overwrite
@options.allow_remote
@options.as_json
def command(
    run_dir: Path,
    queries: Path | str | None,
    texts: tuple[str, ...],
    bank: Path | str | None,
    k: int,
    out: Path | None,
    overwrite: bool,
    allow_remote: bool,
    as_json: bool,
) -> None:
    """Find the best documents for queries (exact search), best first.

    The table has tab-separated columns: query (row of the file), rank (from 1), id, score. If the
    bank has an array `ids`, these are the ids; otherwise they are row numbers of the bank. Without
    a bank, they are row numbers of Y_train followed by Y_val. --json has this as "ids_are". If the
    bank has the texts of its documents, they are the last column, and "texts" with --json.
    """
    if (queries is None) == (not texts):
        raise ConfigError(
            "It is not clear what to search for.",
            hint='Give either --queries FILE or --text "some words".',
        )
    from ttf import api
    from ttf.data.writing import check_output

    if out is not None:
        check_output(str(out), overwrite=overwrite)
    with api.load(run_dir, bank=bank, allow_remote=allow_remote) as model:
        if queries is not None:
            found = model.search_file(queries, k, out, overwrite=overwrite)
        else:
            found = _found_by_words(model, texts, k, out)
        documents = None if out is not None else _texts_of(model, found)
        for note in model.notes:
            say(note)
        notes = list(model.notes)
    from ttf.training.found import in_a_table

    meaning = found.ids_are if out is None else in_a_table(found)[1]
    say(f"The ids are {meaning}.")
    if out is not None:
        say(f"Wrote ids and scores of {len(found.ids)} queries to {out}.")
        if as_json:
            queried, width = found.ids.shape
            emit_json(
                {"out": out, "queries": queried, "k": width, "ids_are": meaning, "notes": notes}
            )
        next_command(f"ttf data inspect {quoted(out)}")
    elif as_json:
        more = {} if documents is None else {"texts": documents}
        emit_json({**vars(found), **more, "notes": notes})
    else:
        _print_table(found, documents)
        other = f" --bank {quoted(bank)}" if bank else ""
        asked = "".join(f" --text {quoted(text)}" for text in texts)
        asked = asked or f" --queries {quoted(queries or '')}"
        next_command(f"ttf search {quoted(run_dir)}{asked}{other} -k {k} --out found.npz")


def _found_by_words(model: Model, texts: Sequence[str], k: int, out: Path | None) -> Found:
    from ttf.tools.encode.words import vectors_of_words
    from ttf.training.found import write_found

    found = model.search(vectors_of_words(model, texts), k)
    if out is not None:
        write_found(out, found)
    return found


def _texts_of(model: Model, found: Found) -> list[list[str]] | None:
    from ttf.tools.encode.words import texts_of

    return texts_of(model, found.rows)


def _print_table(found: Found, documents: Sequence[Sequence[str]] | None) -> None:
    show("query\trank\tid\tscore" + ("" if documents is None else "\ttext"))
    for row, (ids, scores) in enumerate(zip(found.ids, found.scores, strict=True)):
        for rank, (document, score) in enumerate(zip(ids, scores, strict=True), start=1):
            text = "" if documents is None else f"\t{_short(documents[row][rank - 1])}"
            show(f"{row}\t{rank}\t{_cell(document)}\t{score:.6g}{text}")


def _short(text: str) -> str:
    words = " ".join(text.split())
    return words if len(words) <= _LONGEST else f"{words[: _LONGEST - 3]}..."


def _cell(value: object) -> str:
    """An id in its column: without the characters that end columns and lines.

    >>> _cell("two\\nlines and a\\ttab")
    'two\\\\nlines and a\\\\ttab'
    """
    return str(value).replace("\t", "\\t").replace("\r", "\\r").replace("\n", "\\n")
