"""Which tower, width, dropout, temperature, batch, learning rate and number of epochs: the table
behind the defaults.

Each arm differs from the base (mlp; hidden 1,024, dropout 0.3, T 0.05, batch 1,024, lr 1e-3, 8
epochs) in what its name says, and trains ttf's own tower modules in a loop of one thread, in-batch
negatives alone. Judged on pairs held out at random from the *training* pairs of seven sets, against
the whole bank. Results are appended to a JSON-lines file; finished rows are not repeated.

    python benchmarks/bench_defaults.py --data ../shared/data --out defaults.jsonl
    python benchmarks/bench_defaults.py --out defaults.jsonl --table
"""

from __future__ import annotations

import argparse
import json
import time
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from default_sets import SETS, Pairs
from torch.nn.functional import cross_entropy, normalize

from ttf.config.schema import TowerConfig
from ttf.contracts import TowerShape
from ttf.training.optimizer import make_optimizer
from ttf.training.schedule import learning_rate, temperature
from ttf.training.towers import TowerSpec


@dataclass(frozen=True, kw_only=True)
class Recipe:
    tower: str = "mlp"
    options: Mapping[str, Any] = field(default_factory=lambda: {"hidden": 1024, "dropout": 0.3})
    temperature: float = 0.05
    schedule: str = "constant"  # of the temperature
    batch: int = 1024
    lr: float = 1e-3
    epochs: int = 8
    pairs: int = 20_000


BASE = Recipe()
LINEAR = replace(BASE, tower="linear", options={})
ARMS: Mapping[str, Recipe] = {
    "mlp (base)": BASE,
    "linear": LINEAR,
    "mlp, dropout 0.5": replace(BASE, options={"hidden": 1024, "dropout": 0.5}),
    "mlp, dropout 0.1": replace(BASE, options={"hidden": 1024, "dropout": 0.1}),
    "mlp, hidden 512": replace(BASE, options={"hidden": 512, "dropout": 0.3}),
    "T 0.03": replace(BASE, temperature=0.03),
    "T 0.08": replace(BASE, temperature=0.08),
    "T falling": replace(BASE, schedule="falling"),
    "T 0.03, falling": replace(BASE, temperature=0.03, schedule="falling"),
    "T 0.08, falling": replace(BASE, temperature=0.08, schedule="falling"),
    "batch 512": replace(BASE, batch=512),
    "batch 256": replace(BASE, batch=256),
    "lr 2e-3": replace(BASE, lr=2e-3),
    "lr 5e-4": replace(BASE, lr=5e-4),
    "4 epochs": replace(BASE, epochs=4),
    "12 epochs": replace(BASE, epochs=12),
    "linear, lr 2e-3": replace(LINEAR, lr=2e-3),
    "1,000 pairs, mlp, batch 512": replace(BASE, pairs=1_000, batch=512),
    "1,000 pairs, mlp, batch 64": replace(BASE, pairs=1_000, batch=64),
    "1,000 pairs, linear, batch 512": replace(LINEAR, pairs=1_000, batch=512),
    "1,000 pairs, linear, batch 64": replace(LINEAR, pairs=1_000, batch=64),
    "300 pairs, mlp, batch 16": replace(BASE, pairs=300, batch=16),
    "300 pairs, linear, batch 16": replace(LINEAR, pairs=300, batch=16),
    "4,000 pairs, mlp, batch 1,024": replace(BASE, pairs=4_000),
    "4,000 pairs, mlp, batch 256": replace(BASE, pairs=4_000, batch=256),
    "4,000 pairs, linear, batch 256": replace(LINEAR, pairs=4_000, batch=256),
    "6,000 pairs, mlp, batch 256": replace(BASE, pairs=6_000, batch=256),
    "6,000 pairs, gru, batch 256": replace(BASE, pairs=6_000, batch=256, tower="gru", options={}),
}


def fit(pairs: Pairs, recipe: Recipe, seed: int) -> dict[str, float]:
    torch.manual_seed(seed)
    rows = min(recipe.pairs, pairs.split)
    sequence = pairs.x.dim() == 3
    shape = TowerShape(
        in_dim=pairs.x.shape[-1],
        length=pairs.x.shape[1] if sequence else 1,
        sequence=sequence,
        out_dim=pairs.bank.shape[1],
    )
    tower = TowerSpec("query", TowerConfig(name=recipe.tower, **recipe.options), shape).create()
    optimizer = make_optimizer(tower, recipe.lr, 0.01)
    each = rows // recipe.batch
    total = recipe.epochs * each
    began = time.process_time()
    for step in range(total):
        if step % each == 0:
            order = torch.randperm(rows)
        at = order[step % each * recipe.batch :][: recipe.batch]
        positive = pairs.positive[at]
        q_BD = normalize(tower(pairs.x[at]), dim=-1)
        logits_BB = q_BD @ pairs.bank[positive].T
        logits_BB = logits_BB / temperature(step, total, recipe.temperature, recipe.schedule)
        copies_BB = positive[:, None] == positive[None, :]
        copies_BB.fill_diagonal_(False)
        masked_BB = logits_BB.masked_fill(copies_BB, -torch.inf)
        loss = cross_entropy(masked_BB, torch.arange(len(at)))
        optimizer.param_groups[0]["lr"] = learning_rate(step, total, recipe.lr, "cosine", 0.05)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
        optimizer.step()
    return {**measured(tower, pairs), "cpu_s": time.process_time() - began}


@torch.no_grad()
def measured(tower: torch.nn.Module, pairs: Pairs) -> dict[str, float]:
    tower.eval()
    ranks = []
    for start in range(pairs.split, len(pairs.x), 500):
        scores_BN = normalize(tower(pairs.x[start : start + 500]), dim=-1) @ pairs.bank.T
        own_B = scores_BN.gather(1, pairs.positive[start : start + 500, None])
        ranks.append((scores_BN > own_B).sum(1))
    rank = torch.cat(ranks)
    return {
        "recall@10": (rank < 10).float().mean().item(),
        "mrr@10": torch.where(rank < 10, 1.0 / (rank + 1), 0.0).mean().item(),
    }


def table(out: Path) -> str:
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    cells: dict[str, dict[str, str]] = defaultdict(dict)
    for row in rows:
        cells[row["arm"]][row["set"]] = f"{100 * row['recall@10']:.1f} ({row['cpu_s']:.0f} s)"
    lines = [f"| R@10 (CPU time) | {' | '.join(SETS)} |", "|---" * (len(SETS) + 1) + "|"]
    for arm, found in cells.items():
        lines.append(f"| {arm} | {' | '.join(found.get(name, '') for name in SETS)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("defaults.jsonl"))
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--arms", nargs="*", default=list(ARMS), choices=list(ARMS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(given.out))
        return
    torch.set_num_threads(1)
    lines = given.out.read_text().splitlines() if given.out.exists() else []
    done = {(row["set"], row["arm"]) for row in map(json.loads, lines)}
    for name in given.sets:
        pairs = SETS[name](given.data)
        for arm in given.arms:
            alone = "gru" in arm and pairs.x.dim() == 2
            if (name, arm) in done or alone:
                continue
            row = {"set": name, "arm": arm, **fit(pairs, ARMS[arm], given.seed)}
            with given.out.open("a") as file:
                file.write(json.dumps(row) + "\n")
            print(f"{name}, {arm}: {100 * row['recall@10']:.2f}, {row['cpu_s']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
