"""Fresh environments for tests that install packages; what is shared is made once a session."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from tests.packages.fresh import (
    COMPLETE,
    FreshEnvironment,
    build_wheel,
    held_by_many,
    make_base,
    make_environment,
)

collect_ignore_glob = ["ttf-*"]
"""Packages of strangers: their tests run where they are installed."""

MakeEnvironment = Callable[[Path], FreshEnvironment]


@pytest.fixture(scope="session")
def of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session that its xdist workers share."""
    own = tmp_path_factory.getbasetemp()
    folder = (own.parent if "PYTEST_XDIST_WORKER" in os.environ else own) / "packages"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def project_wheel(of_all_workers: Path) -> Path:
    """The wheel of the project as it is now."""
    done = of_all_workers / "project-wheel"
    with FileLock(of_all_workers / "project-wheel.lock"):
        if not done.exists():
            wheel = build_wheel(Path(__file__).parents[2], of_all_workers / "wheel")
            done.write_text(str(wheel))
    return Path(done.read_text())


@pytest.fixture(scope="session")
def environments(of_all_workers: Path, project_wheel: Path) -> Iterator[MakeEnvironment]:
    """Makes an environment in a folder: the project is installed, as a wheel, and nothing else."""
    base = of_all_workers / "base"
    with held_by_many(base):
        with FileLock(of_all_workers / "base.lock"):
            if not (base / COMPLETE).exists():
                make_base(base, project_wheel)
                (base / COMPLETE).touch()
        yield lambda folder: make_environment(folder, base)


@pytest.fixture
def fresh_environment(environments: MakeEnvironment, tmp_path: Path) -> FreshEnvironment:
    """One environment for one test."""
    return environments(tmp_path / "environment")
