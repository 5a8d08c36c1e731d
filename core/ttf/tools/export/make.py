"""From what is asked for to a checked folder: nothing is at its final name before its own library
answered as `ttf search` does."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from ttf.errors import ConfigError, NumericFailure, storage_error
from ttf.rundir.durable import json_bytes
from ttf.rundir.outputs import temporary_folder
from ttf.rundir.removing import folder_into_place
from ttf.rundir.run_folder import RunFolder
from ttf.text.shell import quoted
from ttf.tools.export import facts as export_facts
from ttf.tools.export.asked import ABOUT, Asked, about_document, factory_of
from ttf.tools.export.checked import Checked, check
from ttf.tools.export.processes import run_exporter

if TYPE_CHECKING:
    from ttf.hookspecs import ExporterFactory
    from ttf.text.progress import Reporter

_MADE: Final = "made"


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What `ttf export --json` prints."""

    format: str
    path: str
    checked: Checked
    rows: int
    dim: int
    calibrated: bool
    told: Mapping[str, Any] = field(default_factory=dict)
    """By the exporter: names of files, counts."""
    smaller: Mapping[str, Any] = field(default_factory=dict)
    """Of --dims and --dtype: bytes, and recall on the validation pairs."""
    notes: tuple[str, ...] = ()


def export(
    run_dir: Path | str,
    format: str,
    *,
    out: Path | str,
    options: Mapping[str, Any] | None = None,
    calibrated: bool = False,
    dtype: str | None = None,
    dims: int | None = None,
    encoder: Path | str | None = None,
    query_texts: Path | str | None = None,
    document_texts: Path | str | None = None,
    pairs: Path | str | None = None,
    bank: Path | str | None = None,
    overwrite: bool = False,
    progress: bool = False,
    allow_remote: bool = False,
) -> Exported:
    """Writes a run as a folder `out` in a format of others (`ttf plugins list --kind exporter`),
    loads it back with the library of the format, and compares its answers with those of the run.

    `options`: of the exporter. Others are named like the flags of `ttf export`. Call it in the main
    thread.
    """
    from ttf.data.array_arguments import data_path, refuse_arrays
    from ttf.text.progress import Reporter, make_reporter

    refuse_arrays({"pairs": pairs, "bank": bank}, "ttf.export", "other processes read it")
    paths = {
        "encoder": encoder,
        "query_texts": query_texts,
        "document_texts": document_texts,
    }
    asked = Asked(
        run_dir=Path(run_dir),
        format=format,
        out=Path(out),
        options=dict(options or {}),
        calibrated=calibrated,
        dtype=dtype,
        dims=dims,
        overwrite=overwrite,
        allow_remote=allow_remote,
        **{name: None if path is None else Path(path) for name, path in paths.items()},
        pairs=data_path(pairs),
        bank=data_path(bank),
    )
    with make_reporter(json=False) if progress else Reporter() as reporter:
        return export_asked(asked, reporter)


def export_asked(asked: Asked, reporter: Reporter) -> Exported:
    """Raises NumericFailure if the library of the format answers otherwise than the run."""
    factory = factory_of(asked)
    RunFolder.existing(asked.run_dir)
    from ttf.tools.export.prepared import prepared

    with (
        _scratch(asked.out) as scratch,
        prepared(asked, factory.exports, scratch, reporter, _texts_of(factory)) as ready,
    ):
        made = scratch / _MADE
        made.mkdir()
        request = {**ready.request, "folder": str(made)}
        reporter.stage(f"write {asked.format}", None)
        told = run_exporter("write", request, reporter)["told"]
        if ready.matrix is not None:
            _keep(made / "query.npy", ready.matrix)
        reporter.stage("load it back and compare", None)
        said = run_exporter("read_back", request, reporter)
        agreed = check(ready, said, asked.format)
        result = Exported(
            format=asked.format,
            path=str(asked.out),
            checked=agreed,
            rows=ready.facts.rows,
            dim=ready.facts.dim,
            calibrated=ready.facts.calibrated,
            told=told,
            smaller=ready.smaller,
            notes=tuple(ready.model.notes),
        )
        _about(made / ABOUT, ready.facts, result)
        folder_into_place(made, asked.out, "export")
    return result


def _texts_of(factory: ExporterFactory) -> Literal["train", "val"]:
    """Which queries an exporter wants the texts of; those of the check are validation queries."""
    return "train" if getattr(factory, "texts_of", "val") == "train" else "val"


def _about(path: Path, facts: Any, result: Exported) -> None:
    known = export_facts.to_json(facts)
    for private in ("settings", "encoder"):  # paths of this machine
        known.pop(private)
    values = {
        "format": result.format,
        **known,
        "told": dict(result.told),
        "smaller": dict(result.smaller),
        "checked": asdict(result.checked),
    }
    path.write_bytes(json_bytes(about_document(values)))


def _keep(path: Path, array: Any) -> None:
    if path.exists():
        raise ConfigError(f"The exporter wrote a file {path.name}, which is ttf's name.")
    np.save(path, array)


@contextlib.contextmanager
def _scratch(out: Path) -> Iterator[Path]:
    """A folder beside the output, on its disk; of a killed command the next one removes it."""
    try:
        out.absolute().parent.mkdir(parents=True, exist_ok=True)
        temp = temporary_folder(out.absolute())
    except OSError as error:
        raise storage_error(error, str(out)) from error
    try:
        yield temp.path
    except OSError as error:
        raise storage_error(error, str(out)) from error
    finally:
        temp.remove()


def next_lines(asked: Asked) -> str:
    """What people do with it next."""
    return f"ls {quoted(asked.out)}"


__all__ = ["Exported", "NumericFailure", "export", "export_asked", "next_lines"]
