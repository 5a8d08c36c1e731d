"""Settles every "auto" of a configuration, by pure functions of configuration, data and device.

What was decided is written back with its reason, so that run.toml holds what really ran.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, cast

from ttf.config.resolve import Resolved
from ttf.config.schema import RunConfig
from ttf.contracts import BatchPlan, DevicePolicy, Kind, Precision, TowerShape
from ttf.data.dataset import Dataset
from ttf.data.order import Order
from ttf.errors import ConfigError
from ttf.host import plugins
from ttf.host.options import checked
from ttf.machine.memory import budget_bytes as memory_budget
from ttf.mining.choose import choose_miner, miner_threads
from ttf.training import whole_bank_settings as fullbank
from ttf.training.device_auto import with_device
from ttf.training.plan import BACKWARD, auto_batch_size
from ttf.training.towers import TowerSpec

MEMORY_BANK_MOST = 50_000
ENOUGH_CANDIDATES = 1024


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
    implied, notes = fullbank.required(resolved, specs.doc.cost())
    resolved = _settled(resolved, implied)
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
    if plan.accumulate != config.train.accumulate:
        asked = f"{config.train.accumulate} ({resolved.origins['train.accumulate']})"
        why = f"{asked}, cut by the device {policy.name}"
        values["train", "accumulate"] = (plan.accumulate, why)
    plan, fused = _fused(config, plan, policy, specs.query.cost().activation_bytes)
    if fused is not None:
        values["train", "fuse"] = fused
    _refuse_other_steps(resolved, plan, policy)
    if plan.samples > pairs:
        raise ConfigError(
            f"One optimizer step takes {plan.samples:,} samples ({plan.cut}), "
            f"but there are only {pairs:,} training pairs.",
            hint=f"Lower --batch-size or --accum to {pairs:,} samples or fewer.",
        )
    if config.memory.budget == "auto":
        values["memory", "budget"] = (
            memory_budget(config.memory.budget),
            "auto: a quarter of the memory limit in force, at least 1 GiB",
        )
    if config.loss.memory_bank == "auto":
        values["loss", "memory_bank"] = _memory_bank(config, plan, data.distinct_documents)
    needed = config.loss.symmetric and plan.accumulate > 1
    if config.train.grad_cache is False and needed:
        raise ConfigError(
            f"The symmetric loss compares a document with all queries of a step, but its "
            f"{plan.accumulate} micro-batches are never in memory at once.",
            hint="Leave train.grad_cache at its default (auto), or use --accum 1.",
        )
    if config.train.grad_cache == "auto":
        reason = "the symmetric loss needs all queries of a step" if needed else "not needed"
        if config.loss.negatives == "bank":
            needed, reason = fullbank.grad_cache(
                plan, specs.query.cost(), memory_budget(config.memory.budget)
            )
        values["train", "grad_cache"] = (needed, f"auto: {reason}")
    order = Order(
        size=pairs,
        samples_per_step=plan.samples,
        seed=config.train.seed,
        fingerprint=data.fingerprint,
        shuffle=config.train.shuffle,
    )
    total = config.train.steps or config.train.epochs * order.steps_per_epoch
    if config.miner.name == "auto" and config.miner.negatives:
        rounds = refreshes(config, order, total)
        queries = min(pairs, total * plan.samples)
        values["miner", "name"] = _choose(config, data, policy, queries, rounds)
    _refuse_late_gates(config, order, total)
    settled, heard = with_device(_with_options(_settled(resolved, values), specs), policy)
    return Decided(
        resolved=settled,
        precision=precision,
        plan=plan,
        order=order,
        total_steps=total,
        notes=(*resolved.notes, *notes, *plan.notes, *filter(None, [precision.note]), *heard),
    )


def _fused(
    config: RunConfig, plan: BatchPlan, policy: DevicePolicy, activation_bytes: int
) -> tuple[BatchPlan, tuple[int, str] | None]:
    """The step cut into fewer, larger parts; and what to write of `train.fuse`, None where it
    stays as given. Every part sees the candidates of the whole step, however it is cut."""
    divisors = [n for n in range(1, plan.accumulate + 1) if plan.accumulate % n == 0]
    asked = config.train.fuse
    if asked == "auto":
        per_row = BACKWARD * max(activation_bytes, 1)
        most = min(policy.rows_at_once, memory_budget(config.memory.budget) // 2 // per_row)
        fuse = max((n for n in divisors if n * plan.micro_batch <= most), default=1)
        reason = (
            f"auto: {fuse * plan.micro_batch} samples are computed at a time; the device "
            f"{policy.name} likes up to {policy.rows_at_once}"
            if fuse > 1
            else "auto: micro-batches are computed as they are"
        )
    else:
        fuse = max(n for n in divisors if n <= asked)
        reason = f"{asked} asked for; the largest that divides {plan.accumulate} micro-batches"
    settled = None if fuse == asked else (fuse, reason)
    cut = replace(
        plan, micro_batch=plan.micro_batch * fuse, accumulate=plan.accumulate // fuse, fused=fuse
    )
    return cut, settled


def _refuse_other_steps(resolved: Resolved, plan: BatchPlan, policy: DevicePolicy) -> None:
    """Position and order of a run that goes on are counted in steps of the size it began with."""
    wanted = resolved.samples_per_step
    if wanted is None or plan.samples == wanted:
        return
    train, origins = resolved.config.train, resolved.origins
    raise ConfigError(
        f"An optimizer step of this run takes {wanted:,} samples, but would take "
        f"{plan.samples:,} now ({plan.cut} on the device "
        f"{policy.name}): train.batch_size is {train.batch_size} "
        f"({origins['train.batch_size']}), train.accumulate is {train.accumulate} "
        f"({origins['train.accumulate']}).",
        hint="A run that goes on keeps its steps: choose two numbers whose product is "
        f"{wanted:,}, or start a new run.",
    )


def _memory_bank(config: RunConfig, plan: BatchPlan, distinct: int) -> tuple[int, str]:
    """Measured (docs/results.md): it lifts small steps, and costs large ones time for nothing."""
    offered = plan.samples * (1 + config.miner.negatives)
    if offered >= ENOUGH_CANDIDATES:
        return 0, (
            f"auto: a step offers up to {offered} documents itself; a bank helps below "
            f"{ENOUGH_CANDIDATES}"
        )
    return min(MEMORY_BANK_MOST, distinct), (
        f"auto: a step offers only {offered} documents itself; the bank holds the smaller of "
        f"{MEMORY_BANK_MOST} and {distinct} distinct training documents"
    )


def _refuse_late_gates(config: RunConfig, order: Order, total: int) -> None:
    """A gate that the run never comes to would pass in silence."""
    length = {"step": 1, "epoch": order.steps_per_epoch}
    late = []
    for gate in config.gates:
        unit, number = gate.at.split()
        if int(number) * length[unit] > total:
            late.append(f"gates: at = {gate.at!r}, but the run ends with step {total}")
    if late:
        raise ConfigError(
            f"There are gates that this run of {total} steps "
            f"({total / order.steps_per_epoch:.1f} epochs) never comes to:",
            problems=late,
            hint="Put them earlier, or train longer (--epochs, --steps).",
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
        threads=miner_threads(config.miner, policy.threads),
        seed=config.train.seed,
        budget_bytes=memory_budget(config.memory.budget),
    )
    return name, f"auto: {reason}"


def _settled(resolved: Resolved, values: Mapping[tuple[str, str], tuple[Any, str]]) -> Resolved:
    config = resolved.config
    origins = dict(resolved.origins)
    for (section, name), (value, origin) in values.items():
        changed = getattr(config, section).model_copy(update={name: value})
        config = config.model_copy(update={section: changed})
        origins[f"{section}.{name}"] = origin
    return replace(resolved, config=config, origins=origins)


def _with_options(resolved: Resolved, specs: Specs) -> Resolved:
    """Every option of the chosen plugins written out: a later default must not change this run."""
    config, origins = resolved.config, dict(resolved.origins)
    towers = {}
    for side, spec in (("query", specs.query), ("doc", specs.doc)):
        towers[side] = getattr(config.tower, side).model_copy(update=asdict(spec.options))
        _fill(origins, f"tower.{side}", asdict(spec.options))
    updates: dict[str, Any] = {"tower": config.tower.model_copy(update=towers)}
    chosen = {"device": config.device.name}
    if config.miner.negatives:
        chosen["miner"] = config.miner.name
    for section, name in chosen.items():
        part = getattr(config, section)
        factory = plugins.load(cast("Kind", section), name)
        options = asdict(checked(factory.options_type, part.options_of(name), f"{section}.{name}"))
        if options:
            updates[section] = part.model_copy(update={name: options})
            _fill(origins, f"{section}.{name}", options)
    return replace(resolved, config=config.model_copy(update=updates), origins=origins)


def _fill(origins: dict[str, str], prefix: str, options: Mapping[str, Any]) -> None:
    for name in options:
        origins.setdefault(f"{prefix}.{name}", "default")
