"""What the evaluations take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.text.numbers import size
from ttf.training.blocks import LEAST_BLOCK_ROWS, block_rows
from ttf.training.plan._model import Choices, DataFacts, Item

if TYPE_CHECKING:
    from ttf.config.schema import RunConfig

FLOAT: Final = 4
# A block of documents is held as float32, with its rounding residuals and as bfloat16; a tile's
# scores as bfloat16 or float32, with what is compared with them.
EVALUATION_TILE: Final = 1024
_EVALUATED_BLOCKS, _EVALUATED_SCORES = 4, 3
# What malloc's heap holds for them, free parts between blocks included, as measured.
_IN_HEAP: Final = 1.2


def evaluation_items(
    config: RunConfig, facts: DataFacts, choices: Choices, flops_per_s: float
) -> Iterator[Item]:
    width = facts.doc_dim
    rows = min(facts.bank_rows, block_rows(memory_budget(config.memory.budget), width))
    tile = min(facts.val_pairs, EVALUATION_TILE)
    block = rows * (_EVALUATED_BLOCKS * width + _EVALUATED_SCORES * tile) * FLOAT
    yield Item(
        component="evaluation blocks",
        phase="evaluation",
        anon_bytes=round(_IN_HEAP * (facts.val_pairs * width * FLOAT + block)),
        why=f"{facts.val_pairs:,} queries, blocks of {rows:,} documents",
        lower=f"--set memory.budget=... (now {size(memory_budget(config.memory.budget))})"
        if rows > LEAST_BLOCK_ROWS
        else "",
    )
    work = facts.val_pairs * (choices.query.forward_flops + 2 * facts.bank_rows * width)
    work += 0 if choices.doc_frozen else facts.bank_rows * choices.doc.forward_flops
    yield Item(
        component="evaluations",
        phase="evaluation",
        seconds=choices.evaluations * work / flops_per_s,
        why=f"{choices.evaluations} x {facts.val_pairs:,} queries against "
        f"{facts.bank_rows:,} documents",
    )
