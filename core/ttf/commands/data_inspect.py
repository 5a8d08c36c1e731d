"""`ttf data inspect` and `ttf data verify`: a look at a container, and a full reading of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ttf.commands import _options as options
from ttf.commands._data_common import train_command
from ttf.text.numbers import size
from ttf.text.tables import table
from ttf.text.terminal import emit_json, next_command, say, say_error, show

if TYPE_CHECKING:
    from ttf.data.inspect import ArrayFacts, Inspection


@click.command(
    "inspect",
    short_help="Show the content and the problems of a file.",
    epilog="""\b
Examples:
  ttf data inspect pairs.npz
  ttf data inspect bank.zarr --full
  ttf data inspect bank.npz --json""",
)
@click.argument("path")
@click.option(
    "--full", is_flag=True, help="Check every row. [default: a sample of some thousand rows]"
)
@options.storage
@options.as_json
def inspect_command(path: str, full: bool, storage: str, as_json: bool) -> None:
    """Show the content and the problems of a file: arrays, how they are stored, norms.

    With --json: {"path", "container", "arrays": [{"name", "shape", "dtype", "stored", "mappable",
    "aligned", "bytes", "finite", "norms": {"min", "mean", "max"}, "rows_seen"}], "problems",
    "hints", "notes"}; finite is null and norms is empty if no row was checked.
    """
    from ttf.data.inspect import inspect
    from ttf.machine.memory.reading import limited_reading

    with limited_reading(path):
        seen = inspect(path, storage=storage, full=full)
    if as_json:
        emit_json(asdict(seen))
    else:
        _show(seen)
    _say_hints(seen)
    if not seen.problems:
        _what_next(path, storage)


@click.command(
    "verify",
    short_help="Read the whole file once; exit code 3 if it has problems.",
    epilog="""\b
Examples:
  ttf data verify pairs.npz
  ttf data verify bank.zarr --json && ttf train --pairs pairs.npz --bank bank.zarr""",
)
@click.argument("path")
@options.storage
@options.as_json
def verify_command(path: str, storage: str, as_json: bool) -> int:
    """Read the whole file once, and check checksums, sizes, and whether all numbers are finite.

    Exit code 3 if there are problems. With --json: {"path", "container", "ok", "problems",
    "hints", "notes", "arrays"}.
    """
    from ttf.data.inspect import verify
    from ttf.errors import ExitCode
    from ttf.machine.memory.reading import limited_reading

    with limited_reading(path):
        seen = verify(path, storage=storage)
    ok = not seen.problems
    if as_json:
        emit_json({**asdict(seen), "ok": ok})
    else:
        for problem in seen.problems:
            show(f"problem: {problem}")
        if ok:
            count = len(seen.arrays)
            rows = ", ".join(f"{a.name} {a.rows_seen:,}" for a in seen.arrays)
            plural = "" if count == 1 else "s"
            show(f"{path}: {count} array{plural} (rows: {rows}), no problems.")
    _say_hints(seen)
    if ok:
        _what_next(path, storage)
    else:
        count = len(seen.problems)
        say_error(f"{path} has {count} problem{'s' * (count > 1)}. The first: {seen.problems[0]}")
    return int(ExitCode.DONE if ok else ExitCode.BAD_DATA)


def _show(seen: Inspection) -> None:
    show(f"{seen.path} ({seen.container})")
    header = [
        "array",
        "shape",
        "dtype",
        "stored",
        "mapped",
        "size",
        "finite",
        "norms (min/mean/max)",
    ]
    show(table([_cells(a) for a in seen.arrays], header))
    for problem in seen.problems:
        show(f"problem: {problem}")


def _cells(facts: ArrayFacts) -> list[str]:
    mapped = ("yes" if facts.aligned else "yes, unaligned") if facts.mappable else "no"
    finite = {True: "yes", False: "NO", None: "?"}[facts.finite]
    norms = "/".join(f"{facts.norms[k]:.4g}" for k in ("min", "mean", "max")) if facts.norms else ""
    return [
        facts.name,
        "x".join(map(str, facts.shape)) if facts.shape else "?",
        facts.dtype or "?",
        facts.stored,
        mapped,
        size(facts.bytes),
        finite,
        norms,
    ]


def _say_hints(seen: Inspection) -> None:
    for text in (*seen.notes, *seen.hints):
        say(text)


def _what_next(path: str, storage: str) -> None:
    from ttf.data.companions import companions

    found = companions(path, storage)
    if found is None:
        next_command("ttf train --help   (array names: --set data.names.X_train=...)")
    else:
        next_command(train_command(found))
