"""What the user wants exported, checked before any work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import BadData, ConfigError
from ttf.host import plugins
from ttf.host.options import checked
from ttf.rundir.confined import found_json
from ttf.rundir.outputs import refuse_special

if TYPE_CHECKING:
    from ttf.hookspecs import ExporterFactory

ABOUT: Final = "export.json"
_BLOCKS: Final = ("made by", "ttf export")


@dataclass(frozen=True, kw_only=True)
class Asked:
    run_dir: Path
    format: str
    out: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    calibrated: bool = False
    dtype: str | None = None
    dims: int | None = None
    encoder: Path | None = None
    query_texts: Path | None = None
    document_texts: Path | None = None
    pairs: Path | str | None = None
    bank: Path | str | None = None
    overwrite: bool = False
    allow_remote: bool = False

    @property
    def smaller(self) -> bool:
        return self.dims is not None or self.dtype == "int8"


def factory_of(asked: Asked) -> ExporterFactory:
    """The exporter, if what is asked for suits it and the output can be written."""
    factory = plugins.usable("exporter", asked.format)
    checked(factory.options_type, asked.options, f"exporter.{asked.format}")
    problems = list(_problems(asked, factory.exports))
    if problems:
        raise ConfigError(
            f"This cannot be exported as {asked.format}:",
            problems=problems,
            hint="See ttf export --help.",
        )
    refuse_taken(asked.out, overwrite=asked.overwrite)
    return factory


def _problems(asked: Asked, exports: str) -> Sequence[str]:
    found = []
    if asked.calibrated and exports != "encoder":
        always = "carries" if exports == "vectors" else "is made with"
        found.append(
            f"--calibrated is for encoders: {asked.format} {always} the calibration in any case"
        )
    if asked.smaller and exports != "vectors":
        given = "--dims" if asked.dims is not None else "--dtype int8"
        found.append(f"{given} makes vectors of documents smaller, and {asked.format} exports none")
    if asked.encoder is not None and not asked.encoder.is_dir():
        found.append(f"--encoder {asked.encoder}: there is no such folder")
    for name, path in (("query", asked.query_texts), ("document", asked.document_texts)):
        if path is not None and not path.is_file():
            found.append(f"--{name}-texts {path}: there is no such file")
    return found


def refuse_taken(out: Path, *, overwrite: bool) -> None:
    """Raises ConfigError if something is there that this command may not replace."""
    refuse_special(out, "--out")
    if not out.exists() and not out.is_symlink():
        return
    if not out.is_dir():
        raise ConfigError(
            f"--out {out} is a file.", hint="Choose a folder that does not exist yet."
        )
    if not any(out.iterdir()):
        return
    if not overwrite:
        raise ConfigError(
            f"The folder {out} already exists and is not empty.",
            hint="Choose another --out, or replace an earlier export: --overwrite",
        )
    if not is_export(out):
        raise ConfigError(
            f"The folder {out} is not an earlier export (it has no {ABOUT} of ttf), so ttf does not "
            "replace it.",
            hint="Choose another --out.",
        )


def is_export(folder: Path) -> bool:
    try:
        about = found_json(folder / ABOUT, folder)
    except BadData:
        return False
    return isinstance(about, dict) and about.get(_BLOCKS[0]) == _BLOCKS[1]


def about_document(values: Mapping[str, Any]) -> dict[str, Any]:
    """The beginning of export.json says who made it."""
    return {_BLOCKS[0]: _BLOCKS[1], **values}
