"""`ttf data inspect` and `ttf data verify`: a look at a container, and a full reading of it."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from ttf.commands import _options as options
from ttf.commands._output import emit_json, next_command, say, show
from ttf.text.numbers import size
from ttf.text.shell import quoted
from ttf.text.tables import table

if TYPE_CHECKING:
    from ttf.data.inspect import ArrayFacts, Inspection


@click.command(
    "inspect",
    short_help="What is in a file, and what is wrong with it.",
    epilog="""\b
Examples:
  ttf data inspect pairs.npz
  ttf data inspect bank.zarr --full
  ttf data inspect bank.npz --json""",
)
@click.argument("path")
@click.option(
    "--full", is_flag=True, help="Look at every row. [default: some thousand rows, evenly spread]"
)
@options.storage
@options.as_json
def inspect_command(path: str, full: bool, storage: str, as_json: bool) -> None:
    """What is in a container: arrays, how they are stored, norms, and what is wrong.

    With --json: {"path", "container", "arrays": [{"name", "shape", "dtype", "stored", "mappable",
    "aligned", "bytes", "finite", "norms": {"min", "mean", "max"}, "rows_seen"}], "problems",
    "hints"}; finite is null and norms is empty where nothing was looked at.
    """
    from ttf.data.inspect import inspect

    seen = inspect(path, storage=storage, full=full)
    if as_json:
        emit_json(asdict(seen))
    else:
        _show(seen)
    _say_hints(seen)
    if not seen.problems:
        _what_next(seen)


@click.command(
    "verify",
    short_help="Read everything once; exit code 3 for problems.",
    epilog="""\b
Examples:
  ttf data verify pairs.npz
  ttf data verify bank.zarr --json && ttf train --pairs pairs.npz --bank bank.zarr""",
)
@click.argument("path")
@options.storage
@options.as_json
def verify_command(path: str, storage: str, as_json: bool) -> int:
    """Read everything once: checksums, sizes, and whether every number is finite.

    Exit code 3 where there are problems. With --json: {"path", "container", "ok", "problems",
    "hints", "arrays"}.
    """
    from ttf.data.inspect import verify
    from ttf.errors import ExitCode

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
            show(f"{path}: {count} array{plural} (rows: {rows}), nothing wrong.")
    _say_hints(seen)
    if ok:
        _what_next(seen)
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
    for hint in seen.hints:
        say(hint)


def _what_next(seen: Inspection) -> None:
    names = {a.name for a in seen.arrays}
    path = quoted(seen.path)
    if names & {"X_train", "seq_train"}:
        own_bank = {"Y_train", "Y_val"} <= names and not names & {"pos_train", "pos_val"}
        bank = "" if own_bank else f" --bank {_beside(seen.path, 'bank')}"
        next_command(f"ttf train --pairs {path}{bank} --plan")
    elif "vectors" in names:
        next_command(f"ttf train --pairs {_beside(seen.path, 'pairs')} --bank {path} --plan")
    else:
        next_command("ttf train --help   (array names: --set data.names.X_train=...)")


def _beside(path: str, name: str) -> str:
    """Returns the other file of the set if it is in the same folder; else a placeholder."""
    from pathlib import Path

    other = Path(path).with_name(name + Path(path).suffix)
    return quoted(other) if "://" not in path and other.exists() else "FILE"
