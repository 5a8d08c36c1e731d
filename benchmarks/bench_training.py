"""Training against the loop by hand, at the reference shape: speed, share of the ceiling, loss curves.

    python benchmarks/bench_training.py                # mean, last and L = 1: 5 optimizer steps each
    python benchmarks/bench_training.py --only last
    python benchmarks/bench_training.py --tower        # the tower alone, beside the best product
    python benchmarks/bench_training.py --curve        # 300 steps on ../shared/data/novels-next-passage

Arms take turns, an optimizer step of 16 micro-batches each (`ttf.tools.bench.paired`), within one process;
ratios are medians of pairs with 95% bounds. `--curve`: same rows in the same order, same first weights,
same rate, an optimizer step of one batch, so that every query has the same candidates; the distance between curves beside the distance between two seeds of the loop by hand.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ttf.machine.measured import gemm_flops, kept_ceilings
from ttf.tools.bench.paired import in_turns, ratio
from ttf.tools.bench.results import Line
from ttf.tools.bench.sizes import QUICK, REFERENCE, Size
from ttf.tools.bench.training import PRECISIONS, Pool, make_data, measured, prepare, work_of

COURSES: Mapping[str, tuple[Pool, bool]] = {
    "mean": ("mean", False),
    "last": ("last", False),
    "l1": ("mean", True),
}
NOVELS = Path("../shared/data/novels-next-passage")
CURVE_STEPS = 300
SMOOTH = 20


def told(lines: Iterable[Line], micro_batch: int) -> None:
    for line in lines:
        if line.value is None or line.peer_value is None or line.ceiling_ratio is None:
            continue
        print(
            f"{line.name:16s} {micro_batch / line.value:.4f} s a micro-batch, {line.value:6.0f} "
            f"samples/s; {line.peer}: {micro_batch / line.peer_value:.4f} s, {line.peer_value:6.0f}; "
            f"{line.ratio:.2f}x ({line.ratio_low:.2f} to {line.ratio_high:.2f}, n = {line.repeats}); "
            f"{line.ceiling_ratio:.0%} of the {line.ceiling}"
        )


def tower_share(pool: Pool, length: int, size: Size) -> None:
    """Forward and backward of the tower alone beside the best product of its precision, in turns."""
    prepare()
    import torch

    from ttf.machine.gemm import factors, product
    from ttf.tools.bench.ours import Course, opened

    kept = kept_ceilings()
    assert kept is not None, "measured by main"
    best = kept.to_json()["best"]
    courses = [Course(pool=pool, precision=precision) for precision in PRECISIONS]
    arms: dict[str, Any] = {}
    flops: dict[str, float] = {}
    with tempfile.TemporaryDirectory(prefix="ttf-bench-") as folder:
        paths = make_data(Path(folder), dataclasses.replace(size, memory_bank=1000), length)
        small = dataclasses.replace(size, memory_bank=1000)
        with opened(Path(folder), small, courses, paths) as loops:
            for loop, precision in zip(loops, PRECISIONS, strict=True):
                session = loop.session
                rows = session.decided.plan.micro_batch
                x = torch.randn(rows, length, size.dim)
                grad = torch.randn(rows, size.dim)

                def turn(session: Any = session, x: Any = x, grad: Any = grad) -> None:
                    with session.policy.autocast(session.decided.precision):
                        out = session.parts.model.query(x, None)
                    out.float().backward(grad)
                    session.parts.model.zero_grad(set_to_none=True)

                arms[precision] = loop.settings.around(turn)
                flops[precision] = work_of(size, length, pool).training * rows
                left, inner, right = map(int, best[precision]["shape"].split("x"))
                calls = max(1, round(flops[precision] / (2 * left * inner * right)))
                call = product(best[precision]["way"], *factors(left, inner, right))

                def products(call: Any = call, calls: int = calls) -> None:
                    for _ in range(calls):
                        call()

                arms[f"{precision} product"] = products
                flops[f"{precision} product"] = 2.0 * left * inner * right * calls
            seconds = in_turns(arms, size.repeats)
    for precision in PRECISIONS:
        mine = [s / flops[precision] for s in seconds[precision]]
        top = [s / flops[f"{precision} product"] for s in seconds[f"{precision} product"]]
        rate, most = 1e-9 / np.median(mine), 1e-9 / np.median(top)
        print(
            f"tower, {pool}, L = {length}, {precision}: {rate:.0f} GF/s of needed work, the best "
            f"product {most:.0f}: share {ratio(top, mine)}"
        )


# --- curves ----------------------------------------------------------------------------------


def curves(data: Path, steps: int) -> None:
    """Losses of ours and of the loop by hand on the same rows, printed beside two seeds of it."""
    prepare()
    from ttf.tools.bench.ours import Course, OurLoop, TorchSettings, opened

    size = dataclasses.replace(
        REFERENCE, micro_batch=96, accumulate=1, dim=384, hidden=256, length=16, memory_bank=10_000
    )
    same = ("train.clip=0", "train.schedule=constant", "train.warmup=0")
    paths = {"pairs": data / "windows.npz", "context": data / "context.npz"}
    files = {**paths, "bank": data / "bank.npz"}
    courses = [Course(pool="mean", precision=precision, sets=same) for precision in PRECISIONS]
    by_hand = TorchSettings()
    found: dict[str, list[float]] = {}
    with (
        tempfile.TemporaryDirectory(prefix="ttf-bench-") as folder,
        opened(Path(folder), size, courses, files, filled=False) as loops,
    ):
        first: OurLoop = loops[0]
        weights = {k: v.clone() for k, v in first.session.parts.model.query.state_dict().items()}
        by_hand()
        found["by hand"] = _by_hand(first.session, size, steps, weights, order=0)
        found["by hand, other order of rows"] = _by_hand(
            first.session, size, steps, weights, order=steps
        )
        for loop, precision in zip(loops, PRECISIONS, strict=True):
            loop.settings()
            found[f"ours, {precision}"] = [loop.step() for _ in range(steps)]
    _compare(found)


def _by_hand(
    session: Any, size: Size, steps: int, weights: Mapping[str, Any], *, order: int
) -> list[float]:
    """The loop by hand from the same weights; `order`: 0 for our rows, else another seed's."""
    import torch

    from ttf.data.order import Order
    from ttf.tools.bench.loops import Contrast, PlainTower, adamw

    tower = PlainTower(size.dim, size.hidden, size.dim, "mean")
    tower.load_state_dict({_plain_name(name): value for name, value in weights.items()})
    contrast = Contrast(torch.empty(0, size.dim), size.memory_bank)
    optimizer = adamw(tower, 1e-3)
    rows_of = session.decided.order
    if order:
        rows_of = Order(
            size=rows_of.size,
            samples_per_step=rows_of.samples_per_step,
            seed=rows_of.seed + 1,
            fingerprint=rows_of.fingerprint,
        )
    train, losses = session.data.train, []
    for step in range(steps):
        rows = rows_of.rows(step)
        total = 0.0
        for start in range(0, len(rows), size.micro_batch):
            part = rows[start : start + size.micro_batch]
            x = torch.from_numpy(train.batch(part).x)
            documents = torch.from_numpy(session.parts.documents.read(train.known(part)[:, 0]))
            loss = contrast(tower(x), documents) / size.accumulate
            loss.backward()
            total += loss.item()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(total)
    return losses


def _plain_name(name: str) -> str:
    return name.replace("rnn.", "gru.").replace("head.projection.", "head.")


def _compare(found: Mapping[str, list[float]]) -> None:
    window = np.ones(SMOOTH) / SMOOTH
    smooth = {name: np.convolve(losses, window, "valid") for name, losses in found.items()}
    marks = [0, 49, 99, 199, 299]
    for name, losses in found.items():
        shown = ", ".join(f"{losses[m]:.4f}" for m in marks if m < len(losses))
        print(f"{name:30s} loss at steps 1, 50, 100, 200, 300: {shown}; last {SMOOTH}: "
              f"{np.mean(losses[-SMOOTH:]):.4f}")  # fmt: skip
    reference = smooth["by hand"]
    for name, curve in smooth.items():
        if name != "by hand":
            apart = np.abs(curve - reference)
            print(f"{name:30s} from by hand: mean {apart.mean():.4f}, most {apart.max():.4f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=sorted(COURSES))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--part", type=int, default=16, help="micro-batches of a peer's turn")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--tower", action="store_true")
    parser.add_argument("--curve", action="store_true")
    parser.add_argument("--steps", type=int, default=CURVE_STEPS)
    parser.add_argument("--data", type=Path, default=NOVELS)
    given = parser.parse_args()
    if given.curve:
        curves(given.data, given.steps)
        return
    size = dataclasses.replace(QUICK if given.quick else REFERENCE, repeats=given.repeats)
    size = dataclasses.replace(size, peer_micro_batches=min(given.part, size.accumulate))
    kept = kept_ceilings()
    here = {} if kept is None else kept.to_json()
    if gemm_flops(here, "fp32") is None:
        raise SystemExit("The ceilings of this machine were never measured: ttf bench")
    for course in [given.only] if given.only else list(COURSES):
        pool, single = COURSES[course]
        length = 1 if single else size.length
        if given.tower:
            tower_share(pool, length, size)
        else:
            name = f"train-{course}"
            told(measured(pool, length, size, ["plain-torch"], here, name=name), size.micro_batch)


if __name__ == "__main__":
    main()
