"""Carries out what `decide.py` decides about one run.

    events  <--  RunningTrainer: child, flight record, memory, stderr
            <--  Signals
      v
    decide(state, event)  -->  actions: spawn, ask, dump, kill, say, end

One thread: the parent-death signal of a child follows the thread that spawned it, and this one lives
as long as the run. What only a death needs is imported at one: most runs have none.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NoReturn, TypedDict, assert_never

from ttf.errors import ExitCode, GaveUp, Stopped, Told, TtfError
from ttf.incidents.death import Finding
from ttf.process import limits
from ttf.process.error_document import from_document
from ttf.process.orphans import Orphans
from ttf.process.signals import Signals
from ttf.rundir.request import ToTrainer, TrainerEnd, TrainRequest
from ttf.rundir.run_folder import RunFolder, RunLog
from ttf.rundir.world_place import WorldPlace
from ttf.supervise.attempts import Alone, Attempt, Running, Team
from ttf.supervise.decide import initial, wake_at
from ttf.supervise.events import (
    Action,
    AskToLeave,
    AskToShed,
    AskToStop,
    DumpStacks,
    Ended,
    EndWithError,
    Event,
    Finish,
    GiveUp,
    Kill,
    SaveEvery,
    Say,
    Settings,
    Signalled,
    Spawn,
    Started,
    Stop,
    Suspended,
    Tick,
    now,
)
from ttf.supervise.held_processes import HeldProcesses
from ttf.supervise.journal_keeper import JournalKeeper
from ttf.supervise.running_trainer import LOOK_EVERY_S, RunningTrainer
from ttf.supervise.screen import Screen
from ttf.text.shell import quoted

if TYPE_CHECKING:
    from ttf.rundir.documents import Summary


def supervise(
    request: TrainRequest, folder: RunFolder, *, own_process: bool, team: Team | None = None
) -> Summary:
    """Trains to the end, over all restarts. Raises TtfError.

    `team`: the other nodes and ranks of the run; this function closes it.
    `own_process`: this process exists only for the run. It adopts, ends and reaps orphans,
    counts as part of the run, and obeys the terminal: the suspend key, and a hangup, which counts
    as SIGTERM.
    """
    limits.ensure_files()
    limits.ensure_tasks(threads=os.cpu_count() or 1)
    wanted = [signal.SIGINT, signal.SIGTERM]
    orphans = Orphans() if own_process else None
    if own_process:
        wanted.append(signal.SIGTSTP)
        # Ignored under nohup: the run outlives its terminal.
        if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
            wanted.append(signal.SIGHUP)
    with Signals(*wanted) as signals, RunLog(folder, resume=request.resume) as log:
        supervisor = Supervisor(request, folder, signals, orphans, log, team or Alone())
        try:
            summary = supervisor.run()
            supervisor.journal.note_end(str(summary.get("status", "finished")))
            return summary
        except Stopped:
            supervisor.journal.note_end("stopped")
            raise
        except TtfError as error:
            error.signals = signals.seen
            supervisor.journal.note_end("failed")
            raise
        finally:
            supervisor.close()


class _How(TypedDict):
    """How trainers are started, one or several."""

    display: int | None
    whole_tree: bool
    again: bool
    log: Callable[[str], None]


class Supervisor:
    """One run with all its trainers."""

    def __init__(
        self,
        request: TrainRequest,
        folder: RunFolder,
        signals: Signals,
        orphans: Orphans | None,
        log: RunLog,
        team: Team,
    ) -> None:
        """`orphans`: of a process that exists only for the run."""
        self._folder, self._signals, self._log = folder, signals, log
        self._orphans, self._team = orphans, team
        self._screen = Screen(request.progress)
        self._request = replace(request, live_width=self._screen.live_width)
        say = partial(self._say, loud=True)
        self.journal = JournalKeeper(folder, say, resume=request.resume)
        self._running: Running | None = None
        self._started = False  # a trainer, at least once
        self._adopted = False
        self._end: TrainerEnd = {}  # the last final record
        self._finding: Finding | None = None
        self._spawn_at, self._spawn = 0.0, Spawn()
        self._held = HeldProcesses(self._screen.waiting)
        self._state, self._first = initial(
            now(),
            self.journal.journal.overlay,
            self.journal.journal.history(),
            settings=Settings(remedies=request.remedies is not False),
        )

    def run(self) -> Summary:
        """Runs until an action ends the run."""
        self._team.show(self._screen.waiting, self._say)
        self._team.begins(self._folder, self._request, self.journal.journal.run_id)
        actions: Iterable[Action] = self._first
        while True:
            for action in actions:
                if isinstance(action, Finish):
                    return self._finished()
                self._carry_out(action)
            actions = [action for event in self._events() for action in self._decided(event)]

    def close(self) -> None:
        """Leaves no child process, even after an interrupt."""
        if self._running is not None:
            self._running.close()
            self._running = None
        if self._orphans is not None:
            self._orphans.end()
        self._team.close()
        self._screen.close()

    # --- what happens -----------------------------------------------------------------------

    def _decided(self, event: Event) -> Iterable[Action]:
        self._state, actions = self._team.decided(self._state, event)
        self.journal.note(event, self._state)
        return actions

    def _events(self) -> Iterable[Event]:
        """Waits for the next events. Lazy: each event is decided before the next one is read."""
        if self._running is None:
            yield from self._before_a_trainer()
            return
        trainer = self._running
        yield from trainer.wait(wake_at(self._state))
        if self._orphans is not None:
            self._orphans.reap(trainer.pids)
        yield from self._from_signals()
        yield from self._team.events()
        if trainer.over:
            yield from self._end_events(trainer)
            return
        if trainer.garbage and not trainer.killed[0]:
            trainer.kill("garbage", trainer.garbage)
        yield Tick(now=now())

    def _before_a_trainer(self) -> Iterable[Event]:
        # A signal ends the wait for a restart.
        held = self._held.remain()
        self._team.wait(self._signals, LOOK_EVERY_S if held else self._spawn_at - now())
        yield from self._from_signals()
        yield from self._team.events()
        if held:
            return
        if self._state.stage == "spawning" and now() >= self._spawn_at:
            try:
                attempt = self._team.attempt(self._spawn, self._state.history)
            except TtfError as error:
                self._fail(error)
            if attempt is not None:
                self._start(attempt)
                yield Started(now=now())

    def _from_signals(self) -> Iterable[Event]:
        for signum in self._signals.take():
            if signum == signal.SIGTSTP:
                yield self._suspend()
            else:
                yield Signalled(now=now(), signum=signum)

    def _suspend(self) -> Suspended:
        # Ctrl-Z: the whole tree stops and continues together with this process.
        began = now()
        if self._running is not None:
            self._running.stop_tree()
        self._screen.take_back()
        os.kill(os.getpid(), signal.SIGSTOP)
        if self._running is not None:
            self._running.continue_tree()
        return Suspended(now=now(), seconds=now() - began)

    def _end_events(self, trainer: Running) -> Iterable[Event]:
        """Yields Ended, or Died, or both if the trainer left because it was asked to."""
        code = trainer.finish()
        self._held.keep(trainer.held)
        if self._orphans is not None and not trainer.held:
            self._orphans.end()
        self._end = trainer.end or {}
        error = self._end.get("error")
        try:
            if "summary" in self._end:
                if code:
                    self._say(
                        "The training was complete, but the trainer process then failed "
                        f"(return code {code})."
                    )
                yield Ended(now=now(), exit_code=int(ExitCode.DONE))
            elif error is not None and trainer.conclusive:
                yield Ended(now=now(), exit_code=int(error["exit_code"]))
            else:
                self._screen.take_back()
                if self._end.get("left") == "memory":
                    used = f" ({trainer.tightest.text})" if trainer.tightest is not None else ""
                    trainer.killed = (
                        "memory",
                        f"it saved a checkpoint and ended on request{used}",
                    )
                    yield Ended(now=now(), exit_code=int(ExitCode.DONE), left="memory")
                self._finding, died = trainer.death(code, partial(self._say, loud=True))
                yield died
        finally:
            self._running = None
            trainer.close()

    # --- what is done -----------------------------------------------------------------------

    def _carry_out(self, action: Action) -> None:
        match action:
            case Spawn():
                self._spawn, self._spawn_at = action, now() + action.delay_s
                if action.because:
                    self._say(action.because, loud=True)
            case AskToStop():
                self._send({"stop": action.signum})
                name = signal.Signals(action.signum).name
                self._screen.interject(
                    f"{name}: the run saves a checkpoint and ends after its next step. A second "
                    "signal ends it at once."
                )
            case AskToShed():
                self._send({"shed": True})
            case AskToLeave():
                self._send({"leave": True})
            case SaveEvery():
                self._send({"save_every": action.steps})
            case DumpStacks():
                if self._running is not None:
                    self._running.dump_stacks()
            case Kill():
                if self._running is not None:
                    self._running.kill(action.why, action.text)
            case Say():
                self._say(action.text, loud=action.loud)
            case EndWithError():
                self._end_with_error(action)
            case GiveUp():
                self._fail(GaveUp(action.text))
            case Stop():
                self._stop(action.signum)
            case Finish():
                raise AssertionError("handled by run")
            case _:
                assert_never(action)

    def _start(self, attempt: Attempt) -> None:
        self._folder.tidy()
        there = self._folder.config.exists()
        if not self._started:
            self._adopted = there and not self._request.resume
        history = replace(attempt.history, started_at=now())
        request = replace(
            self._request,
            resume=self._request.resume or there,
            adopted=self._adopted,
            overlay=attempt.overlay,
            save_every=attempt.save_every,
            history=history,
        )
        self.journal.note_run(self._team.run_id)
        self._running = self._started_trainers(request, attempt.places)
        self._started = True

    def _started_trainers(self, request: TrainRequest, places: Sequence[WorldPlace]) -> Running:
        how: _How = {
            "display": self._screen.fd,
            "whole_tree": self._orphans is not None,
            "again": self._started,
            "log": self._log.write,
        }
        if not places:
            return RunningTrainer(request, self._folder, self._signals, **how)
        from ttf.supervise.running_ranks import RunningRanks

        self._screen.waiting("")
        ranks = RunningRanks(request, self._folder, self._signals, places, **how)
        return self._team.among(ranks)

    def _send(self, message: ToTrainer) -> None:
        if self._running is not None:
            self._running.send(message)

    def _say(self, text: str, *, loud: bool = False) -> None:
        """The trainer prints the text while it owns the screen, unless it dies before that."""
        trainer = self._running
        taken = trainer is not None and not trainer.over and trainer.send({"say": text})
        self._log.write(f"note: {text}", said_again=taken)
        if not taken:
            self._screen.note(text, loud=loud)

    def _finished(self) -> Summary:
        if "summary" in self._end:
            self._team.ended(None)
            return self._end["summary"]
        error = from_document(self._end["error"])
        # On several machines, the command of another one may have been asked.
        if isinstance(error, Stopped) and not self._signals.seen and isinstance(self._team, Alone):
            self._say(
                "The signal came to the trainer alone, not to this command: another program (a memory "
                "guard such as earlyoom, killall) or a person sent it.",
                loud=True,
            )
        self._team.ended(error)
        raise error

    def _end_with_error(self, action: EndWithError) -> NoReturn:
        from ttf.supervise.last_error import last_error

        assert self._finding is not None
        where = self._folder.incidents / action.incident
        error = last_error(self._end.get("error"), self._finding, action.plugin, action.text, where)
        self._fail(error)

    def _stop(self, signum: int) -> NoReturn:
        """Ends the run without a new checkpoint."""
        from ttf.rundir.verified_folders import newest_step

        if self._running is not None:
            self._running.finish()
            self._screen.take_back()
        step = newest_step(self._folder.checkpoints)
        kept = (
            f"The checkpoint of step {step} is kept."
            if step >= 0
            else "No checkpoint was saved yet."
        )
        name = signal.Signals(signum).name
        self._fail(Stopped(signum, f"{name} ended the run at once. {kept}"), status="stopped")

    def _fail(self, error: Told, *, status: str = "failed") -> NoReturn:
        """Ends the run and writes the summary, because no trainer is left to write it."""
        self._team.ended(error)
        from ttf.rundir.summary import Ending, write_last_summary

        if self._folder.config.exists():
            ending = Ending.of(error, status)
            if not error.hint and status == "failed":
                again = quoted(self._folder.path)
                error.hint = f"After you have removed the cause, continue with: ttf resume {again}"
            state = self._state
            failure = write_last_summary(self._folder, ending, state.history, state.overlay)
            if failure is not None:
                self._say(f"ttf could not write summary.json: {failure}")
        raise error
