"""`ttf.report`, and what the command `ttf report` shares with it: the page of a run, a study or a
guarded command, and a zip of it to send."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from ttf.errors import ConfigError, DataMissing, StorageError
from ttf.rundir.documents import DECISION
from ttf.text.shell import quoted

if TYPE_CHECKING:
    from ttf.tools.report.bundle import Bundle

__all__ = ["Reported", "report"]

_HINT = "Give the folder that ttf train or ttf guard printed, e.g. runs/run-001."


@dataclass(frozen=True, kw_only=True)
class Reported:
    """What was written: the page, and the zip if one was wanted."""

    path: Path
    bundle: Bundle | None = None

    def __repr__(self) -> str:
        packed = "" if self.bundle is None else f", bundle {str(self.bundle.path)!r}"
        return f"Reported({str(self.path)!r}{packed})"


def report(
    run_dir: str | os.PathLike[str],
    *,
    out: str | os.PathLike[str] | None = None,
    bundle: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
) -> Reported:
    """Writes one HTML page about a run, a study of `ttf.compare` or `ttf.tune`, or a guarded command.

    `out` is the page's file, by default `report.html` in the folder. `bundle` is a zip to send to
    others: page, incidents and configuration, without data, names and secrets. A file that is no
    earlier page or bundle is only replaced with `overwrite`.
    """
    folder = Path(run_dir)
    page = None if out is None else Path(out)
    packed = None if bundle is None else Path(bundle)
    check(folder, {"out": page, "bundle": packed}, overwrite=overwrite)
    path = write(folder, page)
    if packed is None:
        return Reported(path=path)
    from ttf.tools.report.bundle import write_bundle

    return Reported(path=path, bundle=write_bundle(folder, packed))


def check(run_dir: Path, outputs: dict[str, Path | None], *, overwrite: bool) -> None:
    """Raises before anything is written. `outputs`: the page and the bundle, by the names that the
    caller gave them."""
    from ttf.rundir.outputs import refuse_to_replace
    from ttf.tools.report.bundle import MARK
    from ttf.tools.report.page import is_reportable
    from ttf.tools.report.render import PAGE_MARKS

    if not run_dir.exists():
        raise DataMissing(f"There is no folder {run_dir}.", hint=_HINT)
    if not run_dir.is_dir():
        raise DataMissing(f"{run_dir} is a file, but a run is a folder.", hint=_HINT)
    (_, out), (bundle_name, bundle) = outputs.items()
    if (run_dir / DECISION).is_file():
        if bundle is not None:
            raise ConfigError(
                f"{bundle_name} needs a single run, but this is a decision of ttf train --else.",
                hint=f"Give one of its runs: ttf runs list {quoted(run_dir)}",
            )
    elif is_study(run_dir):
        if bundle is not None:
            raise ConfigError(
                f"{bundle_name} needs a single run, but this is a study.",
                hint=f"Give one of its repeats: ls {quoted(run_dir / 'runs')}",
            )
    elif not is_reportable(run_dir):
        raise DataMissing(
            f"{run_dir} is not the folder of a run or of a guarded command: it has no run.toml, no "
            "summary.json and no incidents.",
            hint=_HINT,
        )
    kinds = (("report.html", PAGE_MARKS), ("bundle.zip", (MARK,)))
    for (name, path), (usual, marks) in zip(outputs.items(), kinds, strict=True):
        if path is not None:
            _check_output(name, path, usual)
            refuse_to_replace(name, path, marks, overwrite=overwrite)
    if out is not None and bundle is not None and out.absolute() == bundle.absolute():
        names = " and ".join(outputs)
        raise ConfigError(f"{names} are the same file.", hint="Use two different file names.")


def is_study(folder: Path) -> bool:
    """Of `ttf ab` or `ttf tune`, which have a page of their own."""
    from ttf.tools.ab.study import ABStudy
    from ttf.tools.tune.study import TuneStudy

    return ABStudy.holds_one(folder) or TuneStudy.holds_one(folder)


def _check_output(name: str, path: Path, usual: str) -> None:
    if path.is_dir():
        raise ConfigError(
            f"{name} {path} is a folder.",
            hint=f"Give a file name, e.g. {name} {quoted(path / usual)}.",
        )
    if not path.absolute().parent.is_dir():
        raise ConfigError(
            f"{name} {path}: there is no folder {path.absolute().parent}.",
            hint=f"Create it first: mkdir -p {quoted(path.absolute().parent)}",
        )


def write(run_dir: Path, out: Path | None) -> Path:
    """Writes the page and returns its path. Raises StorageError."""
    from ttf.tools.ab.study import ABStudy
    from ttf.tools.report.page import write_page
    from ttf.tools.tune.study import TuneStudy

    try:
        if (run_dir / DECISION).is_file():
            from ttf.tools.decision.page import write_page as write_decision

            return write_decision(run_dir, out)
        if ABStudy.holds_one(run_dir):
            from ttf.tools.ab.finish import rewrite_page

            return rewrite_page(run_dir, out)
        if TuneStudy.holds_one(run_dir):
            from ttf.tools.tune.finish import rewrite_page as rewrite_tuned

            return rewrite_tuned(run_dir, out)
        return write_page(run_dir, out)
    except StorageError as error:
        if out is None:
            again = f"ttf report {quoted(run_dir)} --out report.html"
            error.hint = f"Write it to another folder: {again}. {error.hint}"
        raise
