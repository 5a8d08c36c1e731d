"""A plain PyTorch training script with the founding report's own loader, as many people write it.

Sequences in one .npy file, read in chunks of 1,024 samples; each process of the loader keeps three levels
of cache (1 GB, 256 MB, 512 MB) of what it has read. Eight workers, batches of 512. Nothing here is of
ttf: `bench_founding_loader.py` runs it.

    python benchmarks/founding_loader.py DATA.npz --steps 20
"""

from __future__ import annotations

import argparse
import time
from collections import OrderedDict
from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, Sampler

CHUNK = 1024
LEVELS_MB = (1024, 256, 512)


class Level:
    """Least recently used samples, up to a number of bytes."""

    def __init__(self, most_bytes: int) -> None:
        self.most, self.held = most_bytes, 0
        self.items: OrderedDict[int, NDArray[np.float32]] = OrderedDict()

    def get(self, key: int) -> NDArray[np.float32] | None:
        if key in self.items:
            self.items.move_to_end(key)
            return self.items[key]
        return None

    def put(self, key: int, item: NDArray[np.float32]) -> list[tuple[int, NDArray[np.float32]]]:
        """Returns what had to go."""
        if key in self.items:
            return []
        self.items[key] = item
        self.held += item.nbytes
        gone = []
        while self.held > self.most:
            old, value = self.items.popitem(last=False)
            self.held -= value.nbytes
            gone.append((old, value))
        return gone


class Sequences(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    def __init__(self, queries: str, targets: str) -> None:
        self.queries, self.targets = queries, targets
        self.levels = [Level(size << 20) for size in LEVELS_MB]
        self.rows = len(np.load(queries, mmap_mode="r"))

    def __len__(self) -> int:
        return self.rows

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        for level in self.levels:
            found = level.get(index)
            if found is not None:
                return torch.from_numpy(found), torch.from_numpy(self._target(index))
        return torch.from_numpy(self._read(index)), torch.from_numpy(self._target(index))

    def _target(self, index: int) -> NDArray[np.float32]:
        return np.load(self.targets, mmap_mode="r")[index].copy()  # type: ignore[no-any-return]

    def _read(self, index: int) -> NDArray[np.float32]:
        start = index // CHUNK * CHUNK
        chunk = np.array(np.load(self.queries, mmap_mode="r")[start : start + CHUNK])
        for place, sample in enumerate(chunk):
            falling = [(start + place, sample.copy())]
            for level in self.levels:
                falling = [gone for key, item in falling for gone in level.put(key, item)]
        return chunk[index - start].copy()  # type: ignore[no-any-return]


class Endless(Sampler[int]):
    def __init__(self, rows: int, total: int) -> None:
        self.rows, self.total = rows, total

    def __iter__(self) -> Iterator[int]:
        generator, given = torch.Generator().manual_seed(0), 0
        while given < self.total:
            for index in torch.randperm(self.rows, generator=generator).tolist():
                given += 1
                yield index

    def __len__(self) -> int:
        return self.total


class Tower(nn.Module):
    def __init__(self, dim: int, hidden: int) -> None:
        super().__init__()
        self.gru = nn.GRU(dim, hidden, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * hidden, dim)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        steps, _ = self.gru(x)
        return functional.normalize(self.out(steps.mean(dim=1)), dim=1)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("queries", help=".npy, (N, L, D)")
    parser.add_argument("targets", help=".npy, (N, D)")
    parser.add_argument("--batch-size", type=int, default=512)
    parser.add_argument("--workers", type=int, default=8)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--steps", type=int, default=20)
    args = parser.parse_args()
    torch.set_num_threads(2)
    data = Sequences(args.queries, args.targets)
    batches = DataLoader(
        data,
        batch_size=args.batch_size,
        sampler=Endless(len(data), args.batch_size * (args.steps + 2 * args.workers)),
        num_workers=args.workers,
        prefetch_factor=2,
        drop_last=True,
    )
    tower = Tower(np.load(args.targets, mmap_mode="r").shape[1], args.hidden)
    optimizer = torch.optim.AdamW(tower.parameters(), lr=1e-3)
    began = time.perf_counter()
    for step, (x, y) in enumerate(batches):
        if step == args.steps:
            break
        logits = tower(x) @ functional.normalize(y, dim=1).T / 0.05
        loss = functional.cross_entropy(logits, torch.arange(len(x)))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        print(
            f"step {step + 1} loss {loss.item():.4f} {time.perf_counter() - began:.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    main()
