"""Where a calibration lies beside the weights.

`model/calibration.json`: see `ttf.rundir.calibration_facts`. `model/calibration/<bank>/`: h of every
document of a bank. `model/calibration/queries/`: the sampled queries, as the query tower saw them,
and which documents are their positives, so that documents can be added without the training pairs.
Each folder appears whole and is used only after its files matched their hashes. A new model
replaces all of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.vectors import npy_header
from ttf.errors import ArtifactDamaged
from ttf.rundir.calibration_facts import CALIBRATION, CalibrationFacts
from ttf.rundir.confined import open_inside, read_json
from ttf.rundir.durable import json_bytes, write_json, write_new
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.typed_json import is_number
from ttf.rundir.verified_folders import (
    MANIFEST,
    file_problem,
    folder_key,
    matches_own_digest,
    with_own_digest,
)
from ttf.training.calibration.work import AREA

FORMAT: Final = 1
_QUERIES: Final = "queries"
_HUBNESS: Final = "hubness.npy"
_VECTORS: Final = "vectors.npy"
_POSITIVES: Final = "positives.npy"
# The type and the dimensions of each array.
_KINDS: Final[Mapping[str, tuple[type[np.generic], int]]] = {
    _HUBNESS: (np.float32, 1),
    _VECTORS: (np.float32, 2),
    _POSITIVES: (np.uint64, 2),
}


@dataclass(frozen=True, kw_only=True)
class BankCalibration:
    """For the documents of one bank."""

    a: float
    hubness: NDArray[np.float32]

    @property
    def column(self) -> NDArray[np.float32]:
        """One more dimension of the documents; that of a query is 1."""
        return np.float32(-self.a) * self.hubness


@dataclass(frozen=True, kw_only=True)
class SampledQueries:
    """`positives`: a hash of each positive's vector in the bank, 0 for none, (Q, P)."""

    vectors: NDArray[np.float32]
    positives: NDArray[np.uint64]


def bank_key(bank: VectorSource) -> str:
    return folder_key({"bank": bank.fingerprint(), "shape": list(bank.shape), "format": FORMAT})


def save_facts(model: Path, facts: CalibrationFacts) -> None:
    """Written last: without it, nothing of the rest is used. Raises StorageError."""
    write_json(model / CALIBRATION, {**facts, "format": FORMAT}, AREA)


def save_bank(model: Path, bank: str, weights: str, found: BankCalibration) -> None:
    facts = {"a": found.a, "weights_sha256": weights, "rows": len(found.hubness)}
    _save(model / AREA / bank, facts, {_HUBNESS: found.hubness})


def save_queries(model: Path, weights: str, queries: SampledQueries) -> None:
    arrays: dict[str, NDArray[Any]] = {
        _VECTORS: queries.vectors,
        _POSITIVES: queries.positives,
    }
    _save(model / AREA / _QUERIES, {"weights_sha256": weights}, arrays)


def bank_of(model: Path, bank: str, weights: str | None, rows: int) -> BankCalibration | None:
    """The calibration for a bank of so many rows; None if there is none with these weights. Raises
    ArtifactDamaged."""
    found = _load(model, bank, weights, (_HUBNESS,), "a")
    if found is None:
        return None
    a, (hubness,) = found
    if len(hubness) != rows:
        raise ArtifactDamaged(
            f"The calibration {model / AREA / bank} is damaged: it has {len(hubness):,} documents "
            f"instead of {rows:,}.",
            hint=_again(model),
        )
    return BankCalibration(a=a, hubness=hubness)


def queries_of(model: Path, weights: str | None, width: int) -> SampledQueries | None:
    """Raises ArtifactDamaged, also if they are not of this width."""
    found = _load(model, _QUERIES, weights, (_VECTORS, _POSITIVES))
    if found is None:
        return None
    _, (vectors, positives) = found
    if vectors.shape[1] != width:
        raise ArtifactDamaged(
            f"The calibration {model / AREA / _QUERIES} is damaged: its vectors have "
            f"{vectors.shape[1]:,} values instead of {width:,}.",
            hint=_again(model),
        )
    return SampledQueries(vectors=vectors, positives=positives)


def _save(folder: Path, facts: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    with folder_written_whole(folder, AREA) as temp:
        hashes = {
            name: write_new(
                temp / name, npy_header(values.shape, values.dtype) + values.tobytes(), AREA
            )
            for name, values in arrays.items()
        }
        manifest = with_own_digest({"format": FORMAT, **facts, "sha256": hashes})
        write_new(temp / MANIFEST, json_bytes(manifest), AREA)


def _load(
    model: Path, name: str, weights: str | None, files: Sequence[str], number: str = ""
) -> tuple[float, list[NDArray[Any]]] | None:
    """A number of the manifest, if asked for, and the arrays, which have as many rows."""
    folder, run = model / AREA / name, model.parent
    hint = _again(model)
    try:
        manifest = dict(read_json(folder / MANIFEST, run))
        if not matches_own_digest(manifest):
            raise ValueError(f"{MANIFEST} does not match its own SHA-256")
        if manifest["weights_sha256"] != weights:
            return None
        value = manifest[number] if number else 0.0
        if not is_number(value):
            raise ValueError(f"{number} is no number")
        arrays = []
        for file in files:
            problem = file_problem(folder / file, run, manifest["sha256"][file])
            if problem:
                raise ArtifactDamaged(
                    f"The calibration {folder} is damaged: {file} {problem}.", hint=hint
                )
            arrays.append(_array(folder / file, run))
        if len({len(array) for array in arrays}) > 1:
            raise ValueError("its arrays differ in length")
    except FileNotFoundError:
        return None
    # MemoryError: a header can claim any size.
    except (OSError, LookupError, TypeError, ValueError, AttributeError, MemoryError) as error:
        raise ArtifactDamaged(
            f"The calibration {folder} is damaged ({type(error).__name__}: {error}).", hint=hint
        ) from error
    return float(value), arrays


def _array(path: Path, run: Path) -> NDArray[Any]:
    with open_inside(path, run) as file:
        array: NDArray[Any] = np.load(file, allow_pickle=False)
    kind, dimensions = _KINDS[path.name]
    if array.dtype != kind or array.ndim != dimensions:
        raise ValueError(f"{path.name} has another type or shape")
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise ValueError(f"{path.name} has a number that is not finite")
    return array


def _again(model: Path) -> str:
    return f"Delete {model / AREA} and {model / CALIBRATION}, then calibrate again: ttf calibrate"
