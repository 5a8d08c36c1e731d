"""Facts for a study before its first run: the configuration with every "auto" settled, facts about
the data, and which other towers, miners and containers could be used.

Loads torch and the user's plugins: called only in a child process (`ttf.tools.studies.child`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, cast

from ttf.config.resolve import Resolved, flat, resolve
from ttf.errors import TtfError
from ttf.host import plugins

if TYPE_CHECKING:
    from ttf.contracts import Kind, StorageFactory
    from ttf.data.dataset import Dataset
    from ttf.process.serve import Tell
    from ttf.training.auto_settings import Decided
    from ttf.training.towers import Specs

_TOWERS: Final = ("linear", "mlp", "gru", "lstm", "transformer")
_MINERS: Final = ("exact", "hnswlib", "faiss")
_NOT_PINNED: Final = ("train.grad_cache",)  # Settled anew if other settings change.


def survey(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """`flat`, `pins` (values that keep every "auto" as it is), `facts`, `data`, `total_steps`.

    Without `look` the data stays closed and nothing is settled: for a configuration that kills the
    process that opens it. Raises what a run would raise for its configuration and its data.
    """
    from ttf.data.demo import with_demo
    from ttf.text.progress import Reporter
    from ttf.training.launch import prepared_policy

    given = resolve(Path(request["toml"]), request["sets"])
    policy = prepared_policy(given)
    resolved = with_demo(given, Reporter())
    if not request["look"]:
        return _without_data(resolved)
    from ttf.data.open_dataset import open_dataset
    from ttf.training.auto_settings import decide

    with open_dataset(resolved.config.data, seed=resolved.config.train.seed) as data:
        decided = decide(resolved, data, policy)
        facts = _facts(decided, data)
    given_flat, settled = flat(given.config), flat(decided.config)
    pins = {
        key: value
        for key, value in settled.items()
        if key in given_flat and given_flat[key] != value and key not in _NOT_PINNED
    }
    return {
        "flat": settled,
        "pins": pins,
        "facts": facts,
        "data": _data(decided.resolved),
        "total_steps": decided.total_steps,
    }


def _without_data(resolved: Resolved) -> dict[str, Any]:
    config = resolved.config
    towers = _candidates("tower", _TOWERS, config.tower.query.name)
    other = {"tower": next(iter(towers), None), "miner": _miner(config.miner.name)}
    return {
        "flat": flat(config),
        "pins": {},
        "facts": {"other": {kind: name for kind, name in other.items() if name}},
        "data": _data(resolved),
        "total_steps": config.train.steps,
    }


def _data(resolved: Resolved) -> dict[str, Any]:
    return resolved.config.data.model_dump(mode="json")


def _facts(decided: Decided, data: Dataset) -> dict[str, Any]:
    from ttf.host.plugins import is_local, storage_for

    config = decided.config
    specs = decided.specs
    given = config.data
    assert given.pairs is not None
    uris = [uri for uri in (given.pairs, given.bank, given.context) if uri]
    local = all(is_local(uri) for uri in uris)
    storage = storage_for(given.pairs, given.storage)
    queries = data.train.queries
    trainable_doc = specs.doc.cost().parameters > 0
    other = {
        "tower": _tower("query", specs, trainable_doc),
        "doc-tower": _doc_tower(specs),
        "miner": _miner(config.miner.name),
        "storage": _storage(storage),
    }
    return {
        "pairs": len(data.train),
        "length": queries.length,
        "sequence": queries.sequence,
        "pairs_bytes": _size(uris[0]) if local else 0,
        "data_bytes": sum(map(_size, uris)) if local else 0,
        "local": local,
        "storage": storage,
        "other": {kind: name for kind, name in other.items() if name is not None},
    }


def _size(uri: str) -> int:
    path = Path(uri)
    files = [p for p in path.rglob("*") if p.is_file()] if path.is_dir() else [path]
    return sum(p.stat().st_size for p in files)


def _tower(side: str, specs: Specs, trainable_doc: bool) -> str | None:
    """The first other tower with the same shapes that leaves something to train."""
    from ttf.config.schema import TowerConfig
    from ttf.training.towers import TowerSpec

    for name in _candidates("tower", _TOWERS, specs.query.name):
        try:
            cost = TowerSpec(side, TowerConfig(name=name), specs.query.shape).cost()
        except TtfError:
            continue
        if cost.parameters or trainable_doc:
            return name
    return None


def _doc_tower(specs: Specs) -> str | None:
    trainable_query = specs.query.cost().parameters > 0
    return "identity" if specs.doc.name != "identity" and trainable_query else None


def _miner(now: str) -> str | None:
    return next(iter(_candidates("miner", _MINERS, now)), None)


def _storage(now: str) -> str | None:
    for name in _candidates("storage", (), now):
        if cast("StorageFactory", plugins.load("storage", name)).suffixes:
            return name
    return None


def _candidates(kind: Kind, first: Sequence[str], now: str) -> Iterable[str]:
    """Plugins that can run here; ours first, since every user has them."""
    owner = {p.name: p.distribution for p in plugins.installed() if p.kind == kind}
    rank = {name: number for number, name in enumerate(first)}
    names = sorted(
        plugins.choices(kind),
        key=lambda n: (owner.get(n) != plugins.OURS, rank.get(n, len(rank)), n),
    )
    for name in names:
        if name == now:
            continue
        try:
            plugins.usable(kind, name)
        except TtfError:
            continue
        yield name
