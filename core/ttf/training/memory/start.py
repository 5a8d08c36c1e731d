"""Makes a run fit into `memory.limit` before it starts, by prediction; refuses what cannot fit.

First what changes no number (rows read ahead, blocks of mining and evaluation), then how the optimizer
step is cut (rounding), last a memory bank that nobody asked for. With `memory.limit = "auto"` nothing is
cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from ttf.config.resolve import Resolved, with_value
from ttf.errors import ConfigError
from ttf.machine.memory.limits import Limit, budget_bytes
from ttf.machine.memory.run_limit import AUTO
from ttf.mining.choose import EXACT
from ttf.text.numbers import size
from ttf.training.auto_device_options import SETTLED
from ttf.training.auto_settings import Decided, decide
from ttf.training.plan import Plan, plan_of

if TYPE_CHECKING:
    from ttf.contracts import DevicePolicy
    from ttf.data.dataset import Dataset

# Predictions are within a fifth of what runs take (benchmarks/bench_memory.py), mostly above it; the
# governor makes caches smaller at 82%.
TARGET: Final = 0.8
LEAST_BUDGET: Final = 32 << 20
_WORTH: Final = 1 << 20  # a cut that saves less is not made
_SHOWN: Final = 5
_ORIGIN: Final = "memory.limit"
_OWN_BUDGET: Final = f"{SETTLED}a quarter of memory.limit"


@dataclass(frozen=True, kw_only=True)
class Cut:
    """One setting made smaller."""

    key: str
    to: int
    also: tuple[tuple[str, int], ...] = ()
    deviation: str = ""

    def __call__(self, resolved: Resolved) -> Resolved:
        for key, value in ((self.key, self.to), *self.also):
            before = resolved.origins.get(key, "default").partition(", cut by ")[0]
            resolved = with_value(resolved, key, value, f"{before}, cut by {_ORIGIN}")
        return resolved


@dataclass(frozen=True, kw_only=True)
class Fitted:
    decided: Decided
    plan: Plan
    cuts: tuple[str, ...] = ()  # 'memory.read_ahead 12 -> 3 (changes no number)', for the user


def decide_within(resolved: Resolved, data: Dataset, policy: DevicePolicy, limit: Limit) -> Fitted:
    """Like `decide`, with everything cut that has to be. Raises ConfigError if it cannot fit."""
    decided = decide(resolved, data, policy)
    plan = plan_of(decided, data, policy, limit)
    if resolved.config.memory.limit == AUTO:
        return Fitted(decided=decided, plan=plan)
    decided = _with_own_budget(decided, limit)
    plan = plan_of(decided, data, policy, limit)
    if plan.peak_anon_bytes <= TARGET * limit.bytes:
        return Fitted(decided=decided, plan=plan)
    now, cuts = _cut(decided, plan, lambda resolved: _again(resolved, data, policy, limit), limit)
    if now.plan.peak_anon_bytes > TARGET * limit.bytes:
        raise _refusal(now.plan, limit, bool(cuts))
    texts = tuple(_texts(decided, now.decided, cuts))
    said = f"To fit into {size(limit.bytes)} ({limit.source}): {'; '.join(texts)}."
    known = dict.fromkeys(cut.deviation for cut in cuts if cut.deviation)
    return Fitted(
        decided=replace(
            now.decided, notes=(*decided.notes, said), deviations=(*decided.deviations, *known)
        ),
        plan=replace(
            now.plan, choices=replace(now.plan.choices, notes=(*plan.choices.notes, said))
        ),
        cuts=texts,
    )


def _with_own_budget(decided: Decided, limit: Limit) -> Decided:
    # After everything else is settled: the miner, and how a step is cut, stay those of a run without
    # memory.limit.
    resolved, share = decided.resolved, max(LEAST_BUDGET, limit.bytes // 4)
    budget = decided.config.memory.budget
    own = resolved.origins["memory.budget"].startswith(SETTLED)
    if not own or not _budget_is_free(decided) or share >= budget_bytes(budget):
        return decided
    return replace(decided, resolved=with_value(resolved, "memory.budget", share, _OWN_BUDGET))


def _budget_is_free(decided: Decided) -> bool:
    """Whether the size of the blocks changes no number: an index may be trained on fewer rows."""
    miner = decided.config.miner
    return not miner.negatives or miner.name == EXACT


@dataclass(frozen=True)
class _Now:
    decided: Decided
    plan: Plan


def _again(resolved: Resolved, data: Dataset, policy: DevicePolicy, limit: Limit) -> _Now:
    decided = decide(resolved, data, policy)
    return _Now(decided, plan_of(decided, data, policy, limit))


def _cut(
    decided: Decided, plan: Plan, again: Callable[[Resolved], _Now], limit: Limit
) -> tuple[_Now, list[Cut]]:
    """One cut after another, each the first that helps, until it fits or nothing helps."""
    now, made = _Now(decided, plan), list[Cut]()
    samples = decided.plan.samples
    while now.plan.peak_anon_bytes > TARGET * limit.bytes:
        for cut in _possible(now.decided):
            then = again(cut(now.decided.resolved))
            saved = now.plan.peak_anon_bytes - then.plan.peak_anon_bytes
            if saved >= _WORTH and then.decided.plan.samples == samples:
                now = then
                made.append(cut)
                break
        else:
            break
    return now, made


def _possible(decided: Decided) -> Iterator[Cut]:
    """The next smaller value of everything that can be cut, in the order of what it costs."""
    config, origins = decided.config, decided.resolved.origins
    memory, train = config.memory, config.train
    if isinstance(memory.read_ahead, int) and memory.read_ahead > 1:
        yield Cut(key="memory.read_ahead", to=max(1, memory.read_ahead * 3 // 4))
    assert isinstance(memory.budget, int)
    if memory.budget > LEAST_BUDGET and _budget_is_free(decided):
        yield Cut(key="memory.budget", to=max(LEAST_BUDGET, memory.budget // 2))
    batch, parts, fuse = train.batch_size, train.accumulate, train.fuse
    assert isinstance(batch, int)
    assert isinstance(fuse, int)
    if fuse > 1:
        fewer = max(n for n in range(1, fuse) if parts % n == 0)
        own = origins.get("train.fuse", "").startswith(SETTLED)
        yield Cut(key="train.fuse", to=fewer, deviation="" if own else _rounding(decided))
    elif batch > 1:
        factor = next(n for n in range(2, batch + 1) if batch % n == 0)
        yield Cut(
            key="train.batch_size",
            to=batch // factor,
            also=(("train.accumulate", parts * factor),),
            deviation=_rounding(decided),
        )
    bank = config.loss.memory_bank
    if isinstance(bank, int) and bank and origins.get("loss.memory_bank", "").startswith(SETTLED):
        yield Cut(key="loss.memory_bank", to=bank // 2)


def _rounding(decided: Decided) -> str:
    towers = decided.config.tower
    drops = any((tower.model_extra or {}).get("dropout") for tower in (towers.query, towers.doc))
    what = "rounding differs, and dropout drops other values" if drops else "rounding differs"
    return f"memory.limit cut the optimizer step into smaller micro-batches: {what}"


def shares(plan: Plan) -> str:
    """What holds the memory of a run at its peak, in one line."""
    held = [item for item in plan.items if item.phase in ("always", plan.peak_phase)]
    largest = sorted(held, key=lambda item: -item.anon_bytes)[:_SHOWN]
    rest = plan.peak_anon_bytes - sum(item.anon_bytes for item in largest)
    parts = [f"{item.component} {size(item.anon_bytes)}" for item in largest]
    return (
        f"Memory: {size(plan.limit.bytes)} ({plan.limit.source}), of which the run is predicted to "
        f"hold up to {size(plan.peak_anon_bytes)}, during {plan.peak_phase}: {', '.join(parts)}, "
        f"others {size(rest)}."
    )


_NO_NUMBER: Final = ("memory.read_ahead", "memory.budget")


def _texts(before: Decided, after: Decided, cuts: list[Cut]) -> Iterator[str]:
    keys = dict.fromkeys(key for cut in cuts for key, _ in ((cut.key, 0), *cut.also))
    for key in keys:
        section, _, name = key.partition(".")
        old, new = (getattr(getattr(d.config, section), name) for d in (before, after))
        shown = [size(v) if key == "memory.budget" else f"{v:,}" for v in (old, new)]
        effect = "changes no number" if key in _NO_NUMBER else "rounding differs"
        effect = "fewer negatives" if key == "loss.memory_bank" else effect
        yield f"{key} {shown[0]} -> {shown[1]} ({effect})"


def _refusal(plan: Plan, limit: Limit, cut: bool) -> ConfigError:
    least = int(plan.peak_anon_bytes / TARGET) + 1
    largest = sorted(
        (item for item in plan.items if item.phase in ("always", plan.peak_phase)),
        key=lambda item: -item.anon_bytes,
    )
    after = ", with everything as small as it can be" if cut else ""
    return ConfigError(
        f"This run does not fit into {size(limit.bytes)} ({limit.source}): it is predicted to hold "
        f"{size(plan.peak_anon_bytes)} during {plan.peak_phase}{after}. The smallest memory.limit "
        f"that would fit is {-(-least // 2**20)}MiB.",
        problems=[
            f"{item.component}: {size(item.anon_bytes)} ({item.why})" for item in largest[:5]
        ],
        hint=f"Give it more (--set memory.limit={-(-least // 2**20)}MiB), or lower what is largest.",
    )
