"""What the calibration after the training takes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from ttf.machine.memory.limits import budget_bytes as memory_budget
from ttf.training.blocks import block_rows
from ttf.training.calibration.sample import most_queries
from ttf.training.plan._model import Choices, DataFacts, Item

if TYPE_CHECKING:
    from ttf.config.schema import RunConfig

_FLOAT: Final = 4
_HALF: Final = 2
# Of a thread, and of all: documents whose scores are held, see `ttf.mining.scan.mean_of_best`.
_TILE: Final = 512
_TILES: Final = 4096
_TILE_BYTES: Final = 3  # Scores of a tile, and their maxima.
# What malloc's heap holds for them, free parts between blocks included: 750 to 900 MB were measured
# where 690 to 770 were counted.
_IN_HEAP: Final = 1.3
_VARIANTS: Final = 5  # Without correction, and each strength that is tried.


def calibration_items(
    config: RunConfig, facts: DataFacts, choices: Choices, flops_per_s: float
) -> Iterator[Item]:
    if not config.calibrate.enabled:
        return
    width, rows = facts.doc_dim, facts.bank_rows
    held_out = min(2000, facts.train_pairs // 5)
    sample = min(most_queries(config.calibrate, rows), facts.train_pairs - held_out)
    queries = (sample + _VARIANTS * held_out) * width * (_FLOAT + _HALF)
    tiles = min(choices.threads * _TILE, _TILES) * (sample * _TILE_BYTES + 2 * width * _FLOAT)
    at_once = min(rows, block_rows(memory_budget(config.memory.budget), width))
    block = 4 * at_once * width * _FLOAT
    ranked = 3 * at_once * min(1024, held_out) * _FLOAT  # as of an evaluation
    chosen = _VARIANTS * held_out * min(rows, 32_768)
    towers = (sample + held_out) * choices.query.forward_flops
    if not choices.doc_frozen:
        towers += 2 * rows * choices.doc.forward_flops
    yield Item(
        component="calibration",
        phase="calibration",
        anon_bytes=round(_IN_HEAP * (queries + block + max(tiles, ranked) + rows * _FLOAT)),
        disk_bytes=sample * width * _FLOAT + rows * _FLOAT,
        seconds=(towers + 2 * width * (sample * rows + chosen)) / flops_per_s,
        why=f"{rows:,} documents x {sample:,} training queries, once",
        lower=f"--set calibrate.sample=... (now {sample:,})",
    )
