"""A real OpenMP runtime, which refuses to meet another one in its process."""

from __future__ import annotations

import contextlib
import importlib.metadata
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from tests.kit.workers import made_once, shared_folder


@pytest.fixture(scope="session")
def intel_openmp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Intel's OpenMP runtime: installed, or fetched into a folder of the tests."""
    shared = shared_folder(tmp_path_factory)
    found = made_once(shared, "intel-openmp", lambda: _found_or_fetched(shared))
    if "path" not in found:
        pytest.skip(found["why_not"])
    return Path(found["path"])


def _found_or_fetched(shared: Path) -> dict[str, str]:
    installed = _installed()
    if installed is not None:
        return {"path": str(installed)}
    folder = shared / "openmp"
    folder.mkdir(exist_ok=True)
    try:
        return {"path": str(_fetched(folder))}
    except LookupError as error:
        return {"why_not": str(error)}


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
    except subprocess.TimeoutExpired as late:
        raise LookupError("intel-openmp is not installed, and fetching it took too long") from late
    wheel = next(folder.glob("*.whl"), None)
    if done.returncode or wheel is None:
        raise LookupError("intel-openmp is not installed and cannot be fetched")
    with zipfile.ZipFile(wheel) as archive:
        name = next((n for n in archive.namelist() if n.endswith("/libiomp5.so")), None)
        if name is None:
            raise LookupError("intel-openmp has no libiomp5.so for this system")
        path = folder / "libiomp5.so"
        path.write_bytes(archive.read(name))
    wheel.unlink()
    return path
