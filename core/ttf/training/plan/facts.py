"""`--plan`: opens the data, decides what a run would decide, and predicts from these facts."""

from __future__ import annotations

from ttf.config.resolve import Resolved
from ttf.config.schema import DataConfig
from ttf.contracts import DevicePolicy, MinerCost, MinerTraits, VectorSource
from ttf.data.dataset import Dataset
from ttf.data.open_dataset import open_dataset
from ttf.host import plugins
from ttf.host.plugins import open_store
from ttf.mining.choose import checked_options, miner_context
from ttf.training.auto_settings import Decided, decide
from ttf.training.plan import ArrayFacts, Choices, DataFacts, Plan, make_plan
from ttf.training.remarks import remarks
from ttf.training.schedule import num_evaluations, num_refreshes


def predict(resolved: Resolved, policy: DevicePolicy) -> Plan:
    """Reads headers and positives; builds no tower and writes nothing."""
    with open_dataset(resolved.config.data, seed=resolved.config.train.seed) as data:
        decided = decide(resolved, data, policy)
        return plan_of(decided, data, policy, arrays=_arrays(data, decided.config.data))


def plan_of(
    decided: Decided, data: Dataset, policy: DevicePolicy, *, arrays: tuple[ArrayFacts, ...] = ()
) -> Plan:
    """The plan of an open run. `arrays` only describe the files."""
    return make_plan(decided.config, _facts(data, arrays), _choices(decided, data, policy))


def _choices(decided: Decided, data: Dataset, policy: DevicePolicy) -> Choices:
    config = decided.config
    specs = decided.specs
    bank = config.loss.memory_bank
    assert isinstance(bank, int)
    rounds = num_refreshes(config.miner, decided.order, decided.total_steps)
    cost, traits = _mining(decided, data, policy) if config.miner.negatives else (None, None)
    return Choices(
        query=specs.query.cost(),
        doc=specs.doc.cost(),
        doc_frozen=specs.doc.cost().parameters == 0,
        batch=decided.plan,
        total_steps=decided.total_steps,
        device=policy.name,
        threads=policy.threads,
        precision=decided.precision.name,
        memory_bank=bank,
        miner=config.miner.name if config.miner.negatives else "",
        miner_cost=cost,
        miner_needs_torch=traits is not None and traits.needs_torch,
        # An index of documents that change is built anew for each round.
        miner_keeps_index=traits is not None
        and traits.has_index
        and specs.doc.cost().parameters == 0,
        refreshes=rounds if config.miner.negatives else 0,
        evaluations=1 + num_evaluations(decided.total_steps, config.evaluate.every, decided.order),
        patience=config.evaluate.patience if config.evaluate.patience != "auto" else 0,
        notes=tuple(remarks(decided, data)),
    )


def _mining(decided: Decided, data: Dataset, policy: DevicePolicy) -> tuple[MinerCost, MinerTraits]:
    config = decided.config
    factory = plugins.usable("miner", config.miner.name)
    options = checked_options(factory, config.miner.options_of(config.miner.name))
    context = miner_context(config, policy.threads)
    queries = min(len(data.train), decided.total_steps * decided.plan.samples)
    rows, dim = data.bank.shape
    cost = factory.estimate(rows, dim, queries, config.miner.k, options, context)
    return cost, factory.traits(options, context)


def _facts(data: Dataset, arrays: tuple[ArrayFacts, ...]) -> DataFacts:
    queries = data.train.queries
    return DataFacts(
        train_pairs=len(data.train),
        val_pairs=len(data.val),
        length=queries.length,
        in_dim=queries.dim,
        sequence=queries.sequence,
        doc_dim=data.bank.shape[1],
        bank_rows=data.bank.shape[0],
        distinct_documents=data.distinct_documents,
        arrays=arrays,
    )


def _arrays(data: Dataset, config: DataConfig) -> tuple[ArrayFacts, ...]:
    queries = data.train.queries
    sources = [queries.source, queries.context, data.val.queries.source, data.bank]
    arrays = [_array(source, config) for source in sources if source is not None]
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
        dtype=stored.dtype,
        bytes=int(known["bytes"]),
        mappable=bool(known["mappable"]),
        aligned=bool(known["aligned"]),
    )
