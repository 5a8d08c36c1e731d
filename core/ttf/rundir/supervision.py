"""supervision.json: what happened to a run beyond any one process of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Self

from ttf.errors import StorageError
from ttf.rundir.durable import read_json, write_json
from ttf.rundir.request import Change, History


@dataclass(frozen=True, kw_only=True)
class Journal:
    """Read when a run is continued, so that remedies, counts and clocks outlive the supervisor."""

    restarts: int = 0
    wall_s: float = 0.0
    checkpointed: int = -1
    """The newest step of which a checkpoint was made; whether it still is there is another
    matter."""
    overlay: Mapping[str, Change] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Self:
        """What is not there or is damaged says nothing: the run itself is in its checkpoints."""
        try:
            found = read_json(path)
            overlay = {key: Change(**change) for key, change in found["overlay"].items()}
            return cls(
                restarts=int(found["restarts"]),
                wall_s=float(found["wall_s"]),
                checkpointed=int(found["checkpointed"]),
                overlay=overlay,
            )
        except (OSError, ValueError, LookupError, TypeError, AttributeError):
            return cls()

    def write(self, path: Path) -> StorageError | None:
        """A disk that takes nothing must not end the run: the failure is returned."""
        try:
            write_json(path, {"format": 1, **asdict(self)})
        except StorageError as error:
            return error
        return None

    def with_history(self, history: History, overlay: Mapping[str, Change]) -> Self:
        return replace(self, restarts=history.restarts, wall_s=history.wall_s, overlay=overlay)

    def history(self) -> History:
        return History(restarts=self.restarts, wall_s=self.wall_s)
