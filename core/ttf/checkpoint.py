"""Checkpoints: one folder each, written whole, every file hashed, the newest intact one is taken.

What is in one is everything that does not follow from (configuration, data, step): weights,
optimizer state, the documents in the memory bank, the name of the candidate table, the best
weights so far. The order of rows and every random draw follow from the step.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from ttf.errors import NoCheckpoint
from ttf.fsio import folder_written_whole, read_json, sha256_file, write_json

FORMAT = 1
MANIFEST = "checkpoint.json"
PREFIX = "step-"


@dataclass(kw_only=True)
class Snapshot:
    """The state of a run after `step` optimizer steps."""

    step: int
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    bank: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    progress: dict[str, Any] = field(default_factory=dict)
    """JSON-able: candidate table, best evaluation, totals; owned by the trainer."""

    def groups(self) -> dict[str, Mapping[str, Tensor]]:
        return {
            "model": self.model,
            "optimizer": self.optimizer,
            "bank": self.bank,
            "best": self.best,
        }


def path_of(folder: Path, step: int) -> Path:
    return folder / f"{PREFIX}{step:09d}"


def save(folder: Path, snapshot: Snapshot) -> Path:
    """Writes a checkpoint durably and reads it back before anybody relies on it."""
    path = path_of(folder, snapshot.step)
    with folder_written_whole(path) as temp:
        files = {}
        for name, tensors in snapshot.groups().items():
            file = temp / f"{name}.safetensors"
            save_file({k: v.detach().cpu().contiguous() for k, v in tensors.items()}, file)
            files[file.name] = sha256_file(file)
        write_json(
            temp / MANIFEST,
            {
                "format": FORMAT,
                "step": snapshot.step,
                "files": files,
                "progress": snapshot.progress,
            },
        )
    return path


def problem_with(path: Path) -> str:
    """Why a checkpoint cannot be used; empty if it is intact."""
    try:
        manifest = read_json(path / MANIFEST)
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, this version reads {FORMAT}"
        for name, digest in manifest["files"].items():
            if not (path / name).is_file():
                return f"{name} is missing"
            if sha256_file(path / name) != digest:
                return f"{name} does not match its SHA-256"
    except (OSError, KeyError, TypeError, AttributeError, json.JSONDecodeError) as error:
        return f"{MANIFEST} cannot be read ({type(error).__name__})"
    return ""


def load_newest(folder: Path, say: Callable[[str], None]) -> Snapshot:
    """The newest intact checkpoint; damaged ones are skipped aloud. Raises NoCheckpoint."""
    tried = []
    for path in sorted(folder.glob(f"{PREFIX}*"), reverse=True):
        problem = problem_with(path)
        if not problem:
            return _load(path)
        tried.append(f"{path.name}: {problem}")
        say(f"Checkpoint {path.name} is damaged ({problem}); trying the one before.")
    what = "; ".join(tried) if tried else "the folder holds none"
    raise NoCheckpoint(
        f"No intact checkpoint in {folder}: {what}.",
        hint="Start the run anew: ttf train --out ANOTHER_DIR",
    )


def _load(path: Path) -> Snapshot:
    manifest = read_json(path / MANIFEST)
    groups = {Path(name).stem: load_file(path / name) for name in manifest["files"]}
    return Snapshot(step=manifest["step"], progress=manifest["progress"], **groups)


def prune(folder: Path, keep: int) -> None:
    """Removes the oldest checkpoints; only after the newest was written and verified."""
    for path in sorted(folder.glob(f"{PREFIX}*"), reverse=True)[keep:]:
        shutil.rmtree(path)


def tables_in_use(folder: Path) -> set[str]:
    """The candidate tables that some checkpoint refers to."""
    used = set()
    for path in folder.glob(f"{PREFIX}*"):
        if not problem_with(path):
            used.add(str(read_json(path / MANIFEST)["progress"].get("table", "")))
    return used


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state as flat tensors: '<parameter index>.<name>'."""
    state = optimizer.state_dict()["state"]
    return {
        f"{index}.{name}": torch.as_tensor(value)
        for index, values in state.items()
        for name, value in values.items()
    }


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        index, _, name = key.partition(".")
        state.setdefault(int(index), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
