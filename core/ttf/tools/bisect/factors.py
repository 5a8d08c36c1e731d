"""The ingredients of a configuration, and for each the edit that takes it out.

An edit changes nothing else. The facts that the rules need come from the survey.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from ttf.tools.bisect.hypotheses import Ingredient

MOST_COPIED: Final = 4 << 30  # Bytes of data that a study copies without permission.


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    # Facts from the survey that the configuration does not hold.
    pairs: int = 0  # usable training pairs; 0: the data could not be read
    length: int = 1
    sequence: bool = False
    pairs_bytes: int = 0
    data_bytes: int = 0  # pairs, bank and context
    local: bool = True
    storage: str = ""
    # The replacement of a component, by factor: "tower", "doc-tower", "miner", "storage".
    other: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Factor:
    """An ingredient that can be taken out of this configuration."""

    name: str = ""
    rank: int = 0  # `name` and `rank` come from the rule
    what: str  # the change: 'accumulation 8 -> 1'
    edits: Mapping[str, Any] = field(default_factory=dict)
    implies: tuple[str, ...] = ()
    component: bool = False
    # Data to be written first: `rows`, `length` or `storage` (see `rewrite_data`).
    rewrite: Mapping[str, int | str] = field(default_factory=dict)

    def ingredient(self) -> Ingredient:
        return Ingredient(
            name=self.name,
            rank=self.rank,
            implies=frozenset(self.implies),
            component=self.component,
        )


@dataclass(frozen=True)
class Survey:
    """The input of a rule."""

    flat: Mapping[str, Any]
    facts: DataFacts
    most_copied: int = MOST_COPIED

    def number(self, key: str) -> int:
        value = self.flat.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    def device_option(self, name: str) -> str | None:
        """The key of an option of the device in use; None if it has no such option."""
        key = f"device.{self.flat.get('device.name')}.{name}"
        return key if key in self.flat else None

    @property
    def samples(self) -> int:
        return self.number("train.batch_size") * self.number("train.accumulate")

    @property
    def mines(self) -> bool:
        return self.number("miner.negatives") > 0


Rule = Callable[[Survey], Factor | str]  # the factor, or why it does not apply


def factors_of(survey: Survey) -> tuple[list[Factor], dict[str, str]]:
    """The factors that apply; for the other names the reason."""
    factors: list[Factor] = []
    passed: dict[str, str] = {}
    for place, (name, rule) in enumerate(RULES.items(), start=1):
        factor = rule(survey)
        if isinstance(factor, str):
            passed[name] = factor
        else:
            factors.append(replace(factor, name=name, rank=10 * place))
    return factors, passed


def edits_of(factors: Iterable[Factor]) -> dict[str, Any]:
    """The merged edits; edits of data come from the files that were written (see `edits_for`)."""
    merged: dict[str, Any] = {}
    for factor in factors:
        merged |= factor.edits
    return merged


def _changed(what: str, key: str, now: object, then: object, **more: Any) -> Factor:
    return Factor(what=f"{what} {now} -> {then}", edits={key: then}, **more)


# --- settings: from those that change no number to those that change the training -----------------


def _isolation(survey: Survey) -> Factor | str:
    if not survey.mines:
        return "the configuration has no mining"
    if survey.flat.get("miner.isolation") != "none":
        return "the miner already has its own process"
    return Factor(
        what="the miner in its own process",
        edits={"miner.isolation": "process"},
        implies=("mining",),
    )


def _accumulation(survey: Survey) -> Factor | str:
    now = survey.number("train.accumulate")
    if now < 2:
        return "a step already has only one micro-batch"
    return _changed("accumulation", "train.accumulate", now, 1)


def _batch_size(survey: Survey) -> Factor | str:
    now = survey.number("train.batch_size")
    smaller = max(2, now // 4)
    if smaller >= now:
        return f"a micro-batch already has only {now} samples"
    return Factor(
        what=f"micro-batch {now} -> {smaller}",
        edits={"train.batch_size": smaller, "train.fuse": 1},
    )


def _threads(survey: Survey) -> Factor | str:
    edits = {key: 1 for key in ("device.threads", "miner.threads") if survey.number(key) > 1}
    if not edits:
        return "it already uses one thread"
    now = max(survey.number(key) for key in edits)
    return Factor(what=f"threads {now} -> 1", edits=edits)


def _sync(survey: Survey) -> Factor | str:
    key = survey.device_option("sync")
    if key is None:
        return "the device has no option for it"
    now = survey.flat[key]
    if now == "micro-batch":
        return "it already waits for the device after each micro-batch"
    return _changed("waiting for the device", key, now, "micro-batch")


def _empty_cache(survey: Survey) -> Factor | str:
    # Both were blamed by somebody: a cache that grows, and emptying it.
    key = survey.device_option("empty_cache")
    if key is None:
        return "the device has no option for it"
    now = survey.flat[key]
    return _changed("emptying the cache", key, now, "step" if now == "never" else "never")


def _precision(survey: Survey) -> Factor | str:
    now = survey.flat.get("device.precision")
    if now == "fp32":
        return "it is already fp32"
    return _changed("precision", "device.precision", now, "fp32")


def _memory_bank(survey: Survey) -> Factor | str:
    now = survey.number("loss.memory_bank")
    if not now:
        return "the configuration has no memory bank"
    return _changed("memory bank", "loss.memory_bank", now, 0)


def _dropout(survey: Survey) -> Factor | str:
    keys = [f"tower.{side}.dropout" for side in ("query", "doc")]
    on = [key for key in keys if isinstance(survey.flat.get(key), float) and survey.flat[key] > 0]
    if not on:
        return "the configuration has no dropout"
    return Factor(what="dropout -> 0", edits=dict.fromkeys(on, 0.0))


# --- data ----------------------------------------------------------------------------------------


def _copy_problem(survey: Survey, size: int) -> str:
    """Why the data cannot be copied; empty if it can."""
    if not survey.facts.pairs:
        return "the data could not be read"
    if not survey.facts.local:
        return "the data is not on this machine"
    if size > survey.most_copied:
        return f"{size / 1e9:.1f} GB would be copied; to allow it, use --copy-most"
    return ""


def _sequence_length(survey: Survey) -> Factor | str:
    facts = survey.facts
    if not facts.pairs or not facts.sequence:
        return "the queries are not sequences"
    now = facts.length
    then = 2 if now == 1 else max(1, now // 2)
    problem = _copy_problem(survey, facts.pairs_bytes * then // now)
    if problem:
        return problem
    return Factor(what=f"sequence length {now} -> {then}", rewrite={"length": then})


def _data_subset(survey: Survey) -> Factor | str:
    pairs = survey.facts.pairs
    problem = _copy_problem(survey, survey.facts.pairs_bytes // 2)
    if problem:
        return problem
    if pairs // 2 < survey.samples:
        return f"half of the {pairs} pairs are fewer than the {survey.samples} samples of one step"
    what = f"the first {pairs // 2} of {pairs} training pairs"
    return Factor(what=what, rewrite={"rows": pairs // 2})


# --- components -----------------------------------------------------------------------------------


def _miner(survey: Survey) -> Factor | str:
    if not survey.mines:
        return "the configuration has no mining"
    other = survey.facts.other.get("miner")
    if other is None:
        return "no other miner works on this machine"
    now = survey.flat.get("miner.name")
    return _changed("miner", "miner.name", now, other, implies=("mining",), component=True)


def _mining(survey: Survey) -> Factor | str:
    if not survey.mines:
        return "the configuration has no mining"
    return Factor(what="no mined negatives", edits={"miner.negatives": 0})


def _storage(survey: Survey) -> Factor | str:
    other = survey.facts.other.get("storage")
    problem = _copy_problem(survey, survey.facts.data_bytes)
    if problem or other is None:
        return problem or "no other storage works on this machine"
    what = f"storage {survey.facts.storage} -> {other}"
    return Factor(what=what, rewrite={"storage": other}, component=True)


def _observers(survey: Survey) -> Factor | str:
    now = survey.flat.get("observers")
    if not now:
        return "the configuration has no observers"
    what = f"without the observers {', '.join(now)}"
    return Factor(what=what, edits={"observers": []}, component=True)


def _doc_tower(survey: Survey) -> Factor | str:
    other, now = survey.facts.other.get("doc-tower"), survey.flat.get("tower.doc.name")
    if other is None:
        return f"the document tower is {now}, or no other tower fits"
    return _changed("document tower", "tower.doc.name", now, other, component=True)


def _tower(survey: Survey) -> Factor | str:
    other, now = survey.facts.other.get("tower"), survey.flat.get("tower.query.name")
    if other is None:
        return "no other tower fits"
    return _changed("query tower", "tower.query.name", now, other, component=True)


def _device(survey: Survey) -> Factor | str:
    now = survey.flat.get("device.name")
    if now == "cpu":
        return "it already runs on the cpu"
    return _changed("device", "device.name", now, "cpu", component=True)


# In the order of ranks: if several avoid the crash, the first is named.
RULES: Final[Mapping[str, Rule]] = {
    "isolation": _isolation,
    "accumulation": _accumulation,
    "batch-size": _batch_size,
    "threads": _threads,
    "sync": _sync,
    "empty-cache": _empty_cache,
    "precision": _precision,
    "memory-bank": _memory_bank,
    "dropout": _dropout,
    "sequence-length": _sequence_length,
    "data-subset": _data_subset,
    "miner": _miner,
    "mining": _mining,
    "storage": _storage,
    "observers": _observers,
    "doc-tower": _doc_tower,
    "tower": _tower,
    "device": _device,
}
