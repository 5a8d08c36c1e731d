"""A small data set, a place for runs, and real limits around them that go with the test."""

from __future__ import annotations

import contextlib
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.kit.faults import plugins
from tests.kit.faults.harness import Ended, Place, Settings
from tests.kit.groups import Group, memory_group
from tests.kit.training.standin import SOURCE

MB = 1 << 20
Undisturbed = Callable[[str, Settings], Ended]


@pytest.fixture(scope="session")
def faulty_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for sys.path with a distribution of faulty plugins."""
    site = tmp_path_factory.mktemp("faulty-site")
    write_distribution(site, "1.0")
    (site / "faulty_plugins.py").write_text(plugins.MODULE)
    (site / "standin_device.py").write_text(SOURCE)
    return site


def write_distribution(site: Path, version: str) -> None:
    for old in site.glob("faulty-*.dist-info"):
        shutil.rmtree(old)
    info = site / f"faulty-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: faulty\nVersion: {version}\n")
    lines = ["[ttf.v1]", *(f"{name} = {where}" for name, where in plugins.ENTRY_POINTS.items())]
    (info / "entry_points.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="session")
def faults_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("faults-home")


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    from ttf.data.synth import SynthShape, write_synth

    folder = tmp_path_factory.mktemp("faults-data")
    paths = write_synth(folder, SynthShape(pairs=600, val=60, seq_len=5, dim=16, bank=400, seed=3))
    return {"pairs": paths["pairs"], "bank": paths["bank"]}


@pytest.fixture
def place(
    tmp_path: Path, faulty_site: Path, small_data: dict[str, Path], faults_home: Path
) -> Iterator[Place]:
    """Runs in here; whoever still lives at the end is ended, and fails the test."""
    made = Place(root=tmp_path, plugins=faulty_site, data=small_data, home=faults_home)
    try:
        yield made
    finally:
        left = made.close()
    assert not left, f"processes were left behind: {left}"


@pytest.fixture(scope="session")
def undisturbed(
    tmp_path_factory: pytest.TempPathFactory,
    faulty_site: Path,
    small_data: dict[str, Path],
    faults_home: Path,
) -> Iterator[Undisturbed]:
    """A run that nothing happens to, made once for the same settings."""
    made = Place(
        root=tmp_path_factory.mktemp("undisturbed"),
        plugins=faulty_site,
        data=small_data,
        home=faults_home,
    )
    runs: dict[str, Ended] = {}

    def run(name: str, settings: Settings) -> Ended:
        key = f"{name} {json.dumps(settings, sort_keys=True)}"
        if key not in runs:
            runs[key] = made.train(out=f"{name}-{len(runs)}", settings=settings).ended()
            assert runs[key].code == 0, runs[key].err
        return runs[key]

    try:
        yield run
    finally:
        made.close()


@pytest.fixture
def reference(undisturbed: Undisturbed) -> Ended:
    """The run of `SMALL`, undisturbed."""
    return undisturbed("small", {})


# --- real limits ------------------------------------------------------------------------------------


@pytest.fixture
def group(place: Place) -> Iterator[Group]:
    """Removed once its processes are gone; before `place` looks for those that are left."""
    with memory_group() as made:
        yield made


@dataclass(frozen=True, kw_only=True)
class SmallDisk:
    """A file system in memory of a few megabytes."""

    path: Path

    def fill(self, leave_kb: int = 0) -> None:
        """Takes what is free, but so much, by one file."""
        stat = os.statvfs(self.path)
        count = max(0, stat.f_bavail * stat.f_frsize - (leave_kb << 10))
        with (self.path / "filler").open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, count) if count else None

    def free(self) -> None:
        (self.path / "filler").unlink()


@pytest.fixture
def small_disk(place: Place) -> Iterator[SmallDisk]:
    """8 MB, gone with the test."""
    path = place.root / "disk"
    path.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=8m", "ttf-faults", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        pytest.skip(f"nothing can be mounted here ({done.stderr.strip()})")
    try:
        yield SmallDisk(path=path)
    finally:
        subprocess.run(["umount", "-l", str(path)], check=True)


@contextlib.contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """A folder that takes nothing for a while, whoever asks."""
    here = str(folder)
    done = subprocess.run(["mount", "--bind", here, here], capture_output=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here ({done.stderr.decode().strip()})")
    try:
        subprocess.run(["mount", "-o", "remount,bind,ro", here], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", here], check=True)


# --- a real OpenMP runtime --------------------------------------------------------------------------


@pytest.fixture(scope="session")
def intel_openmp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Intel's OpenMP runtime: installed, or fetched into a folder of the tests."""
    installed = _installed()
    if installed is not None:
        yield installed
        return
    folder = tmp_path_factory.mktemp("intel-openmp")
    try:
        yield _fetched(folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _installed() -> Path | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        for file in importlib.metadata.files("intel-openmp") or ():
            if file.name == "libiomp5.so":
                return Path(str(file.locate())).resolve()
    return None


def _fetched(folder: Path) -> Path:
    fetch = [sys.executable, "-m", "pip", "download", "--no-deps", "--quiet", "--retries", "0"]
    try:
        done = subprocess.run(
            [*fetch, "--dest", str(folder), "intel-openmp"],
            capture_output=True,
            text=True,
            timeout=40,
            check=False,
        )
    except subprocess.TimeoutExpired:
        pytest.skip("intel-openmp is not installed, and fetching it took too long")
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        pytest.skip("intel-openmp is not installed and cannot be fetched")
    with zipfile.ZipFile(wheel) as archive:
        name = next((n for n in archive.namelist() if n.endswith("/libiomp5.so")), None)
        if name is None:
            pytest.skip("intel-openmp has no libiomp5.so for this system")
        path = folder / "libiomp5.so"
        path.write_bytes(archive.read(name))
    wheel.unlink()
    return path
