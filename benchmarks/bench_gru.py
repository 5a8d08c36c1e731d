"""The CPU's own GRU against nn.GRU and against the machine's GEMM, forward and backward.

    python benchmarks/bench_gru.py [--batch 32 128 512] [--pool mean last] [--length 100 1]

Seconds of one forward and backward of the recurrent layer with its pooling, 768 to 512 in both
directions, all arms in turns. `share` is needed FLOPs a second over the best block's product of
the same precision in the same process; `highest` and `medium` are nn.GRU under torch's float32
setting, `bf16` either under autocast.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn

from ttf.tools.bench.paired import in_turns, ratio
from ttf_towers._modules.gru import NativeGru, Need

WIDTH, HIDDEN = 768, 512
BLOCKS = (512, 1024, 2048)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, nargs="+", default=[32, 128, 512])
    parser.add_argument("--pool", nargs="+", default=["mean", "last"])
    parser.add_argument("--length", type=int, nargs="+", default=[100, 1])
    parser.add_argument("--precision", nargs="+", default=["fp32", "bf16"])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    torch.manual_seed(0)
    print(f"torch {torch.__version__}, {given.threads} threads, {given.repeats} repeats")
    print("|precision|L|pool|B|ours s|samples/s|share of GEMM|x highest|x medium|x bf16|")
    print("|---" * 10 + "|")
    for precision in given.precision:
        for length in given.length:
            for pool in given.pool if length > 1 else given.pool[:1]:
                for batch in given.batch:
                    print(row(precision, length, pool, batch, given.repeats), flush=True)


def row(precision: str, length: int, pool: Need | str, batch: int, repeats: int) -> str:
    rnn = nn.GRU(WIDTH, HIDDEN, batch_first=True, bidirectional=True)
    x_BLD = torch.randn(batch, length, WIDTH)
    ours = Ours(rnn, "last" if pool == "last" else "all")
    theirs = partial(plain, rnn, pool)
    half = precision == "bf16"
    arms: dict[str, Callable[[], object]] = {
        "ours": partial(step, ours, rnn, x_BLD, "medium", half),
        "medium": partial(step, theirs, rnn, x_BLD, "medium", False),
    }
    if half:
        arms["bf16"] = partial(step, theirs, rnn, x_BLD, "medium", True)
    else:
        arms["highest"] = partial(step, theirs, rnn, x_BLD, "highest", False)
    dtype = torch.bfloat16 if half else torch.float32
    for rows in BLOCKS:
        arms[f"gemm {rows}"] = products(rows, dtype)
    seconds = in_turns(arms, repeats)
    flops = needed_flops(batch, length, pool)
    best = min(BLOCKS, key=lambda rows: min(seconds[f"gemm {rows}"]) / rows)
    at_ceiling = [s * flops / product_flops(best) for s in seconds[f"gemm {best}"]]
    faster = [
        str(ratio(seconds[arm], seconds["ours"])) if arm in seconds else "-"
        for arm in ("highest", "medium", "bf16")
    ]
    taken = sorted(seconds["ours"])[repeats // 2]
    cells = [precision, length, pool, batch, f"{taken:.4f}", f"{batch / taken:.0f}"]
    return f"|{'|'.join(map(str, [*cells, ratio(at_ceiling, seconds['ours']), *faster]))}|"


def needed_flops(batch: int, length: int, pool: str) -> float:
    """Forward and backward without the gradient of the input: input product and its weight's
    gradient at every step; state's product, its back product and its weight's gradient after
    the first."""
    reverse = 1 if pool == "last" else length
    steps, carried = length + reverse, length - 1 + reverse - 1
    return 2 * batch * 3 * HIDDEN * (2 * WIDTH * steps + 3 * HIDDEN * carried)


def product_flops(rows: int) -> float:
    return 10 * 2 * rows * WIDTH * 3 * HIDDEN


def products(rows: int, dtype: torch.dtype) -> Callable[[], None]:
    """Ten products of the input's shape, at full speed of the precision."""
    a, b = torch.randn(rows, WIDTH).to(dtype), torch.randn(WIDTH, 3 * HIDDEN).to(dtype)
    out = torch.empty(rows, 3 * HIDDEN, dtype=dtype)

    def run() -> None:
        torch.set_float32_matmul_precision("medium")
        for _ in range(10):
            torch.mm(a, b, out=out)

    return run


class Ours:
    def __init__(self, rnn: nn.GRU, need: Need) -> None:
        self.rnn = rnn
        self.need = need
        self.native = NativeGru()

    def __call__(self, x_BLD: Tensor) -> Tensor:
        out = self.native(self.rnn, x_BLD, None, self.need)
        return out.sum(1) / out.shape[1] if self.need == "all" else out


def plain(rnn: nn.GRU, pool: str, x_BLD: Tensor) -> Tensor:
    states: Tensor = rnn(x_BLD)[0]
    return states[:, -1] if pool == "last" else states.sum(1) / states.shape[1]


def step(
    tower: Callable[[Tensor], Tensor], rnn: nn.GRU, x_BLD: Tensor, float32: str, half: bool
) -> None:
    torch.set_float32_matmul_precision(float32)
    rnn.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16, enabled=half):
        loss = tower(x_BLD).float().square().sum()
    torch.autograd.backward(loss)


if __name__ == "__main__":
    main()
