"""The deaths to explain once a command has ended: its own, or those of processes below it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ttf.incidents.backtrace import NativeStacks
from ttf.incidents.classify import classify
from ttf.incidents.code_files import written_since
from ttf.incidents.death import Death, KilledByUs, ProcessEnd
from ttf.incidents.disks import full_disks
from ttf.incidents.facts import signal_name
from ttf.incidents.gather import TAIL_BYTES, Witness, native_library
from ttf.machine.memory.limits import ULIMITS
from ttf.machine.memory.watch import MemoryCurve
from ttf.text.numbers import size
from ttf.text.shell import quoted
from ttf.tools.guard.blame import crashes_below, exceptions_below, hidden_exception, to_blame
from ttf.tools.guard.pythons import PythonEnd, Pythons
from ttf.tools.guard.stacks import Stacks

_MOST_COMMAND: Final = 80
# No helper fails like this on purpose.
REFUSED_MEMORY: Final = "alloc-failure"


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How the command ended."""

    returncode: int  # as of Popen: negative after a signal
    wall_s: float
    killed: KilledByUs = ""
    reason: str = ""
    asked: int | None = None  # the signal that asked us to end it
    at_keyboard: bool = False  # Ctrl-C: the user knows why it ended
    vanished: bool = False  # exit code 0, but its Python was never shut down
    # Python was shut down in order, without an uncaught error: the exit code is its own.
    chosen: bool = False
    uncaught: str = ""  # class of the exception that ended its Python
    is_python: bool = False

    @property
    def unasked(self) -> bool:
        return not self.killed and self.asked is None

    @property
    def failed(self) -> bool:
        return self.returncode != 0 or self.killed in ("hang", "memory")


@dataclass(frozen=True, kw_only=True)
class DeathsOfCommand:
    """What is known of a command that has ended."""

    pid: int
    words: Sequence[str]  # of its command line
    relayed: bytes  # its standard error
    witness: Witness
    curve: MemoryCurve
    stacks: Stacks
    pythons: Pythons
    native: NativeStacks | None

    def deaths(self, ended: Ended, folders: Sequence[Path]) -> Iterator[Death]:
        """Call it once, right after the end. None if there is nothing to explain."""
        if self.native is not None:
            self.native.look_in(self.pythons.folders())
        for death in self._deaths(ended, folders):
            native = None if self.native is None else self.native.of(death)
            yield replace(death, backtrace=native)

    def _deaths(self, ended: Ended, folders: Sequence[Path]) -> Iterator[Death]:
        if ended.at_keyboard:
            return
        ends = self.pythons.ends() if ended.unasked and ended.returncode >= 0 else []
        behind_0 = ends if ended.returncode == 0 else []
        crashes = crashes_below(behind_0, self.pid)
        exceptions = exceptions_below(behind_0, self.pid)
        if not (ended.failed or ended.vanished or crashes or exceptions):
            return
        own = self._own(ended, folders)
        for end in crashes:
            yield self._below(own, end, ended)
        for end in exceptions:
            death = self._below(own, end, ended)
            if classify(death).name == REFUSED_MEMORY:
                yield death
        if ended.failed:
            blamed = to_blame(
                ends,
                command=self.pid,
                is_python=ended.is_python,
                chosen=ended.chosen,
                code=ended.returncode,
            )
            yield own if blamed is None else self._below(own, blamed, ended)
        elif ended.vanished:
            yield own

    def hidden_exception(self, ended: Ended) -> str:
        """The class of an exception that ended a main program, although the command ended with 0."""
        if ended.is_python or ended.returncode or not ended.unasked:
            return ""  # a Python knows how those ended that it started
        return hidden_exception(self.pythons.ends(), self.pid)

    def _own(self, ended: Ended, folders: Sequence[Path]) -> Death:
        finished = ended.chosen and 0 < ended.returncode <= 128
        err, out = self._words_of_command(ended)
        end = ProcessEnd(
            returncode=ended.returncode,
            killed=(ended.killed, ended.reason),
            stderr=err,
            finished=finished,
            uncaught=ended.uncaught,
            memory=self.curve.points,
            limit_source=self.curve.limit.source,
            folders=(*folders, *self._folders_named(), *full_disks()),
            dump=self._own_dump(ended),
        )
        death = self.witness.death(end)
        return replace(death, stdout=_text(out), own_limit=self._own_limit(self.pid))

    def _own_limit(self, pid: int) -> str:
        limit = self.pythons.limit_of(pid)
        if limit is None or limit.bytes > self.curve.limit.bytes:
            return ""
        return f"{size(limit.bytes)} ({limit.source}, {ULIMITS[limit.source]})"

    def _words_of_command(self, ended: Ended) -> tuple[bytes, bytes]:
        # A shell says little itself: the Python below it that spoke last.
        speaker = self.pid if ended.is_python else self.pythons.last_speaker()
        if ended.is_python and ended.killed:
            speaker = self.pythons.last_speaker()  # of a launcher, the worker
        if speaker is None:
            return self.relayed, self.pythons.words(self.pid, self.relayed)[1]
        err, out = self.pythons.words(speaker, self.relayed)
        if err == self.relayed or not self.relayed:
            return err, out
        return (self.relayed, err + out) if ended.failed else (self.relayed, out)

    def _below(self, own: Death, end: PythonEnd, ended: Ended) -> Death:
        """The death of one process below the command."""
        err, out = self.pythons.words(end.pid, self.relayed)
        dump = self.stacks.of(end.pid)
        raw = err[-TAIL_BYTES:]
        stderr = raw.decode(errors="replace")
        error = None
        if end.traceback:
            *_, message = end.traceback.strip().splitlines()
            error = {
                "class": end.uncaught,
                "message": message.removeprefix(f"{end.uncaught}: "),
                "traceback": end.traceback,
                "known": False,
            }
        return replace(
            own,
            pid=end.pid,
            age_s=end.age_s,
            own_limit=self._own_limit(end.pid),
            signal=end.signum,
            exit_code=None if end.signum is not None else 1,
            stderr=stderr,
            raw_stderr=raw,
            stdout=_text(out),
            faulthandler=dump,
            error=error,
            finished=False,
            uncaught=end.uncaught,
            native=native_library(dump or stderr, own.kernel),
            command_ended=self._how(ended),
            hidden=ended.returncode == 0,
            newer_code=()
            if end.age_s is None
            else written_since(end.traceback or "", own.time - end.age_s),
        )

    def _how(self, ended: Ended) -> str:
        line = " ".join(map(quoted, self.words))
        short = line if len(line) <= _MOST_COMMAND else f"{line[: _MOST_COMMAND - 3]}..."
        how = f"exit code {ended.returncode}"
        if ended.returncode < 0:
            how = signal_name(-ended.returncode)
        return f"process {self.pid} ({short}) ended with {how}"

    def _own_dump(self, ended: Ended) -> str:
        # The stacks of the process that died; without them, of a child that crashed. After a hang,
        # of all processes.
        own = self.stacks.of(self.pid)
        if ended.killed == "hang" and not own.strip():
            every = self.stacks.all()
            return "\n".join(f"Process {pid}:\n{text}" for pid, text in every.items())
        if own.strip() or ended.returncode < 0 or ended.killed:
            return own
        return self.stacks.fresh_crash()

    def _folders_named(self) -> Iterator[Path]:
        # Folders that the command probably writes to, from its arguments.
        yield Path()
        for word in self.words[1:]:
            path = Path(word.rpartition("=")[2])
            with contextlib.suppress(OSError, ValueError):
                if path.is_dir():
                    yield path
                elif path.name and path.parent != Path() and path.parent.is_dir():
                    yield path.parent


def _text(output: bytes) -> str:
    return output[-TAIL_BYTES:].decode(errors="replace")
