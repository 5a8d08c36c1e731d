"""`ttf export`: a trained retriever for sentence-transformers, ONNX, FAISS, databases and others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.errors import ConfigError
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import next_command, show_result

if TYPE_CHECKING:
    from ttf.tools.export.make import Exported


@click.command(
    epilog="""\b
Examples:
  ttf export runs/run-001 faiss --out index
  ttf export runs/run-001 npy --out vectors --dims 128 --dtype int8
  ttf export runs/run-001 sentence-transformers --encoder all-MiniLM-L6-v2/ --out model
  ttf export runs/run-001 onnx --out onnx
  ttf export runs/run-001 faiss --out new-index --bank new-bank.npz

\b
The formats: ttf plugins list --kind exporter. Their options, for --set: ttf plugins show exporter.NAME"""
)
@click.argument("run_dir", type=options.PATH, metavar="RUN_DIR")
@click.argument("format_", type=options.plugin_name("exporter"), metavar="FORMAT")
@options.path("--out", required=True, metavar="DIR", help="New folder for the export.")
@click.option(
    "--calibrated",
    is_flag=True,
    help="Encoders: append the constant 1 of calibration to queries, and its mean to documents.",
)
@click.option(
    "--dtype",
    type=options.choice("dtype", "float32", "int8"),
    metavar="float32|int8",
    help="Type of exported vectors. [default: float32]",
)
@options.count("--dims", metavar="N", help="Dimensions of exported vectors. [default: all]")
@options.path(
    "--encoder", metavar="DIR", help="sentence-transformers folder that made the vectors."
)
@options.path(
    "--query-texts", metavar="FILE", help="Texts of the validation queries (.jsonl, .txt)."
)
@options.path("--document-texts", metavar="FILE", help="Texts of the bank (.jsonl, .txt).")
@options.data("--pairs", help="Other pairs to compare with. [default: those of the run]")
@options.data("--bank", help="Another bank of documents. [default: that of the run]")
@click.option(
    "--set", "sets", multiple=True, metavar="OPTION=VALUE", help="An option of the format."
)
@click.option("--overwrite", is_flag=True, help="Replace an earlier export.")
@options.allow_remote
@options.as_json
def command(
    run_dir: Path,
    format_: str,
    sets: tuple[str, ...],
    as_json: bool,
    **given: Any,
) -> None:
    """Write a trained run as a folder in a FORMAT of other libraries.

    The folder is loaded back by the library of the format, and its answers to 1,000 validation
    queries are compared with those of ttf search; if they differ, nothing is written. Exported
    vectors and indexes carry the calibration of the run; encoders do with --calibrated.

    With --json: {"format", "path", "checked": {"rows", "max_difference", "same_top10", ...}, ...}.
    """
    from ttf.data.writing import sigterm_raised
    from ttf.text.progress import make_reporter
    from ttf.tools.export.asked import Asked
    from ttf.tools.export.make import export_asked

    asked = Asked(run_dir=run_dir, format=format_, options=settings(sets), **given)
    with (
        sigterm_raised(f"Stopped by SIGTERM; nothing was written to {asked.out}."),
        make_reporter(json=as_json) as reporter,
    ):
        done = export_asked(asked, reporter)
    show_result(done, table(_rows(done)), as_json)
    next_command(f"less {quoted(asked.out / 'export.json')}")


def settings(sets: Sequence[str]) -> dict[str, Any]:
    from ttf.config.resolve import parse_value

    found = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: write it as option=value, e.g. k=100")
        found[key.strip()] = parse_value(value)
    return found


def _rows(done: Exported) -> list[tuple[str, str]]:
    checked, lost = done.checked, done.smaller
    rows = [("export", f"{done.format} in {done.path}")]
    rows += [(key.replace("_", " "), str(value)) for key, value in done.told.items()]
    rows.append(("documents", f"{done.rows:,} x {done.dim}"))
    rows.append(("calibration", "included" if done.calibrated else "not included"))
    if lost:
        less = f"{lost['bytes_per_row_before']} -> {lost['bytes_per_row']} bytes"
        rows.append(("smaller", f"{lost['dim']} dimensions, {lost['dtype']}: {less} a document"))
        for key in ("recall@10", "recall@100"):
            one = lost[key]
            said = f"{one['smaller']:.4f} (was {one['all']:.4f}, loss {one['loss']:+.4f})"
            rows.append((key, f"{said}, {lost['queries']:,} validation queries"))
    if checked.same_top10 is not None:
        same = f"{checked.same_top10:.1%} of {checked.rows:,} queries"
        rows.append(("same top 10", f"{same}, compared with {checked.compared_with}"))
    if checked.documents:
        rows.append(("vectors", f"{checked.documents:,} document vectors compared"))
    rows.append(("difference", f"at most {checked.max_difference:.2g}"))
    rows.append(("loaded by", checked.library))
    return rows
