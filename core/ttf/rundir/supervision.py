"""supervision.json: the history of a run over all its processes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, Self

from ttf.errors import ArtifactDamaged
from ttf.rundir.confined import read_json
from ttf.rundir.request import Change, History


@dataclass(frozen=True, kw_only=True)
class Sitting:
    """One `ttf train` or `ttf resume` of the run, with all its trainers."""

    began: float  # Unix seconds
    wall_before_s: float  # of the sittings before
    ended: str = ""  # the status of the run then; empty while it goes on, or if it was killed


@dataclass(frozen=True, kw_only=True)
class Journal:
    """Read when a run is resumed, so that remedies, counts and clocks survive the supervisor."""

    restarts: int = 0
    wall_s: float = 0.0
    checkpointed: int = -1  # Step of the newest checkpoint made; it may have been removed since.
    overlay: Mapping[str, Change] = field(default_factory=dict)
    sittings: tuple[Sitting, ...] = ()
    run_id: str = ""  # Of a run on several hosts: all of them have the same.

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
                # Missing in folders of earlier versions.
                sittings=tuple(Sitting(**one) for one in found.get("sittings", ())),
                run_id=str(found.get("run_id", "")),
            )
        except (OSError, ArtifactDamaged, ValueError, LookupError, TypeError, AttributeError):
            return cls()

    def document(self) -> dict[str, Any]:
        return {"format": 1, **asdict(self)}

    def begun(self, now: float, last_sign: float | None) -> Self:
        """With a new sitting. The time of one that was killed is counted up to its last sign."""
        wall_s = self.wall_s
        if self.sittings and not self.sittings[-1].ended and last_sign is not None:
            killed = self.sittings[-1]
            lasted_s = min(last_sign, now) - killed.began
            wall_s = max(wall_s, killed.wall_before_s + lasted_s)
        sitting = Sitting(began=now, wall_before_s=wall_s)
        return replace(self, wall_s=wall_s, sittings=(*self.sittings, sitting))

    def with_end(self, status: str) -> Self:
        *before, last = self.sittings
        return replace(self, sittings=(*before, replace(last, ended=status)))

    def with_history(self, history: History, overlay: Mapping[str, Change]) -> Self:
        return replace(self, restarts=history.restarts, wall_s=history.wall_s, overlay=overlay)

    def history(self) -> History:
        return History(restarts=self.restarts, wall_s=self.wall_s)


def last_sign(curve: Path) -> float | None:
    """When the run was last alive: the curve of its memory gets a line a second."""
    try:
        return curve.lstat().st_mtime
    except OSError:
        return None
