"""The loop a person would write by hand in half an hour: plain PyTorch, everything in memory.

One file, torch and numpy, nothing of ttf: what `ttf train` is held against. A query tower on top of
given vectors, in-batch InfoNCE with copies of the positive masked, AdamW with warm-up and cosine
decay, and the recall of the validation queries in the whole bank at the end. It prints one JSON
object; `seconds` is everything from the first line of this file: imports, loading, training and
evaluation.

FROZEN by the commit that says so in its message: a faster or better `ttf` must not come from a
slower or worse loop. Do not change it; write another file.

    python benchmarks/plain_loop.py --pairs pairs.npz --bank bank.npz --tower linear
    python benchmarks/plain_loop.py --pairs windows.npz --context context.npz --bank bank.npz \
        --tower mlp
"""

from __future__ import annotations

import time

BEGAN = time.perf_counter()

import argparse
import json
import math
import resource
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

CUTOFFS = (1, 10, 100, 500)


class Data(NamedTuple):
    """Queries are vectors (N, D), or rows of `context` (N, L), oldest first."""

    x_train: Tensor
    pos_train: Tensor
    x_val: Tensor
    pos_val: Tensor
    bank: Tensor
    context: Tensor | None

    def queries(self, x: Tensor) -> Tensor:
        return x if self.context is None else self.context[x.long()]


def load(pairs: str, bank: str, context: str | None) -> Data:
    arrays = np.load(pairs)
    prefix = "X" if context is None else "seq"

    def queries(split: str) -> Tensor:
        found = torch.from_numpy(arrays[f"{prefix}_{split}"])
        return found.float() if context is None else found

    return Data(
        x_train=queries("train"),
        pos_train=torch.from_numpy(arrays["pos_train"]),
        x_val=queries("val"),
        pos_val=torch.from_numpy(arrays["pos_val"]),
        bank=functional.normalize(torch.from_numpy(np.load(bank)["vectors"]).float(), dim=-1),
        context=None if context is None else torch.from_numpy(np.load(context)["vectors"]).float(),
    )


class Tower(nn.Module):
    """x + f(x), starting as x; sequences become one vector by learned weights of the positions, the
    MLP also reads their last vector and their mean."""

    def __init__(self, data: Data, args: argparse.Namespace) -> None:
        super().__init__()
        width = data.bank.shape[1]
        sequence = data.context is not None
        width_in = data.context.shape[1] if data.context is not None else data.x_train.shape[-1]
        steps = data.x_train.shape[1] if sequence else 1
        self.weighted = sequence and args.pool == "weighted"
        self.position = nn.Parameter(-torch.log(torch.arange(steps, 0, -1).float()))
        seen = width_in * (3 if self.weighted and args.tower == "mlp" else 1)
        self.wide = args.tower == "mlp"
        last = nn.Linear(args.hidden if self.wide else seen, width, bias=self.wide)
        self.residual = width_in == width
        if self.residual:
            nn.init.zeros_(last.weight)
            if self.wide:
                nn.init.zeros_(last.bias)
        hidden = [nn.Linear(seen, args.hidden), nn.GELU(), nn.Dropout(args.dropout)]
        self.change = nn.Sequential(*(hidden if self.wide else []), last)

    def forward(self, x: Tensor) -> Tensor:
        one = x
        if x.dim() == 3:
            one = x.mean(1)
            if self.weighted:
                one = torch.einsum("l,bld->bd", torch.softmax(self.position, 0), x)
        seen = torch.cat([one, x[:, -1], x.mean(1)], 1) if self.weighted and self.wide else one
        changed = self.change(seen)
        return functional.normalize(one + changed if self.residual else changed, dim=-1)


def train(data: Data, tower: Tower, args: argparse.Namespace) -> int:
    optimizer = torch.optim.AdamW(tower.parameters(), lr=args.lr, fused=True)
    steps_per_epoch = len(data.x_train) // args.batch
    total: int = args.epochs * steps_per_epoch
    warm = max(1, math.ceil(0.05 * total))

    def rate(step: int) -> float:
        if step < warm:
            return (step + 1) / warm
        return 0.5 + 0.5 * math.cos(math.pi * (step - warm) / max(1, total - warm))

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    tower.train()
    for _ in range(args.epochs):
        order = torch.randperm(len(data.x_train))
        for step in range(steps_per_epoch):
            rows = order[step * args.batch : (step + 1) * args.batch]
            positive = data.pos_train[rows]
            q = tower(data.queries(data.x_train[rows]))
            logits = q @ data.bank[positive].T / args.temperature
            copies = positive[:, None] == positive[None, :]
            copies.fill_diagonal_(False)
            loss = functional.cross_entropy(
                logits.masked_fill(copies, -torch.inf), torch.arange(len(rows))
            )
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            torch.nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
            optimizer.step()
            schedule.step()
    return total


@torch.no_grad()
def evaluate(data: Data, tower: Tower) -> dict[str, float]:
    tower.eval()
    ranks = []
    for start in range(0, len(data.x_val), 512):
        scores = tower(data.queries(data.x_val[start : start + 512])) @ data.bank.T
        own = scores.gather(1, data.pos_val[start : start + 512, None])
        ranks.append((scores > own).sum(1))
    rank = torch.cat(ranks)
    found = {f"recall@{k}": (rank < k).float().mean().item() for k in CUTOFFS}
    found["mrr@10"] = torch.where(rank < 10, 1.0 / (rank + 1), 0.0).mean().item()
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", required=True)
    parser.add_argument("--bank", required=True)
    parser.add_argument("--context")
    parser.add_argument("--tower", choices=["linear", "mlp"], default="linear")
    parser.add_argument("--pool", choices=["weighted", "mean"], default="weighted")
    parser.add_argument("--hidden", type=int, default=1024)
    parser.add_argument("--dropout", type=float, default=0.3)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch", type=int, default=1024)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--temperature", type=float, default=0.05)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    data = load(args.pairs, args.bank, args.context)
    tower = Tower(data, args)
    began = time.perf_counter()
    steps = train(data, tower, args)
    trained = time.perf_counter()
    metrics = evaluate(data, tower)
    spent = resource.getrusage(resource.RUSAGE_SELF)
    report = {
        "metrics": metrics,
        "steps": steps,
        "seconds": time.perf_counter() - BEGAN,
        "train_s": trained - began,
        "cpu_s": spent.ru_utime + spent.ru_stime,
        "peak_bytes": spent.ru_maxrss * 1024,
    }
    print(json.dumps(report, indent=2))


if __name__ == "__main__":
    main()
