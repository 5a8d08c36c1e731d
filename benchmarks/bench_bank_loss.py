"""The whole bank as a step's negatives: what a step costs, and what it does to recall.

Cost: a step of 512 samples (mlp tower, vectors of 768) against all 771,115 documents, beside the
same step against a memory bank of 50,000; arms in turns, ratios of neighbours with 95% bounds. The
bank (2.4 GB, and 1.2 GB in bfloat16) is written to --folder once.

Recall: on the real sets, 512 samples a step, 3 seeds; continued from --out where it stopped.

    python benchmarks/bench_bank_loss.py --folder /tmp/bank --make
    python benchmarks/bench_bank_loss.py --folder /tmp/bank
    python benchmarks/bench_bank_loss.py --recall --data ../shared/data --out bank.jsonl
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from bench_quality import NOVELS, WORDNET, Arm, finished, run_ttf, table
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ttf.contracts import TowerShape, VectorSource
from ttf.host import plugins
from ttf.host.options import validate
from ttf.host.plugins import create_store, open_store
from ttf.tools.bench.paired import in_turns, ratio
from ttf.training.loss.bank_blocks import Blocks, HalfBlocks, StoredBlocks
from ttf.training.loss.infonce import Excluded, info_nce, loss_in_one_pass
from ttf.training.loss.rank_counts import RankCounter

WIDTH, SAMPLES, KEPT = 768, 512, 50_000
BATCH_512 = {
    "wordnet": replace(WORDNET, batch=SAMPLES, lr=7e-4),
    "novels": replace(NOVELS, batch=SAMPLES, lr=7e-4),
}
ARMS = (
    Arm(name="memory bank", sets={"loss.memory_bank": KEPT, "miner.negatives": 0}),
    Arm(name="mined 4", sets={"loss.memory_bank": 0, "miner.negatives": 4}),
    Arm(name="full bank", sets={"loss.negatives": "bank"}),
)


def make(path: Path, rows: int) -> None:
    """Random unit vectors: what they say does not matter to a product."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(0)
    writer = create_store(str(path))
    array = writer.array("vectors", (rows, WIDTH), "float32")
    for start in range(0, rows, 8192):
        block = rng.standard_normal((min(8192, rows - start), WIDTH), dtype=np.float32)
        array.append(block / np.linalg.norm(block, axis=1, keepdims=True))
    writer.commit()


def raise_for(ids: NDArray[np.int64], vectors: NDArray[np.float32]) -> None:
    raise SystemExit(f"rows {ids[0]}.. are not finite")


class Step:
    """Tower, loss, backward and AdamW on one batch, against this bank or that."""

    def __init__(self, source: VectorSource, cache: Path) -> None:
        factory = plugins.usable("tower", "mlp")
        shape = TowerShape(in_dim=WIDTH, length=1, sequence=False, out_dim=WIDTH)
        options, problems = validate(factory.options_type, {"hidden": 1024}, "tower")
        assert not problems, problems
        torch.manual_seed(0)
        self.tower = factory.create(shape, options)
        self.optimizer = torch.optim.AdamW(self.tower.parameters(), lr=1e-4, fused=True)
        self.scale = torch.tensor(20.0)
        rng = np.random.default_rng(1)
        self.x = torch.from_numpy(rng.standard_normal((SAMPLES, WIDTH), dtype=np.float32))
        self.target = rng.choice(source.shape[0], SAMPLES, replace=False)
        self.docs = torch.from_numpy(source.gather(self.target))
        kept = source.gather(np.sort(rng.choice(source.shape[0], KEPT, replace=False)))
        self.candidates = torch.cat([self.docs, torch.from_numpy(kept)])
        self.half = self.candidates.bfloat16()
        self.whole = StoredBlocks(source, raise_for)
        self.whole_half = HalfBlocks(source, raise_for, cache, print, lambda: None)

    def arms(self) -> dict[str, Callable[[], None]]:
        return {
            "memory bank, fp32": lambda: self._step(lambda q: self._sampled(q, None)),
            "full bank, fp32": lambda: self._step(lambda q: self._swept(q, self.whole)),
            "memory bank, bf16": lambda: self._step(lambda q: self._sampled(q, self.half)),
            "full bank, bf16": lambda: self._step(lambda q: self._swept(q, self.whole_half)),
            "full bank, bf16, loss only": lambda: self._step(
                lambda q: self._swept(q, self.whole_half, look=False)
            ),
        }

    def _step(self, loss: Callable[[Tensor], Tensor]) -> None:
        q_SD = functional.normalize(self.x + self.tower(self.x), dim=-1)
        loss(q_SD).mean().backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)

    def _sampled(self, q_SD: Tensor, half: Tensor | None) -> Tensor:
        own = torch.arange(SAMPLES)
        return info_nce(
            q_SD, self.candidates, own, scale=self.scale, known_BP=own[:, None], half_ND=half
        )

    def _swept(self, q_SD: Tensor, blocks: Blocks, look: bool = True) -> Tensor:
        def make_look(target_logit_S: Tensor) -> RankCounter:
            line_S = target_logit_S - 0.05 * target_logit_S.abs()
            return RankCounter(target_logit_S, line_S, deepest=100)

        return loss_in_one_pass(
            q_SD,
            self.scale,
            self.docs,
            blocks(torch.device("cpu")),
            Excluded(self.target[:, None]),
            make_look=make_look if look else None,
        )


def cost(path: Path, repeats: int, threads: int) -> None:
    torch.set_num_threads(threads)
    torch.set_float32_matmul_precision("medium")
    source = open_store(str(path)).source("vectors")
    step = Step(source, path.parent / "cache")
    found = in_turns(step.arms(), repeats)
    work = 4 * SAMPLES * WIDTH
    print(f"| a step of {SAMPLES} against | seconds (median) | GFLOP/s of the loss's products |")
    print("|---|---|---|")
    for name, seconds in found.items():
        rows = KEPT + SAMPLES if name.startswith("memory") else source.shape[0]
        middle = statistics.median(seconds)
        print(f"| {name} ({rows:,} documents) | {middle:.3f} | {work * rows / middle / 1e9:.0f} |")
    for precision in ("fp32", "bf16"):
        full, kept = found[f"full bank, {precision}"], found[f"memory bank, {precision}"]
        print(f"full bank / memory bank, {precision}: {ratio(full, kept)}")
    alone = found["full bank, bf16, loss only"]
    print(f"with ranks and suspects / loss only, bf16: {ratio(found['full bank, bf16'], alone)}")
    print(f"fp32 / bf16, full bank: {ratio(found['full bank, fp32'], found['full bank, bf16'])}")


def recall(data: Path, out: Path, seeds: int, threads: int, only: str) -> None:
    done = {(row["set"], row["arm"], row["seed"]) for row in finished(out)}
    for seed in range(seeds):
        for name, base in BATCH_512.items():
            for arm in ARMS:
                if (name, arm.name, seed) in done or only not in f"{name}: {arm.name}":
                    continue
                found = run_ttf(base, arm, data, seed, threads)
                row = {"set": name, "arm": arm.name, "seed": seed, **found}
                with out.open("a") as file:
                    file.write(json.dumps(row) + "\n")
                at_10 = found["metrics"]["recall@10"]
                told = f"recall@10 {at_10:.4f}, {found['wall_s']:.0f} s"
                print(f"{name}, {arm.name}, seed {seed}: {told}", flush=True)
    print(table(out))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("bank-of-771115"))
    parser.add_argument("--rows", type=int, default=771_115)
    parser.add_argument("--make", action="store_true", help="write the bank and its copy only")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--recall", action="store_true")
    parser.add_argument("--data", type=Path, default=Path("../shared/data"))
    parser.add_argument("--out", type=Path, default=Path("bank.jsonl"))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--only", default="", help="arms or sets whose name contains this")
    given = parser.parse_args()
    if given.recall:
        recall(given.data, given.out, given.seeds, given.threads, given.only)
        return
    path = given.folder / f"bank-{given.rows}.npz"
    if not path.exists():
        make(path, given.rows)
    if given.make:
        source = open_store(str(path)).source("vectors")
        HalfBlocks(source, raise_for, path.parent / "cache", print, lambda: None)
        return
    cost(path, given.repeats, given.threads)


if __name__ == "__main__":
    main()
