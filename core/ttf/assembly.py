"""From a resolved configuration to everything the loop needs: data, towers, bank, optimizer.

"auto" values are decided here, by pure functions of configuration, data and device, and written
back with their reason, so that run.toml holds what really ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ttf.bank import MemoryBank
from ttf.config.resolve import Resolved
from ttf.config.schema import RunConfig
from ttf.contracts import BatchPlan, DevicePolicy, Precision, TowerShape
from ttf.data.dataset import Dataset
from ttf.data.order import Order
from ttf.documents import Documents
from ttf.errors import ConfigError
from ttf.keyed import key
from ttf.mining.choose import choose_miner
from ttf.model import TowerSpec, TwoTower, build
from ttf.plan import auto_batch_size
from ttf.step import Stepper, StepSettings, make_optimizer

MEMORY_BANK_MOST = 50_000


@dataclass(frozen=True, kw_only=True)
class Specs:
    """Both towers, validated and costed, not built."""

    query: TowerSpec
    doc: TowerSpec


@dataclass(frozen=True, kw_only=True)
class Decided:
    """A configuration without any "auto" left, and what the user must hear about it."""

    resolved: Resolved
    precision: Precision
    plan: BatchPlan
    order: Order
    total_steps: int
    notes: tuple[str, ...]

    @property
    def config(self) -> RunConfig:
        return self.resolved.config


@dataclass(kw_only=True)
class Parts:
    """Built and seeded; owned by the trainer."""

    model: TwoTower
    documents: Documents
    bank: MemoryBank
    stepper: Stepper


def specify(config: RunConfig, data: Dataset) -> Specs:
    """Both sides meet in the width of the bank's vectors."""
    width = data.bank.shape[1]
    queries = data.train.queries
    query = TowerShape(
        in_dim=queries.dim, length=queries.length, sequence=queries.sequence, out_dim=width
    )
    doc = TowerShape(in_dim=width, length=1, sequence=False, out_dim=width)
    return Specs(
        query=TowerSpec("query", config.tower.query, query),
        doc=TowerSpec("doc", config.tower.doc, doc),
    )


def decide(resolved: Resolved, data: Dataset, policy: DevicePolicy, specs: Specs) -> Decided:
    """Settles every "auto"."""
    config = resolved.config
    pairs = len(data.train)
    values: dict[tuple[str, str], tuple[Any, str]] = {}
    if config.device.name == "auto":
        values["device", "name"] = (policy.name, f"auto: {policy.reason}")
    if config.device.threads == "auto":
        values["device", "threads"] = (policy.threads, "auto: the cores this process may use")
    precision = policy.precision(config.device.precision)
    if config.device.precision == "auto":
        values["device", "precision"] = (precision.name, f"auto: {precision.reason}")
    batch = config.train.batch_size
    if batch == "auto":
        batch = auto_batch_size(specs.query.cost().activation_bytes)
        while batch > 1 and batch * config.train.accumulate > pairs:
            batch //= 2
        values["train", "batch_size"] = (batch, "auto: by the tower's activations and the pairs")
    plan = policy.plan(batch, config.train.accumulate)
    if plan.samples > pairs:
        raise ConfigError(
            f"One optimizer step takes {plan.samples:,} samples ({plan.micro_batch} x "
            f"{plan.accumulate}), but there are only {pairs:,} training pairs.",
            hint=f"Lower --batch-size or --accum to {pairs:,} samples or fewer.",
        )
    if config.memory.budget == "auto":
        values["memory", "budget"] = (
            config.memory.budget_bytes,
            "auto: a quarter of the memory limit in force, at least 1 GiB",
        )
    if config.loss.memory_bank == "auto":
        distinct = data.distinct_documents
        values["loss", "memory_bank"] = (
            min(MEMORY_BANK_MOST, distinct),
            f"auto: the smaller of {MEMORY_BANK_MOST} and {distinct} distinct training documents",
        )
    if config.train.grad_cache == "auto":
        needed = config.loss.symmetric and plan.accumulate > 1
        reason = "the symmetric loss needs all queries of a step" if needed else "not needed"
        values["train", "grad_cache"] = (needed, f"auto: {reason}")
    order = Order(
        size=pairs,
        samples_per_step=plan.samples,
        seed=config.train.seed,
        fingerprint=data.fingerprint,
    )
    total = config.train.steps or config.train.epochs * order.steps_per_epoch
    if config.miner.name == "auto" and config.miner.negatives:
        rounds = refreshes(config, order, total)
        queries = min(pairs, total * plan.samples)
        values["miner", "name"] = _choose(config, data, policy, queries, rounds)
    return Decided(
        resolved=_settled(resolved, values),
        precision=precision,
        plan=plan,
        order=order,
        total_steps=total,
        notes=(*resolved.notes, *plan.notes),
    )


def refreshes(config: RunConfig, order: Order, total: int) -> int:
    """Mining rounds of a run."""
    every = order.steps_per_epoch if config.miner.refresh == "epoch" else config.miner.refresh
    return max(1, -(-total // every))


def _choose(
    config: RunConfig, data: Dataset, policy: DevicePolicy, queries: int, rounds: int
) -> tuple[str, str]:
    name, reason = choose_miner(
        config.miner,
        rows=data.bank.shape[0],
        dim=data.bank.shape[1],
        queries=queries,
        refreshes=rounds,
        threads=policy.threads,
        seed=config.train.seed,
        budget_bytes=config.memory.budget_bytes,
    )
    return name, f"auto: {reason}"


def _settled(resolved: Resolved, values: Mapping[tuple[str, str], tuple[Any, str]]) -> Resolved:
    config = resolved.config
    origins = dict(resolved.origins)
    for (section, name), (value, origin) in values.items():
        changed = getattr(config, section).model_copy(update={name: value})
        config = config.model_copy(update={section: changed})
        origins[f"{section}.{name}"] = origin
    return Resolved(config=config, origins=origins, notes=resolved.notes)


def assemble(decided: Decided, specs: Specs, data: Dataset, policy: DevicePolicy) -> Parts:
    """Builds what is seeded; call after `policy.start()`."""
    config = decided.config
    torch.manual_seed(key(config.train.seed, "weights"))
    model = build(specs.query, specs.doc, config.loss).to(policy.torch_device())
    if not any(p.requires_grad for p in model.parameters()):
        raise ConfigError(
            f"There is nothing to train: the towers {specs.query.name!r} and {specs.doc.name!r} "
            "have no trainable weights.",
            hint="Choose another query tower, e.g. --tower linear.",
        )
    width = specs.query.shape.out_dim
    documents = Documents(data, model, policy, width, config.memory.budget_bytes)
    capacity = config.loss.memory_bank
    assert isinstance(capacity, int)
    bank = MemoryBank(
        capacity=capacity,
        num_documents=data.bank.shape[0],
        dim=width,
        room=decided.plan.samples * (1 + config.miner.negatives),
        device=policy.torch_device(),
        constant_shape=policy.constant_shapes,
    )
    stepper = Stepper(
        model=model,
        optimizer=make_optimizer(model, config.train.lr, config.train.weight_decay),
        bank=bank,
        documents=documents,
        data=data,
        policy=policy,
        precision=decided.precision,
        settings=StepSettings(
            loss=config.loss,
            seed=config.train.seed,
            clip=config.train.clip,
            grad_cache=bool(config.train.grad_cache),
        ),
    )
    return Parts(model=model, documents=documents, bank=bank, stepper=stepper)
