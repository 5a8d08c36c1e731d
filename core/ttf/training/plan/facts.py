"""`--plan`: opens the data, decides what a run would decide, and describes the files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from ttf.config.resolve import Resolved
from ttf.config.schema import DataConfig
from ttf.contracts import DevicePolicy, VectorSource
from ttf.data.dataset import Dataset
from ttf.data.first_look import look
from ttf.data.items import Items
from ttf.data.open_dataset import open_dataset
from ttf.host.plugins import open_store
from ttf.machine.memory.run_limit import run_limit
from ttf.training.fetching import to_fetch
from ttf.training.memory.start import decide_within
from ttf.training.plan import ArrayFacts, Plan, plan_of
from ttf.training.plan.scaled import scale_plan, shape_of
from ttf.training.towers import check_init


def predict(resolved: Resolved, policy: DevicePolicy, nodes: int = 1, ranks: int = 1) -> Plan:
    """Reads headers and positives; builds no tower and writes nothing. `ranks`: of each node."""
    init = resolved.config.train.init
    if init is not None:
        check_init(Path(init))
    config = resolved.config
    teacher = config.loss.teacher > 0
    with open_dataset(config.data, seed=config.train.seed, teacher=teacher) as data:
        limit = run_limit(resolved.config.memory.limit)
        fitted = decide_within(resolved, data, policy, limit)
        missing = to_fetch(data)
        data.notes += [missing] if missing else look(data)
        arrays = _arrays(data, fitted.decided.config.data)
        plan = plan_of(fitted.decided, data, policy, limit, arrays=arrays)
    if nodes * ranks == 1:
        return plan
    config = fitted.decided.config
    shape = shape_of(config.train.shards, nodes, ranks)
    return replace(plan, scale=scale_plan(plan, config, shape))


def _arrays(data: Dataset, config: DataConfig) -> tuple[ArrayFacts, ...]:
    queries = data.train.queries
    sources = [queries.source, queries.context, data.val.queries.source, data.bank]
    stored = [source for source in sources if not (source is None or isinstance(source, Items))]
    arrays = [_array(source, config) for source in stored]
    return tuple({(a.uri, a.name): a for a in arrays}.values())


def _array(source: VectorSource, config: DataConfig) -> ArrayFacts:
    # A view over several arrays is described by its first.
    name = source.name.split("+")[0]
    store = open_store(source.uri, config.storage, config.missing)
    try:
        known = store.describe(name)
        stored = store.source(name)
    finally:
        store.close()
    return ArrayFacts(
        name=source.name,
        uri=source.uri,
        shape=stored.shape,
        dtype=known.get("dtype") or stored.dtype,  # in the file: that is what `bytes` counts
        bytes=int(known["bytes"]),
        mappable=bool(known["mappable"]),
        aligned=bool(known["aligned"]),
    )
