"""A run from its folder to its summary: restores, trains, saves, and ends it whatever happens."""

from __future__ import annotations

import contextlib
import gc
import os
import queue
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf import loop
from ttf.config.resolve import Resolved
from ttf.config.toml import dump
from ttf.contracts import DevicePolicy, EvalRecord, StepRecord
from ttf.data.dataset import Dataset
from ttf.data.loader import DrawNegatives, Loader, StepHead, head_of
from ttf.data.open_dataset import open_dataset
from ttf.errors import (
    DeviceMistrusted,
    GateNotMet,
    NumericFailure,
    Stopped,
    StorageError,
    TtfError,
)
from ttf.host import plugins
from ttf.incidents.classify import classify
from ttf.incidents.death import Death
from ttf.incidents.writing import write_incident
from ttf.machine.memory.allocator import give_back
from ttf.machine.memory.sampler import MemorySampler
from ttf.mining.candidates import CandidateTable
from ttf.mining.negatives import YieldReport
from ttf.process.signals import StopAsked
from ttf.rundir.disk_retry import once_the_disk_takes_it
from ttf.rundir.documents import Numeric, Summary
from ttf.rundir.durable import read_json, remove_leftovers, write_atomically, write_json
from ttf.rundir.flight_record import Phase
from ttf.rundir.folder import RunFolder
from ttf.rundir.incident_files import list_incidents
from ttf.rundir.metrics_log import MetricsLog
from ttf.rundir.summary import Ending, summarize
from ttf.text.progress import Reporter
from ttf.training import checkpoint, manifest
from ttf.training.auto import Decided, Specs, decide, specify
from ttf.training.before_resume import (
    has_begun,
    incidents_of_before,
    manifest_of,
    refuse_other_data,
)
from ttf.training.best_weights import Selection
from ttf.training.build import Parts, assemble
from ttf.training.checkpoint import Snapshot
from ttf.training.checkpoint_writer import Saver
from ttf.training.evaluation import check_gates, evaluate
from ttf.training.parity_probe import Probe
from ttf.training.refresh import Refresher
from ttf.training.resume_state import RunState
from ttf.training.step import learning_rate
from ttf.training.summary import facts
from ttf.training.supervisor_link import LeaveAsked, Link
from ttf.training.table_maker import TableMaker
from ttf.training.towers import save_model, start_from

SYNC_METRICS_EVERY_S = 30.0


def run(
    resolved: Resolved,
    folder: RunFolder,
    policy: DevicePolicy,
    reporter: Reporter,
    *,
    resume: bool = False,
    link: Link | None = None,
) -> Summary:
    """Trains to the end and returns the summary; failures are raised after they were recorded.

    `policy` was chosen and its environment set before torch was imported; the folder is claimed.
    Without a link nobody watches: a crash ends the run.
    """
    with opened(resolved, folder, policy, reporter, link or Link()) as trainer:
        return trainer.run(resume=resume)


@contextlib.contextmanager
def opened(
    resolved: Resolved,
    folder: RunFolder,
    policy: DevicePolicy,
    reporter: Reporter,
    link: Link | None = None,
) -> Iterator[Trainer]:
    """A trainer with its folder locked, its data open and its towers built."""
    link = link or Link()
    policy.start()
    with folder.writing(), link.stop, open_dataset(resolved.config.data) as data:
        specs = specify(resolved.config, data)
        decided = decide(resolved, data, policy, specs)
        for note in (*data.notes, *decided.notes):
            reporter.note(note)
        parts = assemble(decided, specs, data, policy, link.flight, reporter.note)
        yield Trainer(folder, decided, specs, data, policy, parts, reporter, link)


class Trainer:
    """Owns a run's state and files while it trains; the loop's `Events`."""

    def __init__(
        self,
        folder: RunFolder,
        decided: Decided,
        specs: Specs,
        data: Dataset,
        policy: DevicePolicy,
        parts: Parts,
        reporter: Reporter,
        link: Link,
    ) -> None:
        self.folder, self.decided, self.specs, self.data = folder, decided, specs, data
        self.policy, self.parts, self.reporter, self.link = policy, parts, reporter, link
        self.stop, self.flight = link.stop, link.flight
        self.flight.takes(decided.total_steps)
        self.config = decided.config
        self.hooks = plugins.observers(self.config.observers, reporter.note)
        self._saved_at = self._synced_at = time.monotonic()
        self._saved_step, self._saving_s = -1, 0.0
        self._newly_saved: queue.SimpleQueue[tuple[int, Path]] = queue.SimpleQueue()
        self.tables = TableMaker(
            decided,
            data,
            parts.model,
            parts.documents,
            policy,
            folder,
            reporter,
            self.stop,
            beat=self._still_at_it,
            on_death=self._miner_died,
        )
        self.refresher = Refresher(
            order=decided.order,
            total_steps=decided.total_steps,
            miner=self.config.miner,
            negatives=self.config.negatives,
            folder=folder.candidates,
            known=data.train.known,
            mine=self._mine,
            on_table=self._mined,
            note=reporter.note,
        )
        self.selection = Selection(config=self.config.evaluate)
        self.state = RunState(parts, self.refresher, self.selection)
        self.probe = Probe(
            config=self.config.probe,
            stepper=parts.stepper,
            data=data,
            order=decided.order,
            mined=self.config.miner.negatives,
            record=lambda line: self.metrics.write(line),
        )
        self.loop = loop.Training(
            step=0,
            total_steps=decided.total_steps,
            order=decided.order,
            stepper=parts.stepper,
            learning_rate=partial(
                learning_rate,
                total=decided.total_steps,
                peak=self.config.train.lr,
                schedule=self.config.train.schedule,
                warmup=self.config.train.warmup,
            ),
            negatives_from=self.refresher,
            load=self._load,
            evaluate=self._evaluate,
            evaluation_due=self._evaluation_due,
            ended_early=lambda: self.selection.patience_used_up,
        )

    # --- the run as a whole ---------------------------------------------------------------

    def run(self, *, resume: bool) -> Summary:
        """To the end and its summary, whatever the end is."""
        resume = resume and has_begun(self.folder, self.reporter.note)
        if not resume:
            self._start()
        self._surely(self._write_configuration)
        self._tell_configuration()
        if self.parts.model.documents_frozen:
            self.parts.documents.freeze(self.folder.index, must_exist=resume)
        resumed_from = self._restore() if resume else 0
        self.state.continue_clock(self.link.history)
        self._surely(lambda: self.open_logs(resumed_from if resume else None))
        self.hooks.ttf_run_started(
            run_dir=self.folder.path, config=self.config.model_dump(), resumed_from=resumed_from
        )
        for incident in incidents_of_before(self.folder, self.link.history):
            self.hooks.ttf_incident(incident=incident)
        try:
            ending = self._train()
        except (TtfError, LeaveAsked):
            raise
        except BaseException as error:
            self._close()
            if not self.link.supervised:
                self._end(Ending(problem=f"{type(error).__name__}: {error}"))
            raise
        summary = self._end(ending)
        self.reporter.finished({**summary, "run_dir": str(self.folder.path)})
        return summary

    def _train(self) -> Ending:
        """The loop, and what each of its ends means; what the supervisor mends is only raised."""
        try:
            return self._trained()
        except (LeaveAsked, DeviceMistrusted):
            self._close()
            raise
        except (Stopped, GateNotMet) as error:
            self._end_with(error, "stopped")
            raise
        except TtfError as error:
            self._end_with(error)
            raise

    def _trained(self) -> Ending:
        """The loop; what an end wants saved is saved here, so that the disk may fail it."""
        try:
            loop.train(self.loop, self)
            return Ending(status="finished", exit_code=0, weights_sha256=self._finish())
        except StopAsked as asked:
            self.reporter.stopping(str(asked))
            self._flush()
            raise self._stopped(asked) from None
        except LeaveAsked:
            phase = Phase[self.flight.read().phase.upper()]
            self._flush()
            self.flight.enter(phase, self.loop.step)  # what the memory was needed for
            raise
        except GateNotMet:
            self._flush()
            raise

    def _end_with(self, error: TtfError, status: str = "failed") -> None:
        """The error is what matters, also where the disk does not take the summary."""
        try:
            self._end(Ending.of(error, status))
        except StorageError as also:
            self.reporter.note(f"There is no summary: {also}")

    def _end(self, ending: Ending) -> Summary:
        """Leaves the folder whole, however the run ended."""
        if ending.status != "failed":  # else an incident tells of the phase it failed in
            self.flight.enter(Phase.END)
        self._close()
        self._note_peak()
        self.state.tick()
        history = self.link.history
        summary = summarize(
            ending,
            facts(self.loop.step, self.decided, self.state),
            list_incidents(self.folder.incidents),
            restarts=history.restarts if history is not None else 0,
            deviations=[c.deviation for c in self.link.overlay.values() if c.deviation],
        )
        self.folder.write_summary(summary)
        self.hooks.ttf_run_finished(run_dir=self.folder.path, summary=summary)
        return summary

    def _close(self) -> None:
        """Lets a checkpoint that is being written come to its end, and closes every file."""
        self.saver.close()
        self.tables.close()
        for folder in (self.folder.checkpoints, self.folder.candidates):
            remove_leftovers(folder)  # what the disk would not let go of at first
        if self.sampler is not None:
            self.sampler.stop()
        self.metrics.close()
        self.parts.documents.close()

    def open_logs(self, resumed_from: int | None) -> None:
        """metrics.jsonl and the checkpoint thread; memory.jsonl where no supervisor writes it."""
        retry_s, note = self.config.checkpoint.retry_s, self.reporter.note
        self.metrics = MetricsLog(self.folder.metrics, resumed_from, retry_s=retry_s, say=note)
        self.saver = Saver(
            self.folder.checkpoints,
            keep=self.config.checkpoint.keep,
            retry_s=retry_s,
            flight=self.flight,
            on_saved=lambda step, path: self._newly_saved.put((step, path)),
            say=note,
            sync_first=self.metrics.make_durable,
        )
        self.sampler: MemorySampler | None = None
        if self.link.supervised:
            self.reporter.watch_memory(lambda: self.flight.held_bytes)
        else:
            sampler = MemorySampler(os.getpid(), self.folder.memory, step=lambda: self.loop.step)
            self.reporter.watch_memory(lambda: sampler.held_bytes)
            self.sampler = sampler
        self.reporter.chosen_by(self.config.evaluate.metric)

    def _surely(self, write: Callable[[], None]) -> None:
        """Who starts a run hears at once that the disk takes nothing; a restart in the night, whose
        run has something to lose, waits for it."""
        history = self.link.history
        restarted = history is not None and history.incidents
        once_the_disk_takes_it(
            write,
            self.config.checkpoint.retry_s if restarted else 0.0,
            say=self.reporter.note,
            beat=self._unless_stopped,
            loudly="THE RUN CANNOT GO ON YET",
        )

    def _unless_stopped(self) -> None:
        self.flight.beat()
        self.stop.raise_if_asked()

    def _start(self) -> None:
        if self.config.train.init is not None:
            start_from(self.parts.model, Path(self.config.train.init))
        built = manifest.build(self.decided.resolved, self.data, self.policy, self.specs)
        if self.link.command:
            built["command"] = list(self.link.command)
        built["environment_left_out"] = dict(self.link.left_out)
        write_json(self.folder.manifest, built)

    def _write_configuration(self) -> None:
        """Anew at every start: a remedy may have changed it."""
        write_atomically(self.folder.config, dump(self.decided.resolved).encode())

    def _tell_configuration(self) -> None:
        given = self.config.data
        inputs = [uri for uri in (given.pairs, given.bank, given.context) if uri]
        self.link.configured(self.config, inputs)

    def _finish(self) -> str:
        """The last checkpoint, then the finished towers; the hash of their weights."""
        if self.selection.patience_used_up:
            self.reporter.note(
                f"No gain in {self.config.evaluate.metric} for {self.config.evaluate.patience} "
                "evaluations: training ended early."
            )
        self._flush()
        if self.selection.weights:
            self.parts.model.load_state_dict(self.selection.weights)
        return save_model(
            self.folder.model,
            self.parts.model,
            self.specs.query,
            self.specs.doc,
            self.config.loss,
        )

    def _stopped(self, asked: StopAsked) -> Stopped:
        return Stopped(
            asked.signum,
            f"Stopped by {asked} after step {self.loop.step} of {self.loop.total_steps}; "
            "a checkpoint was saved.",
            hint=f"Continue with: ttf resume {self.folder.path}",
        )

    # --- what the loop calls --------------------------------------------------------------

    def _load(self, start: int, stop: int, draw: DrawNegatives | None) -> Loader:
        def make_head(step: int) -> StepHead:
            # A mapped file that was cut kills the process when it is touched: look first.
            self.data.check_unchanged()
            return head_of(
                step, self.data.train, self.decided.order, self.parts.documents.read, draw
            )

        self.reporter.stage("train", self.loop.total_steps)
        micro_batch, order = self.decided.plan.micro_batch, self.decided.order
        return Loader(make_head, self.data.train, micro_batch, start, stop, order.rows)

    def _evaluation_due(self, step: int) -> bool:
        if step == self.selection.last_step:
            return False
        every = self.config.evaluate.every
        if step in (0, self.loop.total_steps) or step in self._gate_steps:
            return True
        if every == "end":
            return False
        return step % (self.decided.order.steps_per_epoch if every == "epoch" else every) == 0

    @cached_property
    def _gate_steps(self) -> frozenset[int]:
        """A gate is checked at its step, whatever the cadence of evaluations."""
        length = {"step": 1, "epoch": self.decided.order.steps_per_epoch}
        marks = [gate.at.split() for gate in self.config.gates]
        return frozenset(int(number) * length[unit] for unit, number in marks)

    def _evaluate(self, step: int) -> EvalRecord:
        began = time.perf_counter()
        self.flight.enter(Phase.EVALUATE, step)
        self.reporter.stage("evaluate", self.parts.documents.rows)
        self.data.check_unchanged()
        metrics = evaluate(
            self.parts.model,
            self.data.val,
            self.parts.documents,
            self.policy,
            self.decided.precision,
            self.decided.plan.micro_batch,
            self.config.evaluate.k,
            progress=self._advance,
        )
        give_back()
        epoch = self.decided.order.epoch_of(step - 1) if step else 0
        return EvalRecord(
            step=step, epoch=epoch, metrics=metrics, seconds=time.perf_counter() - began
        )

    def _advance(self, done: int, total: int) -> None:
        self._still_at_it()
        self.reporter.advance(done, total)
        self.stop.raise_if_asked()

    def _still_at_it(self) -> None:
        """Between two steps, in what may take long: no reason to wait where memory is short."""
        self.flight.beat()
        if self.link.leave_asked.is_set():
            raise LeaveAsked

    def stepped(self, record: StepRecord) -> None:
        self.state.totals.train_s += record.seconds
        line = asdict(record)
        self.metrics.write({"type": "step", **line.pop("extra"), **line})
        self.reporter.step(record, self.loop.total_steps)
        self.hooks.ttf_step(record=record)

    def evaluated(self, record: EvalRecord) -> None:
        self._note("eval", asdict(record))
        self.reporter.evaluated(record)
        self.hooks.ttf_evaluated(record=record)
        self.selection.see(record, self.parts.model)
        epochs, rest = divmod(record.step, self.decided.order.steps_per_epoch)
        check_gates(self.config.gates, record, epochs if not rest else 0)

    def settled(self, step: int) -> None:
        self.saver.raise_if_failed()
        self._tell_saved()
        if self.probe.due(step):  # first: what a wrong device made is not to be saved
            self._probe(step)
        if self._save_due(step):
            self._save(step)
        elif time.monotonic() - self._synced_at > SYNC_METRICS_EVERY_S:
            self.metrics.sync()
            self._synced_at = time.monotonic()
        self._obey()
        self.flight.enter(Phase.DATA, step)

    def _probe(self, step: int) -> None:
        self.flight.enter(Phase.PROBE, step)
        try:
            self.probe(step)
        except NumericFailure:  # its parts have phases of their own
            self.flight.enter(Phase.PROBE, step)
            raise

    def _obey(self) -> None:
        """What the supervisor asked for since the last step."""
        link = self.link
        for text in link.notes():
            self.reporter.note(text)
        if link.shed_asked.is_set():
            link.shed_asked.clear()
            self._shed()
        if link.leave_asked.is_set():
            raise LeaveAsked
        link.stop.raise_if_asked()

    def _shed(self) -> None:
        """Gives back what the run can do without, at the cost of making it anew."""
        self.tables.release()
        gc.collect()
        self.policy.empty_cache()
        give_back()
        self.reporter.note("Memory is short: caches and the idle miner were given back.")

    def _mine(self, rows: NDArray[np.int64], step: int) -> CandidateTable:
        self.flight.enter(Phase.MINING, step)
        table = self.tables.make(rows, step)
        self.flight.enter(Phase.DATA, step)
        return table

    def _miner_died(self, death: Death, remedy: str) -> None:
        """Survived: the run goes on, and tells of it."""
        death = replace(death, flight=self.flight.read())
        finding = classify(death)
        try:
            incident = write_incident(
                self.folder.incidents,
                death,
                finding,
                applied=remedy,
                lost_steps=0,
                checkpoint_step=self.saver.saved_step,
            )
        except StorageError as error:
            self.reporter.note(f"The incident could not be written: {error}")
            return
        self.reporter.note(f"Incident {incident}, {finding.name}: {finding.explanation}")
        self.hooks.ttf_incident(
            incident=read_json(self.folder.incidents / incident / "incident.json")
        )

    def _mined(self, step: int, table: CandidateTable, report: YieldReport) -> None:
        self.state.totals.miner = self.tables.miner
        self.state.totals.deviations.extend(self.tables.take_deviations())
        self._note("mining", {"step": step, **self.tables.last_report(report)})

    def _note(self, kind: str, record: Mapping[str, Any]) -> None:
        """A line of what comes seldom, with its time of day."""
        self.metrics.write({"type": kind, "time": round(time.time(), 3), **record})

    # --- checkpoints ----------------------------------------------------------------------

    def _save_due(self, step: int) -> bool:
        settings = self.config.checkpoint
        if step <= max(0, self._saved_step):
            return False
        if self.saver.retry_due:
            return True
        every, before = settings.every_steps, max(0, self._saved_step)
        # Not only at its multiples: the one before may have been in the writing at the last.
        if every is not None and step // every > before // every:
            return True
        waited = time.monotonic() - self._saved_at
        return settings.every_s is not None and waited >= settings.every_s

    def _save(self, step: int) -> None:
        """Beside the training; where the one before is still being written, at the next step."""
        self.flight.enter(Phase.CHECKPOINT, step)
        began = time.perf_counter()
        self.data.check_unchanged()  # what was read since the last check is not to be saved
        if not self.saver.busy and self.saver.save(self._snapshot(step)):
            self._saved_at, self._saved_step = time.monotonic(), step
        self._saving_s += time.perf_counter() - began

    def _flush(self) -> None:
        """Returns when the present state is durable."""
        self.flight.enter(Phase.CHECKPOINT, self.loop.step)
        self._saved_step = self.loop.step
        began = time.perf_counter()
        self.saver.flush(self._snapshot(self.loop.step))
        self._saving_s += time.perf_counter() - began
        self._tell_saved()

    def _snapshot(self, step: int) -> Snapshot:
        self._note_peak()
        snapshot = self.state.snapshot(step)
        snapshot.progress["summary"] = facts(step, self.decided, self.state)
        return snapshot

    def _tell_saved(self) -> None:
        """In the main thread, which is the only one that uses tables and observers."""
        while not self._newly_saved.empty():
            step, path = self._newly_saved.get()
            self.link.tell({"checkpointed": step})
            self._note("checkpoint", {"step": step, "seconds": self._saving_s})
            self._saving_s = 0.0
            self.tables.prune(self.saver.tables_in_use() | {self.refresher.table_key})
            self.hooks.ttf_checkpointed(step=step, path=path)

    def _note_peak(self) -> None:
        totals = self.state.totals
        seen = self.flight.peak_bytes if self.sampler is None else self.sampler.peak_bytes
        totals.peak_bytes = max(totals.peak_bytes, seen)

    def _restore(self) -> int:
        snapshot = checkpoint.load_newest(self.folder.checkpoints, self.reporter.note)
        before = manifest_of(self.folder)
        refuse_other_data(before["data"], self.data, self.folder, self.flight, self.reporter.note)
        self.state.restore(snapshot)
        self.tables.miner = self.state.totals.miner or self.tables.miner
        self.loop.step = self._saved_step = snapshot.step
        self.flight.enter(Phase.START, snapshot.step)
        self.reporter.resumed(snapshot.step, self.selection.initial)
        self._note_differences(before["numeric"])
        return snapshot.step

    def _note_differences(self, before: Numeric) -> None:
        now = manifest.numeric_fingerprint(self.config, self.policy)
        for difference in manifest.differences(before, now):
            text = f"resumed where {difference}"
            self.state.totals.deviations.append(text)
            self.reporter.note(
                f"From here on the numbers are statistically, not bitwise, the same: {text}."
            )
