"""trackio: curves by step in its local database; `trackio show --project ttf` looks at them.

Points go into the database itself: no server and no thread is started in the trainer.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ttf import Availability
from ttf_observers._tracker import Point, TrackerSink, flat, run_key

INSTALL: Final = 'pip install "twotower[trackio]"'
PROJECT: Final = "ttf"


class _Run:
    def __init__(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        from trackio.sqlite_storage import SQLiteStorage

        self._storage = SQLiteStorage
        self._key = run_key(run_dir)
        self._name = f"{run_dir.name}-{self._key[:6]}"
        self._config: dict[str, str] | None = flat(config)

    def last_step(self) -> int | None:
        found = self._storage.get_max_step_for_run(PROJECT, self._name, run_id=self._key)
        return None if found is None else int(found)

    def send(self, points: list[Point]) -> None:
        self._storage.bulk_log(
            PROJECT,
            self._name,
            [dict(values) for _, _, values in points],
            steps=[step for step, _, _ in points],
            timestamps=[datetime.fromtimestamp(at, UTC).isoformat() for _, at, _ in points],
            config=self._config,
            # The same point twice is one.
            log_ids=[f"{self._key}-{step}" for step, _, _ in points],
            run_id=self._key,
        )
        self._config = None

    def finish(self, status: str, texts: Mapping[str, str]) -> None: ...


def _available() -> Availability:
    if importlib.util.find_spec("trackio") is not None:
        return Availability(ok=True)
    return Availability(ok=False, reason="the trackio library is not installed", fix=INSTALL)


SINK: Final = TrackerSink("trackio", _available, _Run)
