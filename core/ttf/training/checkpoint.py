"""Checkpoints: one folder each, written whole, every file hashed; the newest intact one is loaded.

A checkpoint holds what does not follow from (configuration, data, step): weights, optimizer state,
the documents in the memory bank, the name of the candidate table and the hash of its manifest, the
best weights so far. The order of rows and every random draw follow from the step.
"""

from __future__ import annotations

import copy
import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load, save as tensor_bytes
from torch import Tensor

from ttf.errors import ArtifactDamaged, NoCheckpoint, StorageError, storage_error
from ttf.rundir.confined import is_plain_name, open_inside, read_json
from ttf.rundir.durable import finite, json_bytes, write_new
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.request import History
from ttf.rundir.typed_json import dataclass_from
from ttf.rundir.verified_folders import (
    CHECKPOINT,
    CHECKPOINT_AREA,
    FORMAT,
    candidates_beside,
    digest_of,
    newest_first,
    path_of,
    problem_with,
    read_back,
    table_digest,
)
from ttf.text.shell import quoted
from ttf.training.memory.governor import Governed

if TYPE_CHECKING:
    from ttf.training.best_weights import Selection
    from ttf.training.mined_negatives import MinedNegatives
    from ttf.training.session import Parts

GROUPS = ("model", "optimizer", "bank", "best")
# Writing a part costs twice as much memory, and holds the interpreter lock for 7 ms.
PART_BYTES: Final = 16 << 20
_PIECE: Final = "#"
# What torch and numpy say of tensors and values that are not those of this run.
_DOES_NOT_FIT: Final = (LookupError, TypeError, ValueError, AttributeError, RuntimeError)


def _name_of_table(name: str) -> str:
    """Raises ValueError for one that would lead out of the run's folder."""
    if name and not is_plain_name(name):
        raise ValueError(f"a candidate table {name!r}")
    return name


def _does_not_fit(step: int, error: Exception) -> ArtifactDamaged:
    reason = str(error).strip().partition("\n")[0][:300]
    return ArtifactDamaged(
        f"The checkpoint of step {step} does not fit this run ({type(error).__name__}: {reason}).",
        hint="Its files were changed after the run wrote them. Start a new run from the folder's "
        "run.toml.",
    )


@dataclass(kw_only=True)
class Snapshot:
    """The state of a run after `step` steps; refers to the run's own tensors, see `copied`."""

    step: int
    model: Mapping[str, Tensor]
    optimizer: Mapping[str, Tensor]
    bank: Mapping[str, Tensor]
    best: Mapping[str, Tensor]
    # JSON-able: candidate table, best evaluation, totals; owned by the trainer.
    progress: dict[str, Any] = field(default_factory=dict)

    def groups(self) -> dict[str, Mapping[str, Tensor]]:
        return {name: getattr(self, name) for name in GROUPS}

    @property
    def table(self) -> str:
        """The candidate table that the run continues with; empty if the step needs none."""
        return str(self.progress.get("table", ""))

    @property
    def tables(self) -> dict[str, int]:
        """The versions of the trained tables. Raises ArtifactDamaged."""
        found = self.progress.get("tables", {})
        if not isinstance(found, dict) or any(
            type(version) is not int for version in found.values()
        ):
            raise _does_not_fit(self.step, TypeError("tables: not a version for each table"))
        return dict(found)

    def copied(self) -> Snapshot:
        """A copy on the CPU that later steps do not change.

        The best weights are not copied: a run replaces them, it never changes them.
        """
        return Snapshot(
            step=self.step,
            model=_own(self.model),
            optimizer=_own(self.optimizer),
            bank=_own(self.bank),
            best={name: tensor.detach().cpu() for name, tensor in self.best.items()},
            progress=copy.deepcopy(self.progress),
        )


def _own(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.detach().to("cpu", copy=True) for name, tensor in tensors.items()}


def save(folder: Path, snapshot: Snapshot) -> Path:
    """Writes a checkpoint durably and reads it back; older checkpoints stay. Raises
    StorageError."""
    path = path_of(folder, snapshot.step)
    table = _table_named(folder, snapshot.table)
    with folder_written_whole(path, CHECKPOINT_AREA) as temp:
        files = {}
        for group, tensors in snapshot.groups().items():
            for number, part in enumerate(parts_of(tensors)):
                name = f"{group}-{number}.safetensors" if number else f"{group}.safetensors"
                files[name] = save_tensors(part, temp / name, CHECKPOINT_AREA)
        manifest = finite(
            {
                "format": FORMAT,
                "step": snapshot.step,
                "files": files,
                "table": table,
                "progress": snapshot.progress,
            }
        )
        document = json_bytes({**manifest, "sha256": digest_of(manifest)})
        write_new(temp / CHECKPOINT, document, CHECKPOINT_AREA)
    problem = read_back(path)
    if problem:
        raise StorageError(
            f"ttf wrote the checkpoint {path} and read it again, and the content is different: "
            f"{problem}.",
            hint="Check the disk before you use it again. Older checkpoints are kept.",
        )
    return path


def _table_named(folder: Path, key: str) -> dict[str, str]:
    if not key:
        return {}
    table = candidates_beside(folder) / key
    try:
        return {"key": key, "sha256": table_digest(table)}
    except OSError as error:
        raise storage_error(
            error, f"a checkpoint, because its candidate table {table} could not be read"
        ) from error


def load_newest(folder: Path, say: Callable[[str], None]) -> Snapshot:
    """The newest intact checkpoint; reports and skips damaged ones. Raises NoCheckpoint."""
    tried = []
    for path in newest_first(folder):
        problem = problem_with(path)
        if not problem:
            try:
                return _load(path)
            except _Changed as error:
                problem = str(error)
        tried.append(f"{path.name}: {problem}")
        say(f"Checkpoint {path.name} is damaged ({problem}). ttf tries the previous checkpoint.")
    what = "; ".join(tried) if tried else "the folder has no checkpoint"
    raise NoCheckpoint(
        f"There is no intact checkpoint in {folder}: {what}.",
        hint=f"Start a new run: ttf train {quoted(folder.parent / 'run.toml')} --out ANOTHER_DIR",
    )


class _Changed(Exception):
    """A file changed after it was verified, or cannot be read although its hash is right."""


def _load(path: Path) -> Snapshot:
    # Loads from the very bytes that matched their hash.
    run = path.parents[1]
    manifest = read_json(path / CHECKPOINT, run)
    parts: dict[str, list[dict[str, Tensor]]] = {name: [] for name in GROUPS}
    for name, digest in manifest["files"].items():
        with open_inside(path / name, run) as file:
            data = file.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise _Changed(f"{name} does not match its SHA-256")
        parts[_group_of(name)].append(_tensors(name, data))
    groups = {group: joined(found) for group, found in parts.items()}
    return Snapshot(step=manifest["step"], progress=manifest["progress"], **groups)


def _group_of(name: str) -> str:
    group = Path(name).stem.partition("-")[0]
    if group not in GROUPS:
        raise _Changed(f"{CHECKPOINT} lists a file {name!r}")
    return group


def _tensors(name: str, data: bytes) -> dict[str, Tensor]:
    try:
        return load(data)
    except SafetensorError as error:  # its hash is right: it was written like this
        raise _Changed(f"{name} contains no tensors ({error})") from error


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


# --- tensors in files ----------------------------------------------------------------------


def save_tensors(tensors: Mapping[str, Tensor], path: Path, area: str | None = None) -> str:
    """Writes a file (inside `folder_written_whole`) and returns its SHA-256. Raises OSError.

    The library makes the bytes and `durable` writes them: every write can be counted and made to
    fail, and the hash is of the intended bytes, not of what the disk stored.
    """
    held = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    return write_new(path, tensor_bytes(held), area or path.stem)


def parts_of(
    tensors: Mapping[str, Tensor], part_bytes: int = PART_BYTES
) -> Iterator[dict[str, Tensor]]:
    """The same tensors in order, cut so that no part is larger; at least one part, maybe empty.

    The library copies its tensors twice and holds the interpreter lock meanwhile, which would delay
    training.
    """
    part: dict[str, Tensor] = {}
    size = 0
    for name, piece in _pieces(tensors, part_bytes):
        if part and size + piece.nbytes > part_bytes:
            yield part
            part, size = {}, 0
        part[name] = piece
        size += piece.nbytes
    yield part


def _pieces(tensors: Mapping[str, Tensor], part_bytes: int) -> Iterator[tuple[str, Tensor]]:
    """Cuts tensors larger than a part by rows, named '<name>#<first row>'."""
    for name, tensor in tensors.items():
        if tensor.nbytes <= part_bytes or tensor.ndim == 0:
            yield name, tensor
            continue
        rows = max(1, part_bytes * len(tensor) // tensor.nbytes)
        for start in range(0, len(tensor), rows):
            yield f"{name}{_PIECE}{start}", tensor[start : start + rows]


def joined(parts: Iterable[Mapping[str, Tensor]]) -> dict[str, Tensor]:
    pieces: dict[str, dict[int, Tensor]] = {}
    for part in parts:
        for key, tensor in part.items():
            name, _, start = key.partition(_PIECE)
            pieces.setdefault(name, {})[int(start or 0)] = tensor
    return {
        name: next(iter(found.values()))
        if len(found) == 1
        else torch.cat([found[start] for start in sorted(found)])
        for name, found in pieces.items()
    }


# --- the state of a run ---------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Refresh:
    """What miner.refresh = "auto" has decided, and what the next decision compares with:
    `ttf.training.refresh`."""

    start: int = -1
    stop: int = -1
    epochs: int = 0
    sample: list[list[int]] = field(default_factory=list)  # Bank rows; empty: no decision yet.


@dataclass(kw_only=True)
class Totals:
    """Sums over all processes of a run."""

    wall_s: float = 0.0
    train_s: float = 0.0
    peak_bytes: int = 0
    miner: str = ""  # The one that mined last; empty if nothing was mined yet.
    # Reasons why the numbers differ from those of an undisturbed run.
    deviations: list[str] = field(default_factory=list)
    # What one must know to judge the result, by subject: a later text replaces an earlier one.
    notes: dict[str, str] = field(default_factory=dict)
    refresh: Refresh = field(default_factory=Refresh)
    governed: Governed = field(default_factory=Governed)
    gates: dict[str, Any] = field(default_factory=dict)  # The `GateResult` of those judged.

    def restore(self, values: Mapping[str, Any]) -> None:
        """Raises TypeError for values of another kind."""
        restored = dataclass_from(Totals, values)
        for each in fields(Totals):
            setattr(self, each.name, getattr(restored, each.name))


class RunState:
    """The mutable state of a run; does not include the data."""

    def __init__(
        self, parts: Parts, mined: MinedNegatives, selection: Selection, totals: Totals
    ) -> None:
        self._parts = parts
        self._mined = mined
        self.selection = selection
        self.totals = totals
        self._clock = time.monotonic()

    def continue_clock(self, history: History | None) -> None:
        # The wall clock of a supervised run includes dead processes; without a supervisor only
        # processes that saved are known.
        if history is not None:
            self.totals.wall_s = history.wall_s
            self._clock = history.started_at

    def tick(self) -> float:
        """Brings the wall clock of the totals up to now, and returns it."""
        now = time.monotonic()
        self.totals.wall_s += now - self._clock
        self._clock = now
        return self.totals.wall_s

    def snapshot(self, step: int) -> Snapshot:
        """Refers to the run's own tensors: save it before the next step, or `copied`."""
        self.tick()
        parts = self._parts
        bank = parts.bank
        tensors = {"ids": torch.from_numpy(bank.ids[: bank.filled].copy())}
        if not self._parts.documents.fixed:
            tensors["vectors"] = bank.vectors()
        return Snapshot(
            step=step,
            model=self._parts.model.state_dict(),
            optimizer=optimizer_tensors(self._parts.stepper.optimizer),
            bank=tensors,
            best=self.selection.weights,
            progress={
                "table": self._mined.table_for(step),
                **({"tables": parts.tables.sync(step)} if parts.tables else {}),
                "bank_position": bank.position,
                "selection": self.selection.to_json(),
                "totals": asdict(self.totals),
            },
        )

    def restore(self, snapshot: Snapshot) -> None:
        parts = self._parts
        progress = snapshot.progress
        try:
            parts.model.load_state_dict(snapshot.model)
            restore_optimizer(parts.stepper.optimizer, snapshot.optimizer)
            ids = snapshot.bank["ids"].numpy().astype(np.int64)
            vectors = snapshot.bank.get("vectors")
            if vectors is None:  # fixed documents: the vectors follow from the ids
                vectors = torch.from_numpy(parts.documents.read(ids))
            parts.bank.restore(ids, progress["bank_position"], vectors)
            self._mined.table_key = _name_of_table(progress["table"])
            self.selection.restore(progress["selection"], snapshot.best)
            self.totals.restore(progress["totals"])
        except _DOES_NOT_FIT as error:
            raise _does_not_fit(snapshot.step, error) from error
