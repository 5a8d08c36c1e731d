"""Real `ttf train` and `ttf resume`, watched from outside and disturbed at a moment one can name.

The flight record says where a trainer is. To hit a phase for certain, the trainer is stopped, its
record read again, and let go where it had gone on meanwhile.
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
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeVar

from ttf.process.descendants import is_stopped
from ttf.rundir.flight_record import Flight, read_flight

MARK: Final = "TTF_CRASH_TEST"
"""In the environment of every process that a test starts, and of all that those start."""
STEPS: Final = 150
EVERY: Final = 20
"""Steps between checkpoints."""
LEAVE_S: Final = 2.0
"""Within so long nothing is left of a run whose supervisor is gone."""
_LONGEST_S: Final = 100.0
_LOOK_S: Final = 0.0005

T = TypeVar("T")
PRELUDE: Final = """
import ctypes, os, sys
ctypes.CDLL(None).prctl(1, 9)  # a test run that is killed leaves nothing either
os.execv(sys.executable, [sys.executable, *sys.argv[1:]])
"""
Where = Callable[[Flight], bool]


@dataclass(frozen=True, kw_only=True)
class World:
    """What all runs share: the data, the plugins, and the mark of their processes."""

    root: Path
    plugins: Path
    mark: str = field(default_factory=lambda: uuid.uuid4().hex)

    def environment(self, extra: Mapping[str, str]) -> dict[str, str]:
        paths = os.pathsep.join([str(self.plugins), os.environ.get("PYTHONPATH", "")])
        scratch = self.root / "tmp"
        scratch.mkdir(exist_ok=True)
        own = {"PYTHONPATH": paths, "TTF_HOME": str(self.root / "home"), "TMPDIR": str(scratch)}
        own["TORCHINDUCTOR_CACHE_DIR"] = str(self.root / "home" / "inductor")
        return {**os.environ, **own, MARK: self.mark, **extra}

    def config(self, run: Path, *sets: str, steps: int = STEPS) -> list[str]:
        """The words of a `ttf train` that saves often and needs little."""
        always = [f"checkpoint.every_steps={EVERY}", "miner.refresh=60", "evaluate.every=60"]
        always += ["evaluate.keep_best=false", 'observers=["sabotaged"]']
        words: list[Any] = ["train", "--json", "--out", run, "--steps", steps]
        words += ["--pairs", self.root / "pairs.npz", "--bank", self.root / "bank.npz"]
        words += ["--tower", "sabotaged", "--miner", "sabotaged", "--device", "cpu"]
        words += ["--threads", 1, "--batch-size", 64]
        for text in (*always, *sets):
            words += ["--set", text]
        return [str(word) for word in words]

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
    """How a command ended."""

    code: int
    out: str
    err: str

    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


class Live:
    """A command that runs; what it says goes to files, so that no pipe of ours fills up."""

    def __init__(
        self, world: World, words: Sequence[str], run: Path, *, env: Mapping[str, str] | None = None
    ) -> None:
        self.world, self.run = world, run
        self._out = run.parent / f"{run.name}-{uuid.uuid4().hex[:6]}"
        self._struck: set[int] = set()
        with self._path("out").open("wb") as out, self._path("err").open("wb") as err:
            self.process = subprocess.Popen(
                [sys.executable, "-c", PRELUDE, "-m", "ttf", *words],
                env=world.environment(env or {}),
                cwd=world.root,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                start_new_session=True,
            )

    def _path(self, stream: str) -> Path:
        return self._out.with_suffix(f".{stream}")

    @property
    def pid(self) -> int:
        """The supervisor's."""
        return self.process.pid

    @property
    def err(self) -> str:
        return self._path("err").read_text(errors="replace")

    # --- the trainer ----------------------------------------------------------------------------

    def trains(self, *, since: int = EVERY + 1) -> None:
        """Waits until that many steps are done."""
        self.until(lambda: (f := self.flight()) is not None and f.step >= since, "it trains")

    def flight(self) -> Flight | None:
        return read_flight(self.run / "flight.bin")

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

    def until(self, seen: Callable[[], T | None], what: str) -> T:
        """Polls until there is something to see; the command must not end before."""
        ends_at = time.monotonic() + _LONGEST_S
        while True:
            found = seen()
            if found is not None and found is not False:
                return found
            over = self.process.poll() is not None
            assert not over, f"the run ended before {what}:\n{self.err[-3000:]}"
            assert time.monotonic() < ends_at, f"waited in vain until {what}:\n{self.err[-3000:]}"
            time.sleep(_LOOK_S)

    def hold(self, where: Where) -> tuple[int, Flight]:
        """A trainer stopped where its record says `where`: its process id and the record."""

        def stopped_there() -> tuple[int, Flight] | None:
            trainer, flight = self.trainer_seen(), self.flight()
            if trainer is None or flight is None or not where(flight):
                return None
            with contextlib.suppress(ProcessLookupError):  # it ended meanwhile: the next one, then
                os.kill(trainer, signal.SIGSTOP)
                self.until(lambda: is_stopped(trainer) or not alive(trainer), "it is stopped")
                flight = self.flight()
                if flight is not None and where(flight) and not flight.torn:
                    return trainer, flight
                os.kill(trainer, signal.SIGCONT)
            return None

        return self.until(stopped_there, "the trainer came there")

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

    def wait(self) -> Ended:
        """Until it ends by itself."""
        try:
            code = self.process.wait(_LONGEST_S)
        except subprocess.TimeoutExpired:
            raise AssertionError(f"the run did not end:\n{self.err[-3000:]}") from None
        return Ended(code=code, out=self._path("out").read_text(), err=self.err)

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
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()


class Tree:
    """Processes that must end soon, wherever they are re-parented to."""

    def __init__(self, pids: set[int]) -> None:
        self.pids, self._began = pids, time.monotonic()

    def gone_after(self) -> float:
        """Waits for their end; the seconds since the clock started."""
        while left := [pid for pid in self.pids if alive(pid)]:
            named = [f"{pid}: {command_line(pid)}" for pid in left]
            took = time.monotonic() - self._began
            assert took < LEAVE_S, f"still alive after {took:.1f} s: {named}"
            time.sleep(0.005)
        return time.monotonic() - self._began


# --- what a finished run must be ------------------------------------------------------------------


def summary_of(run: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((run / "summary.json").read_text())
    return found


def incidents_of(run: Path) -> list[dict[str, Any]]:
    """Each incident.json, in order."""
    found = sorted((run / "incidents").glob("*/incident.json"))
    return [json.loads(path.read_text()) for path in found]


def assert_undisturbed(run: Path, weights: str, *, restarts: int, lost: int = 2 * EVERY) -> None:
    """It finished as if nothing had happened, and tells what happened. `lost`: steps redone per
    death; the interval, and the steps during one write."""
    summary = summary_of(run)
    assert summary["status"] == "finished" and summary["exit_code"] == 0
    assert summary["weights_sha256"] == weights
    assert summary["exact"] is True and summary["deviations"] == []
    assert summary["restarts"] == restarts
    assert [i["remedy"] for i in summary["incidents"]] == [None] * len(summary["incidents"])
    assert all(i["lost_steps"] <= lost for i in incidents_of(run))
    assert_each_step_once(run, summary["steps"])
    assert litter(run) == []


def assert_each_step_once(run: Path, steps: int = STEPS) -> None:
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    assert [m["step"] for m in lines if m["type"] == "step"] == list(range(1, steps + 1))
    for kind in ("eval", "mining"):
        found = [m["step"] for m in lines if m["type"] == kind]
        assert len(found) == len(set(found)), f"{kind}: {found}"


def litter(run: Path) -> list[str]:
    """Unfinished writes that were not cleaned up; `.owner` is the note of who holds the lock."""
    stay = (".lock", ".writer", ".owner")
    return [str(p.relative_to(run)) for p in run.rglob(".*") if p.name not in stay]


# --- processes ------------------------------------------------------------------------------------


def with_variable(name: str, value: str) -> Iterator[int]:
    wanted = f"{name}={value}".encode()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):
                if wanted in (entry / "environ").read_bytes().split(b"\0"):
                    yield int(entry.name)


def children_of(pid: int) -> list[int]:
    """Of any of its threads."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            found += [int(number) for number in (task / "children").read_text().split()]
    return found


def descendants(pid: int) -> list[int]:
    """All below it; not itself."""
    found = children_of(pid)
    for child in found:
        found.extend(children_of(child))
    return found


def command_line(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    return ""


def alive(pid: int) -> bool:
    """Zombies are not."""
    with contextlib.suppress(OSError):
        stat = Path(f"/proc/{pid}/stat").read_bytes()
        return stat[stat.rindex(b")") + 2 :][:1] not in (b"Z", b"X")
    return False


def is_trainer(pid: int) -> bool:
    """Its keeper has the same command line, but leads no session."""
    with contextlib.suppress(ProcessLookupError):
        return os.getsid(pid) == pid and "ttf.supervise.trainer_main" in command_line(pid)
    return False


def in_phase(phase: str, *, since: int = 0) -> Where:
    return lambda flight: flight.phase == phase and flight.step >= since


def saving(*, since: int = 0) -> Where:
    """The checkpoint thread is at a checkpoint."""
    return lambda flight: flight.saving_since_s is not None and flight.step >= since
