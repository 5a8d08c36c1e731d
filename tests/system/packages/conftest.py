"""Fresh environments for tests that install packages; what is shared is made once a session."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, Protocol

import pytest
from filelock import FileLock
from tests.conftest import ROOT
from tests.kit.workers import shared_folder
from tests.system.packages.fresh import (
    COMPLETE,
    FreshEnvironment,
    build_wheel,
    held_by_many,
    make_base,
    make_environment,
    make_plain,
)

collect_ignore_glob = ["ttf-*"]
"""Packages of strangers: their tests run where they are installed."""


BASE: Final = "base"


class MakeEnvironment(Protocol):
    """Makes an environment in a folder, on top of others if they are given."""

    def __call__(self, folder: Path, *below: FreshEnvironment) -> FreshEnvironment: ...


class InstalledOnce(Protocol):
    def __call__(
        self, name: str, *packages: Path, below: Sequence[FreshEnvironment] = ()
    ) -> FreshEnvironment: ...


@pytest.fixture(scope="session")
def of_all_workers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of this session that its xdist workers share."""
    folder = shared_folder(tmp_path_factory) / "packages"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def project_wheel(of_all_workers: Path) -> Path:
    """The wheel of the project as it is now."""
    done = of_all_workers / "project-wheel"
    with FileLock(of_all_workers / "project-wheel.lock"):
        if not done.exists():
            wheel = build_wheel(ROOT, of_all_workers / "wheel")
            done.write_text(str(wheel))
    return Path(done.read_text())


@pytest.fixture(scope="session")
def environments(of_all_workers: Path, project_wheel: Path) -> Iterator[MakeEnvironment]:
    """Environments that have the project, as its wheel, and nothing else."""
    base = of_all_workers / BASE
    with held_by_many(base):
        with FileLock(of_all_workers / "base.lock"):
            if not (base / COMPLETE).exists():
                make_base(base, project_wheel)
                (base / COMPLETE).touch()
        yield lambda folder, *below: make_environment(folder, base, *below)


@pytest.fixture(scope="session")
def installed_once(environments: MakeEnvironment, of_all_workers: Path) -> InstalledOnce:
    """An environment by name, with packages that are installed once for all workers."""

    def installed(
        name: str, *packages: Path, below: Sequence[FreshEnvironment] = ()
    ) -> FreshEnvironment:
        folder = of_all_workers / BASE / "environments" / name  # goes when the base goes
        with FileLock(of_all_workers / f"{name}.lock"):
            if (folder / COMPLETE).exists():
                return FreshEnvironment(folder=folder)
            environment = environments(folder, *below)
            environment.install(*packages)
            (folder / COMPLETE).touch()
            return environment

    return installed


@pytest.fixture(scope="session")
def guard_wheel(of_all_workers: Path) -> Path:
    """The wheel of twotower-guard as it is now."""
    done = of_all_workers / "guard-wheel"
    with FileLock(of_all_workers / "guard-wheel.lock"):
        if not done.exists():
            wheel = build_wheel(ROOT / "twotower-guard", of_all_workers / "wheel-of-guard")
            done.write_text(str(wheel))
    return Path(done.read_text())


@pytest.fixture(scope="session")
def crash_side(of_all_workers: Path, guard_wheel: Path) -> FreshEnvironment:
    """An environment as `pip install twotower-guard` makes it, with nothing below it."""
    folder = of_all_workers / "crash-side"
    environment = FreshEnvironment(folder=folder)
    with FileLock(of_all_workers / "crash-side.lock"):
        if not (folder / COMPLETE).exists():
            make_plain(folder, guard_wheel)
            (folder / COMPLETE).touch()
    return environment


@pytest.fixture
def fresh_environment(environments: MakeEnvironment, tmp_path: Path) -> FreshEnvironment:
    """One environment for one test."""
    return environments(tmp_path / "environment")
