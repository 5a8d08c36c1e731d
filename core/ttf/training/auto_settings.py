"""Settles every "auto" of a configuration: pure functions of configuration, data and device.

Two tables list the settings in order of dependence; the device cuts the optimizer step between them.
Every value is written back with its reason, so run.toml holds what really ran."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Final

from ttf.config.resolve import Resolved, with_options, with_value
from ttf.config.schema import RunConfig
from ttf.contracts import BatchPlan, DevicePolicy, Precision
from ttf.data.ahead import WHY, usual
from ttf.data.dataset import Dataset
from ttf.data.order import Order
from ttf.errors import ConfigError
from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.mining.choose import choose_miner, miner_threads
from ttf.training.auto_candidates import choose_candidates, choose_k, refuse_passing
from ttf.training.auto_choices import (
    Work,
    choose_evaluations,
    choose_memory_bank,
    choose_negatives,
    choose_patience,
    refuse_reuse,
    said_of_mining,
)
from ttf.training.auto_device_options import AUTO, SETTLED, with_device
from ttf.training.auto_rows import KEPT_ONCE, chosen_towers
from ttf.training.auto_shards import cut_at_shards, needs_all_queries, refuse_symmetric_parts
from ttf.training.calibration.sample import is_enough, usual_sample
from ttf.training.plan import BACKWARD, FUSED_BYTES, LEAST_BATCH, auto_batch_size
from ttf.training.schedule import mined_steps, num_evaluations, num_refreshes, refuse_late_gates
from ttf.training.towers import Specs, specify

LEAST_STEPS_PER_EPOCH = 16
_BUDGET = "a quarter of the memory limit, at least 1 GiB"
_WHOLE_BANK = 'all documents are already negatives (loss.negatives = "bank")'


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A configuration without any "auto", and messages for the user."""

    resolved: Resolved
    specs: Specs
    precision: Precision
    plan: BatchPlan
    order: Order
    total_steps: int
    mined_steps: int  # Those that share the first candidate table; 0 if nothing is mined.
    notes: tuple[str, ...]
    # What `memory.limit` made smaller that changes a number of the run.
    deviations: tuple[str, ...] = ()

    @property
    def config(self) -> RunConfig:
        return self.resolved.config


def decide(resolved: Resolved, data: Dataset, policy: DevicePolicy) -> Decided:
    draft = _Draft(resolved, data, policy)
    _refuse_training_beside_whole_bank(draft)
    for key in ("miner.negatives", "loss.memory_bank"):
        _leave_out_beside_whole_bank(draft, key)
    if draft.only_calibrated:
        for key in ("miner.negatives", "loss.memory_bank"):
            draft.put(key, 0, "the towers have no weights to train")
    draft.precision = policy.precision(draft.config.device.precision)
    draft.settle(_BEFORE_THE_STEP)
    draft.plan = _step_as_cut(draft)
    draft.settle(_AFTER_THE_STEP)
    draft.put("memory.budget", draft.budget_bytes, draft.resolved.origins["memory.budget"])
    if draft.config.miner.negatives and draft.total_steps:
        refuse_reuse(draft.config.miner, draft.specs.doc)
        refuse_passing(draft.config, policy.threads, draft.budget_bytes)
        draft.notes.append(said_of_mining(draft.work))
    refuse_late_gates(draft.config.gates, draft.total_steps, draft.order)
    settled, device_notes = with_device(with_options(draft.resolved), policy)
    return Decided(
        resolved=settled,
        specs=draft.specs,
        precision=draft.precision,
        plan=draft.plan,
        order=draft.order,
        total_steps=draft.total_steps,
        mined_steps=mined_steps(draft.total_steps, draft.order, draft.config.miner),
        notes=(
            *resolved.notes,
            *draft.notes,
            *draft.plan.notes,
            *filter(None, [draft.precision.note]),
            *device_notes,
        ),
    )


class _Draft:
    precision: Precision
    plan: BatchPlan  # The cut of the optimizer step; set between the two tables.

    def __init__(self, resolved: Resolved, data: Dataset, policy: DevicePolicy) -> None:
        self.resolved = resolved
        self.settled_before = any(o.startswith(SETTLED) for o in resolved.origins.values())
        self.data = data
        self.policy = policy
        self.pairs = len(data.train)
        self.notes: list[str] = []
        for side, name, reason in chosen_towers(self.config.tower, data):
            self.put(f"tower.{side}.name", name, f"{SETTLED}{reason}")
            self.notes.append(f"{side.capitalize()} tower {name}: {reason}.")
        self.specs = specify(self.config.tower, data)
        if self.specs.train_rows and self.config.evaluate.keep_best:
            self.put("evaluate.keep_best", False, f"{SETTLED}{KEPT_ONCE}")

    @property
    def config(self) -> RunConfig:
        return self.resolved.config

    def settle(self, table: _Table) -> None:
        for key, settle in table:
            found = settle(self) if self.value(key) == AUTO else None
            if found is not None:
                value, reason = found
                self.put(key, value, f"{SETTLED}{reason}")

    def value(self, key: str) -> Any:
        section, _, name = key.partition(".")
        return getattr(getattr(self.config, section), name)

    def put(self, key: str, value: Any, origin: str) -> None:
        self.resolved = with_value(self.resolved, key, value, origin)

    @property
    def mining(self) -> tuple[int, int, bool]:
        return self.policy.threads, self.budget_bytes, self.settled_before

    @property
    def budget_bytes(self) -> int:
        return memory_budget(self.config.memory.budget)

    @cached_property
    def order(self) -> Order:
        train = self.config.train
        return Order(
            size=self.pairs,
            samples_per_step=self.plan.samples,
            seed=train.seed,
            fingerprint=self.data.fingerprint,
            shuffle=train.shuffle,
        )

    @property
    def total_steps(self) -> int:
        train = self.config.train
        if self.only_calibrated:
            return 0
        return train.steps or train.epochs * self.order.steps_per_epoch

    @property
    def only_calibrated(self) -> bool:
        """There is nothing to train: the run takes no step."""
        towers = self.specs.query.cost().parameters + self.specs.doc.cost().parameters
        config = self.config
        return not (towers or config.loss.learn_temperature) and bool(config.calibrate.enabled)

    @property
    def work(self) -> Work:
        distinct, bank = self.data.distinct_documents, self.config.loss.memory_bank
        if bank == AUTO:
            bank, _ = choose_memory_bank(self.plan.samples, distinct)
        return Work(
            query=self.specs.query.cost(),
            doc=self.specs.doc.cost(),
            documents=self.data.bank.shape[0],
            width=self.data.bank.shape[1],
            val_pairs=len(self.data.val),
            order=self.order,
            steps=self.total_steps,
            others=self.data.bank.shape[0] if self.config.loss.negatives == "bank" else bank,
            rounds=num_refreshes(self.config.miner, self.order, self.total_steps),
            reuses_queries=self.config.miner.queries == "reuse",
        )


# --- all documents as negatives (loss.negatives = "bank") ---------------------------------


def _refuse_training_beside_whole_bank(draft: _Draft) -> None:
    config = draft.config
    if config.loss.negatives != "bank":
        return
    if draft.specs.doc.cost().parameters:
        raise ConfigError(
            'loss.negatives = "bank" needs a document tower without trainable weights, but the '
            f"document tower {config.tower.doc.name!r} is trained: all document vectors would "
            "change in every step.",
            hint='Use --doc-tower identity, or loss.negatives = "sampled".',
        )
    if config.loss.symmetric:
        raise ConfigError(
            'loss.symmetric = true and loss.negatives = "bank" cannot be used together: most '
            "documents of the bank have no query to compare with.",
            hint="Remove one of the two settings.",
        )


def _leave_out_beside_whole_bank(draft: _Draft, key: str) -> None:
    asked = draft.value(key)
    if draft.config.loss.negatives != "bank" or asked == 0:
        return
    origin = draft.resolved.origins.get(key, "default")
    if asked != AUTO and origin != "default":
        draft.notes.append(f"{key} = {asked} ({origin}) is not used: {_WHOLE_BANK}.")
    draft.put(key, 0, _WHOLE_BANK)


# --- the optimizer step -------------------------------------------------------------------


def _step_as_cut(draft: _Draft) -> BatchPlan:
    """The device's cut, then fewer, larger parts; every part sees the candidates of the whole
    step."""
    policy = draft.policy
    train = draft.config.train
    assert isinstance(train.batch_size, int)
    whole = policy.plan(train.batch_size, train.accumulate)
    _refuse_other_steps(draft, whole)
    if whole.samples > draft.pairs:
        raise ConfigError(
            f"One optimizer step needs {whole.samples:,} samples ({whole.cut}), but there are only "
            f"{draft.pairs:,} training pairs.",
            hint=f"Lower --batch-size or --accum to at most {draft.pairs:,} samples per step.",
        )
    fuse, reason = _fuse(draft, whole)
    plan = replace(
        whole,
        micro_batch=whole.micro_batch * fuse,
        accumulate=whole.accumulate // fuse,
        fused=fuse,
    )
    plan = cut_at_shards(plan, train.shards)
    if whole.accumulate != train.accumulate:
        asked = f"{train.accumulate} ({draft.resolved.origins['train.accumulate']})"
        draft.put("train.accumulate", whole.accumulate, f"{asked}, limited by {policy.name}")
    if fuse != train.fuse:
        draft.put("train.fuse", fuse, reason)
    refuse_symmetric_parts(draft.config, plan)
    return plan


def _fuse(draft: _Draft, plan: BatchPlan) -> tuple[int, str]:
    asked = draft.config.train.fuse
    divisors = [n for n in range(1, plan.accumulate + 1) if plan.accumulate % n == 0]
    policy = draft.policy
    per_row = BACKWARD * max(draft.specs.query.cost().activation_bytes, 1)
    rows = min(policy.rows_at_once, min(draft.budget_bytes // 2, FUSED_BYTES) // per_row)
    most = rows // plan.micro_batch if asked == AUTO else asked
    fuse = max((n for n in divisors if n <= most), default=1)
    if asked != AUTO:
        return fuse, f"the largest divisor of {plan.accumulate} micro-batches up to {asked}"
    if fuse == 1:
        return fuse, f"{SETTLED}each micro-batch is computed alone"
    return fuse, (
        f"{SETTLED}{fuse * plan.micro_batch} samples are computed at a time; the device "
        f"{policy.name} is fastest with up to {policy.rows_at_once}, if their activations are small"
    )


def _refuse_other_steps(draft: _Draft, plan: BatchPlan) -> None:
    # A resumed run counts position and order in steps of its original size.
    wanted = draft.resolved.samples_per_step
    if wanted in (None, plan.samples):
        return
    train = draft.config.train
    origins = draft.resolved.origins
    raise ConfigError(
        f"An optimizer step of this run has {wanted:,} samples, but with the current settings a "
        f"step would have {plan.samples:,} ({plan.cut} on the device {draft.policy.name}): "
        f"train.batch_size is {train.batch_size} ({origins['train.batch_size']}) and "
        f"train.accumulate is {train.accumulate} ({origins['train.accumulate']}).",
        hint=(
            "A resumed run needs steps of the same size: choose two numbers whose product is "
            f"{wanted:,}, or start a new run."
        ),
    )


# --- the tables ---------------------------------------------------------------------------

# Returns the value of a setting and the reason; None: not needed, stays "auto".
_Settle = Callable[[_Draft], tuple[Any, str] | None]
_Table = tuple[tuple[str, _Settle], ...]


def _batch_size(draft: _Draft) -> tuple[int, str]:
    batch = auto_batch_size(draft.specs.query.cost().activation_bytes)
    accumulate = draft.config.train.accumulate
    few = draft.pairs // LEAST_STEPS_PER_EPOCH
    while batch > LEAST_BATCH and batch * accumulate > few:
        batch //= 2
    while batch > 1 and batch * accumulate > draft.pairs:
        batch //= 2
    return batch, (
        "from the size of the tower's activations and the number of pairs (at least "
        f"{LEAST_STEPS_PER_EPOCH} steps in an epoch)"
    )


def _negatives(draft: _Draft) -> tuple[int, str]:
    number, reason = choose_negatives(draft.config.miner, draft.work)
    draft.notes.append(f"Mined negatives: {number or 'none'}, because {reason}.")
    return number, reason


def _memory_bank(draft: _Draft) -> tuple[int, str]:
    each = 1 + draft.config.miner.num_negatives + draft.data.train.num_own
    return choose_memory_bank(draft.plan.samples * each, draft.data.distinct_documents)


def _grad_cache(draft: _Draft) -> tuple[bool, str]:
    plan = draft.plan
    if draft.config.loss.negatives != "bank":
        needed = needs_all_queries(draft.config, plan)
        return needed, "the symmetric loss needs all queries of a step" if needed else "not needed"
    # The pass over the bank needs all queries of a step at once: their graphs are kept if they fit
    # in half the budget, else computed twice.
    if plan.accumulate == 1:
        return False, "not needed"
    held = BACKWARD * draft.specs.query.cost().activation_bytes * plan.samples
    needs = f"the activations of all {plan.samples:,} samples need {held / 2**20:,.0f} MiB"
    if held <= draft.budget_bytes // 2:
        return False, f"{needs}, which fits in memory.budget"
    return True, f"{needs}, more than half of memory.budget, so queries are encoded twice"


def _miner(draft: _Draft) -> tuple[str, str] | None:
    config = draft.config
    if not config.miner.negatives:
        return None
    return choose_miner(
        config.miner,
        rows=draft.data.bank.shape[0],
        dim=draft.data.bank.shape[1],
        queries=min(draft.pairs, draft.total_steps * draft.plan.samples),
        refreshes=num_refreshes(config.miner, draft.order, draft.total_steps),
        threads=miner_threads(config.miner, draft.policy.threads),
        seed=config.train.seed,
        budget_bytes=draft.budget_bytes,
    )


def _patience(draft: _Draft) -> tuple[int, str]:
    config = draft.config
    planned = num_evaluations(draft.total_steps, config.evaluate.every, draft.order)
    return choose_patience(planned, config.evaluate, gates=bool(config.gates))


def _val_split(draft: _Draft) -> tuple[float, str] | None:
    drawn = draft.data.val_drawn
    return None if drawn is None else (drawn.share, drawn.text)


_BEFORE_THE_STEP: Final[_Table] = (
    ("data.val_split", _val_split),
    ("device.name", lambda draft: (draft.policy.name, draft.policy.reason)),
    ("device.threads", lambda draft: (draft.policy.threads, "cores that this process may use")),
    ("device.precision", lambda draft: (draft.precision.name, draft.precision.reason)),
    ("train.batch_size", _batch_size),
)
_AFTER_THE_STEP: Final[_Table] = (
    ("memory.budget", lambda draft: (draft.budget_bytes, _BUDGET)),
    ("memory.read_ahead", lambda draft: (usual(draft.plan.accumulate), WHY)),
    ("miner.negatives", _negatives),
    ("miner.name", _miner),
    ("miner.candidates", lambda draft: choose_candidates(draft.config, *draft.mining)),
    ("miner.k", lambda draft: choose_k(draft.config, draft.data.train.positives.shape[1])),
    ("loss.memory_bank", _memory_bank),
    ("train.grad_cache", _grad_cache),
    ("evaluate.every", lambda draft: choose_evaluations(draft.work)),
    ("evaluate.patience", _patience),
    ("calibrate.enabled", lambda draft: is_enough(draft.pairs)),
    ("calibrate.sample", lambda draft: usual_sample(draft.data.bank.shape[0])),
)
