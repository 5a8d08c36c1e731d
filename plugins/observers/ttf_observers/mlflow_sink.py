"""MLflow: curves by step, the configuration as parameters, status and incidents as tags.

Where MLFLOW_TRACKING_URI is not set, runs go into mlflow.db, a SQLite file beside the run's folder.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf import Availability, refuse_foreign
from ttf_observers._tracker import Point, TrackerSink, flat, run_key

INSTALL: Final = 'pip install "twotower[mlflow]"'
_MARK: Final = "perf/step_s"
"""Every step has it."""
_TAG: Final = "ttf.key"
_FILE: Final = "mlflow.db"
_MOST_METRICS: Final = 1000  # of one call, which is one transaction
_MOST_PARAMS: Final = 100


def place_of(run_dir: Path) -> str:
    """Where MLflow keeps runs. Raises EntryRefused for a link beside a received run: SQLite would
    write where it leads."""
    given = os.environ.get("MLFLOW_TRACKING_URI")
    if given:
        return given
    refuse_foreign(run_dir.parent, [f"{_FILE}{end}" for end in ("", "-journal", "-wal", "-shm")])
    return f"sqlite:///{run_dir.parent / _FILE}"


class _Run:
    def __init__(self, run_dir: Path, config: Mapping[str, Any]) -> None:
        logging.getLogger("mlflow").setLevel(logging.WARNING)  # it tells of each table it makes
        logging.getLogger("alembic").setLevel(logging.WARNING)
        from mlflow import MlflowClient

        self._client = MlflowClient(tracking_uri=place_of(run_dir))
        name = os.environ.get("MLFLOW_EXPERIMENT_NAME") or "ttf"
        experiment = self._client.get_experiment_by_name(name)
        where = (
            self._client.create_experiment(name) if experiment is None else experiment.experiment_id
        )
        key = run_key(run_dir)
        found = self._client.search_runs([where], f"tags.`{_TAG}` = '{key}'", max_results=1)
        if found:
            self._id = found[0].info.run_id
            self._client.update_run(self._id, status="RUNNING")
            return
        made = self._client.create_run(where, run_name=run_dir.name, tags={_TAG: key})
        self._id = made.info.run_id
        self._log_params(config)

    def last_step(self) -> int | None:
        known = self._client.get_run(self._id).data.metrics
        names = [name for name in (_name(_MARK), "perf/evaluation_s") if name in known]
        steps = [p.step for n in names for p in self._client.get_metric_history(self._id, n)]
        return max(steps, default=None)

    def send(self, points: list[Point]) -> None:
        from mlflow.entities import Metric

        batch: list[Any] = []
        for step, at, values in points:
            metrics = [Metric(_name(n), v, int(at * 1000), step) for n, v in values.items()]
            if len(batch) + len(metrics) > _MOST_METRICS:  # whole steps, so that a kill tears none
                self._client.log_batch(self._id, metrics=batch)
                batch = []
            batch += metrics
        self._client.log_batch(self._id, metrics=batch)

    def finish(self, status: str, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            self._client.set_tag(self._id, f"ttf.{name}", text)
        ended = {"finished": "FINISHED", "stopped": "KILLED"}.get(status, "FAILED")
        self._client.set_terminated(self._id, ended)

    def _log_params(self, config: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [Param(_name(key), text[:6000]) for key, text in flat(config).items()]
        for start in range(0, len(params), _MOST_PARAMS):
            self._client.log_batch(self._id, params=params[start : start + _MOST_PARAMS])


def _name(tag: str) -> str:
    """MLflow allows no @ in names: val/recall_at_10."""
    return re.sub(r"[^\w\-. /]", "_", tag.replace("@", "_at_"))


def _available() -> Availability:
    for module in ("mlflow", "sqlalchemy", "alembic"):
        if importlib.util.find_spec(module) is None:
            reason = f"the {module} library is not installed"
            return Availability(ok=False, reason=reason, fix=INSTALL)
    return Availability(ok=True)


SINK: Final = TrackerSink("mlflow", _available, _Run)
