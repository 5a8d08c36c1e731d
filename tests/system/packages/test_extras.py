"""Each extra for data and trackers, installed as a user does, in a fresh environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.widely import wide
from tests.system.packages.fresh import FreshEnvironment

_TABLE = "import numpy as n, pyarrow as a, pyarrow.parquet as q; q.write_table(a.table({'vectors': list(n.eye(40, 8, dtype='f4') + 1)}), 't.parquet')"
_HDF5 = "import numpy as n, h5py; h5py.File('t.hdf5', 'w')['train'] = n.eye(40, 8, dtype='f4') + 1"
MADE = {"parquet": (_TABLE, "t.parquet"), "hdf5": (_HDF5, "t.hdf5")}


@wide
@pytest.mark.parametrize("extra", MADE)
def test_an_extra_for_data_is_enough_to_import(
    extra: str, fresh_environment: FreshEnvironment, project_wheel: Path, tmp_path: Path
) -> None:
    code, name = MADE[extra]
    (tmp_path / name).write_bytes(b"PAR1 and more")
    without = fresh_environment.run("-m", "ttf", "data", "import", name, "--out", "o", cwd=tmp_path)
    assert without.code == 2 and f'pip install "twotower[{extra}]"' in without.err, without.err
    fresh_environment.install(f"twotower[{extra}] @ {project_wheel.as_uri()}")
    assert fresh_environment.run("-c", code, cwd=tmp_path).code == 0
    argv = ("data", "import", name, "--vectors", "train" if extra == "hdf5" else "vectors")
    done = fresh_environment.run("-m", "ttf", *argv, "--out", "out", cwd=tmp_path)
    assert done.code == 0, done.err


@wide
@pytest.mark.parametrize("extra", ["mlflow", "trackio", "wandb"])
def test_an_extra_for_a_tracker_is_enough_to_train_with_it(
    extra: str, fresh_environment: FreshEnvironment, project_wheel: Path, tmp_path: Path
) -> None:
    fresh_environment.install(f"twotower[{extra}] @ {project_wheel.as_uri()}")
    argv = ("--steps", "20", "--tower", "linear", "--set", f'observers=["{extra}"]')
    words, env = ("-m", "ttf", "train", *argv, "--out", "runs/a"), {"TRACKIO_DIR": "trackio"}
    done = fresh_environment.run(*words, cwd=tmp_path, env=env)
    assert done.code == 0 and "does not call it again" not in done.err, done.err
    made = {"mlflow": "runs/mlflow.db", "trackio": "trackio", "wandb": "runs/a/wandb"}
    assert (tmp_path / made[extra]).exists()
