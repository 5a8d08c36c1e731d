"""Averages of weights, soups of seeds, ensembles, and the strength of calibration: what each gains.

The arms share the sets and the base recipe of `bench_defaults.py` (mlp, 8 epochs, in-batch negatives,
one thread), and are judged on pairs held out at random from the *training* pairs, before and after
the correction for hubs with each `a`. Two seeds.

    python benchmarks/bench_averaging.py --data ../shared/data --out averaging.jsonl
    python benchmarks/bench_averaging.py --out averaging.jsonl --table
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from bench_defaults import BASE, LINEAR, Recipe
from default_sets import SETS, Pairs
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, normalize

from ttf.config.schema import TowerConfig
from ttf.contracts import TowerShape
from ttf.training.optimizer import make_optimizer
from ttf.training.schedule import learning_rate
from ttf.training.towers import TowerSpec

SEEDS: Final = (0, 1)
STRENGTHS: Final = (0.0, 0.25, 0.5, 0.75, 1.0)
NEIGHBOURS: Final = 20
SAMPLE: Final = 5_000  # Queries that the correction is computed from.
DECAYS: Final = (0.98, 0.995)


def fit(pairs: Pairs, recipe: Recipe, seed: int) -> dict[str, nn.Module]:
    """The trained tower, and its averages over the steps."""
    torch.manual_seed(seed)
    rows, sequence = pairs.split, pairs.x.dim() == 3
    shape = TowerShape(
        in_dim=pairs.x.shape[-1],
        length=pairs.x.shape[1] if sequence else 1,
        sequence=sequence,
        out_dim=pairs.bank.shape[1],
    )
    tower = TowerSpec("query", TowerConfig(name=recipe.tower, **recipe.options), shape).create()
    averages = {f"EMA {decay}": copy.deepcopy(tower) for decay in DECAYS}
    optimizer = make_optimizer(tower, recipe.lr, 0.01)
    each = rows // recipe.batch
    total = recipe.epochs * each
    for step in range(total):
        if step % each == 0:
            order = torch.randperm(rows)
        at = order[step % each * recipe.batch :][: recipe.batch]
        positive = pairs.positive[at]
        logits_BB = normalize(tower(pairs.x[at]), dim=-1) @ pairs.bank[positive].T
        copies_BB = positive[:, None] == positive[None, :]
        copies_BB.fill_diagonal_(False)
        masked_BB = (logits_BB / recipe.temperature).masked_fill(copies_BB, -torch.inf)
        loss = cross_entropy(masked_BB, torch.arange(len(at)))
        optimizer.param_groups[0]["lr"] = learning_rate(step, total, recipe.lr, "cosine", 0.05)
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
        optimizer.step()
        for decay, average in zip(DECAYS, averages.values(), strict=True):
            _move(average, tower, min(decay, (step + 1) / (step + 10)))
    return {"last": tower, **averages}


@torch.no_grad()
def _move(average: nn.Module, tower: nn.Module, decay: float) -> None:
    for old, new in zip(average.parameters(), tower.parameters(), strict=True):
        old.lerp_(new, 1 - decay)


@torch.no_grad()
def encoded(tower: nn.Module, pairs: Pairs) -> Tensor:
    tower.eval()
    return torch.cat([normalize(tower(part), dim=-1) for part in torch.split(pairs.x, 500)])


@torch.no_grad()
def measured(q_ND: Tensor, bank_MD: Tensor, pairs: Pairs) -> dict[str, float]:
    """Recall and reciprocal rank of the held-out pairs for each strength of the correction."""
    sample = min(SAMPLE, pairs.split)
    sampled, held_out = q_ND[:sample], q_ND[pairs.split :]
    own, positive = pairs.positive[:sample], pairs.positive[pairs.split :]
    hubs = []
    for start in range(0, len(bank_MD), 2000):
        scores_RN = bank_MD[start : start + 2000] @ sampled.T
        inside = (own >= start) & (own < start + len(scores_RN))
        at = inside.nonzero()[:, 0]
        scores_RN[own[at] - start, at] = -torch.inf
        hubs.append(scores_RN.topk(NEIGHBOURS, dim=1).values.mean(1))
    h_M = torch.cat(hubs)
    ranks: dict[float, list[Tensor]] = defaultdict(list)
    for part, known in zip(torch.split(held_out, 500), torch.split(positive, 500), strict=True):
        scores_BM = part @ bank_MD.T
        for a in STRENGTHS:
            corrected = scores_BM - a * h_M
            ranks[a].append((corrected > corrected.gather(1, known[:, None])).sum(1))
    found = {}
    for a, parts in ranks.items():
        rank = torch.cat(parts)
        found[f"recall@10, a={a}"] = (rank < 10).float().mean().item()
        found[f"mrr@10, a={a}"] = torch.where(rank < 10, 1.0 / (rank + 1), 0.0).mean().item()
    return found


def arms_of(pairs: Pairs, seed: int) -> Mapping[str, tuple[Tensor, Tensor]]:
    """Query vectors of all pairs, and the documents they are compared with."""
    mlp, linear = fit(pairs, BASE, seed), fit(pairs, LINEAR, seed)
    other = fit(pairs, BASE, seed + 100)
    arms = {f"mlp, {name}": encoded(tower, pairs) for name, tower in mlp.items()}
    arms |= {f"linear, {name}": encoded(tower, pairs) for name, tower in linear.items()}
    soup = copy.deepcopy(mlp["last"])
    _move(soup, other["last"], 0.5)
    arms["soup of two mlps"] = encoded(soup, pairs)
    mlps = arms["mlp, last"], encoded(other["last"], pairs)
    arms["ensemble of two mlps"] = normalize(mlps[0] + mlps[1], dim=-1)
    arms["ensemble of mlp and linear"] = normalize(arms["mlp, last"] + arms["linear, last"], dim=-1)
    return {name: (vectors, pairs.bank) for name, vectors in arms.items()}


def table(out: Path) -> str:
    cells: dict[tuple[str, str], list[Mapping[str, float]]] = defaultdict(list)
    for row in map(json.loads, out.read_text().splitlines()):
        cells[row["arm"], row["set"]].append(row)
    sets = list(dict.fromkeys(name for _, name in cells))
    lines = [f"| R@10, plain -> best a | {' | '.join(sets)} |", "|---" * (len(sets) + 1) + "|"]
    for arm in dict.fromkeys(name for name, _ in cells):
        lines.append(f"| {arm} | {' | '.join(_cell(cells.get((arm, s), [])) for s in sets)} |")
    return "\n".join(lines)


def _cell(rows: list[Mapping[str, float]]) -> str:
    if not rows:
        return ""
    means = {a: statistics.mean(row[f"recall@10, a={a}"] for row in rows) for a in STRENGTHS}
    best = max(means, key=lambda a: means[a])
    return f"{100 * means[0.0]:.2f} -> {100 * means[best]:.2f} ({best})"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("averaging.jsonl"))
    parser.add_argument("--sets", nargs="*", default=list(SETS), choices=list(SETS))
    parser.add_argument("--table", action="store_true")
    given = parser.parse_args()
    if given.table:
        print(table(given.out))
        return
    torch.set_num_threads(1)
    for seed in SEEDS:
        for name in given.sets:
            pairs, began = SETS[name](given.data), time.process_time()
            for arm, (vectors, bank) in arms_of(pairs, seed).items():
                row: dict[str, Any] = {"set": name, "arm": arm, "seed": seed}
                with given.out.open("a") as file:
                    file.write(json.dumps(row | measured(vectors, bank, pairs)) + "\n")
            print(f"{name}, seed {seed}: {time.process_time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
