"""A run from its folder to its summary: starts or resumes, trains, records any ending.

Recording: `ttf.training.recorder`.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from ttf import loop
from ttf.config.resolve import Resolved, flat
from ttf.config.toml import dump
from ttf.contracts import DevicePolicy
from ttf.errors import (
    DeviceMistrusted,
    ExitCode,
    GateNotMet,
    Stopped,
    StorageError,
    Told,
    TtfError,
)
from ttf.process.signals import StopAsked
from ttf.rundir.confined import found_json
from ttf.rundir.disk_retry import StorageRetry
from ttf.rundir.documents import Incident, Summary
from ttf.rundir.durable import write_atomically, write_json
from ttf.rundir.flight_record import Phase
from ttf.rundir.incident_files import INCIDENT, list_incidents
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.summary import Ending, summarize
from ttf.rundir.typed_json import typed
from ttf.rundir.verified_folders import newest_step
from ttf.text.progress import Reporter
from ttf.text.secrets import Secrets
from ttf.text.shell import quoted
from ttf.training import manifest
from ttf.training.among_others import Joined, among_others
from ttf.training.auto_settings import Decided
from ttf.training.best_weights import Selection
from ttf.training.calibration.stage import calibrate_kept_model
from ttf.training.chance import ENOUGH_QUERIES, WRONG_DATA, Ranked, nothing_learned
from ttf.training.checkpoint import RunState, Snapshot, Totals
from ttf.training.configurations import note_written
from ttf.training.going_on import has_begun, load_state, refuse_larger_than_saved
from ttf.training.measured_exchange import exchange_facts
from ttf.training.mined_negatives import MinedNegatives
from ttf.training.recorder import Recorder, recording
from ttf.training.schedule import evaluation_due, learning_rate
from ttf.training.session import Session, open_session
from ttf.training.summary_facts import summary_facts
from ttf.training.supervisor_link import LeaveAsked, Link
from ttf.training.towers import start_from

T = TypeVar("T")
Say = Callable[[str], None]


def run(
    resolved: Resolved,
    folder: RunFolder,
    policy: DevicePolicy,
    reporter: Reporter,
    *,
    resume: bool = False,
    link: Link | None = None,
    opening: Sequence[str] = (),
    joined: Joined | None = None,
    edits: Sequence[str] = (),
) -> Summary:
    # Failures are recorded, then raised. Conditions: see `open_session`. `opening` is said when the
    # configuration and all files have been checked. `joined`: the other processes of the run.
    # `edits`: what somebody changed in its run.toml.
    def check(decided: Decided) -> None:
        # Among others the checkpoint may be one that another rank still has.
        if resume and joined is None:
            refuse_larger_than_saved(folder, decided.specs)

    world = None if joined is None else joined.world
    with open_session(
        resolved, folder, policy, reporter, link, check=check, world=world
    ) as session:
        among, begun = ([], False) if joined is None else among_others(session, joined)
        resume = begun or (resume and has_begun(folder, reporter.note))
        _write(session, folder.make_folders)
        if not resume:
            _begin(session)
        # Anew at every start: a remedy may have changed it.
        _write(session, partial(note_written, folder, session.config))
        configuration = dump(session.decided.resolved).encode()
        _write(session, partial(write_atomically, folder.config, configuration))
        given = session.config.data
        inputs = [uri for uri in (given.pairs, given.bank, given.context) if uri]
        # Again, now with every "auto" settled.
        session.link.tell({"configured": flat(session.config), "inputs": inputs})
        if session.parts.model.documents_frozen:
            # A rank that is new makes the same vectors again.
            alone = session.world.size == 1
            session.parts.documents.freeze(folder.index, must_exist=resume and alone)
        snapshot, deviations = load_state(session) if resume else (None, [])
        deviations = [*deviations, *edits] if resume else []
        session.parts.tables.open(
            folder.path,
            session.config.train.seed,
            snapshot.tables if snapshot is not None else {},
            snapshot.step if snapshot is not None else 0,
        )
        for note in (*opening, *session.notes):
            reporter.note(note)
        step = snapshot.step if snapshot is not None else None
        retry_s = session.config.checkpoint.retry_s
        log = partial(MetricsLog, folder.metrics, step, retry_s=retry_s, say=reporter.note)
        metrics = _write(session, log)
        trainer = Trainer(session, metrics)
        if snapshot is not None:
            lost = snapshot.step - metrics.steps_kept
            if lost > 0:
                reporter.note(
                    f"{folder.metrics} lacks {lost:,} of the {snapshot.step:,} steps before the "
                    "checkpoint, so curves and the report lack them too. The weights do not depend on it."
                )
            trainer.restore(snapshot, deviations)
        trainer.deviate(session.decided.deviations)
        for text in trainer.deviate(among):
            reporter.note(f"The summary will say exact: false, because {text}.")
        return trainer.run(resumed_from=step or 0)


def _begin(session: Session) -> None:
    init = session.config.train.init
    if init is not None:
        start_from(session.parts.model, Path(init))
    link = session.link
    built = manifest.build(
        session.decided.resolved, session.data, session.policy, session.decided.specs
    )
    if link.command:
        built["command"] = Secrets(command=link.command).words(link.command)
    built["environment_left_out"] = dict(link.left_out)
    write_json(session.folder.manifest, built)


def _write(session: Session, write: Callable[[], T]) -> T:
    # A new run fails at once if the disk takes nothing: the user is still there. A restarted run
    # has something to lose, and waits for the disk.
    history = session.link.history
    restarted = history is not None and history.incidents
    retry = StorageRetry(
        session.config.checkpoint.retry_s if restarted else 0.0,
        say=session.reporter.note,
        check_stop=session.link.check_stop,
        title="THE RUN CANNOT CONTINUE YET",
    )
    while True:
        try:
            return write()
        except StorageError as error:
            retry.wait_or_raise(error)


class Trainer:
    """Owns a run's state while it trains."""

    def __init__(self, session: Session, metrics: MetricsLog) -> None:
        self.session = session
        self._metrics = metrics
        self._selection = Selection(config=session.config.evaluate)
        totals = Totals(notes={note: note for note in session.data.notes})
        self._mined = MinedNegatives(session, metrics, totals)
        session.parts.stepper.keep_queries = self._mined.keep_queries
        self._state = RunState(session.parts, self._mined, self._selection, totals)
        decided = session.decided
        train = session.config.train
        self.loop = loop.Training(
            step=0,
            total_steps=decided.total_steps,
            order=decided.order,
            stepper=session.parts.stepper,
            learning_rate=partial(
                learning_rate,
                total=decided.total_steps,
                peak=train.lr,
                schedule=train.schedule,
                warmup=train.warmup,
            ),
            negatives_from=self._mined,
            load=session.load,
            evaluate=session.evaluate,
            evaluation_due=self._evaluation_due,
            ended_early=lambda: self._selection.patience_used_up,
        )

    def restore(self, snapshot: Snapshot, deviations: list[str]) -> None:
        """`deviations`: what may differ from the process that started the run, or from its data."""
        reporter = self.session.reporter
        self._state.restore(snapshot)
        self.loop.step = snapshot.step
        self.session.link.flight.enter(Phase.START, snapshot.step)
        reporter.resumed(snapshot.step, self._selection.initial)
        known = self._state.totals.deviations
        for text in [text for text in deviations if text not in known]:
            known.append(text)
            reporter.note(
                "From here on, the numbers may be no longer bitwise the same as without the "
                f"interruption: {text}."
            )

    def deviate(self, deviations: Sequence[str]) -> list[str]:
        """Notes what makes the numbers differ from an undisturbed run, each once; those new to it."""
        known = self._state.totals.deviations
        new = [text for text in deviations if text not in known]
        known += new
        return new

    def run(self, *, resumed_from: int) -> Summary:
        """Trains to the end and returns the summary; a failure is summarized, then raised."""
        session = self.session
        self._state.continue_clock(session.link.history)
        try:
            with self.recording() as recorder:
                self._announce(resumed_from)
                ending = self._train(recorder)
        except (LeaveAsked, DeviceMistrusted):  # the supervisor mends it
            raise
        except (Stopped, GateNotMet) as error:
            self._summarize_error(error, "stopped")
            raise
        except TtfError as error:
            if isinstance(error, StorageError):
                self._say_how_to_continue(error)
            self._summarize_error(error)
            raise
        except BaseException as error:
            if not session.link.supervised:  # else the supervisor writes the summary
                self._summarize(Ending(problem=f"{type(error).__name__}: {error}"))
            raise
        for text in self.deviate(session.data.times.unknown()):
            session.reporter.note(f"The run is not exact: {text}.")
        summary = self._summarize(ending)
        session.reporter.finished({**summary, "run_dir": str(session.folder.path)})
        if ending.problem:
            raise GateNotMet(ending.problem, hint=ending.hint)
        return summary

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recorder]:
        """Opens the loop's recorder from the current step on; the folder is complete afterwards."""
        session = self.session
        step = self.loop.step
        with (
            session.parts.tables,
            contextlib.closing(session.parts.documents),
            contextlib.closing(self._mined),
            recording(session, self._metrics, self._state, self._mined, step) as recorder,
        ):
            yield recorder

    def _announce(self, resumed_from: int) -> None:
        session = self.session
        observers = session.observers
        observers.ttf_run_started(
            run_dir=session.folder.path,
            config=session.config.model_dump(),
            resumed_from=resumed_from,
        )
        history = session.link.history
        for number in history.incidents if history is not None else ():
            path = session.folder.incidents / number / INCIDENT
            if path.is_file():  # of a process that died: no observer has heard of it
                incident = typed(found_json(path, session.folder.path), Incident)
                observers.ttf_incident(incident=incident)

    def _train(self, recorder: Recorder) -> Ending:
        # The last save is part of this, so that a disk failure here is an ending as well.
        flight = self.session.link.flight
        self.session.meet()
        flight.begins(self.loop.step)
        try:
            loop.train(self.loop, recorder)
            ending = self._finish(recorder)
        except StopAsked as asked:
            self.session.reporter.stopping(str(asked))
            recorder.flush(self.loop.step)
            flight.enter(Phase.END)
            raise self._stopped(asked) from None
        except LeaveAsked:
            phase = Phase[flight.read().phase.upper()]
            recorder.flush(self.loop.step)
            flight.enter(phase, self.loop.step)  # what the memory was needed for
            raise
        except GateNotMet:
            recorder.flush(self.loop.step)
            flight.enter(Phase.END)
            raise
        flight.enter(Phase.END)
        return ending

    def _finish(self, recorder: Recorder) -> Ending:
        """Saves the last checkpoint, then the finished towers."""
        if self._selection.patience_used_up and self.loop.step < self.loop.total_steps:
            settings = self.session.config.evaluate
            note = (
                f"Training ended early, at step {self.loop.step:,} of {self.loop.total_steps:,}: "
                f"{settings.metric} did not improve in {settings.patience} evaluations. To train "
                "all steps: --set evaluate.patience=0."
            )
            self._state.totals.notes["ended early"] = note
            self.session.reporter.note(note)
        recorder.finish(self.loop.step)
        calibrate_kept_model(self.session, self.loop.step)
        return self._judged()

    def _judged(self) -> Ending:
        """Of a run that trained to its end: done, or a gate that every run has was not met."""
        data, settings = self.session.data, self.session.config.evaluate
        ranked = partial(Ranked, queries=len(data.val), documents=data.bank.shape[0])
        problem = nothing_learned(
            ranked(metrics=self._selection.initial),
            ranked(metrics=self._selection.final),
            settings.k,
            settings.metric,
        )
        done = Ending(status="finished", exit_code=ExitCode.DONE)
        if not problem:
            return done
        whole_epoch = self.loop.step >= self.loop.order.steps_per_epoch
        if settings.above_chance and whole_epoch and len(data.val) >= ENOUGH_QUERIES:
            return replace(done, exit_code=ExitCode.GATE, problem=problem, hint=WRONG_DATA)
        note = f"{problem} A longer run or more validation pairs would show the reason."
        self._state.totals.notes["chance"] = note
        self.session.reporter.note(note)
        return done

    def _stopped(self, asked: StopAsked) -> Stopped:
        return Stopped(
            asked.signum,
            f"{asked} stopped the run after step {self.loop.step} of {self.loop.total_steps}. ttf "
            "saved a checkpoint.",
            hint=f"Continue with: ttf resume {quoted(self.session.folder.path)}",
        )

    def _say_how_to_continue(self, error: StorageError) -> None:
        # Whichever file of the run it was: that of a checkpoint says it itself.
        if "ttf resume" not in error.hint and newest_step(self.session.folder.checkpoints) >= 0:
            again = f"Then continue the run: ttf resume {quoted(self.session.folder.path)}"
            error.hint = f"{error.hint} {again}".lstrip()

    def _summarize_error(self, error: Told, status: str = "failed") -> None:
        # The error matters more than a disk that does not take the summary.
        try:
            self._summarize(Ending.of(error, status))
        except StorageError as also:
            self.session.reporter.note(f"ttf could not write summary.json: {also}")

    def _summarize(self, ending: Ending) -> Summary:
        session = self.session
        folder = session.folder
        link = session.link
        self._state.tick()
        summary = summarize(
            ending,
            {
                **summary_facts(self.loop.step, session, self._state),
                **exchange_facts(session),
            },
            folder.model,
            list_incidents(folder.incidents),
            restarts=link.history.restarts if link.history is not None else 0,
            deviations=[c.deviation for c in link.overlay.values() if c.deviation],
        )
        folder.write_summary(summary)
        session.observers.ttf_run_finished(run_dir=folder.path, summary=summary)
        return summary

    def _evaluation_due(self, step: int) -> bool:
        if step == self._selection.last_step:
            return False
        decided = self.session.decided
        return evaluation_due(step, decided.total_steps, decided.config, decided.order)
