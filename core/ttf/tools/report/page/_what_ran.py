"""What ran: the command, the data, the towers, the device and why it was chosen."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final

from ttf.rundir.documents import Manifest
from ttf.text.numbers import size
from ttf.tools.report.page._read import RunFiles

_OURS: Final = ("ttf", "__main__.py")


def what_ran(run: RunFiles) -> list[tuple[str, str]]:
    return [row for row in _rows(run) if row[1]]


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
    """The command as typed; '' if it was not noted."""
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
    if about is None:
        return ", ".join(v for key in ("pairs", "bank") if (v := run.setting(f"data.{key}")[0]))
    known = []
    if "train_pairs" in about:
        known.append(f"{about['train_pairs']:,} training pairs")
    if "val_pairs" in about:
        known.append(f"{about['val_pairs']:,} validation pairs")
    if "query_steps" in about and "query_dim" in about:
        steps = f"{about['query_steps']} x " if about["query_steps"] > 1 else ""
        known.append(f"queries of {steps}{about['query_dim']}")
    if "bank_rows" in about:
        wide = f" of {about['bank_dim']}" if "bank_dim" in about else ""
        known.append(f"{about['bank_rows']:,} documents{wide}")
    files = [about.get("pairs"), about.get("bank"), about.get("context")]
    return "; ".join(filter(None, (", ".join(known), ", ".join(filter(None, files)))))


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
        return "no mined negatives"
    every = run.setting("miner.refresh")[0]
    often = f"mined again every {every if every == 'epoch' else f'{every} steps'}"
    if every == "auto":
        often = "mined again when the old ones are no longer hard"
    return f"{drawn} per query from the {kept} best, {often}, by {_because(name, why)}"


def _because(name: str, why: str) -> str:
    # The reason is shown if the value was chosen automatically.
    return f"{name} ({why})" if name and why.startswith("auto") else name


def _software(manifest: Manifest) -> str:
    known = {"ttf": manifest.get("ttf"), "python": manifest.get("python")}
    known |= manifest.get("versions", {})
    named = [f"{name} {version}" for name, version in known.items() if version]
    machine = [manifest.get("platform"), manifest.get("processor")]
    if "memory_bytes" in manifest:
        machine.append(f"{size(manifest['memory_bytes'])} of memory")
    return ", ".join([*named, *filter(None, machine)])
