"""Records a run while it trains: metrics, checkpoints, and events for observers and the screen."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from torch import Tensor

from ttf.contracts import EvalRecord, StepRecord
from ttf.errors import NumericFailure, StorageError
from ttf.machine.memory.allocator import give_back
from ttf.machine.memory.sampler import MemorySampler
from ttf.machine.memory.tree import Device, Place
from ttf.process.signals import StopAsked
from ttf.rundir.documents import GateResult
from ttf.rundir.flight_record import Phase
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.removing import remove_leftovers
from ttf.rundir.verified_folders import prune_tables
from ttf.text.progress.ending import gate_text
from ttf.training.checkpoint import RunState, Snapshot
from ttf.training.checkpoint_writer import Saver
from ttf.training.device_probe import Probe
from ttf.training.memory.governor import governor_of
from ttf.training.mined_negatives import MinedNegatives
from ttf.training.schedule import gate_results, refuse_missed
from ttf.training.session import Session
from ttf.training.summary_facts import gate_key, gates_so_far, summary_facts
from ttf.training.supervisor_link import LeaveAsked
from ttf.training.towers import save_model
from ttf.world.stragglers import Pace
from ttf.world.vouching import WEIGHTS_EVERY, digest, refuse_drift
from ttf.world.word import Agreed, Save, Word

SYNC_METRICS_EVERY_S: Final = 30.0
_LOOK_AT_DEVICE_EVERY_S: Final = 1.0  # as often as memory.jsonl has a line


@contextlib.contextmanager
def recording(
    session: Session, metrics: MetricsLog, state: RunState, mined: MinedNegatives, step: int
) -> Iterator[Recorder]:
    """`step`: the run continues from it; a checkpoint holds it unless it is 0. At the end, waits
    for a checkpoint that is being written, and closes every file."""
    recorder = Recorder(session, metrics, state, mined, step)
    try:
        with recorder.governor:
            yield recorder
    finally:
        recorder.close()


class Recorder:
    """The loop's `Events`; call all methods from the main thread."""

    def __init__(
        self,
        session: Session,
        metrics: MetricsLog,
        state: RunState,
        mined: MinedNegatives,
        step: int,
    ) -> None:
        self._session = session
        self._metrics = metrics
        self._state = state
        self._mined = mined
        self._step = step
        self._flight = session.link.flight
        self._saved_at = time.monotonic()
        self._synced_at = self._saved_at
        self._saved_step = step
        self._saving_s = 0.0
        self._newly_saved: queue.SimpleQueue[tuple[int, Path, float]] = queue.SimpleQueue()
        checkpoints = session.config.checkpoint
        self._saver = Saver(
            session.folder.checkpoints,
            keep=checkpoints.keep,
            retry_s=checkpoints.retry_s,
            flight=self._flight,
            # Only the main thread calls observers and removes tables; the checkpoint thread only
            # queues what it has saved.
            on_saved=lambda step, path, s: self._newly_saved.put((step, path, s)),
            say=session.reporter.note,
            sync_first=self._make_durable,
            stop_asked=session.link.stop.asked,
        )
        self._probe = Probe(
            config=session.config.probe,
            stepper=session.parts.stepper,
            data=session.data,
            order=session.decided.order,
            mined=session.config.miner.num_negatives,
            record=metrics.write,
        )
        self._kept_step: int | None = None  # Of the weights that this process wrote to `model/`.
        self._next_look = 0.0
        self._computed_s = 0.0  # In the last step, without waiting for others.
        self._pace = Pace(session.world.place)
        self._sampler = self._start_sampler()
        self.governor = governor_of(
            session, mined, state.totals.governed, self._held, self._metrics.write
        )
        session.reporter.chosen_by(session.config.evaluate.metric)

    def _start_sampler(self) -> MemorySampler | None:
        # Writes memory.jsonl, if no supervisor writes it.
        reporter = self._session.reporter
        if self._session.link.supervised:
            reporter.watch_memory(self._held)
            return None
        file = self._session.folder.memory
        sampler = MemorySampler(os.getpid(), file, place=self._place)
        reporter.watch_memory(self._held)
        return sampler

    def _place(self) -> Place:
        flight = self._flight.read()
        return Place(self._step, flight.phase, Device(flight.allocated, flight.cached))

    def _held(self) -> int:
        return self._flight.held_bytes if self._sampler is None else self._sampler.held_bytes

    def _look_at_device(self) -> None:
        # Some devices are asked by a call of their driver: not at every step.
        if time.monotonic() >= self._next_look:
            self._next_look = time.monotonic() + _LOOK_AT_DEVICE_EVERY_S
            self._flight.device_holds(self._session.policy.memory())

    def close(self) -> None:
        self._saver.close()
        folder = self._session.folder
        remove_leftovers(folder.checkpoints, folder.path)  # those that could not be removed before
        if self._sampler is not None:
            self._sampler.stop()
        self._note_peak()
        self._metrics.close()

    # --- the loop's events ----------------------------------------------------------------

    def stepped(self, record: StepRecord) -> None:
        self._step = record.step
        self._look_at_device()
        self._state.totals.train_s += record.seconds
        self._computed_s = record.seconds - record.extra.get("exchange_s", 0.0)
        line = asdict(record)
        self._metrics.write({"type": "step", **line.pop("extra"), **line})
        self._session.reporter.step(record, self._session.decided.total_steps)
        self._session.observers.ttf_step(record=record)

    def evaluated(self, record: EvalRecord) -> None:
        session = self._session
        judged = self._judged(record)
        gates = gates_so_far(session, self._state.totals)
        self._note("eval", {**asdict(record), **({"gates": gates} if gates else {})})
        session.reporter.evaluated(record)
        session.observers.ttf_evaluated(record=record)
        self._state.selection.see(record, session.parts.model)
        self._keep_evaluated_model()
        for gate in judged:
            session.reporter.note(gate_text(gate))
        refuse_missed(judged)

    def _judged(self, record: EvalRecord) -> list[GateResult]:
        results = gate_results(self._session.config.gates, self._session.decided.order, record)
        judged = [gate for gate in results if gate["passed"] is not None]
        self._state.totals.gates |= {gate_key(gate): gate for gate in judged}
        return judged

    def settled(self, step: int) -> None:
        self._saver.raise_if_failed()
        self._report_saved()
        if self._probe.due(step):  # first: do not save results of a wrong device
            self._run_probe(step)
        world = self._session.world
        agreed = world.agree(self._word(step))
        for text in self._pace.look(agreed.words):
            self._session.reporter.note(text)
        if agreed.save >= Save.BESIDE or step % WEIGHTS_EVERY == 0:
            self._vouch(step)
        if agreed.save == Save.WAIT:
            self._save_and_wait(step)
        elif agreed.save == Save.BESIDE:
            self._save(step)
        elif agreed.save == Save.SYNC_METRICS:
            self._metrics.sync()
            self._synced_at = time.monotonic()
        self._handle_requests(agreed)
        self.governor.settle(step)
        self._flight.enter(Phase.DATA, step)

    def _word(self, step: int) -> Word:
        """What this process sees and wants; what is done, all processes of the run decide."""
        link = self._session.link
        return Word(
            step=step,
            save=self._save_wanted(step),
            stop=link.stop.signum,
            leave=link.leave_asked.is_set(),
            compute_s=self._computed_s,
        )

    def _vouch(self, step: int) -> None:
        """No checkpoint is written that the processes of the run do not agree on."""
        world = self._session.world
        if world.size == 1:
            return
        weights = digest(self._session.parts.model.state_dict().values())
        words = world.agree(Word(step=step, weights=weights)).words
        refuse_drift(world.place, step, [word.weights for word in words])

    def _save_wanted(self, step: int) -> Save:
        if self._durable_save_due(step):
            return Save.WAIT
        if self._save_due(step):
            return Save.BESIDE
        late = time.monotonic() - self._synced_at > SYNC_METRICS_EVERY_S
        return Save.SYNC_METRICS if late else Save.NOTHING

    def _run_probe(self, step: int) -> None:
        self._flight.enter(Phase.PROBE, step)
        try:
            self._probe(step)
        except NumericFailure:  # its parts have phases of their own
            self._flight.enter(Phase.PROBE, step)
            raise

    def _handle_requests(self, agreed: Agreed) -> None:
        """Does what the supervisors asked for since the last step."""
        link = self._session.link
        for text in link.notes():
            self._session.reporter.note(text)
        if link.shed_asked.is_set():
            link.shed_asked.clear()
            self._free_memory()
        if agreed.leave:
            raise LeaveAsked
        if agreed.stop:
            raise StopAsked(agreed.stop)

    def _free_memory(self) -> None:
        """Frees memory that can be made again at a cost."""
        self._mined.release()
        gc.collect()
        self._session.policy.empty_cache()
        give_back()
        self._session.reporter.note(
            "Memory is almost used up: ttf freed caches and ended the idle miner process."
        )

    def _note(self, kind: str, record: Mapping[str, Any]) -> None:
        """A line of a rare event, with its time of day."""
        self._metrics.write({"type": kind, "time": round(time.time(), 3), **record})

    # --- checkpoints ----------------------------------------------------------------------

    def _save_due(self, step: int) -> bool:
        settings = self._session.config.checkpoint
        if step <= self._saved_step:
            return False
        if self._saver.retry_due:
            return True
        every = settings.every_steps
        # Not only at its multiples: the one before may have been in the writing at the last.
        if every is not None and step // every > self._saved_step // every:
            return True
        waited = time.monotonic() - self._saved_at
        return settings.every_s is not None and waited >= settings.every_s

    def _durable_save_due(self, step: int) -> bool:
        # After deaths: a checkpoint that is written beside the next steps may come too late, and a
        # mining round needs all the time that a trainer has.
        every, since = self._session.link.save_every, step - self._saved_step
        return every > 0 and since > 0 and (since >= every or self._mined.is_due(step))

    def _save_and_wait(self, step: int) -> None:
        # As in `_save`: what was read from changed data must not be saved.
        self._session.data.check_unchanged()
        self.flush(step)
        self._saved_at = time.monotonic()

    def _save(self, step: int) -> None:
        # If the previous checkpoint is still being written, tries again at the next step.
        self._flight.enter(Phase.CHECKPOINT, step)
        began = time.perf_counter()
        # Raises if the data changed: what was read since the last check must not be saved.
        self._session.data.check_unchanged()
        if not self._saver.busy and self._saver.save(self._snapshot(step)):
            self._saved_at = time.monotonic()
            self._saved_step = step
            self._keep_saved_model(step)
        self._saving_s += time.perf_counter() - began

    def flush(self, step: int) -> None:
        """Returns when the current state, that of `step`, is durable."""
        self._flight.enter(Phase.CHECKPOINT, step)
        self._saved_step = step
        began = time.perf_counter()
        self._saver.flush(self._snapshot(step))
        self._keep_saved_model(step)
        self._saving_s += time.perf_counter() - began
        self._session.meet()
        self._report_saved()

    def _snapshot(self, step: int) -> Snapshot:
        self._note_peak()
        snapshot = self._state.snapshot(step)
        snapshot.progress["summary"] = summary_facts(step, self._session, self._state)
        return snapshot

    def _report_saved(self) -> None:
        while not self._newly_saved.empty():
            step, path, seconds = self._newly_saved.get()
            self._session.link.tell({"checkpointed": step, "cost_s": seconds})
            self._note("checkpoint", {"step": step, "seconds": self._saving_s})
            self._saving_s = 0.0
            self._session.parts.tables.checkpointed(step, self._session.config.checkpoint.keep)
            self._prune_tables()
            self._session.observers.ttf_checkpointed(step=step, path=path)

    def _prune_tables(self) -> None:
        # Tables that the disk does not let go stay until the next time.
        kept = {self._saver.table, self._mined.table_key}
        try:
            prune_tables(self._session.folder.path, kept)
            self._mined.remove_unneeded()
        except StorageError as error:
            self._session.reporter.note(str(error))

    def _make_durable(self) -> None:
        # In the checkpoint thread: what must not be behind a checkpoint.
        self._metrics.make_durable()
        self._mined.make_durable()

    def _note_peak(self) -> None:
        totals = self._state.totals
        sampler = self._sampler
        peak = self._flight.peak_bytes if sampler is None else sampler.peak_bytes
        totals.peak_bytes = max(totals.peak_bytes, peak)

    # --- the model ------------------------------------------------------------------------

    # `model/` holds the weights that the run would end with now, so that a run that never finishes
    # leaves a model: those of the best evaluation, and those of the newest checkpoint until trained
    # ones were evaluated.

    def finish(self, step: int) -> None:
        """Saves the last checkpoint, then the model that the run ends with. Raises StorageError."""
        self.flush(step)
        selection = self._state.selection
        if selection.final_step != self._kept_step:
            self._keep_model(selection.final_step, selection.final)

    def _keep_evaluated_model(self) -> None:
        selection = self._state.selection
        if selection.last_step > 0 and selection.final_step != self._kept_step:
            self._keep_model_if_possible(selection.final_step, selection.final)

    def _keep_saved_model(self, step: int) -> None:
        if step > 0 and self._state.selection.last_step <= 0:
            self._keep_model_if_possible(step, {})

    def _keep_model_if_possible(self, step: int, metrics: Mapping[str, float]) -> None:
        # The disk decides about a run at its checkpoints, which are tried again for a while.
        try:
            self._keep_model(step, metrics)
        except StorageError as error:
            self._session.reporter.note(f"{error} ttf writes the file again later.")

    def _keep_model(self, step: int, metrics: Mapping[str, float]) -> None:
        session, selection = self._session, self._state.selection
        self._flight.enter(Phase.CHECKPOINT)
        now: Mapping[str, Tensor] = session.parts.model.state_dict()
        best = selection.weights if selection.last_step > 0 else {}
        save_model(
            session.folder.model,
            {name: best.get(name, tensor) for name, tensor in now.items()},
            session.decided.specs.query,
            session.decided.specs.doc,
            session.config.loss,
            step=step,
            metrics=metrics,
            tables=session.parts.tables.facts(session.config.train.seed),
        )
        self._kept_step = step
