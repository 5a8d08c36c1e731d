"""Runs of the real commands in processes of their own, and faults at moments that a test names."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

from ttf.rundir.checkpoint_files import newest_step

MARK = "TTF_FAULTS_TEST"
"""Variable in the environment of every process of a test: none outlives it."""
LONG_S = 120.0
WIDELY = os.environ.get("TTF_CHAOS", "0") not in ("", "0")
"""Also what takes minutes."""
Settings = Mapping[str, Any]


def wait_for(condition: Callable[[], bool], what: str, timeout_s: float = LONG_S) -> None:
    """Timing decides nothing: this only keeps a test that fails from waiting for ever."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.005)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a command ended with, and what it left in its folder."""

    code: int
    out: str
    err: str
    run: Path

    @property
    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads((self.run / "summary.json").read_text())
        return found

    @property
    def incidents(self) -> list[dict[str, Any]]:
        """incident.json of each, with its id."""
        folders = sorted((self.run / "incidents").glob("[0-9]*"))
        return [{"id": f.name, **json.loads((f / "incident.json").read_text())} for f in folders]

    def listed(self) -> list[tuple[str, str]]:
        """(class, process) of the incidents that summary.json tells of."""
        return [(found["class"], found["process"]) for found in self.summary["incidents"]]

    @property
    def evidence(self) -> str:
        """Of the last incident."""
        return "\n".join(f"{e['source']}: {e['text']}" for e in self.incidents[-1]["evidence"])

    def config(self) -> dict[str, Any]:
        return tomllib.loads((self.run / "run.toml").read_text())

    def origin(self, key: str) -> str:
        """The comment behind a value in run.toml."""
        section, _, name = key.rpartition(".")
        here = ""
        for line in (self.run / "run.toml").read_text().splitlines():
            if line.startswith("["):
                here = line.strip("[]")
            elif here == section and line.partition(" = ")[0].strip() == name:
                return line.rpartition("  # ")[2]
        raise KeyError(key)

    def steps_logged(self) -> list[int]:
        lines = map(json.loads, (self.run / "metrics.jsonl").read_text().splitlines())
        return [line["step"] for line in lines if line["type"] == "step"]

    @property
    def digest(self) -> str:
        return str(self.summary["weights_sha256"])

    def assert_clean(self) -> None:
        """No traceback reached the person."""
        assert "Traceback" not in self.err, self.err
        assert self.code != 70, self.err


@dataclass(kw_only=True)
class Command:
    """A command that is running."""

    process: subprocess.Popen[bytes]
    run: Path
    faults: Path
    _out: IO[bytes]
    _err: IO[bytes]

    @property
    def err(self) -> str:
        """What it said so far."""
        self._err.seek(0)
        return self._err.read().decode(errors="replace")

    def trainer(self) -> int:
        """The trainer's process; waits until there is one."""
        found: list[int] = []

        def there() -> bool:
            found[:] = children(self.process.pid)
            return bool(found) or self.process.poll() is not None

        wait_for(there, "a trainer")
        return found[-1]

    def held(self, step: int) -> None:
        """Waits until the run is held at that step (see `Place.hold`)."""
        reached = self.faults / f"held-{step}"
        wait_for(lambda: reached.exists() or self.process.poll() is not None, f"step {step}")
        assert reached.exists(), self.err

    def saved(self, step: int) -> None:
        """Waits until a checkpoint of at least that step is there."""
        wait_for(lambda: newest_step(self.run / "checkpoints") >= step, f"checkpoint {step}")

    def go(self, step: int) -> None:
        (self.faults / f"go-{step}").touch()

    def said(self, text: str) -> None:
        """Waits until it has said so."""
        wait_for(lambda: text in self.err or self.process.poll() is not None, repr(text))
        assert text in self.err, self.err

    def ended(self, timeout_s: float = LONG_S) -> Ended:
        self.process.wait(timeout_s)
        self._out.seek(0)
        out, err = self._out.read().decode(), self.err
        return Ended(code=self.process.returncode, out=out, err=err, run=self.run)


@dataclass(kw_only=True)
class Place:
    """Where a test's runs live: data, a folder that tells the plugins what to do, an environment."""

    root: Path
    plugins: Path
    data: Mapping[str, Path]
    home: Path
    leave_out: Sequence[str] = ()
    """Keys of `SMALL` that a test says otherwise."""
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)
    _files: list[IO[bytes]] = field(default_factory=list)
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.faults.mkdir()

    @property
    def faults(self) -> Path:
        return self.root / "faults"

    def hold(self, *steps: int) -> None:
        """Runs are held when they have done these steps, until `Command.go`."""
        for step in steps:
            (self.faults / f"hold-{step}").touch()

    def words(self, settings: Settings = {}) -> list[str]:  # noqa: B006 - only read
        small = {key: value for key, value in SMALL.items() if key not in self.leave_out}
        merged = {**small, **settings}
        sets = [f"--set={key}={_toml(value)}" for key, value in merged.items()]
        files = [word for name, path in self.data.items() for word in (f"--{name}", str(path))]
        return [*files, *sets]

    def train(self, *argv: str, out: str | Path = "run", **given: Any) -> Command:
        settings = given.pop("settings", {})
        run = self.root / out
        return self.start(
            "train", *self.words(settings), "--out", str(run), *argv, run=run, **given
        )

    def resume(self, run: Path, *argv: str, **given: Any) -> Command:
        return self.start("resume", str(run), *argv, run=run, **given)

    def start(
        self,
        *argv: str,
        run: Path,
        env: Mapping[str, str] = {},
        before: str = "",
        under: Sequence[str] = (),
    ) -> Command:
        """`before`: a line of shell that the process begins with (limits, groups); `under`: a
        command that runs it."""
        ttf = [*under, sys.executable, "-m", "ttf", *argv]
        words = ["sh", "-c", f'{before}\nexec "$@"', "sh", *ttf] if before else ttf
        out, err = (self._file() for _ in range(2))
        process = subprocess.Popen(
            words,
            cwd=self.root,
            env=self.environment() | dict(env),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        self._processes.append(process)
        return Command(process=process, run=run, faults=self.faults, _out=out, _err=err)

    def environment(self) -> dict[str, str]:
        return os.environ | {
            MARK: self.mark,
            "FAULTS": str(self.faults),
            "TTF_HOME": str(self.home),
            "PYTHONPATH": str(self.plugins),
            "NO_COLOR": "1",
        }

    def close(self) -> list[str]:
        """Ends every process of the test; those that were left."""
        left = list(marked(self.mark))
        for pid, _ in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for process in self._processes:
            process.wait()
        for file in self._files:
            file.close()
        return [line for _, line in left]

    def _file(self) -> IO[bytes]:
        file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `close`
        self._files.append(file)
        return file


SMALL: Settings = {
    "tower.query.hidden": 16,
    "negatives.min_yield": 0,
    "miner.negatives": 0,
    "train.batch_size": 16,
    "train.accumulate": 2,
    "train.steps": 40,
    "device.threads": 1,
    "evaluate.every": "end",
    "checkpoint.every_steps": 10,
    "observers": ["faulty"],
}
"""A run of a second: no mining, forty steps; of its checkpoints only the first is sure to begin at
its step: later ones wait until the one before is written."""


def _toml(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def children(pid: int) -> list[int]:
    """Direct children, in the order they were started."""
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return sorted(int(c) for t in tasks for c in (t / "children").read_text().split())
    except (FileNotFoundError, ProcessLookupError):
        return []


def marked(mark: str) -> list[tuple[int, str]]:
    """Living processes of a test, by their environment."""
    wanted, found = f"{MARK}={mark}".encode(), []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append((int(entry.name), f"{entry.name}: {line}"))
    return found
