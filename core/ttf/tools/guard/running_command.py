"""One start of the command, from start to end: watches it, passes signals on, ends it if needed."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from ttf.incidents.backtrace import NativeStacks
from ttf.incidents.death import KilledByUs
from ttf.incidents.gather import Witness
from ttf.machine.memory._linux import descendants
from ttf.machine.memory.watch import MemoryCurve
from ttf.process.signals import Signals
from ttf.text.numbers import size
from ttf.tools.guard.activity import Activity
from ttf.tools.guard.command import Command
from ttf.tools.guard.deaths import DeathsOfCommand, Ended
from ttf.tools.guard.growth import FIRST_AT, GrowthWatch
from ttf.tools.guard.options import GuardOptions
from ttf.tools.guard.pythons import Pythons
from ttf.tools.guard.stacks import Interpreter, Stacks
from ttf.tools.guard.stderr_relay import Relay
from ttf.tools.guard.terminal import Terminal, copy_size, stop_ourselves

LOOK_EVERY_S: Final = 0.25
# Looks at a large tree take longer and are less frequent: below 0.4% of a processor.
_LOOK_DUTY: Final = 300
_SELDOMEST_S: Final = 10.0
_LOOKS_AT_START: Final = 3
_START_LOOK_S: Final = 0.03
_START_DUTY: Final = 20
_NOTES_EVERY_S: Final = 1.0
_LATE_S: Final = 2.0  # A turn this much too long: the machine slept, or we were stopped.
_GRACE_S: Final = 5.0  # between SIGTERM and SIGKILL when we end the command
_KILL_AT: Final = 1.1  # still growing after SIGTERM: killed at once
_WARN_AT: Final = 0.85
_WARN_AGAIN_BELOW: Final = 0.7
_MACHINE: Final = "physical memory"
_OBEYS_WITHIN_S: Final = 300.0  # A later end is not the result of the signal that was sent.
_STOPS_WITHIN_S: Final = 10.0
_NOT_STOPPED_S: Final = 0.1
_LAST_WORDS_S: Final = 0.5
_LAST_READ_S: Final = 2.0
_UNCAUGHT: Final = "uncaught "
# signals that ask the command to end
ENDING: Final = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT})
_FROM_KEYBOARD: Final = frozenset({signal.SIGINT, signal.SIGQUIT})
_STOPS: Final = frozenset({signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU})

Say = Callable[[str], None]


class RunningCommand:
    """A started command. Use it in the main thread: the parent-death signal belongs to the thread."""

    def __init__(
        self,
        options: GuardOptions,
        *,
        environment: Mapping[str, str],
        tree: str,
        memory: Path,
        stacks: Stacks,
        signals: Signals,
        terminal: Terminal,
        say: Say,
    ) -> None:
        """Raises NotStarted."""
        self._options, self._stacks, self._signals = options, stacks, signals
        self._terminal, self._say = terminal, say
        self._began = time.monotonic()
        self.native = NativeStacks(options.words) if options.core else None
        # First: it sees how long our files are, and a command may write and die at once.
        self.pythons = Pythons(stacks, options.log)
        try:
            with self.native.allowed() if self.native else contextlib.nullcontext():
                self.command = Command(options.words, environment, tree, terminal)
        except BaseException:
            self.pythons.close()
            raise
        self.pythons.relayed = self.command.relayed
        self.relay = Relay(self.command.stderr)
        self.witness = Witness("command", self.command.pid, tree=True)
        self.curve = MemoryCurve(self.command.pid, memory)
        with contextlib.suppress(ProcessLookupError):
            self.curve.look()
        self.growth = GrowthWatch(self.command.pid)
        self._activity = Activity()
        self._next_look = self._next_notes = self._next_start_look = 0.0
        self._looks_at_start = 0
        self._turn = time.monotonic()
        self._asked: int | None = None
        self._asked_at = 0.0
        self._stop_asked_at: float | None = None
        self._killed: tuple[KilledByUs, str] = ("", "")
        self._kill_at: float | None = None
        self._lent = terminal.lent_to(self.command.pid)
        self._warned = self._said_stopped = self._said_blind = self._said_lost = False
        self._code: int | None = None

    @property
    def pid(self) -> int:
        return self.command.pid

    # --- watching ----------------------------------------------------------------------------

    def run(self) -> Ended:
        while self._code is None:
            self._wait()
            for signum in self._signals.take():
                self._on_signal(signum)
            self._follow_changes()
            if self._code is None and time.monotonic() >= self._next_look:
                self._look()
        self._finish()
        return self._result(self._code)

    def _wait(self) -> None:
        timeout = max(0.0, self._next_look - time.monotonic())
        readers = [self._signals.fileno(), self.pythons.wake, *self.relay.readers()]
        select.select(readers, self.relay.writers(), [], timeout)
        late = time.monotonic() - self._turn - timeout
        if late > _LATE_S:
            self._activity.pause(late)
        self._turn = time.monotonic()
        self.relay.move()
        if self.pythons.woken():
            self._looks_at_start = _LOOKS_AT_START
        if self._looks_at_start and self._turn >= self._next_start_look:
            self._look_at_start()

    def _look_at_start(self) -> None:
        # Who reads the pipe of a Python that has just started may be no program yet.
        self._looks_at_start -= 1
        began = time.thread_time()
        self.pythons.look(descendants(self.pid))
        spent = time.thread_time() - began
        self._next_start_look = time.monotonic() + max(_START_LOOK_S, _START_DUTY * spent)
        if self._looks_at_start:
            self._next_look = min(self._next_look, self._next_start_look)

    def _look(self) -> None:
        now, began = time.monotonic(), time.thread_time()
        with contextlib.suppress(ProcessLookupError):  # its end is told by its parent, us
            held = self.curve.look().held
            least = min(
                self._options.memory_limit or self.curve.limit.bytes, self.curve.limit.bytes
            )
            if held >= FIRST_AT * least:
                self.growth.look(held, least, descendants(self.pid))
            self._guard_memory(held)
            if now >= self._next_notes:
                self._take_notes()
                spent = time.thread_time() - began
                self._next_notes = now + min(_SELDOMEST_S, max(_NOTES_EVERY_S, _LOOK_DUTY * spent))
        if not self._lent and self._terminal.to_lend:  # brought to the foreground without a signal
            self._lend()
        if self.relay.source is not None and copy_size(self.relay.source):
            self.command.signal_group(signal.SIGWINCH)
        if self._kill_at is not None and now >= self._kill_at:
            self.command.kill_tree()
        cost = time.thread_time() - began
        limited = self._options.memory_limit is not None or self.curve.limit.source != _MACHINE
        seldom = _NOTES_EVERY_S if limited else _SELDOMEST_S
        self._next_look = now + min(seldom, max(LOOK_EVERY_S, _LOOK_DUTY * cost))

    def _take_notes(self) -> None:
        pids = descendants(self.pid)
        self.witness.look(pids)
        if self.native is not None:
            self.native.look([self.pid, *pids])
        self._stacks.tidy(pids)
        self.pythons.look(pids)
        self.pythons.tidy(pids)
        if self._options.hang_timeout_s is not None and not self._killed[0]:
            self._guard_activity(pids, self._options.hang_timeout_s)
        if self.relay.lost is not None and not self._said_lost:
            self._said_lost = True
            self._say(f"standard error can no longer be passed on: {self.relay.lost.strerror}")

    # --- what it may not do --------------------------------------------------------------------

    def _guard_memory(self, held: int) -> None:
        limit = self._options.memory_limit
        if limit is None:
            return
        if self._killed[0]:
            if held >= _KILL_AT * limit:
                self._kill_at = 0.0
            return
        text = f"{size(held)} of {size(limit)} (--memory-limit)"
        if held >= limit:
            self.growth.look(held, limit, descendants(self.pid), now=True)
            self._killed = ("memory", text)
            self._say(
                f"the command uses {text}: ttf guard sends SIGTERM now, and SIGKILL after "
                f"{_GRACE_S:g} s"
            )
            self.command.signal(signal.SIGTERM)
            self._kill_at = time.monotonic() + _GRACE_S
        elif held >= _WARN_AT * limit and not self._warned:
            self._warned = True
            self._say(f"the command uses {text}; ttf guard will end it at the limit")
        elif held < _WARN_AGAIN_BELOW * limit:
            self._warned = False

    def _guard_activity(self, pids: list[int], timeout_s: float) -> None:
        activity = self._activity
        activity.look(pids, self.relay.kept.num_bytes)
        if _output_is_blocked():
            activity.alive(pids)
        if activity.blind and not self._said_blind:
            self._said_blind = True
            self._say(
                "ttf guard cannot see what the command reads and writes: only output on "
                "stderr counts as activity"
            )
        if activity.quiet_s < timeout_s:
            return
        meanwhile = activity.meanwhile(pids)
        self._killed = ("hang", f"no output and no I/O for {timeout_s:g} s; {meanwhile}")
        self._stacks.ask(pids)
        self.witness.look(pids)
        self.command.kill_tree()

    # --- signals and job control ---------------------------------------------------------------

    def _on_signal(self, signum: int) -> None:
        if signum == signal.SIGCHLD:
            return
        if signum == signal.SIGCONT:
            self._continue()
        elif signum == signal.SIGWINCH:
            self._next_look = 0.0
        elif signum == signal.SIGTSTP:
            self._stop_asked_at = time.monotonic()
            self.command.signal_group(signum)  # and when it has stopped, so do we
        else:
            self._pass_on(signum)

    def _pass_on(self, signum: int) -> None:
        if signum in ENDING:
            self._asked, self._asked_at = signum, time.monotonic()
        if signum == signal.SIGHUP and self._lent and self._terminal.hung_up:
            return  # the kernel told the command's group as well
        from_keyboard = signum in _FROM_KEYBOARD and self._terminal.with_us
        send = self.command.signal_group if from_keyboard else self.command.signal
        if not send(signum):
            name = signal.Signals(signum).name
            self._say(f"could not pass on {name}: the command belongs to another user")

    def _follow_changes(self) -> None:
        if self.command.has_ended():
            self.witness.look_last()
        while self._code is None and (change := self.command.changes()) is not None:
            if change.stopped is not None:
                self._on_stop(change.stopped)
            elif change.continued:
                self._said_stopped = False
            else:
                self._code = change.ended

    def _on_stop(self, signum: int) -> None:
        if signum in (signal.SIGTTIN, signal.SIGTTOU) and self._terminal.with_us:
            self._continue(lend=True)  # it wants the terminal, and that is ours to lend
        elif signum in _STOPS or self._lent or self._wants_to_stop:
            self.relay.move()
            began = time.monotonic()
            stop_ourselves()
            stopped_s = time.monotonic() - began
            if stopped_s < _NOT_STOPPED_S:  # without a shell, SIGTSTP does not stop
                time.sleep(_NOT_STOPPED_S)
            self._activity.pause(stopped_s)
            self._continue()
        elif not self._said_stopped:
            self._said_stopped = True
            self._say(f"the command was paused by a signal; to continue it: kill -CONT {self.pid}")

    @property
    def _wants_to_stop(self) -> bool:
        # Some programs answer Ctrl-Z with a SIGSTOP to themselves, after a clean-up.
        asked = self._stop_asked_at
        return asked is not None and time.monotonic() - asked < _STOPS_WITHIN_S

    def _continue(self, *, lend: bool = False) -> None:
        # After a SIGCONT to us, in the foreground or not.
        if lend or self._lent or self._terminal.to_lend:
            self._lend()
        self.command.signal_group(signal.SIGCONT)

    def _lend(self) -> None:
        self._terminal.lend(self.pid)
        self._lent = self._terminal.lent_to(self.pid)

    # --- the end -------------------------------------------------------------------------------

    def _finish(self) -> None:
        at_keyboard = self._lent
        self._terminal.take_back(self.pid)
        self._lent = at_keyboard
        ends_at = time.monotonic() + _LAST_READ_S
        while not self.relay.finish(_LAST_WORDS_S):
            if time.monotonic() > ends_at:  # of a process that outlives it, and goes on writing
                self.relay.close()
            if any(signum in ENDING for signum in self._signals.take()):
                break  # no reader, and a signal asks us to end
        self.relay.close()
        if self._killed[0]:
            self.command.kill_tree()

    def _result(self, code: int) -> Ended:
        killed, reason = self._killed
        interrupted = code in (-signal.SIGINT, 128 + signal.SIGINT)
        recent = time.monotonic() - self._asked_at < _OBEYS_WITHIN_S
        asked = self._asked if recent else None
        keyboard = interrupted and not killed and (self._lent or asked == signal.SIGINT)
        if asked is not None and not killed and (code >= 0 or code == -asked):
            name = signal.Signals(asked).name
            killed, reason = "stop", f"ttf guard received {name} and passed it on"
        last_note = self._stacks.ended(self.pid)
        return Ended(
            returncode=code,
            wall_s=time.monotonic() - self._began,
            killed=killed,
            reason=reason,
            asked=signal.SIGINT if keyboard and asked is None else asked,
            at_keyboard=keyboard and self._terminal.fd is not None,
            vanished=code == 0 and not killed and self._is_python and not last_note,
            chosen=last_note == "in order",
            uncaught=last_note.removeprefix(_UNCAUGHT) if last_note.startswith(_UNCAUGHT) else "",
            is_python=self._is_python,
        )

    @property
    def _is_python(self) -> bool:
        # At its end: it may have called exec. Scripts are called by their own name.
        found = self._stacks.interpreter(self.pid)
        return found is not None and self.command.comm in ("", found.comm)

    @property
    def interpreter(self) -> Interpreter | None:
        return self._stacks.interpreter(self.pid)

    def deaths_of_command(self) -> DeathsOfCommand:
        """After `run`."""
        return DeathsOfCommand(
            pid=self.pid,
            words=self.command.words,
            relayed=self.relay.kept.data(),
            witness=self.witness,
            curve=self.curve,
            stacks=self._stacks,
            pythons=self.pythons,
            native=self.native,
        )

    def close(self) -> None:
        """Ends the command if it still lives: only after an error in the guard."""
        if self._code is None:
            self.command.kill_tree()
            with contextlib.suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        for part in (self.native, self.relay, self.witness, self.pythons):
            if part is not None:
                part.close()


def _output_is_blocked() -> bool:
    # Ctrl-S or a pager that waits: a writer waits until the reader goes on, and this is no hang.
    poll = select.poll()
    for fd in (1, 2):
        poll.register(fd, select.POLLOUT)
    return len(poll.poll(0)) < 2
