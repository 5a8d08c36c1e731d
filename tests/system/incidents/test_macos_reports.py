"""Evidence of macOS, on constructed reports: see recorded/README.md."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.unit.incidents.test_macos_reports import JETSAM, RECORDED, SEGFAULT  # noqa: F401

from ttf.incidents.classify import classify
from ttf.incidents.death import Death, ProcessEnd
from ttf.incidents.gather import Witness
from ttf.process import platform

DeathOnMacos = Callable[[str, Path | None, int], Death]


@pytest.fixture
def death_on_macos(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[DeathOnMacos]:
    """A real death, gathered as on macOS, with a report about it."""
    children = []

    def die(code: str, report: Path | None, was: int) -> Death:
        child = subprocess.Popen(
            [sys.executable, "-c", f"input()\n{code}"],
            stdin=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        children.append(child)
        with monkeypatch.context() as patch:
            patch.setattr(platform, "LINUX", False)
            patch.setattr(platform, "MACOS", True)
            reports = [tmp_path] if report is not None else []
            with Witness("command", child.pid, root=tmp_path, reports=reports) as witness:
                child.communicate(b"go\n", timeout=60)
                if report is not None:
                    text = report.read_text().replace(f'"pid": {was}', f'"pid": {child.pid}')
                    (tmp_path / report.name).write_text(text)
                return witness.death(ProcessEnd(returncode=child.returncode))

    yield die
    for child in children:
        child.kill()
        child.wait()


def test_a_witness_on_macos_finds_the_report(death_on_macos: DeathOnMacos) -> None:
    death = death_on_macos("import ctypes; ctypes.string_at(0)", SEGFAULT, 4242)
    assert (death.native, len(death.openmp)) == ("libomp.dylib", 2)
    found = classify(death)
    assert found.name == "segfault" and "in libomp.dylib" in found.explanation
    assert "had loaded two OpenMP runtimes" in found.explanation


def test_a_memory_kill_on_macos_needs_its_report(death_on_macos: DeathOnMacos) -> None:
    kill = "import os; os.kill(os.getpid(), 9)"
    found = classify(death_on_macos(kill, JETSAM, 4244))
    assert (found.name, found.certain) == ("oom-kill", True)
    assert any("per-process-limit" in evidence.source for evidence in found.evidence)
    found = classify(death_on_macos(kill, None, 0))
    assert (found.name, found.certain) == ("killed", False)
    assert "cannot say whether this was the OOM killer" in found.explanation
