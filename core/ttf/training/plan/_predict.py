"""The arithmetic of a prediction: functions of configuration, data and choices."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ttf.config.fusing import fusing
from ttf.config.schema import MOST_CANDIDATES_OF_AUTO
from ttf.data.ahead import usual
from ttf.host import plugins
from ttf.machine.memory.limits import Limit, budget_bytes as memory_budget
from ttf.mining.choose import miner_context
from ttf.text.numbers import size
from ttf.training.blocks import block_rows
from ttf.training.plan._calibration import calibration_items
from ttf.training.plan._evaluation import evaluation_items
from ttf.training.plan._kept_queries import kept_queries
from ttf.training.plan._model import ArrayFacts, Choices, DataFacts, Item, Plan
from ttf.training.plan._worker import (
    MB,
    TORCH_SCRATCH,
    fewer_threads,
    worker_items,
)
from ttf.training.remarks import remarks
from ttf.training.schedule import gate_results, num_evaluations, num_refreshes

if TYPE_CHECKING:
    from ttf.config.schema import RunConfig
    from ttf.contracts import DevicePolicy, MinerCost, MinerTraits
    from ttf.data.dataset import Dataset
    from ttf.training.auto_settings import Decided

BUFFERED = "micro-batches in memory"
FLOAT = 4

# Anonymous memory of the processes before they hold data (Linux x86-64, torch 2.13, numpy 2.4; two
# arenas for malloc): benchmarks/bench_memory.py compares.
SUPERVISOR_BYTES = 20 * MB
BASE_BYTES = 215 * MB
BACKWARD = 2  # Activations and their gradients, at most: for decisions that must stay as they are.
# What forward and backward really held, as a multiple of the activations: GRU 1.2, LSTM 0.7,
# transformer 1.3 to 1.6.
ACTIVATIONS_HELD = 1.4
LOGITS_AT_ONCE = 2048  # Columns of documents without gradients: `ttf.training.loss.infonce`.
BUFFERED_BESIDE = 2  # Micro-batches beside those read ahead: one being made, one in use.
OPTIMIZER_BYTES = 16  # Per trained weight: weight, gradient, two moments of AdamW.
CHECKPOINT_BYTES = 12  # Per trained weight: weight and two moments.
ENTRY_BYTES = 12  # Per entry of a candidate table: an int64 id and a float32 score.
METRICS_LINE = 260
_ENCODED_BLOCKS = 4  # As stored, as float32, within the tower, and its result.
ENCODED_VS_TRAINED = 3  # Forward and backward take three times the work of a forward.

# Of recurrent towers on one core of a 2024 server processor.
GFLOPS_PER_THREAD = {"fp32": 60.0, "bf16": 120.0}

LEAST_BATCH, MOST_BATCH = 16, 1024
ACTIVATION_BUDGET = 128 << 20


def auto_batch_size(
    activation_bytes_per_sample: int,
    *,
    budget_bytes: int = ACTIVATION_BUDGET,
    least: int = LEAST_BATCH,
    most: int = MOST_BATCH,
) -> int:
    """The largest power of two, within the bounds, whose activations stay within the budget.

    >>> [auto_batch_size(b) for b in (1_000, 1 << 20, 3_900_000, 1 << 30)]
    [1024, 128, 32, 16]
    """
    size = least
    while size * 2 <= most and size * 2 * activation_bytes_per_sample <= budget_bytes:
        size *= 2
    return size


def plan_of(
    decided: Decided,
    data: Dataset,
    policy: DevicePolicy,
    limit: Limit,
    *,
    arrays: tuple[ArrayFacts, ...] = (),
) -> Plan:
    """The plan of an open run. `limit`: of memory. `arrays` only describe the files."""
    return make_plan(decided.config, _facts(data, arrays), _choices(decided, data, policy), limit)


def _choices(decided: Decided, data: Dataset, policy: DevicePolicy) -> Choices:
    config = decided.config
    specs = decided.specs
    bank = config.loss.memory_bank
    assert isinstance(bank, int)
    rounds = num_refreshes(config.miner, decided.order, decided.total_steps)
    cost, traits = _miner_cost(decided, data, policy) if config.miner.negatives else (None, None)
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
        gates=tuple(gate_results(config.gates, decided.order)),
        patience=config.evaluate.patience if config.evaluate.patience != "auto" else 0,
        notes=(*remarks(decided, data), *filter(None, [fusing(decided.plan)])),
    )


def _miner_cost(
    decided: Decided, data: Dataset, policy: DevicePolicy
) -> tuple[MinerCost, MinerTraits]:
    config = decided.config
    factory = plugins.usable("miner", config.miner.name)
    budget = memory_budget(config.memory.budget)
    # `decide` has checked them.
    options = factory.options_type(**config.miner.options_of(config.miner.name))
    context = miner_context(config, policy.threads, budget)
    queries = min(len(data.train), decided.total_steps * decided.plan.samples)
    rows, dim = data.bank.shape
    k = config.miner.num_candidates
    if config.miner.candidates != "nearest":
        # What lies near a ceiling is scored as well: as much as of the 200 nearest (decision 0031).
        k = max(k, MOST_CANDIDATES_OF_AUTO)
    cost = factory.estimate(rows, dim, queries, k, options, context)
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
        own_negatives=data.train.num_own,
        arrays=arrays,
    )


def make_plan(config: RunConfig, facts: DataFacts, choices: Choices, limit: Limit) -> Plan:
    """Predicts a run. `limit`: of memory."""
    rate = GFLOPS_PER_THREAD.get(choices.precision, GFLOPS_PER_THREAD["fp32"])
    flops_per_s = rate * 1e9 * choices.threads
    items = [
        *_process(choices),
        *_training(config, facts, choices, flops_per_s),
        *_mining(config, facts, choices, flops_per_s),
        *evaluation_items(config, facts, choices, flops_per_s),
        *calibration_items(config, facts, choices, flops_per_s),
        *_files(config, facts, choices),
    ]
    return Plan(
        facts=facts,
        choices=choices,
        towers=(config.tower.query.name, config.tower.doc.name),
        items=tuple(items),
        limit=limit,
        gflops_per_thread=rate,
    )


def _process(choices: Choices) -> Iterator[Item]:
    yield Item(
        component="supervisor", phase="always", anon_bytes=SUPERVISOR_BYTES, why="as measured"
    )
    yield Item(
        component="python and torch", phase="always", anon_bytes=BASE_BYTES, why="as measured"
    )
    yield Item(
        component="library scratch",
        phase="always",
        anon_bytes=TORCH_SCRATCH * choices.threads,
        why=f"{TORCH_SCRATCH // MB} MB per thread",
        lower=fewer_threads(choices),
    )
    frozen = choices.parameters - choices.trained_parameters
    yield Item(
        component="weights, gradients, AdamW",
        phase="always",
        anon_bytes=OPTIMIZER_BYTES * choices.trained_parameters + FLOAT * frozen,
        why=f"{choices.trained_parameters:,} trained weights x {OPTIMIZER_BYTES} B",
    )


def _training(
    config: RunConfig, facts: DataFacts, choices: Choices, flops_per_s: float
) -> Iterator[Item]:
    batch, width = choices.batch, facts.doc_dim
    smaller = f"--batch-size (now {batch.micro_batch:,})" if batch.micro_batch > 1 else ""
    documents = step_documents(config, facts, choices)
    candidates = documents + choices.memory_bank
    ahead, usually = read_ahead(config, batch.accumulate), usual(batch.accumulate)
    buffered = ahead + BUFFERED_BESIDE
    yield Item(
        component=BUFFERED,
        phase="training",
        anon_bytes=buffered * batch.micro_batch * facts.length * facts.in_dim * FLOAT,
        why=f"{buffered} x {batch.micro_batch} x {facts.length} x {facts.in_dim} x 4 B",
        lower=smaller if ahead <= usually else f"--set memory.read_ahead=... (now {ahead})",
    )
    chunks = batch.samples if _whole_step(config) else batch.micro_batch
    activations = batch.micro_batch * choices.query.activation_bytes
    if not choices.doc_frozen:
        activations += documents * choices.doc.activation_bytes
    yield Item(
        component="activations",
        phase="training",
        anon_bytes=round(ACTIVATIONS_HELD * activations),
        why=f"{batch.micro_batch} queries x {choices.query.activation_bytes:,} B"
        + ("" if choices.doc_frozen else " and the step's documents")
        + f", x {ACTIVATIONS_HELD:g} with the backward pass",
        lower=smaller,
    )
    yield Item(
        component="memory bank and candidates",
        phase="always",
        anon_bytes=candidates * width * FLOAT,
        why=f"({choices.memory_bank:,} + {documents:,} of the step) x {width} x 4 B",
        lower=f"--memory-bank (now {choices.memory_bank:,})" if choices.memory_bank else smaller,
    )
    yield Item(
        component="documents of the next steps",
        phase="training",
        anon_bytes=2 * documents * width * FLOAT,
        why=f"2 x {documents:,} x {width} x 4 B",
        lower=smaller,
    )
    in_blocks = choices.doc_frozen and choices.device == "cpu"
    columns = min(candidates, LOGITS_AT_ONCE) if in_blocks else candidates
    yield Item(
        component="logits",
        phase="training",
        anon_bytes=2 * chunks * columns * FLOAT,
        why=f"{chunks:,} x {columns:,} x 4 B x 2",
        lower=smaller,
    )
    if config.loss.teacher:
        scored = 1 + facts.own_negatives
        yield Item(
            component="documents with scores of a teacher",
            phase="training",
            anon_bytes=2 * chunks * scored * width * FLOAT,
            why=f"{chunks:,} x {scored} x {width} x 4 B x 2",
            lower=smaller,
        )
    towers = choices.query.forward_flops + choices.doc.forward_flops
    work = choices.samples * ENCODED_VS_TRAINED * (towers + 2 * candidates * width)
    yield Item(
        component="training",
        phase="training",
        seconds=work / flops_per_s,
        why=f"{choices.samples:,} samples x 3 forwards",
    )


def read_ahead(config: RunConfig, micro_batches: int) -> int:
    """Micro-batches that the gather thread holds before they are asked for; a step has so many."""
    asked = config.memory.read_ahead
    return usual(micro_batches) if asked == "auto" else asked


def step_documents(config: RunConfig, facts: DataFacts, choices: Choices) -> int:
    # At most: every target and every negative of a step is a different document.
    mined = config.miner.num_negatives if choices.miner else 0
    return choices.batch.samples * (1 + mined + facts.own_negatives)


def _whole_step(config: RunConfig) -> bool:
    return bool(config.train.grad_cache is True or config.loss.symmetric)


def _mining(
    config: RunConfig, facts: DataFacts, choices: Choices, flops_per_s: float
) -> Iterator[Item]:
    cost = choices.miner_cost
    if not choices.miner or cost is None:
        return
    queries = mined_queries(facts, choices)
    if config.miner.isolation == "process":
        yield from worker_items(choices)
    yield Item(
        component=f"miner {choices.miner}, index and blocks",
        phase="always" if choices.miner_keeps_index else "mining",
        anon_bytes=cost.anon_bytes,
        disk_bytes=cost.disk_bytes,
        seconds=cost.build_s + choices.refreshes * cost.search_s,
        why=f"{choices.refreshes} round(s) of {queries:,} queries",
        lower=f"--set memory.budget=... (now {size(memory_budget(config.memory.budget))})",
    )
    entries = queries * config.miner.num_candidates
    yield Item(
        component="mined ids and scores",
        phase="training",  # read after the search, when the miner has given its memory back
        anon_bytes=entries * ENTRY_BYTES,
        why=f"{queries:,} x {config.miner.num_candidates} x {ENTRY_BYTES} B",
        lower=f"--set miner.k=... (now {config.miner.num_candidates:,})"
        if config.miner.num_candidates > 1
        else "",
    )
    encoded = 1 if config.miner.queries == "reuse" else choices.refreshes
    yield from kept_queries(config, facts, choices)
    yield Item(
        component="encoded queries",
        phase="mining",
        disk_bytes=queries * facts.doc_dim * FLOAT,
        seconds=encoded * queries * choices.query.forward_flops / flops_per_s,
        why=f"{queries:,} x {facts.doc_dim} x 4 B, mapped, in {encoded} round(s)",
    )
    if not choices.doc_frozen:
        rows, budget = facts.bank_rows, memory_budget(config.memory.budget)
        at_once = min(rows, block_rows(budget, facts.doc_dim))
        yield Item(
            component="encoded documents",
            phase="mining",
            anon_bytes=_ENCODED_BLOCKS * at_once * facts.doc_dim * FLOAT,
            disk_bytes=rows * facts.doc_dim * FLOAT,
            seconds=choices.refreshes * rows * choices.doc.forward_flops / flops_per_s,
            why=f"{rows:,} x {facts.doc_dim} x 4 B, written for each round",
        )
    tables = min(config.checkpoint.keep + 1, choices.refreshes)
    yield Item(
        component="candidate tables",
        phase="training",
        disk_bytes=tables * entries * ENTRY_BYTES,
        why=f"{queries:,} x {config.miner.num_candidates:,} x {ENTRY_BYTES} B, {tables} kept, mapped",
    )


def mined_queries(facts: DataFacts, choices: Choices) -> int:
    # Queries of a mining round: those of its window, at most all.
    if not choices.refreshes:
        return 0
    return min(facts.train_pairs, -(-choices.samples // choices.refreshes))


def _files(config: RunConfig, facts: DataFacts, choices: Choices) -> Iterator[Item]:
    best = FLOAT if config.evaluate.keep_best else 0
    one = choices.trained_parameters * (CHECKPOINT_BYTES + best) + 8 * choices.memory_bank
    if not choices.doc_frozen:
        one += choices.memory_bank * facts.doc_dim * FLOAT
    older = int(choices.refreshes > 1)  # see `verified_folders.prune`
    yield Item(
        component="checkpoints",
        phase="training",
        disk_bytes=(config.checkpoint.keep + 1 + older) * one,
        why=f"{config.checkpoint.keep} kept, {'one of an older table, ' * older}and one that is being "
        "written",
    )
    if config.evaluate.keep_best:
        yield Item(
            component="weights of the best evaluation",
            phase="always",
            anon_bytes=FLOAT * choices.parameters,
            why=f"{choices.parameters:,} x 4 B",
        )
    yield Item(
        component="model and logs",
        phase="training",
        disk_bytes=FLOAT * choices.parameters + METRICS_LINE * choices.total_steps,
        why="model/, metrics.jsonl",
    )
