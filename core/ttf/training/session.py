"""An open run: its folder locked, its data open, its towers built, its reporter.

Everything that trains, mines, evaluates or records gets the one `Session`.
"""

from __future__ import annotations

import contextlib
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial

import torch

from ttf.config.loss_schema import LossConfig
from ttf.config.resolve import Resolved
from ttf.config.schema import RunConfig
from ttf.contracts import DevicePolicy, EvalRecord
from ttf.data.ahead import Ahead
from ttf.data.dataset import Dataset, Split
from ttf.data.first_look import look
from ttf.data.loader import DrawNegatives, Loader, MicroBatch, StepHead, StepReader
from ttf.data.open_dataset import open_dataset
from ttf.data.order import key
from ttf.errors import ConfigError
from ttf.host import plugins
from ttf.host.observers import Observers
from ttf.machine.memory.allocator import give_back
from ttf.machine.memory.limits import Limit, budget_bytes as memory_budget
from ttf.machine.memory.run_limit import run_limit
from ttf.rundir.cache import cache_dir
from ttf.rundir.flight_record import FlightRecorder, Phase
from ttf.rundir.run_folder import RunFolder
from ttf.text.progress import Reporter
from ttf.training.auto_settings import Decided
from ttf.training.documents import Documents
from ttf.training.evaluation import evaluate
from ttf.training.fetching import Fetch
from ttf.training.loss.whole_bank import FullBank
from ttf.training.memory.start import decide_within, shares
from ttf.training.memory_bank import MemoryBank
from ttf.training.must_fit import refuse_what_cannot_fit
from ttf.training.optimizer import make_optimizer
from ttf.training.plan import Plan, read_ahead
from ttf.training.remarks import remarks
from ttf.training.schedule import temperature
from ttf.training.settled_alike import as_rank_0_settled
from ttf.training.sharded_step import ShardedGradients, own_samples
from ttf.training.step import StepGradients, Stepper
from ttf.training.supervisor_link import Link
from ttf.training.tables import Tables
from ttf.training.team import Team
from ttf.training.towers import TwoTower, build
from ttf.world.world import World


@dataclass(kw_only=True)
class Parts:
    """Built and seeded; owned by the trainer."""

    model: TwoTower
    documents: Documents
    bank: MemoryBank
    stepper: Stepper
    tables: Tables


@dataclass(frozen=True, kw_only=True)
class Session:
    folder: RunFolder
    decided: Decided
    data: Dataset
    policy: DevicePolicy
    parts: Parts
    reporter: Reporter
    link: Link
    observers: Observers
    notes: tuple[str, ...]
    """About the data and the settings; to be said when the run begins."""
    plan: Plan
    """The prediction of its memory and time; its limit is that at the start."""
    ahead: Ahead
    """How many micro-batches are read before they are needed."""
    world: World
    """The other processes of the run."""

    @property
    def config(self) -> RunConfig:
        return self.decided.config

    def load(self, start: int, stop: int, draw: DrawNegatives | None) -> Loader:
        """The rows of steps `start..stop`, read by a thread of their own."""
        self.reporter.stage("train", self.decided.total_steps)
        reader = StepReader(
            data=self.data,
            order=self.decided.order,
            read_documents=self.parts.documents.read,
            micro_batch=self.decided.plan.micro_batch,
            announced=self._steps_announced,
            ahead=self.ahead,
            samples=own_samples(self.world, self.decided.plan.samples),
        )
        return reader.load(start, stop, draw)

    @property
    def team(self) -> Team:
        """All processes of the run, for long work between two steps."""
        return Team(self.world, self.link.flight.beat)

    def meet(self) -> None:
        """Waits for the other processes after work that may take them longer."""
        self.world.meet(self.link.flight.beat)

    @property
    def _steps_announced(self) -> int:
        steps = self.data.train.queries.length if self.data.train.queries.context else 0
        per_sample = 1 + self.config.miner.num_negatives + self.data.train.num_own + steps
        return self.parts.tables.steps_ahead(self.decided.plan.samples * per_sample)

    def evaluate(self, step: int) -> EvalRecord:
        began = time.perf_counter()
        decided = self.decided
        self.link.flight.enter(Phase.EVALUATE, step)
        self.reporter.stage("evaluate", self.parts.documents.rows)
        self.data.check_unchanged()
        metrics = evaluate(
            self.parts.model,
            self.data.val,
            self.parts.documents,
            self.policy,
            decided.precision,
            decided.plan.micro_batch,
            decided.config.evaluate.k,
            progress=self.advance,
            team=self.team,
        )
        give_back()
        self.meet()
        epoch = decided.order.epoch_of(step - 1) if step else 0
        seconds = time.perf_counter() - began
        return EvalRecord(step=step, epoch=epoch, metrics=metrics, seconds=seconds)

    def advance(self, done: int, total: int) -> None:
        """Progress of long work between two steps; raises if an end was asked for."""
        self.reporter.advance(done, total)
        self.link.check_stop()


@contextlib.contextmanager
def open_session(
    resolved: Resolved,
    folder: RunFolder,
    policy: DevicePolicy,
    reporter: Reporter,
    link: Link | None = None,
    *,
    check: Callable[[Decided], None] = lambda _: None,
    world: World | None = None,
) -> Iterator[Session]:
    # `check` comes before the towers are built. `policy` was chosen and its environment set before torch was imported; the folder is claimed.
    # Without a link nobody supervises: a crash ends the run.
    link = link or Link()
    world = world or World(resolved.config.train.shards)
    policy.start()
    given = resolved.config.data
    fetch = Fetch(given, reporter, link)
    with (
        folder.writing(),
        link.stop,
        open_dataset(
            given,
            seed=resolved.config.train.seed,
            teacher=resolved.config.loss.teacher > 0,
            fetching=fetch.how,
        ) as data,
    ):
        fetch.bring_here(data)
        memory = run_limit(resolved.config.memory.limit)
        fitted = decide_within(resolved, data, policy, memory)
        alike = as_rank_0_settled(resolved, fitted.decided.resolved, world, link.flight.beat)
        if alike is not None:
            fitted = decide_within(alike, data, policy, memory)
        decided = fitted.decided
        disk = Limit(shutil.disk_usage(folder.path).free, f"free in {folder.path}")
        refuse_what_cannot_fit(decided, data, memory=memory, disk=disk)
        link.flight.takes(decided.total_steps)
        link.flight.epochs_have(decided.order.steps_per_epoch)
        data.notes += look(data)
        notes = tuple(remarks(decided, data))
        if decided.config.memory.limit != "auto":
            notes += (shares(fitted.plan),)
        check(decided)
        yield Session(
            folder=folder,
            decided=decided,
            data=data,
            policy=policy,
            parts=assemble(decided, data, policy, link.flight, reporter.note, world),
            world=world,
            reporter=reporter,
            link=link,
            observers=plugins.observers(decided.config.observers, reporter.note),
            notes=notes,
            ahead=Ahead(read_ahead(decided.config, decided.plan.accumulate)),
            plan=fitted.plan,
        )


def assemble(
    decided: Decided,
    data: Dataset,
    policy: DevicePolicy,
    flight: FlightRecorder | None = None,
    say: Callable[[str], None] = lambda _: None,
    world: World | None = None,
) -> Parts:
    """Builds what is seeded; call after `policy.start()`."""
    config = decided.config
    specs = decided.specs
    torch.manual_seed(key(config.train.seed, "weights"))
    model = build(specs.query, specs.doc, config.loss).to(policy.torch_device())
    tables = Tables(
        model,
        data.bank.shape[0],
        specs.query.shape.out_dim,
        memory_budget(config.memory.budget) // 2,
    )
    if decided.total_steps and not any(p.requires_grad for p in model.parameters()):
        raise ConfigError(
            f"There is nothing to train: the towers {specs.query.name!r} and {specs.doc.name!r} "
            "have no trainable weights.",
            hint="Choose another query tower, for example --tower linear; or calibrate the "
            "vectors as they are: --set calibrate.enabled=true.",
        )
    width = specs.query.shape.out_dim
    documents = Documents(data, model, policy, width, memory_budget(config.memory.budget))
    capacity = config.loss.memory_bank
    assert isinstance(capacity, int)
    bank = MemoryBank(
        capacity=capacity,
        num_documents=data.bank.shape[0],
        dim=width,
        room=decided.plan.samples * (1 + config.miner.num_negatives + data.train.num_own),
        device=policy.torch_device(),
        constant_shape=policy.constant_shapes,
        half=decided.precision.name == "bf16"
        and (model.documents_as_stored or model.documents_frozen),
        trainable=not (model.documents_as_stored or model.documents_frozen),
    )
    gradients = StepGradients(
        model=model,
        bank=bank,
        documents=documents,
        policy=policy,
        precision=decided.precision,
        config=config,
        micro_batch=decided.plan.micro_batch,
        flight=flight or FlightRecorder(None),
        full_bank=FullBank(documents, config.negatives, config.evaluate.k, cache_dir(), say)
        if config.loss.negatives == "bank"
        else None,
    )
    optimizer = make_optimizer(model, config.train.lr, config.train.weight_decay)
    stepper = Stepper(
        gradients,
        optimizer,
        data,
        tables,
        _temperature(config.loss, decided.total_steps),
        _by_shards(gradients, data.train, tables, world or World(config.train.shards)),
    )
    return Parts(model=model, documents=documents, bank=bank, stepper=stepper, tables=tables)


def _by_shards(
    gradients: StepGradients, split: Split, tables: Tables, world: World
) -> ShardedGradients | None:
    if world.shards == 1:
        return None
    if tables and world.size > 1:
        raise ConfigError(
            "A tower that trains rows of a table cannot be trained by several processes yet.",
            hint="Train this run with one process, without --ranks and --nodes.",
        )

    def read(head: StepHead, start: int, stop: int) -> MicroBatch:
        return MicroBatch(start=start, stop=stop, queries=split.batch(head.rows[start:stop]))

    return ShardedGradients(gradients, world, read, lambda: tables.leaves if tables else [])


def _temperature(loss: LossConfig, total_steps: int) -> Callable[[int], float] | None:
    """Of each step, where it changes."""
    if loss.learn_temperature or loss.temperature_schedule == "constant":
        return None
    return partial(
        temperature, total=total_steps, given=loss.temperature, schedule=loss.temperature_schedule
    )
