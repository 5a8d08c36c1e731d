"""What `ttf bench --tune` measured on this machine: kept in its folder, read when a run starts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Final, Literal, get_args

from ttf.errors import ArtifactDamaged
from ttf.machine import processor
from ttf.rundir.durable import write_json

Path32 = Literal["highest", "medium"]
PATHS: Final[tuple[Path32, ...]] = get_args(Path32)
"""torch's names for its float32 products on a CPU: through its default BLAS, through oneDNN."""

FILE: Final = "gemm.json"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One product through one path: its best rate, and its error against float64 (relative to
    the largest result)."""

    path: str
    shape: str
    gflops: float
    error: float


@dataclass(frozen=True, kw_only=True)
class TunedRow:
    """What was measured here, and what follows from it."""

    fingerprint: str
    date: str
    torch: str
    threads: int
    float32: Path32 | None
    """The path to take; None: nothing was clearly better, the static table decides."""
    why: str
    measured: tuple[Measured, ...]
    bf16_gain: float | None
    """How many times faster the step's products are in bf16 than in the fastest float32; None
    where the processor has no unit for them."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TunedRow:
        """Raises ValueError, LookupError or TypeError where it is none."""
        values = {field.name: found[field.name] for field in fields(cls)}
        if values["float32"] not in (*PATHS, None):
            raise ValueError(f"float32 is {values['float32']!r}")
        for name in ("fingerprint", "date", "why"):
            if not isinstance(values[name], str):
                raise TypeError(f"{name} is {values[name]!r}")
        if values["bf16_gain"] is not None:
            values["bf16_gain"] = float(values["bf16_gain"])
        values["measured"] = tuple(Measured(**line) for line in values["measured"])
        return cls(**values)


def row_file() -> Path:
    """Where this machine's row is, or would be."""
    return processor.machine_dir() / FILE


def tuned_row() -> TunedRow | None:
    """This machine's row, None where it was never tuned. Raises ArtifactDamaged."""
    file = row_file()
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
        return TunedRow.from_json(found)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ArtifactDamaged(
            f"{file} cannot be read as what ttf bench --tune writes "
            f"({type(error).__name__}: {error}).",
            hint="Measure anew with ttf bench --tune, or delete the file.",
        ) from error


def save_row(row: TunedRow) -> Path:
    """Raises StorageError."""
    file = row_file()
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, row.to_json(), "machine")
    return file
