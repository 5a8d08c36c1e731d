"""Where MLflow keeps runs if nobody says where: beside the run, and never behind a link."""

from __future__ import annotations

from pathlib import Path

import pytest

from ttf.errors import EntryRefused
from ttf_observers.mlflow_sink import place_of


@pytest.mark.parametrize("name", ["mlflow.db", "mlflow.db-wal"])
def test_a_link_beside_a_received_run_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.delenv("MLFLOW_TRACKING_URI", raising=False)
    run = tmp_path / "study/run"
    run.mkdir(parents=True)
    assert place_of(run) == f"sqlite:///{tmp_path}/study/mlflow.db"
    (tmp_path / "study" / name).symlink_to(tmp_path / "elsewhere")
    with pytest.raises(EntryRefused):
        place_of(run)
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "http://127.0.0.1:5000")
    assert place_of(run) == "http://127.0.0.1:5000"
