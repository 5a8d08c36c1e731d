"""The loop a user would write by hand: plain PyTorch, in-batch InfoNCE, everything in memory.

It shares with `ttf` only the tower's module, so that both train the same function. Used by
`bench_quality.py` as the peer, and on its own:

    python benchmarks/plain_loop.py --data DIR --kind wordnet --tower linear --seed 0
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ttf.contracts import TowerShape
from ttf.host import plugins
from ttf.host.options import validate


@dataclass(frozen=True, kw_only=True)
class PlainData:
    """Tensors of a whole data set: queries (or steps into a context), positives, bank."""

    x_train: Tensor
    pos_train: Tensor
    x_val: Tensor
    pos_val: Tensor
    bank: Tensor
    context: Tensor | None

    def inputs(self, x: Tensor) -> Tensor:
        return x if self.context is None else self.context[x.long()]


def load(folder: Path, kind: str) -> PlainData:
    bank = torch.from_numpy(np.load(folder / "bank.npz")["vectors"].astype(np.float32))
    name, prefix = ("pairs.npz", "X") if kind == "wordnet" else ("windows.npz", "seq")
    arrays = np.load(folder / name)
    context = None
    if kind == "novels":
        context = torch.from_numpy(np.load(folder / "context.npz")["vectors"].astype(np.float32))

    def queries(split: str) -> Tensor:
        found = arrays[f"{prefix}_{split}"]
        return torch.from_numpy(found if kind == "novels" else found.astype(np.float32))

    return PlainData(
        x_train=queries("train"),
        pos_train=torch.from_numpy(arrays["pos_train"]),
        x_val=queries("val"),
        pos_val=torch.from_numpy(arrays["pos_val"]),
        bank=functional.normalize(bank, dim=-1),
        context=context,
    )


def make_tower(data: PlainData, name: str, options: dict[str, Any]) -> torch.nn.Module:
    factory = plugins.usable("tower", name)
    sequence = data.context is not None
    width = data.bank.shape[1]
    shape = TowerShape(
        in_dim=width,
        length=data.x_train.shape[1] if sequence else 1,
        sequence=sequence,
        out_dim=width,
    )
    chosen, problems = validate(factory.options_type, options, "tower")
    assert not problems, problems
    return factory.create(shape, chosen)


@torch.no_grad()
def recall(model: torch.nn.Module, data: PlainData, ks: tuple[int, ...]) -> dict[str, float]:
    model.eval()
    ranks = []
    for start in range(0, len(data.x_val), 512):
        x = data.inputs(data.x_val[start : start + 512])
        scores = functional.normalize(model(x), dim=-1) @ data.bank.T
        own = scores.gather(1, data.pos_val[start : start + 512, None])
        ranks.append((scores > own).sum(dim=1))
    rank = torch.cat(ranks)
    out = {f"recall@{k}": (rank < k).float().mean().item() for k in ks}
    out["mrr@10"] = torch.where(rank < 10, 1.0 / (rank + 1), 0.0).mean().item()
    return out


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How the tower is trained; each field is an option of the command line."""

    tower: str
    options: dict[str, Any]
    batch: int
    epochs: int
    lr: float
    temperature: float
    weight_decay: float
    seed: int


def train(data: PlainData, recipe: Recipe) -> dict[str, Any]:
    """Best epoch by recall@10, as `ttf` chooses it, and the last one."""
    torch.manual_seed(recipe.seed)
    model = make_tower(data, recipe.tower, recipe.options)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=True
    )
    batch = recipe.batch
    steps_per_epoch = len(data.x_train) // batch
    total = recipe.epochs * steps_per_epoch
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=recipe.lr, total_steps=total, pct_start=0.05, cycle_momentum=False
    )
    ks = (1, 10, 100, 500)
    best: dict[str, float] = recall(model, data, ks)
    began = time.perf_counter()
    for _ in range(recipe.epochs):
        model.train()
        order = torch.randperm(len(data.x_train))
        for step in range(steps_per_epoch):
            rows = order[step * batch : (step + 1) * batch]
            positive = data.pos_train[rows]
            q = functional.normalize(model(data.inputs(data.x_train[rows])), dim=-1)
            logits = q @ data.bank[positive].T / recipe.temperature
            copies = positive[:, None] == positive[None, :]
            copies.fill_diagonal_(False)
            loss = functional.cross_entropy(
                logits.masked_fill(copies, -torch.inf), torch.arange(len(rows))
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
        last = recall(model, data, ks)
        if last["recall@10"] > best["recall@10"]:
            best = last
    return {"best": best, "last": last, "train_s": time.perf_counter() - began, "steps": total}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--kind", choices=["wordnet", "novels"], required=True)
    parser.add_argument("--tower", default="linear")
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--weight-decay", type=float, default=0.01)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    options = {key: value for key, value in vars(given).items() if key not in ("data", "kind")}
    found = train(load(given.data, given.kind), Recipe(**options))
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
