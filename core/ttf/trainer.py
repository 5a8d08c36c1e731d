"""A run from its folder to its summary: restores, trains, saves, and ends it whatever happens."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from functools import cached_property, partial
from pathlib import Path
from typing import Any

from ttf import checkpoint, host, loop, manifest
from ttf.assembly import Parts, assemble
from ttf.config.resolve import Resolved
from ttf.config.toml import dump
from ttf.contracts import DevicePolicy, EvalRecord, StepRecord
from ttf.data.dataset import Dataset
from ttf.data.loader import DrawNegatives, Loader, StepHead, head_of
from ttf.data.opening import open_dataset
from ttf.deciding import Decided, Specs, decide, specify
from ttf.errors import DataChanged, GateNotMet, Stopped, TtfError
from ttf.evaluation import check_gates, evaluate
from ttf.fsio import read_json, write_atomically, write_json
from ttf.link import Link
from ttf.memory import MemorySampler
from ttf.mining.candidates import CandidateTable
from ttf.mining.negatives import YieldReport
from ttf.model import save_model, start_from
from ttf.page import write_page
from ttf.refresh import Refresher
from ttf.reporting import Reporter
from ttf.runfolder import MetricsLog, RunFolder
from ttf.runstate import RunState
from ttf.selection import Selection
from ttf.step import learning_rate
from ttf.stopping import StopAsked
from ttf.summary import Ending, facts, summarize
from ttf.tables import TableMaker

SYNC_METRICS_EVERY_S = 30.0


def run(
    resolved: Resolved,
    folder: RunFolder,
    policy: DevicePolicy,
    reporter: Reporter,
    *,
    resume: bool = False,
    link: Link | None = None,
) -> dict[str, Any]:
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
        parts = assemble(decided, specs, data, policy)
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
        self.config = decided.config
        self.hooks = host.observers(self.config.observers, reporter.note)
        self._saved_at = self._synced_at = time.monotonic()
        self._saved_step = -1
        self.tables = TableMaker(
            decided, data, parts.model, parts.documents, policy, folder, reporter, self.stop
        )
        self.refresher = Refresher(
            order=decided.order,
            total_steps=decided.total_steps,
            miner=self.config.miner,
            negatives=self.config.negatives,
            folder=folder.candidates,
            known=data.train.known,
            mine=self.tables.make,
            on_table=self._mined,
            note=reporter.note,
        )
        self.selection = Selection(config=self.config.evaluate)
        self.state = RunState(parts, self.refresher, self.selection)
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

    def run(self, *, resume: bool) -> dict[str, Any]:
        """To the end and its summary, whatever the end is."""
        if not resume:
            self._start()
        if self.parts.model.documents_frozen:
            self.parts.documents.freeze(self.folder.index, must_exist=resume)
        resumed_from = self._restore() if resume else 0
        self.open_logs(resumed_from if resume else None)
        self.hooks.ttf_run_started(
            run_dir=self.folder.path, config=self.config.model_dump(), resumed_from=resumed_from
        )
        ending = Ending()
        try:
            loop.train(self.loop, self)
            ending = Ending(status="finished", exit_code=0, weights_sha256=self._finish())
        except StopAsked as asked:
            self.reporter.stopping(str(asked))
            self._save()
            stopped = self._stopped(asked)
            ending = Ending.of(stopped, "stopped")
            raise stopped from None
        except GateNotMet as error:
            self._save()
            ending = Ending.of(error, "stopped")
            raise
        except TtfError as error:
            ending = Ending.of(error)
            raise
        except BaseException as error:
            ending = Ending(problem=f"{type(error).__name__}: {error}")
            raise
        finally:
            summary = self._end(ending)
        self.reporter.finished({**summary, "run_dir": str(self.folder.path)})
        return summary

    def _end(self, ending: Ending) -> dict[str, Any]:
        """Leaves the folder whole, however the run ended."""
        self.sampler.stop()
        self.metrics.close()
        self.parts.documents.close()
        self._note_peak()
        self.state.tick()
        summary = summarize(
            ending,
            facts(self.loop.step, self.decided, self.state),
            [],
            restarts=0,
            deviations=[change.deviation for change in self.link.overlay.values()],
        )
        self.folder.write_summary(summary)
        write_page(self.folder.path)
        self.hooks.ttf_run_finished(run_dir=self.folder.path, summary=summary)
        return summary

    def open_logs(self, resumed_from: int | None) -> None:
        """metrics.jsonl and memory.jsonl; closed by `run`."""
        self.metrics = MetricsLog(self.folder.metrics, resumed_from)
        self.sampler = MemorySampler(os.getpid(), self.folder.memory, step=lambda: self.loop.step)
        self.reporter.chosen_by(self.config.evaluate.metric)
        self.reporter.watch_memory(lambda: self.sampler.held_bytes)

    def _start(self) -> None:
        if self.config.train.init is not None:
            start_from(self.parts.model, Path(self.config.train.init))
        write_atomically(self.folder.config, dump(self.decided.resolved).encode())
        write_json(self.folder.manifest, manifest.build(self.config, self.data, self.policy))

    def _finish(self) -> str:
        """The last checkpoint, then the finished towers; the hash of their weights."""
        if self.selection.patience_used_up:
            self.reporter.note(
                f"No gain in {self.config.evaluate.metric} for {self.config.evaluate.patience} "
                "evaluations: training ended early."
            )
        self._save()
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
        return Loader(make_head, self.data.train, self.decided.plan.micro_batch, start, stop)

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
        epoch = self.decided.order.epoch_of(step - 1) if step else 0
        return EvalRecord(
            step=step, epoch=epoch, metrics=metrics, seconds=time.perf_counter() - began
        )

    def _advance(self, done: int, total: int) -> None:
        self.reporter.advance(done, total)
        self.stop.raise_if_asked()

    def stepped(self, record: StepRecord) -> None:
        self.state.totals.train_s += record.seconds
        line = asdict(record)
        self.metrics.write({"type": "step", **line.pop("extra"), **line})
        self.reporter.step(record, self.loop.total_steps)
        self.hooks.ttf_step(record=record)

    def evaluated(self, record: EvalRecord) -> None:
        self.metrics.write({"type": "eval", **asdict(record)})
        self.reporter.evaluated(record)
        self.hooks.ttf_evaluated(record=record)
        self.selection.see(record, self.parts.model)
        epochs, rest = divmod(record.step, self.decided.order.steps_per_epoch)
        check_gates(self.config.gates, record, epochs if not rest else 0)

    def settled(self, step: int) -> None:
        now = time.monotonic()
        settings = self.config.checkpoint
        due = settings.every_s is not None and now - self._saved_at >= settings.every_s
        due = due or (settings.every_steps is not None and step % settings.every_steps == 0)
        if due and step > max(0, self._saved_step):
            self._save()
        elif now - self._synced_at > SYNC_METRICS_EVERY_S:
            self.metrics.sync()
            self._synced_at = now
        self.stop.raise_if_asked()

    def _mined(self, step: int, table: CandidateTable, report: YieldReport) -> None:
        self.state.totals.miner = self.tables.miner
        self.state.totals.deviations.extend(self.tables.take_deviations())
        self.metrics.write({"type": "mining", "step": step, **self.tables.last_report(report)})

    # --- checkpoints ----------------------------------------------------------------------

    def _save(self) -> None:
        """Durable before anything older is removed; once per step."""
        step = self.loop.step
        if step == self._saved_step:
            return
        self.metrics.sync()
        self._note_peak()
        path = checkpoint.save(self.folder.checkpoints, self.state.snapshot(step))
        checkpoint.prune(self.folder.checkpoints, self.config.checkpoint.keep)
        self.tables.prune(checkpoint.tables_in_use(self.folder.checkpoints))
        self._saved_at, self._saved_step = time.monotonic(), step
        self.hooks.ttf_checkpointed(step=step, path=path)

    def _note_peak(self) -> None:
        totals = self.state.totals
        totals.peak_bytes = max(totals.peak_bytes, self.sampler.peak_bytes)

    def _restore(self) -> int:
        snapshot = checkpoint.load_newest(self.folder.checkpoints, self.reporter.note)
        before = read_json(self.folder.manifest)
        if before["data"]["fingerprint"] != self.data.fingerprint:
            raise DataChanged(
                f"The data is not what the run in {self.folder.path} was started with "
                f"(pairs {self.config.data.pairs}, bank {self.config.data.bank}).",
                hint="Put the files back as they were, or start a new run with ttf train.",
            )
        self.state.restore(snapshot)
        self.tables.miner = self.state.totals.miner or self.tables.miner
        self.loop.step = self._saved_step = snapshot.step
        self.reporter.resumed(snapshot.step, self.selection.initial)
        self._note_differences(before["numeric"])
        return snapshot.step

    def _note_differences(self, before: Mapping[str, Any]) -> None:
        now = manifest.numeric_fingerprint(self.config, self.policy)
        for difference in manifest.differences(before, now):
            text = f"resumed where {difference}"
            self.state.totals.deviations.append(text)
            self.reporter.note(
                f"From here on the numbers are statistically, not bitwise, the same: {text}."
            )
