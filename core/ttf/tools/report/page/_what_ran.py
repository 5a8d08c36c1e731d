"""What ran, in a few lines: the command, the data, the towers, the device and why that one."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import PurePath
from typing import Final

from ttf.rundir.documents import Manifest
from ttf.rundir.typed_json import is_number
from ttf.tools.report.page._read import RunFiles
from ttf.tools.report.page._tables import cut, section, table

_LONGEST: Final = 600
_OURS: Final = ("ttf", "__main__.py")


def what_ran(run: RunFiles) -> str:
    rows = [(what, cut(told, _LONGEST)) for what, told in _rows(run) if told]
    return section("What ran", table((), rows)) if rows else ""


def _rows(run: RunFiles) -> Iterator[tuple[str, str]]:
    yield "command", command_of(run)
    if run.guarded:
        return
    yield "data", _data(run)
    for side, label in (("query", "query tower"), ("doc", "document tower")):
        yield label, _tower(run, side)
    yield "negatives", _negatives(run)
    name, why = run.setting("device.name")
    yield "device", _because(name, why)
    yield "precision", _because(*run.setting("device.precision"))
    yield "software", _software(run.manifest)


def command_of(run: RunFiles) -> str:
    """As it was typed; '' where it was not noted."""
    words = run.summary.get("command") or run.manifest.get("command")
    if isinstance(words, str):
        return words
    if not isinstance(words, list) or not words:
        return ""
    words = [str(word) for word in words]
    if PurePath(words[0]).name in _OURS:
        words[0] = "ttf"
    if PurePath(words[0]).name == "trainer_process.py":  # of a version that noted its child's
        return ""
    return shlex.join(words)


def _data(run: RunFiles) -> str:
    about = run.manifest.get("data")
    if not isinstance(about, Mapping):
        return ", ".join(v for key in ("pairs", "bank") if (v := run.setting(f"data.{key}")[0]))
    files = [str(about[key]) for key in ("pairs", "bank", "context") if about.get(key)]
    train, val, bank = (about.get(key) for key in ("train_pairs", "val_pairs", "bank_rows"))
    counted = [
        f"{count:,} {what}"
        for count, what in ((train, "training pairs"), (val, "validation pairs"))
        if is_number(count)
    ]
    steps, dim = about.get("query_steps"), about.get("query_dim")
    if is_number(steps) and is_number(dim):
        counted.append(f"queries of {steps} x {dim}" if steps > 1 else f"queries of {dim}")
    if is_number(bank):
        wide = about.get("bank_dim")
        counted.append(f"{bank:,} documents{f' of {wide}' if is_number(wide) else ''}")
    return "; ".join(part for part in (", ".join(counted), ", ".join(files)) if part)


def _tower(run: RunFiles, side: str) -> str:
    prefix = f"tower.{side}."
    options = [
        f"{key.removeprefix(prefix)} {value}"
        for key, value, _ in run.config
        if key.startswith(prefix) and key != f"{prefix}name"
    ]
    name = run.setting(f"{prefix}name")[0]
    return f"{name} ({', '.join(options)})" if name and options else name


def _negatives(run: RunFiles) -> str:
    name, why = run.setting("miner.name")
    drawn, kept = run.setting("miner.negatives")[0], run.setting("miner.k")[0]
    if not name:
        return ""
    if drawn == "0":
        return "none are mined"
    every = run.setting("miner.refresh")[0]
    often = f"mined anew every {every if every == 'epoch' else f'{every} steps'}"
    return f"{drawn} a query from the {kept} best, {often}, by {_because(name, why)}"


def _because(name: str, why: str) -> str:
    """The value, and the reason where one was chosen for it."""
    return f"{name} ({why})" if name and why.startswith("auto") else name


def _software(manifest: Manifest) -> str:
    known = {"ttf": manifest.get("ttf"), "python": manifest.get("python")}
    known |= manifest.get("versions", {})
    told = [f"{name} {version}" for name, version in known.items() if version]
    return ", ".join([*told, *([p] if (p := manifest.get("platform")) else [])])
