"""A `ttf` command that runs, watched from outside and disturbed at a moment one can name.

The flight record says where a trainer is. To hit a phase for certain, the trainer stops itself there
(see `tests.kit.gate`).
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Self, TypeVar

from tests.kit.gate import Gate, Where
from tests.kit.processes import (
    alive,
    children_of,
    command_line,
    descendants,
    is_trainer,
    with_variable,
)
from tests.kit.widely import CHAOS

from ttf.process.lifeline import is_stopped
from ttf.rundir.flight_record import Flight, read_flight
from ttf.rundir.verified_folders import newest_step

MARK: Final = "TTF_TEST_RUN"
"""In the environment of every process that a test starts, and of all that those start."""
LEAVE_S: Final = 2.0 if CHAOS else 30.0
"""Within so long nothing is left of a run whose supervisor is gone: two seconds on a machine that has
nothing else to do, which `make chaos` measures."""
LONGEST_S: Final = 240.0
"""Ends a test that waits in vain; nothing else depends on it."""
PRELUDE: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # a test run that is killed leaves nothing either
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
_LOOK_S: Final = 0.005

T = TypeVar("T")


@dataclass(kw_only=True)
class Place:
    """Where runs live: their plugins and caches, and the mark of their processes."""

    root: Path
    plugins: Path = Path()
    """A folder for the module path."""
    home: Path | None = None
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        paths = [str(self.plugins.absolute()), os.environ.get("PYTHONPATH", "")]
        home = self.home or self.root / "home"
        scratch = self.root / "tmp"
        scratch.mkdir(parents=True, exist_ok=True)
        own = {"TTF_HOME": str(home), "TMPDIR": str(scratch), MARK: self.mark, "NO_COLOR": "1"}
        own["PYTHONPATH"] = os.pathsep.join(filter(None, paths))
        own["TORCHINDUCTOR_CACHE_DIR"] = str(home / "inductor")
        return {**os.environ, **own, **extra}

    def outputs(self, run: Path) -> tuple[Path, Path]:
        """Files for what a command says: no pipe of ours fills up."""
        folder = self.root / "said"
        folder.mkdir(parents=True, exist_ok=True)
        name = f"{run.name}-{uuid.uuid4().hex[:6]}"
        return folder / f"{name}.out", folder / f"{name}.err"

    def living(self) -> list[int]:
        """Every process that carries the mark; zombies have no environment."""
        return list(with_variable(MARK, self.mark))

    def end_all(self) -> list[str]:
        """Waits for what is about to go, kills what is left, and says what that was."""
        ends_at = time.monotonic() + LEAVE_S
        while self.living() and time.monotonic() < ends_at:
            time.sleep(0.02)
        left = []
        for pid in self.living():
            with contextlib.suppress(OSError):
                left.append(f"{pid}: {command_line(pid)}")
                os.kill(pid, signal.SIGKILL)
        return left


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What a command ended with, and what it left in its folder."""

    code: int
    out: str
    err: str
    run: Path

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found

    @property
    def summary(self) -> dict[str, Any]:
        return summary_of(self.run)

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


def summary_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


class LiveRun:
    """A command from its start to its end; `with` leaves no process of it behind."""

    process: subprocess.Popen[bytes]

    def __init__(
        self,
        place: Place,
        words: Sequence[str],
        run: Path,
        *,
        env: Mapping[str, str] | None = None,
        prefix: Sequence[str] = (),
    ) -> None:
        """`prefix`: a command that becomes ours by exec."""
        self.place = place
        self.run = run
        self.gate = Gate(run)
        self._struck: set[int] = set()
        self._start(
            [*prefix, sys.executable, "-c", PRELUDE, "-m", "ttf", *words],
            {**self.gate.variable(), **(env or {})},
        )

    def _start(self, words: Sequence[str], env: Mapping[str, str]) -> None:
        self.outputs = self.place.outputs(self.run)
        with self.outputs[0].open("ab") as out, self.outputs[1].open("ab") as err:
            self.process = subprocess.Popen(
                words,
                env=self.place.environment(env),
                cwd=self.place.root,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
        self.place.end_all()

    @property
    def pid(self) -> int:
        """The supervisor's."""
        return self.process.pid

    @property
    def over(self) -> bool:
        return self.process.poll() is not None

    @property
    def out(self) -> str:
        return self.outputs[0].read_text(errors="replace")

    @property
    def err(self) -> str:
        return self.outputs[1].read_text(errors="replace")

    # --- waiting for an event -------------------------------------------------------------------

    def until(self, seen: Callable[[], T | None], what: str) -> T:
        """Polls until there is something to see; the command must not end before."""
        ends_at = time.monotonic() + LONGEST_S
        while True:
            over = self.over
            found = seen()
            if found is not None and found is not False:
                return found
            assert not over, f"the run ended before {what}:\n{self.err[-3000:]}"
            assert time.monotonic() < ends_at, f"waited in vain until {what}:\n{self.err[-3000:]}"
            time.sleep(_LOOK_S)

    def trains(self, *, since: int = 21) -> None:
        """Waits until that many steps are done."""
        self.until(lambda: (f := self.flight()) is not None and f.step >= since, "it trains")

    def said(self, text: str) -> None:
        """Waits until it has said so."""
        self.until(lambda: text in self.err, f"it says {text!r}")

    def saved(self, step: int) -> None:
        """Waits until a checkpoint of at least that step is there. Those that fall due while one is
        written are left out: only the first is certain."""
        self.until(lambda: newest_step(self.run / "checkpoints") >= step, f"checkpoint {step}")

    def flight(self) -> Flight | None:
        return read_flight(self.run / "flight.bin")

    # --- the trainer ----------------------------------------------------------------------------

    def trainer(self) -> int:
        """The trainer that runs now, or soon; not one that was struck already."""
        return self.until(self.trainer_seen, "a trainer appears")

    def trainer_seen(self) -> int | None:
        for pid in children_of(self.pid):
            if pid not in self._struck and is_trainer(pid):
                return pid
        return None

    def trainer_after(self, earlier: int) -> int | None:
        """The one that stands in for `earlier`, once it is there."""
        self._struck.add(earlier)
        return self.trainer_seen()

    def hold(self, where: Where) -> tuple[int, Flight]:
        """A trainer stopped where its record says `where`: its process id and the record."""
        self.gate.shut(where)

        def stopped_there() -> tuple[int, Flight] | None:
            trainer = self.trainer_seen() if self.gate.reached() else None
            if trainer is None or not is_stopped(trainer):
                return None
            flight = self.flight()
            assert flight is not None
            return trainer, flight

        return self.until(stopped_there, f"the trainer came to {where}")

    def strike(self, signum: int, where: Where) -> Flight:
        """A signal meets the trainer right there."""
        trainer, flight = self.hold(where)
        self.hit(trainer, signum)
        return flight

    def hit(self, trainer: int, signum: int) -> None:
        """To its main thread: another one may take what is sent to the process, while this goes on
        to the next phase."""
        self._struck.add(trainer)
        ctypes.CDLL(None).tgkill(trainer, trainer, signum)
        with contextlib.suppress(ProcessLookupError):
            os.kill(trainer, signal.SIGCONT)

    # --- the command ----------------------------------------------------------------------------

    def send(self, signum: int) -> None:
        os.kill(self.pid, signum)

    def wait(self, timeout_s: float = LONGEST_S) -> Ended:
        """Until it ends by itself."""
        try:
            code = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run did not end:\n{self.err[-3000:]}") from None
        return Ended(code=code, out=self.out, err=self.err, run=self.run)

    def kill(self) -> Tree:
        """SIGKILL to the supervisor; what it left is still about to go."""
        tree = self.tree()
        self.send(signal.SIGKILL)
        self.process.wait()
        return tree

    def tree(self) -> Tree:
        """All there is of the run now, the supervisor excepted; the clock starts."""
        return Tree(set(descendants(self.pid)))

    def close(self) -> None:
        if not self.over:
            self.process.kill()
            self.process.wait()


class Tree:
    """Processes that must end soon, wherever they are re-parented to."""

    def __init__(self, pids: set[int]) -> None:
        self.pids = pids
        self._began = time.monotonic()

    def gone_after(self) -> float:
        """Waits for their end; the seconds since the clock started."""
        while left := [pid for pid in self.pids if alive(pid)]:
            named = [f"{pid}: {command_line(pid)}" for pid in left]
            took = time.monotonic() - self._began
            assert took < LEAVE_S, f"still alive after {took:.1f} s: {named}"
            time.sleep(0.005)
        return time.monotonic() - self._began


def in_phase(phase: str, *, since: int = 0) -> Where:
    return Where(phase=phase, since=since)


def saving(*, since: int = 0) -> Where:
    """The checkpoint thread is at a checkpoint."""
    return Where(phase="saving", since=since)
