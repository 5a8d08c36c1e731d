"""What a study may vary, from the facts about the data; pure.

A value that the user gave as a flag or with --set stays as it is. A value of the file is where the
search starts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from ttf.tools.tune.setup import DOC_TOWER, TOWER, Dimension

_VECTOR_TOWERS: Final = ("linear", "mlp")
_HIDDEN: Final = (256, 512, 1024, 2048)
_BATCHES: Final = (64, 128, 256, 512, 1024, 2048, 4096)
_FEWEST_STEPS: Final = 16  # of an epoch
_MOST_TIMES_BATCH: Final = 4  # of sequences: their activations grow with the batch
_NEGATIVES: Final = 4
_MEMORY_BANK: Final = 8192  # documents; more cost more than they bring
_EPOCHS: Final = (2, 24)
_EPOCHS_OF_MANY: Final = (1, 8)
_MANY_PAIRS: Final = 500_000
# Above these a trained document tower, or a mining round, costs more than a short trial.
_LARGEST_BANK: Final = 200_000
_LARGEST_ROUND: Final = 5_000_000_000  # pairs times documents
_LR: Final = (2e-4, 2e-2)
_TEMPERATURE: Final = (0.01, 0.2)
_MOST_DROPOUT: Final = 0.7


def is_pinned(origin: str) -> bool:
    """The user gave it to this command.

    >>> is_pinned("--set"), is_pinned("lr="), is_pinned("run.toml:3"), is_pinned("default")
    (True, True, False, False)
    """
    return origin.startswith("--") or origin.endswith("=")


def space_of(found: Mapping[str, Any]) -> tuple[Dimension, ...]:
    """`found`: the answer of `ttf.tools.tune.facts`."""
    origins, settled = found["origins"], found["settled"]
    pinned = {key for key, origin in origins.items() if is_pinned(origin)}
    wanted = [*_towers(found, pinned), *_training(found)]
    out = []
    for dimension in wanted:
        if dimension.key in pinned:
            continue
        fixed = {k: v for k, v in dimension.only_if.items() if k in pinned}
        if any(settled.get(key) != value for key, value in fixed.items()):
            continue
        free = {k: v for k, v in dimension.only_if.items() if k not in pinned}
        out.append(_with_start(dimension, settled, free))
    return tuple(out)


def _with_start(
    dimension: Dimension, settled: Mapping[str, Any], only_if: Mapping[str, Any]
) -> Dimension:
    """With the value of the start among the choices, so that the sampler learns from the start."""
    value, choices, low, high = (
        settled.get(dimension.key),
        dimension.choices,
        dimension.low,
        dimension.high,
    )
    applies = all(settled.get(key) == wanted for key, wanted in only_if.items())
    if applies and value is not None and not dimension.holds(value):
        if dimension.key == TOWER:
            pass  # Its choices are decided below, with or without the start's.
        elif dimension.kind == "choice":
            choices = (*choices, value)
        elif value > 0:
            low, high = min(low, value), max(high, value)
    return Dimension(
        key=dimension.key, kind=dimension.kind, low=low, high=high, choices=choices, only_if=only_if
    )


def _towers(found: Mapping[str, Any], pinned: set[str]) -> Iterator[Dimension]:
    settled, origins = found["settled"], found["origins"]
    if settled["data.items"] is not None:
        return  # items have no vectors, so no other tower is possible
    own = settled[TOWER]
    # For sequences the usual tower is recurrent: it is worth its time there, and only there.
    keeps_own = found["length"] > 1 or origins.get(TOWER, "default") != "default"
    names: tuple[str, ...] = _VECTOR_TOWERS
    if own not in names and (keeps_own or TOWER in pinned):
        names = (own, *names)
    yield Dimension(key=TOWER, kind="choice", choices=names)
    is_mlp = {TOWER: "mlp"}
    yield Dimension(key="tower.query.hidden", kind="choice", choices=_HIDDEN, only_if=is_mlp)
    yield Dimension(
        key="tower.query.dropout", kind="float", low=0.0, high=_MOST_DROPOUT, only_if=is_mlp
    )
    if found["bank"] <= _LARGEST_BANK:
        yield Dimension(key=DOC_TOWER, kind="choice", choices=("identity", "linear", "mlp"))


def _training(found: Mapping[str, Any]) -> Iterator[Dimension]:
    settled, pairs = found["settled"], found["trial_pairs"]
    yield Dimension(key="train.lr", kind="float", low=_LR[0], high=_LR[1])
    low, high = _TEMPERATURE
    yield Dimension(key="loss.temperature", kind="float", low=low, high=high)
    yield Dimension(key="train.batch_size", kind="choice", choices=_batches(found))
    if settled["train.steps"] is None:
        low, high = _EPOCHS if pairs < _MANY_PAIRS else _EPOCHS_OF_MANY
        yield Dimension(key="train.epochs", kind="int", low=low, high=high)
    if pairs * found["bank"] <= _LARGEST_ROUND and settled["loss.negatives"] == "sampled":
        yield Dimension(key="miner.negatives", kind="choice", choices=(0, _NEGATIVES))
    if settled["loss.negatives"] == "sampled" and found["bank"] > _MEMORY_BANK:
        yield Dimension(key="loss.memory_bank", kind="choice", choices=(0, _MEMORY_BANK))
    yield Dimension(key="loss.symmetric", kind="choice", choices=(False, True))


def _batches(found: Mapping[str, Any]) -> tuple[int, ...]:
    settled = found["settled"]
    own, accumulate = settled["train.batch_size"], settled["train.accumulate"]
    most = found["trial_pairs"] // _FEWEST_STEPS // accumulate
    if found["length"] > 1:
        most = min(most, own * _MOST_TIMES_BATCH)
    return tuple(size for size in _BATCHES if size <= most) or (own,)


def start_point(space: Sequence[Dimension], settled: Mapping[str, Any]) -> dict[str, Any]:
    """The user's configuration as a point; empty if it lies outside of the space."""
    point: dict[str, Any] = {}
    for dimension in space:
        if dimension.applies({**settled, **point}):
            value = settled.get(dimension.key)
            if not dimension.holds(value):
                return {}
            point[dimension.key] = value
    return point


def first_points(space: Sequence[Dimension]) -> tuple[dict[str, Any], ...]:
    """Parts of points that are often good; the sampler fills in the rest. A short study then has
    tried more than chance."""
    batches = [d.choices for d in space if d.key == "train.batch_size"]
    largest = max((size for size in batches[0] if size <= 2048), default=0) if batches else 0
    lists: list[dict[str, Any]] = [
        {
            TOWER: "linear",
            DOC_TOWER: "identity",
            "train.lr": 3e-3,
            "loss.temperature": 0.05,
            "train.batch_size": 1024,
            "train.epochs": 8,
            "miner.negatives": 0,
            "loss.memory_bank": 0,
            "loss.symmetric": False,
        },
        {
            TOWER: "mlp",
            DOC_TOWER: "identity",
            "tower.query.hidden": 1024,
            "tower.query.dropout": 0.5,
            "train.lr": 2e-3,
            "loss.temperature": 0.05,
            "train.batch_size": 1024,
            "train.epochs": 8,
            "miner.negatives": 0,
            "loss.memory_bank": 0,
            "loss.symmetric": False,
        },
        {  # Two trained towers need large steps: with small ones they learn the noise of each.
            TOWER: "mlp",
            DOC_TOWER: "mlp",
            "tower.query.hidden": 1024,
            "tower.query.dropout": 0.3,
            "train.lr": 1e-3,
            "loss.temperature": 0.05,
            "train.batch_size": largest,
            "train.epochs": 12,
            "miner.negatives": 0,
            "loss.memory_bank": 0,
            "loss.symmetric": False,
        },
    ]
    held = {dimension.key: dimension for dimension in space}
    fitting = [
        {key: value for key, value in point.items() if key in held and held[key].holds(value)}
        for point in lists
    ]
    return tuple(
        {
            k: v
            for k, v in point.items()
            if all(point.get(c) == w for c, w in held[k].only_if.items())
        }
        for point in fitting
        if point
    )


def rounded(value: Any) -> Any:
    """With three digits: a file is for people, and more digits are chance.

    >>> rounded(0.0012345678), rounded(512), rounded("mlp"), rounded(False)
    (0.00123, 512, 'mlp', False)
    """
    return float(f"{value:.3g}") if isinstance(value, float) else value
