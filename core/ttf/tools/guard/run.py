"""`ttf guard` from start to exit code: runs the command, keeps the evidence, restarts it if asked."""

from __future__ import annotations

import contextlib
import os
import signal
import time
import uuid
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from ttf.incidents.classify import classify
from ttf.incidents.death import Death, Evidence, Finding
from ttf.process import platform
from ttf.process.signals import Signals, wait_for
from ttf.rundir.documents import ListedIncident, Summary
from ttf.tools.guard.command import NotStarted
from ttf.tools.guard.deaths import Ended
from ttf.tools.guard.environment import surroundings
from ttf.tools.guard.folder import GuardFolder
from ttf.tools.guard.messages import NOT_AFTER_0, Voice, again, code_of, exception_behind_0, told
from ttf.tools.guard.options import GuardOptions
from ttf.tools.guard.running_command import ENDING, RunningCommand
from ttf.tools.guard.stacks import Interpreter
from ttf.tools.guard.terminal import Terminal, stop_ourselves

ATTEMPT: Final = "TTF_GUARD_ATTEMPT"  # in the command's environment: 0 at the first start
_PASSED_ON: Final = (
    *ENDING,
    *(signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM),
)
_OWN: Final = (signal.SIGCONT, signal.SIGTSTP, signal.SIGWINCH)
_FIRST_PAUSE_S: Final = 1.0
_LONGEST_PAUSE_S: Final = 60.0
# A child that somebody killed while memory was nearly used up, too.
_FOR_MEMORY: Final = ("memory-limit", "oom-kill", "alloc-failure", "killed")
_HEALTHY_S: Final = 300.0  # after a start of this length the pause is short again

Status = Literal["finished", "failed", "stopped"]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    code: int
    summary: Summary
    path: Path | None  # the folder; None: nothing had to be kept
    # The command died of Ctrl-C, which only it received: the guard's parent must see it too.
    by_keyboard: bool


def guard(options: GuardOptions) -> Outcome:
    """Runs the command. Call it in the main thread. Raises ConfigError and StorageError only before
    the command is started."""
    voice = Voice()
    folder = GuardFolder(options.out, voice, options.words)
    # We write to a terminal, and lend it, from the background.
    before = signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    wanted = [s for s in (*_PASSED_ON, *_OWN) if signal.getsignal(s) != signal.SIG_IGN]
    try:
        with Signals(signal.SIGCHLD, *wanted) as signals:
            return _Guard(options, folder, signals, voice).run()
    finally:
        folder.close()
        signal.signal(signal.SIGTTOU, before)


class _Guard:
    def __init__(
        self, options: GuardOptions, folder: GuardFolder, signals: Signals, voice: Voice
    ) -> None:
        self._options, self._folder, self._signals = options, folder, signals
        self._voice = voice
        self._terminal = Terminal()
        self._stacks = folder.stacks
        self._began = time.monotonic()
        self._restarts = 0
        self._peak = 0
        self._interpreter: Interpreter | None = None
        self._incidents: list[ListedIncident] = []
        self._pause_s = _FIRST_PAUSE_S

    def run(self) -> Outcome:
        if platform.LINUX and not platform.PROC:
            self._voice(platform.WITHOUT_PROC)
        while True:
            try:
                running = self._start()
            except NotStarted as error:
                self._voice(str(error))
                return self._finish(error.code, "failed")
            with contextlib.closing(running):
                ended = running.run()
                finding = self._explain(running, ended)
                self._peak = max(self._peak, running.curve.peak_bytes)
                if not self._try_again(ended, finding):
                    by_keyboard = ended.at_keyboard and ended.returncode == -signal.SIGINT
                    return self._finish(code_of(ended), _status(ended), by_keyboard)
                running.command.kill_tree()  # what it left would be in the way of the next one
            self._stacks.clear()
            signum = self._pause(ended)
            if signum is not None:
                return self._finish(128 + signum, "stopped")

    def _start(self) -> RunningCommand:
        environment = {
            **os.environ,
            **self._stacks.environment(os.environ, buffered=self._options.buffered),
            ATTEMPT: str(self._restarts),
        }
        return RunningCommand(
            self._options,
            environment=environment,
            tree=uuid.uuid4().hex,
            memory=self._folder.memory,
            stacks=self._stacks,
            signals=self._signals,
            terminal=self._terminal,
            say=self._voice,
        )

    # --- an end --------------------------------------------------------------------------------

    def _explain(self, running: RunningCommand, ended: Ended) -> Finding | None:
        """Keeps and prints the explanation of an end; None if there is nothing to explain."""
        stderr = running.relay.kept.data()
        self._interpreter = running.interpreter
        finding = None
        kept = self._folder.path
        found = running.deaths_of_command()
        for death in found.deaths(ended, [] if kept is None else [kept]):
            finding = _found(death)
            grew = [*running.growth.told()] if finding.name in _FOR_MEMORY else []
            seen = (Evidence(source="mappings (smaps)", text=text) for text in grew)
            finding = replace(finding, evidence=(*finding.evidence, *seen))
            number = self._folder.incident(death, finding, self._stacks.all())
            listed = ListedIncident(
                {"id": number, "class": finding.name, "process": "command", "remedy": None}
            )
            if death.hidden:
                listed["hidden"] = True
            self._incidents.append(listed)
            page = self._folder.keep() / "incidents" / number / "incident.md"
            text = [*told(ended, finding, death, page if number else None)]
            text[2:2] = grew
            self._voice(*text, at_line_start=running.relay.at_line_start)
        name = found.hidden_exception(ended) if finding is None else ""
        if name:
            self._voice(exception_behind_0(name), at_line_start=running.relay.at_line_start)
        told_of = finding is not None or bool(name)
        if told_of and ended.unasked and not ended.failed and self._options.most_restarts:
            self._voice(NOT_AFTER_0)
        if stderr and self._folder.path is not None:
            self._folder.stderr(stderr, running.pid)
        return finding

    def _try_again(self, ended: Ended, finding: Finding | None) -> bool:
        options = self._options
        if not ended.failed or ended.asked is not None or not options.most_restarts:
            return False
        if self._restarts >= options.most_restarts:
            self._voice(f"not restarted: that was restart {self._restarts}, the last one")
            return False
        if ended.chosen and finding is not None and finding.name == "unknown":
            if not options.until_success:
                self._voice(
                    "not restarted: the command itself chose this exit code (to restart "
                    "anyway: --until-success)"
                )
            return options.until_success
        return True

    def _pause(self, ended: Ended) -> int | None:
        """Waits before the next start; returns a signal that asks the guard to end."""
        if ended.wall_s > _HEALTHY_S:
            self._pause_s = _FIRST_PAUSE_S
        self._restarts += 1
        self._voice(again(self._pause_s, self._restarts, self._options.most_restarts))
        until = time.monotonic() + self._pause_s
        self._pause_s = min(_LONGEST_PAUSE_S, 2 * self._pause_s)
        while (left := until - time.monotonic()) > 0:
            wait_for(self._signals, left)
            for signum in self._signals.take():
                if signum == signal.SIGTSTP:
                    stop_ourselves()
                if signum in ENDING:
                    return signum
        return None

    def _finish(self, code: int, status: Status, by_keyboard: bool = False) -> Outcome:
        summary, path = self._summary(code, status), self._folder.path
        if path is not None:
            around = surroundings(self._options, self._interpreter)
            self._folder.document("environment.json", around)
            self._folder.document("summary.json", summary)
        return Outcome(code=code, summary=summary, path=path, by_keyboard=by_keyboard)

    def _summary(self, code: int, status: Status) -> Summary:
        return {
            "status": status,
            "exit_code": code,
            "command": list(self._options.words),
            "restarts": self._restarts,
            "incidents": self._incidents,
            "hidden": [i["id"] for i in self._incidents if i.get("hidden")],
            "wall_s": round(time.monotonic() - self._began, 3),
            "peak_anon_mb": round(self._peak / 1e6, 1),
        }


def _found(death: Death) -> Finding:
    finding = classify(death)
    if death.command_ended and death.signal is None:
        # That a process below raised it is sure; that the command ended because of it is not.
        return replace(finding, certain=False)
    return finding


def _status(ended: Ended) -> Status:
    if not ended.failed:
        return "finished"
    return "stopped" if ended.asked is not None else "failed"
