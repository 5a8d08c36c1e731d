"""Fake distributions with miners and checks that misbehave for real, and a small run to look at."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FakeDistribution, Invoke, Outcome
from tests.kit.faults.fixtures import intel_openmp  # noqa: F401 - a fixture
from tests.kit.groups import memory_group

wide = pytest.mark.skipif(
    os.environ.get("TTF_CHAOS", "0") in ("", "0"), reason="one of many: TTF_CHAOS=1 runs it"
)
MINER = """
import ctypes, os, signal, sys, time
from ttf import hookimpl
from ttf.contracts import Availability, MinerCost, MinerTraits
from ttf.host.options import NoOptions
{at_import}

class Miner:
    def build(self, source, workdir):
        (workdir / "scratch").write_text("something")
        {build}
        self.source = source

    def search(self, queries, k):
        import numpy as np
        {search}
        scores = queries @ self.source.read(0, self.source.shape[0]).T
        ids = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return ids, np.take_along_axis(scores, ids, axis=1)

    def save(self, path): ...
    def load(self, path, source): ...
    def close(self): ...

class Factory:
    name, options_type = "odd", NoOptions
    def availability(self):
        return Availability(ok={usable}, reason="its library is missing", fix="install it")
    def traits(self, options, context):
        return MinerTraits(exact=True, deterministic=True, has_index=False)
    def estimate(self, rows, dim, queries, k, options, context):
        return MinerCost(build_s=0, search_s=0, anon_bytes=0, disk_bytes=0)
    def create(self, options, context):
        return Miner()

@hookimpl
def ttf_miner(name):
    return Factory() if name == "odd" else None
"""
SEGFAULT = "ctypes.string_at(0)"
TORCH_IS_HERE = '"torch" in sys.modules'
HANG = "ctypes.PyDLL(None).sleep(600)"


@dataclass(frozen=True, kw_only=True)
class OddMiner:
    """Puts a miner `odd` of a distribution `ttf-odd` on the path, alone with nothing of ours."""

    site: FakeDistribution
    number: list[int]

    def __call__(
        self, *, at_import: str = "", build: str = "", search: str = "", usable: bool = True
    ) -> None:
        self.number.append(1)
        module = f"ttf_odd_miner_{os.getpid()}_{len(self.number)}"
        self.site.add("ttf-odd", {"miner.odd": module})
        source = MINER.format(
            at_import=at_import, build=build or "pass", search=search or "pass", usable=usable
        )
        self.site.module(module, source)


@pytest.fixture
def odd_miner(fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch) -> OddMiner:
    monkeypatch.setenv("TTF_DISABLE_PLUGINS", "twotower")  # ours are looked at elsewhere
    return OddMiner(site=fake_plugins, number=[])


Ask = Callable[..., dict[str, Any]]


@pytest.fixture
def ask(invoke: Invoke) -> Ask:
    """One check, in this process: its document, with the exit code as `exit_code`."""

    def run(*argv: str | Path, check: str) -> dict[str, Any]:
        outcome = invoke(["doctor", *map(str, argv), "--check", check, "--json"])
        assert "Traceback" not in outcome.err, outcome.err
        document = outcome.json()
        assert document["exit_code"] == outcome.code
        (found,) = document["checks"]
        assert found["id"] == check
        return {**found, "exit_code": outcome.code, "ok": document["ok"]}

    return run


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where temporary files go: nothing may be left there."""
    folder = tmp_path / "tmp"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    before, tempfile.tempdir = tempfile.tempdir, None
    yield folder
    tempfile.tempdir = before
    assert list(folder.iterdir()) == []


# --- a run -----------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def small_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from ttf.data.synth import SynthShape, write_synth

    folder = tmp_path_factory.mktemp("doctor-data")
    write_synth(folder, SynthShape(pairs=600, val=60, seq_len=5, dim=16, bank=400, seed=3))
    return folder


WriteToml = Callable[..., Path]


@pytest.fixture
def run_toml(tmp_path: Path, small_data: Path) -> WriteToml:
    """Writes a configuration of a small run; keyword arguments are whole sections of TOML."""

    def write(*, folder: Path = small_data, **sections: str) -> Path:
        texts = {
            "data": f'pairs = "{folder}/pairs.npz"\nbank = "{folder}/bank.npz"',
            "tower.query": 'name = "gru"\nhidden = 16',
            "miner": 'name = "exact"\nnegatives = 2\nk = 20',
            "negatives": "min_yield = 0",
            "train": "batch_size = 16\naccumulate = 2",
            "device": "threads = 1",
            **{name.replace("__", "."): text for name, text in sections.items()},
        }
        path = tmp_path / "run.toml"
        path.write_text("\n".join(f"[{n}]\n{textwrap.dedent(t)}" for n, t in texts.items()))
        return path

    return write


# --- real limits -----------------------------------------------------------------------------------


def shell(before: str, *argv: str | Path, cwd: Path) -> Outcome:
    """`ttf doctor` in a process that begins with a line of shell."""
    done = subprocess.run(
        ["sh", "-c", f'{before}\nexec "$@"', "sh", sys.executable, "-m", "ttf", "doctor",
         *map(str, argv)],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )  # fmt: skip
    return Outcome(code=done.returncode, out=done.stdout, err=done.stderr)


@pytest.fixture
def small_group() -> Iterator[Callable[[int], str]]:
    """Makes a memory cgroup of version 1 of that many megabytes; a line of shell enters it."""
    with memory_group() as group:

        def limit(size_mb: int) -> str:
            group.limit(size_mb)
            return group.enter

        yield limit
