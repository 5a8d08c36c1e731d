"""`ttf doctor --python`: an environment that has no ttf, made of stand-ins for its libraries."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

_TORCH = """
class Tensor:
    def __matmul__(self, other): return self
    def sum(self): return self
    def backward(self): pass
def randn(*shape, **more): return Tensor()
class nn:
    class Linear:
        def __init__(self, *shape): pass
        def __call__(self, x): return x
"""
_DIES_BESIDE_TORCH = """
import os, sys
if "torch" in sys.modules:
    sys.stderr.write("OMP: Error #15: Initializing libomp.so, but found libiomp5 already initialized.\\n")
    sys.stderr.flush()
    os.abort()
class Dataset:
    def __init__(self, *rows): pass
def train(*more): pass
"""
_NUMPY = """
class random:
    class RandomState:
        def __init__(self, seed): pass
        def rand(self, *shape): return self
        def astype(self, kind): return self
        def __getitem__(self, key): return self
        T = property(lambda self: self)
        def __matmul__(self, other): return self
"""


def install(site: Path, module: str, distribution: str, version: str, code: str) -> None:
    site.mkdir(exist_ok=True)
    (site / f"{module}.py").write_text(code)
    info = site / f"{distribution}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n"
    )


def doctor(*words: str) -> tuple[int, dict[str, Any]]:
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    made = subprocess.run(
        [sys.executable, "-P", "-m", "ttf", "doctor", "--json", *words],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return made.returncode, json.loads(made.stdout)


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bare")
    made = [sys.executable, "-m", "venv", "--without-pip", str(folder)]
    subprocess.run(made, check=True, capture_output=True)
    return folder


def by_id(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {check["id"]: check for check in document["checks"]}


def site_of(python: Path) -> Path:
    (found,) = python.glob("lib/python3*/site-packages")
    return found


def test_an_environment_without_ttf_is_examined(bare: Path) -> None:
    code, document = doctor("--python", str(bare))
    checks = by_id(document)
    assert code == 0 and document["ok"]
    assert checks["python"]["detail"].endswith("ttf is not installed there")
    assert checks["coload"]["status"] == "skip"


def test_two_libraries_that_die_together_and_a_known_fault_are_found(tmp_path: Path) -> None:
    made = [sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "sick")]
    subprocess.run(made, check=True, capture_output=True)
    site = site_of(tmp_path / "sick")
    install(site, "torch", "torch", "2.7.1", _TORCH)
    install(site, "lightgbm", "lightgbm", "4.7.0", _DIES_BESIDE_TORCH)
    install(site, "numpy", "numpy", "2.0.0", _NUMPY)
    code, document = doctor("--python", str(tmp_path / "sick/bin/python"))
    checks = by_id(document)
    assert code == 6
    assert checks["imports"]["status"] == "ok"
    assert checks["versions"]["status"] == "fail"
    assert "CVE-2026-24747" in checks["versions"]["detail"]
    assert checks["coload"]["status"] == "fail"
    assert checks["coload"]["detail"].startswith(
        "torch and then lightgbm in one process: omp-duplicate (SIGABRT)"
    )
    assert "KMP_DUPLICATE_LIB_OK" in checks["coload"]["remedy"]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--python", "/nowhere/python"], "there is no such file"),
        (["--python", "/bin/cat"], "is no Python 3 that works"),
        (["--python", sys.executable, "run.toml"], "cannot be combined"),
        (["--python", sys.executable, "--check", "plan"], "another Python"),
    ],
)
def test_what_cannot_be_examined_is_refused(words: list[str], why: str) -> None:
    code, document = doctor(*words)
    assert code == 2 and why in document["error"]["message"]


def test_neither_torch_nor_numpy_is_loaded_to_examine_another_python(bare: Path) -> None:
    program = (
        "import sys, ttf.cli\n"
        "try: ttf.cli.main(sys.argv[1:])\n"
        "finally: assert not {'torch', 'numpy', 'pydantic'} & sys.modules.keys()\n"
    )
    words = [sys.executable, "-c", program, "doctor", "--python", str(bare)]
    made = subprocess.run(words, capture_output=True, check=False)
    assert made.returncode == 0, made.stderr
