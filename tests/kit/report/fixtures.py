"""A real run that crashed twice, of a made-up person on a made-up machine; folders made by hand."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import Outcome
from tests.kit.faults.fixtures import intel_openmp
from tests.kit.report.canaries import DOMAIN, ENVIRONMENT, HOST, PLUGIN, PROJECT, SAID, USER

__all__ = ["intel_openmp", "wide"]

wide = pytest.mark.skipif(
    os.environ.get("TTF_CHAOS", "0") in ("", "0"), reason="one of many: TTF_CHAOS=1 runs it"
)
SETTINGS = {
    "tower.query.hidden": "16",
    "negatives.min_yield": "0",
    "miner.negatives": "2",
    "miner.refresh": "20",
    "miner.isolation": "none",
    "train.batch_size": "16",
    "train.steps": "60",
    "device.threads": "1",
    "evaluate.every": "20",
    "checkpoint.every_steps": "10",
    "observers": '["canary"]',
}


def write_lines(path: Path, lines: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


@dataclass(frozen=True, kw_only=True)
class Person:
    """Somebody with a home, a host name, secrets, and vectors in a folder with a space."""

    root: Path
    as_another: bool
    """Whether this machine lets us have another name on another host, in namespaces of our own."""

    @property
    def home(self) -> Path:
        return self.root / "home" / USER

    @property
    def data(self) -> Path:
        return self.home / PROJECT / "My Vectors"

    @property
    def run(self) -> Path:
        return self.home / PROJECT / "runs" / "r1"

    def ttf(self, *argv: str | Path, timeout_s: float = 120) -> Outcome:
        words = [sys.executable, "-m", "ttf", *map(str, argv)]
        if self.as_another:
            words = ["unshare", "-m", "-u", "sh", "-c", self._becoming(), "sh", *words]
        done = subprocess.run(
            words,
            cwd=self.home,
            env=self._environment(),
            capture_output=True,
            timeout=timeout_s,
            check=False,
        )
        out, err = (text.decode(errors="replace") for text in (done.stdout, done.stderr))
        return Outcome(code=done.returncode, out=out, err=err)

    def _becoming(self) -> str:
        etc = self.root / "etc"
        return (
            f"hostname {HOST} && mount --bind {etc}/passwd /etc/passwd && "
            f"mount --bind {etc}/hosts /etc/hosts && mount --bind {etc}/hostname /etc/hostname && "
            'exec "$@"'
        )

    def _environment(self) -> dict[str, str]:
        return os.environ | ENVIRONMENT | {
            "HOME": str(self.home),
            "USER": USER,
            "LOGNAME": USER,
            "HOSTNAME": f"{HOST}.{DOMAIN}",
            "TTF_HOME": str(self.home / "cache"),
            "PYTHONPATH": str(self.root / "site"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "CANARIES": SAID,
            "NO_COLOR": "1",
        }  # fmt: skip


@pytest.fixture(scope="session")
def person() -> Iterator[Person]:
    root = Path(tempfile.mkdtemp(prefix="ttf-report-"))
    try:
        root.chmod(0o755)
        made = Person(root=root, as_another=_may_be_another())
        made.data.mkdir(parents=True)
        _write_etc(root / "etc")
        _write_plugin(root / "site")
        from ttf.data.synth import SynthShape, write_synth

        write_synth(made.data, SynthShape(pairs=600, val=60, seq_len=5, dim=16, bank=400, seed=3))
        yield made
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _may_be_another() -> bool:
    words = ["unshare", "-m", "-u", "sh", "-c", "mount --bind /etc/hosts /etc/hosts"]
    if shutil.which(words[0]) is None:
        return False
    return subprocess.run(words, capture_output=True, check=False).returncode == 0


def _write_etc(folder: Path) -> None:
    folder.mkdir()
    home = folder.parent / "home" / USER
    # The uid stays: interpreters often lie where nobody else may go.
    (folder / "passwd").write_text(f"{USER}:x:{os.getuid()}:{os.getgid()}:Q:{home}:/bin/sh\n")
    (folder / "hosts").write_text(f"127.0.0.1 localhost\n127.0.1.1 {HOST}.{DOMAIN} {HOST}\n")
    (folder / "hostname").write_text(f"{HOST}\n")


def _write_plugin(site: Path) -> None:
    info = site / "canary-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: canary\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[ttf.v1]\nobserver.canary = canary_plugin:observer\n")
    (site / "canary_plugin.py").write_text(PLUGIN)


@pytest.fixture(scope="session")
def crashed_run(person: Person) -> Path:
    """Sixty steps, a segmentation fault after the 25th, a kill after the 31st, and well ended."""
    sets = [f"--set={key}={value}" for key, value in SETTINGS.items()]
    files = ["--pairs", str(person.data / "pairs.npz"), "--bank", str(person.data / "bank.npz")]
    done = person.ttf("train", *files, "--out", person.run, *sets)
    assert done.code == 0, done.err
    summary = json.loads((person.run / "summary.json").read_text())
    assert [i["class"] for i in summary["incidents"]] == ["segfault", "killed"]
    return person.run


@pytest.fixture
def guard_dir(tmp_path: Path) -> Path:
    """What `ttf guard` leaves of a command that died of SIGSEGV."""
    folder = tmp_path / "guard-001"
    (folder / "incidents" / "001").mkdir(parents=True)
    (folder / "environment.json").write_text(
        json.dumps(
            {"format": 1, "command": ["python", "train.py"], "versions": {"torch": "2.13.0"}}
        )
    )
    write_lines(
        folder / "memory.jsonl",
        [
            {"time": 1.7e9 + t, "step": 0, "anon": 1e8 * t, "shared": 0, "file": 1e8, "limit": 4e9}
            for t in range(1, 30)
        ],
    )
    (folder / "stderr.txt").write_bytes(b"\xffhello\x00\n")
    (folder / "incidents" / "001" / "incident.json").write_text(
        json.dumps(incident("segfault", ""))
    )
    listed = [{"id": "001", "class": "segfault", "process": "command", "remedy": None}]
    (folder / "summary.json").write_text(
        json.dumps(
            {
                "status": "failed",
                "exit_code": 139,
                "command": ["python", "train.py", "--name", "a b"],
                "restarts": 0,
                "incidents": listed,
                "wall_s": 29.0,
                "peak_anon_mb": 2900.0,
            }
        )
    )
    return folder


def incident(name: str, phase: str, process: str = "command", **more: Any) -> dict[str, Any]:
    """The content of an incident.json."""
    return {
        "class": name,
        "process": process,
        "signal": 11,
        "exit_code": None,
        "phase": phase,
        "step": 30,
        "evidence": [{"source": "exit status", "text": "process 7 was ended by SIGSEGV (11)"}],
        "explanation": "The process touched memory that is not its own.",
        "remedies": [{"text": "ttf train ... --isolation process", "set": {}}],
        "lost_steps": 4,
        "time": 1.7e9 + 20,
        **more,
    }
