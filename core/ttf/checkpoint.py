"""Checkpoints: one folder each, written whole, every file hashed, the newest intact one is taken.

What is in one is everything that does not follow from (configuration, data, step): weights,
optimizer state, the documents in the memory bank, the name of the candidate table, the best
weights so far. The order of rows and every random draw follow from the step.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import shlex
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file
from torch import Tensor

from ttf.errors import NoCheckpoint, StorageError
from ttf.fsio import finite, folder_written_whole, read_json, sha256_file, write_json
from ttf.tensorfile import save_tensors

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
        files = {
            f"{name}.safetensors": save_tensors(tensors, temp / f"{name}.safetensors")
            for name, tensors in snapshot.groups().items()
        }
        manifest = finite(
            {
                "format": FORMAT,
                "step": snapshot.step,
                "files": files,
                "progress": snapshot.progress,
            }
        )
        write_json(temp / MANIFEST, {**manifest, "sha256": _digest(manifest)})
    problem = problem_with(path)
    if problem:
        raise StorageError(
            f"The checkpoint {path} does not read back as it was written: {problem}.",
            hint="Check the disk before you trust it again; older checkpoints are kept.",
        )
    # Newer ones are damaged: the run would have continued from them otherwise.
    for other in _newest_first(folder):
        if other.name > path.name:
            shutil.rmtree(other, ignore_errors=True)
    return path


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{PREFIX}*"), reverse=True)


def _digest(manifest: Mapping[str, Any]) -> str:
    """Of the manifest's own content, whose numbers matter as much as the tensors do."""
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def problem_with(path: Path) -> str:
    """Why a checkpoint cannot be used; empty if it is intact."""
    try:
        manifest = read_json(path / MANIFEST)
        if manifest["format"] != FORMAT:
            return f"its format is {manifest['format']}, this version reads {FORMAT}"
        if manifest.pop("sha256") != _digest(manifest):
            return f"{MANIFEST} does not match its SHA-256"
        files = dict(manifest["files"])
    except (OSError, LookupError, TypeError, AttributeError, ValueError) as error:
        return f"{MANIFEST} cannot be read ({type(error).__name__})"
    for name, digest in files.items():
        try:
            if sha256_file(path / name) != digest:
                return f"{name} does not match its SHA-256"
        except FileNotFoundError:
            return f"{name} is missing"
        except OSError as error:
            return f"{name} cannot be read ({error.strerror})"
    return ""


def load_newest(folder: Path, say: Callable[[str], None]) -> Snapshot:
    """The newest intact checkpoint; damaged ones are skipped aloud. Raises NoCheckpoint."""
    tried = []
    for path in _newest_first(folder):
        problem = problem_with(path)
        if not problem:
            return _load(path)
        tried.append(f"{path.name}: {problem}")
        say(f"Checkpoint {path.name} is damaged ({problem}); trying the one before.")
    what = "; ".join(tried) if tried else "the folder holds none"
    raise NoCheckpoint(
        f"No intact checkpoint in {folder}: {what}.",
        hint="Start the run anew: "
        f"ttf train {shlex.quote(str(folder.parent / 'run.toml'))} --out ANOTHER_DIR",
    )


def _load(path: Path) -> Snapshot:
    manifest = read_json(path / MANIFEST)
    groups = {Path(name).stem: load_file(path / name) for name in manifest["files"]}
    return Snapshot(step=manifest["step"], progress=manifest["progress"], **groups)


def prune(folder: Path, keep: int) -> None:
    """Removes the oldest checkpoints; only after the newest was written and verified."""
    for path in _newest_first(folder)[keep:]:
        shutil.rmtree(path)


def tables_in_use(folder: Path) -> set[str]:
    """The candidate tables that some checkpoint refers to."""
    used = set()
    for path in _newest_first(folder):
        with contextlib.suppress(OSError, LookupError, TypeError, AttributeError, ValueError):
            used.add(str(read_json(path / MANIFEST)["progress"]["table"]))
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
