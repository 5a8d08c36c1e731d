"""What a run takes where the configuration says "auto" and the answer is a matter of cost: the query
tower, mined negatives, how often it is evaluated.

Pure functions of counts (pairs, documents, widths, multiplications), never of a timing: two runs of
one configuration decide alike, on any machine. The figures behind the limits: docs/results.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ttf.contracts import TowerCost
from ttf.errors import ConfigError

if TYPE_CHECKING:
    from ttf.config.evaluation_schema import EvaluateConfig
    from ttf.config.schema import MinerConfig
    from ttf.data.dataset import Dataset
    from ttf.data.order import Order
    from ttf.training.towers import TowerSpec

ENOUGH_CANDIDATES: Final = 1024
MEMORY_BANK_MOST: Final = 50_000
MINED: Final = 4
LEAST_PATIENCE: Final = 3
# Below, a matrix finds as much as an MLP, and more on text from one encoder.
FEW_PAIRS: Final = 500
# Forward and backward take three times the work of a forward.
_TRAINED: Final = 3
# A scan rounds to bfloat16 first, and then counts or sorts: measured in wholes, in the time of two
# multiplications of a training step it does three.
_SCAN: Final = 1.5
# What a mining round costs besides its products (files, the table, the report), and the start of
# the miner's process once, in multiplications of the training.
_ROUND: Final = 20e9
_WORKER: Final = 60e9
# Whoever sets one of these wants to mine.
_OF_MINING: Final = ("name", "k", "candidates", "refresh", "queries", "start")
_MINING_SHARE: Final = 0.25  # Beside a memory bank it gained 0.03 points: it must be cheap.
_EVALUATION_SHARE: Final = 0.15
_SHORT: Final = 60e9  # Less than a second altogether: not worth leaving out.


@dataclass(frozen=True, kw_only=True)
class Work:
    """The counts of a run that its cost follows from."""

    query: TowerCost
    doc: TowerCost
    documents: int
    width: int
    val_pairs: int
    order: Order
    steps: int
    others: int  # Documents a query is compared with besides those of the step.
    rounds: int  # Of mining, if there is any.
    # After the first, rounds use the query vectors that training computed.
    reuses_queries: bool = False

    @property
    def samples(self) -> int:
        """Of a step."""
        return self.order.samples_per_step

    @property
    def training(self) -> float:
        """Operations of all steps without mined negatives."""
        towers = self.query.forward_flops + self.doc.forward_flops
        logits = 2 * (self.samples + self.others) * self.width
        return float(_TRAINED * self.steps * self.samples * (towers + logits))

    @property
    def mining(self) -> float:
        """Of all rounds, in operations of the training."""
        queries = self.queries_of_a_round
        known = (self.rounds - 1) * queries * self.query.forward_flops * self.reuses_queries
        return _WORKER + self.rounds * (_ROUND + self._pass(queries)) - known

    @property
    def queries_of_a_round(self) -> int:
        return min(self.order.size, -(-self.steps * self.samples // self.rounds))

    @property
    def evaluation(self) -> float:
        """Of one evaluation, in operations of the training."""
        return self._pass(self.val_pairs)

    def _pass(self, queries: int) -> float:
        # Queries are encoded and compared with all documents; documents are encoded if they change.
        scan = 2 * self.documents * self.width / _SCAN
        encoded = self.documents * self.doc.forward_flops if self.doc.parameters else 0
        return queries * (self.query.forward_flops + scan) + encoded


def choose_tower(data: Dataset) -> tuple[str, str]:
    pairs = len(data.train)
    if data.train.queries.sequence:
        return "mlp", (
            "the queries are sequences; the mlp tower reads their weighted mean, their mean and "
            "their last vector in a small part of the time of a recurrent tower (--tower gru, if "
            "the order of the steps matters)"
        )
    if pairs < FEW_PAIRS:
        return "linear", f"the queries are single vectors, and {pairs:,} pairs are few"
    return (
        "mlp",
        f"the queries are single vectors, and {pairs:,} pairs are enough for hidden layers",
    )


def choose_negatives(miner: MinerConfig, work: Work) -> tuple[int, str]:
    usual = type(miner)()
    for name in _OF_MINING:
        if getattr(miner, name) != getattr(usual, name):
            return MINED, f"miner.{name} is set"
    if work.samples >= ENOUGH_CANDIDATES:
        return 0, (
            f"each query of a step is compared with {work.samples:,} documents, and mining would "
            "add little to that for its time"
        )
    share = work.mining / work.training
    if share > _MINING_SHARE:
        return 0, (
            f"mining would take about {_times(share)} times the work of the training, and more than "
            f"{_MINING_SHARE:g} does not pay"
        )
    return MINED, (
        f"a step has only {work.samples:,} documents of its own, and mining takes at most "
        f"{_MINING_SHARE:g} times the work of the training"
    )


def _times(share: float) -> str:
    """
    >>> _times(0.123), _times(131072.4)
    ('0.12', '131,072')
    """
    return f"{share:.2g}" if share < 99.5 else f"{share:,.0f}"


def refuse_reuse(miner: MinerConfig, doc: TowerSpec) -> None:
    """Raises ConfigError if the vectors of earlier steps cannot be compared with the documents."""
    if miner.queries == "reuse" and doc.cost().parameters:
        raise ConfigError(
            'miner.queries = "reuse" needs a document tower without trainable weights, but the '
            f"document tower {doc.name!r} is trained: the documents are encoded anew for each "
            "round, and queries of earlier steps do not fit them.",
            hint='Use --doc-tower identity, or miner.queries = "encode".',
        )


def said_of_mining(work: Work) -> str:
    """What mining will cost, in one line."""
    rounds = f"{work.rounds} round{'s' * (work.rounds > 1)}"
    reused = ""
    if work.reuses_queries and work.rounds > 1:
        reused = ", with query vectors from the training after the first round"
    return (
        f"Mining takes about {_times(work.mining / work.training)} times the work of the training: "
        f"{rounds} of {work.queries_of_a_round:,} queries against {work.documents:,} documents"
        f"{reused}."
    )


def choose_memory_bank(offered: int, distinct: int) -> tuple[int, str]:
    """`offered`: documents of a step, `distinct`: of all training pairs."""
    # Measured (docs/results.md): it helps small steps, and only costs large ones time.
    if offered >= ENOUGH_CANDIDATES:
        return 0, (
            f"a step has up to {offered} documents of its own, and a memory bank helps only below "
            f"{ENOUGH_CANDIDATES}"
        )
    return min(MEMORY_BANK_MOST, distinct), (
        f"a step has only {offered} documents of its own; the memory bank holds at most "
        f"{MEMORY_BANK_MOST} of the {distinct} distinct training documents"
    )


def choose_evaluations(work: Work) -> tuple[str | int, str]:
    """Each epoch, every few epochs (as a number of steps), or only before and after the training."""
    if not work.steps:
        return "end", "nothing is trained"
    limit = max(_SHORT, _EVALUATION_SHARE * work.training)
    each = work.order.steps_per_epoch
    for epochs in range(1, -(-work.steps // each)):
        number = 1 + -(-work.steps // (epochs * each))
        if number * work.evaluation <= limit:
            break
    else:
        return "end", _costs(2, work)
    return ("epoch" if epochs == 1 else epochs * each), _costs(number, work)


def choose_patience(planned: int, evaluate: EvaluateConfig, *, gates: bool) -> tuple[int, str]:
    """`planned`: evaluations of the run."""
    if gates:
        return 0, "the run must reach all gates"
    if not evaluate.keep_best:
        return 0, "the weights of the last step are kept"
    patience = max(LEAST_PATIENCE, -(-planned // 3))
    return patience, f"a third of {planned} evaluations, at least {LEAST_PATIENCE}"


def _costs(number: int, work: Work) -> str:
    share = number * work.evaluation / work.training
    return f"{number} evaluations take about {_times(share)} times the work of the training"
