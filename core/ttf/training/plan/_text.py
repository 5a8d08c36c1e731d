"""A plan as aligned text of at most 80 columns, if names and paths allow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from ttf.text.numbers import duration, size
from ttf.text.terminal import wrapped
from ttf.training.plan import _scale_text
from ttf.training.plan._model import PHASES, Plan

WIDTH = 79  # Some terminals break a line that fills all 80 columns.
LEAST_WRAPPED = 16


def render(plan: Plan) -> str:
    blocks = [_head(plan), _data(plan), _memory(plan), _disk(plan), _time(plan), _scale(plan)]
    blocks.append(_verdict(plan))
    return "\n\n".join(block for block in blocks if block)


def _head(plan: Plan) -> str:
    c = plan.choices
    miner = f", negatives mined by {c.miner}" if c.miner else ", no mined negatives"
    passes = c.samples / max(plan.facts.train_pairs, 1)
    towers = f"{plan.towers[0]} -> {plan.towers[1]}"
    threads = "1 thread" if c.threads == 1 else f"{c.threads} threads"
    where = f"on {c.device}, {threads}, {c.precision}{miner}"
    step = f"{c.batch.samples:,} samples ({c.batch.cut})"
    pairs = f"{passes:.1f} passes over {plan.facts.train_pairs:,} pairs"
    lines = [f"{towers} {where}", f"{c.total_steps:,} optimizer steps of {step}: {pairs}"]
    if 0 < c.patience < c.evaluations - 1:
        lines.append(f"ends early after {c.patience} evaluations without improvement")
    lines += [f"gate at {g['at']} (step {g['step']:,}): {g['need']}" for g in c.gates]
    # A note is one line, as everywhere: it is searched for.
    return "\n".join([*map(_wrapped, lines), *(f"note: {note}" for note in c.notes)])


def _data(plan: Plan) -> str:
    rows = [
        (
            f"{PurePosixPath(a.uri).name}: {a.name}",
            " x ".join(f"{n:,}" for n in a.shape),
            a.dtype,
            size(a.bytes),
            a.access,
        )
        for a in plan.facts.arrays
    ]
    return _table("Data", ("", "", "", "size", "read"), rows, "lllrl") if rows else ""


def _memory(plan: Plan) -> str:
    rows: list[tuple[str, str, str, str]] = [
        (
            item.component,
            "the whole run" if item.phase == "always" else item.phase,
            size(b),
            item.why,
        )
        for item in plan.items
        if (b := item.anon_bytes)
    ]
    rows += [
        (f"= while {phase}" if phase == "training" else f"= during {phase}", "", size(b), "")
        for phase in PHASES
        if (b := plan.anon_bytes(phase)) and any(item.phase == phase for item in plan.items)
    ]
    table = _table("Memory (anonymous)", ("", "held", "size", ""), rows, "llrl")
    if plan.file_bytes:
        table += "\n" + _wrapped(
            f"  File-backed, up to {size(plan.file_bytes)}: page cache of the mapped arrays. The "
            "kernel frees it when memory is needed."
        )
    return table


def _disk(plan: Plan) -> str:
    rows = [(i.component, size(i.disk_bytes), i.why) for i in plan.items if i.disk_bytes]
    rows.append(("= in the run folder and the cache", size(plan.disk_bytes), ""))
    return _table("Disk", ("", "size", ""), rows, "lrl")


def _time(plan: Plan) -> str:
    rows = [(i.component, duration(i.seconds), i.why) for i in plan.items if i.seconds]
    whole = duration(plan.seconds) if plan.seconds >= 1 else "less than a second"
    rows.append(("= in total", whole, ""))
    title = (
        f"Time (rough: {plan.gflops_per_thread:.0f} GFLOP/s per thread, a fixed assumption; the "
        "real time can be half or twice as long)"
    )
    return _table(title, ("", "time", ""), rows, "lrl")


def _scale(plan: Plan) -> str:
    if plan.scale is None:
        return ""
    return _table(_scale_text.title(plan.scale), ("", "", ""), _scale_text.rows(plan.scale), "lrl")


def _verdict(plan: Plan) -> str:
    peak, limit = plan.peak_anon_bytes, plan.limit
    what = f"{size(peak)} predicted during {plan.peak_phase}, the limit is {size(limit.bytes)}"
    if plan.fits and plan.scale is not None and not plan.scale.fits:
        held = size(plan.scale.node_anon_bytes)
        return _wrapped(
            f"Perhaps does NOT fit: the {plan.scale.shape.ranks} ranks of a node hold up to {held}, the "
            f"limit is {size(limit.bytes)} ({limit.source}). Use fewer ranks, or lower the options "
            "above."
        )
    if plan.fits:
        return _wrapped(f"Fits: {what} ({limit.source}).")
    return "\n".join([_wrapped(f"Does NOT fit: {what} ({limit.source})."), *_advice(plan)])


def _advice(plan: Plan) -> Iterable[str]:
    """The options that can lower the peak, the one with the most memory first."""
    over = plan.peak_anon_bytes - plan.limit.bytes
    options = plan.lowerable[:3]
    fixed = plan.peak_anon_bytes - sum(held for _, held, _ in plan.lowerable)
    if fixed > plan.limit.bytes:
        yield _wrapped(
            f"{size(fixed)} of this cannot be lowered by an option: use a machine with more "
            "memory, or a smaller tower."
        )
        return
    yield f"{size(over)} too much. Options to lower, the one with the most memory first:"
    for option, held, names in options:
        yield _wrapped(f"  {option}: {size(held)} for {', '.join(names)}", indent="    ")
    yield "Or use a machine with more memory."


def _wrapped(text: str, indent: str = "  ") -> str:
    return "\n".join(wrapped(text, WIDTH, hang=len(indent)))


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    body = [tuple(row) for row in rows]
    lines = [tuple(head), *body] if any(head) else body
    widths = [max(len(line[column]) for line in lines) for column in range(len(align) - 1)]
    left = 2 + sum(width + 2 for width in widths)
    shown = []
    for line in body:
        cells = zip(line[:-1], widths, align[:-1], strict=True)
        padded = [cell.rjust(w) if side == "r" else cell.ljust(w) for cell, w, side in cells]
        start = "  " + "".join(cell + "  " for cell in padded)
        first, *more = wrapped(line[-1], max(LEAST_WRAPPED, WIDTH - left)) or [""]
        shown += [(start + first).rstrip(), *(" " * left + part for part in more)]
    return "\n".join([_wrapped(title), *shown])
