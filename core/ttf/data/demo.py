"""The built-in data set of `ttf train` without data, and settings that suit it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from filelock import FileLock

from ttf.config.resolve import Resolved
from ttf.rundir.cache import cache_dir
from ttf.rundir.waiting_lock import wait_for

if TYPE_CHECKING:
    from ttf.text.progress import Reporter

SHAPE: Final[Mapping[str, Any]] = {
    "pairs": 20_000,
    "val": 1_000,
    "seq_len": 12,
    "dim": 64,
    "bank": 10_000,
    "seed": 0,
    "noise": 1.0,
    "marker_strength": 1.5,
}
VERSION: Final = 1  # Of the generator: raise it if the same shape would give other values.

SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "train": {"epochs": 5, "lr": 2e-3, "batch_size": 256},
    # The target is the step after a marked one: no pooling finds it, a tower that reads in order does.
    "tower.query": {"name": "gru", "hidden": 128},
}
_ORIGIN = "demo"


def wants_demo(resolved: Resolved) -> bool:
    data = resolved.config.data
    return data.pairs is None and data.bank is None and data.context is None


def demo_folder() -> Path:
    label = "-".join(f"{SHAPE[name]}" for name in SHAPE)
    return cache_dir() / "demo" / f"v{VERSION}-{label}"


def with_demo(resolved: Resolved, reporter: Reporter) -> Resolved:
    """Fills in the demo set, made first if needed; configurations with data are unchanged."""
    if not wants_demo(resolved):
        return resolved
    folder = demo_folder()
    try:
        _make(folder, reporter)
    except TimeoutError as error:
        reporter.note(f"{error}. ttf makes a demo data set of its own.")
        folder = folder.with_name(f"{folder.name}-2")
        _make(folder, reporter)
    reporter.note(
        "No data was given, so ttf uses the built-in demo data set. To use your own data: ttf "
        "train --pairs FILE --bank FILE"
    )
    return _filled(resolved, folder)


def _make(folder: Path, reporter: Reporter) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with wait_for(FileLock(folder / ".lock"), reporter.note):
        if not (folder / "done").exists():
            from ttf.data.synth import SynthShape, write_synth

            reporter.stage("write the demo data set", None)
            write_synth(folder, SynthShape(**SHAPE), progress=reporter.advance)
            (folder / "done").touch()


def _filled(resolved: Resolved, folder: Path) -> Resolved:
    config, origins = resolved.config, dict(resolved.origins)
    data = config.data.model_copy(
        update={"pairs": str(folder / "pairs.npz"), "bank": str(folder / "bank.npz")}
    )
    origins |= {"data.pairs": _ORIGIN, "data.bank": _ORIGIN}
    train = {k: v for k, v in SETTINGS["train"].items() if _free(origins, f"train.{k}")}
    query = config.tower.query
    tower = {}
    if query.name in ("auto", "gru"):
        given = {**query.options(), **({} if query.name == "auto" else {"name": query.name})}
        tower = {k: v for k, v in SETTINGS["tower.query"].items() if k not in given}
    origins |= {f"train.{name}": _ORIGIN for name in train}
    origins |= {f"tower.query.{name}": _ORIGIN for name in tower}
    towers = config.tower.model_copy(update={"query": query.model_copy(update=tower)})
    config = config.model_copy(
        update={
            "data": data,
            "tower": towers,
            "train": config.train.model_copy(update=train),
        }
    )
    return Resolved(config=config, origins=origins, notes=resolved.notes)


def _free(origins: Mapping[str, str], name: str) -> bool:
    return origins.get(name, "default") == "default"
