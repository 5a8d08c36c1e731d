"""supervision.json: the history of a run over all its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from ttf.errors import ArtifactDamaged, StorageError
from ttf.rundir.bounded_json import read_json
from ttf.rundir.durable import write_json
from ttf.rundir.request import Change, History


@dataclass(frozen=True, kw_only=True)
class Journal:
    """Read when a run is resumed, so that remedies, counts and clocks survive the supervisor."""

    restarts: int = 0
    wall_s: float = 0.0
    checkpointed: int = -1  # Step of the newest checkpoint made; it may have been removed since.
    overlay: Mapping[str, Change] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        # A missing or damaged file counts as empty: the run itself is in its checkpoints.
        try:
            found = read_json(path, path.parent)
            overlay = {key: Change(**change) for key, change in found["overlay"].items()}
            return cls(
                restarts=int(found["restarts"]),
                wall_s=float(found["wall_s"]),
                checkpointed=int(found["checkpointed"]),
                overlay=overlay,
            )
        except (OSError, ArtifactDamaged, ValueError, LookupError, TypeError, AttributeError):
            return cls()

    def write(self, path: Path) -> StorageError | None:
        # A failing disk must not end the run: the failure is returned.
        try:
            write_json(path, {"format": 1, **asdict(self)})
        except StorageError as error:
            return error
        return None

    def with_history(self, history: History, overlay: Mapping[str, Change]) -> Self:
        return replace(self, restarts=history.restarts, wall_s=history.wall_s, overlay=overlay)

    def history(self) -> History:
        return History(restarts=self.restarts, wall_s=self.wall_s)
