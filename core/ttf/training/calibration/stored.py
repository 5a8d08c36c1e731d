"""Where a calibration lies beside the weights.

`model/calibration.json`: see `ttf.rundir.calibration_facts`. `model/calibration/<bank>/`: h of every
document of a bank. `model/calibration/queries/`: the sampled queries, as the query tower saw them,
and which documents are their positives, so that documents can be added without the training pairs.
Each folder appears whole and is used only after its files matched their hashes. A new model
replaces all of it.
"""

from __future__ import annotations

from collections.abc import Mapping
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
        "vectors.npy": queries.vectors,
        "positives.npy": queries.positives,
    }
    _save(model / AREA / _QUERIES, {"weights_sha256": weights}, arrays)


def bank_of(model: Path, bank: str, weights: str | None) -> BankCalibration | None:
    """The calibration for a bank; None if there is none with these weights. Raises
    ArtifactDamaged."""
    manifest, arrays = _load(model, bank, weights)
    if not manifest:
        return None
    return BankCalibration(a=float(manifest["a"]), hubness=arrays[_HUBNESS])


def queries_of(model: Path, weights: str | None) -> SampledQueries | None:
    manifest, arrays = _load(model, _QUERIES, weights)
    if not manifest:
        return None
    return SampledQueries(vectors=arrays["vectors.npy"], positives=arrays["positives.npy"])


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
    model: Path, name: str, weights: str | None
) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    folder, run = model / AREA / name, model.parent
    hint = f"Delete {model / AREA} and {model / CALIBRATION}, then calibrate again: ttf calibrate"
    try:
        manifest = dict(read_json(folder / MANIFEST, run))
        if not matches_own_digest(manifest):
            raise ValueError(f"{MANIFEST} does not match its own SHA-256")
        if manifest["weights_sha256"] != weights:
            return {}, {}
        arrays = {}
        for file, digest in manifest["sha256"].items():
            problem = file_problem(folder / file, run, digest)
            if problem:
                raise ArtifactDamaged(
                    f"The calibration {folder} is damaged: {file} {problem}.", hint=hint
                )
            with open_inside(folder / file, run) as opened:
                arrays[file] = np.load(opened, allow_pickle=False)
    except FileNotFoundError:
        return {}, {}
    except (OSError, LookupError, TypeError, ValueError, AttributeError) as error:
        raise ArtifactDamaged(
            f"The calibration {folder} is damaged ({type(error).__name__}: {error}).", hint=hint
        ) from error
    return manifest, arrays
