"""A plan as aligned text, 80 columns where the names allow it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import PurePosixPath

from ttf.plan._model import PHASES, Plan
from ttf.reporting.text import duration, size


def render(plan: Plan) -> str:
    blocks = [_head(plan), _data(plan), _memory(plan), _disk(plan), _time(plan), _verdict(plan)]
    return "\n\n".join(block for block in blocks if block)


def _head(plan: Plan) -> str:
    c = plan.choices
    miner = f", negatives from {c.miner}" if c.miner else ", no mined negatives"
    passes = c.samples / max(plan.facts.train_pairs, 1)
    towers = f"{plan.towers[0]} -> {plan.towers[1]}"
    where = f"on {c.device}, {c.threads} threads, {c.precision}{miner}"
    step = f"{c.batch.samples:,} samples ({c.batch.micro_batch} x {c.batch.accumulate})"
    pairs = f"{passes:.1f} passes over {plan.facts.train_pairs:,} pairs"
    lines = [f"{towers} {where}", f"{c.total_steps:,} optimizer steps of {step}: {pairs}"]
    return "\n".join([*lines, *(f"note: {note}" for note in c.notes)])


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
        (item.component, "all along" if item.phase == "always" else item.phase, size(b), item.why)
        for item in plan.items
        if (b := item.anon_bytes)
    ]
    rows += [
        (f"= while {phase}" if phase == "training" else f"= during {phase}", "", size(b), "")
        for phase in PHASES
        if (b := plan.anon_bytes(phase)) and (phase != "mining" or plan.choices.miner)
    ]
    table = _table("Memory (anonymous)", ("", "held", "size", ""), rows, "llrl")
    if plan.file_bytes:
        table += (
            f"\n  File-backed, up to {size(plan.file_bytes)}: page cache of the mapped arrays, "
            "given back when needed."
        )
    return table


def _disk(plan: Plan) -> str:
    rows = [(i.component, size(i.disk_bytes), i.why) for i in plan.items if i.disk_bytes]
    rows.append(("= in the run's folder and cache", size(plan.disk_bytes), ""))
    return _table("Disk", ("", "size", ""), rows, "lrl")


def _time(plan: Plan) -> str:
    rows = [(i.component, duration(i.seconds), i.why) for i in plan.items if i.seconds]
    rows.append(("= in all", duration(plan.seconds), ""))
    title = (
        f"Time (rough: {plan.gflops_per_thread:.0f} GFLOP/s a thread, a static figure; "
        "expect a factor of two either way)"
    )
    return _table(title, ("", "time", ""), rows, "lrl")


def _verdict(plan: Plan) -> str:
    peak, limit = plan.peak_anon_bytes, plan.limit
    what = f"{size(peak)} predicted during {plan.peak_phase}, {size(limit.bytes)} allowed"
    if plan.fits:
        return f"Fits: {what} ({limit.source})."
    return (
        f"Does NOT fit: {what} ({limit.source}).\n"
        "Lower --batch-size, --memory-bank or memory.budget, or give it more memory."
    )


def _table(title: str, head: Sequence[str], rows: Iterable[Sequence[str]], align: str) -> str:
    """Columns as wide as their widest cell; the last one is never padded."""
    body = [tuple(row) for row in rows]
    lines = [tuple(head), *body] if any(head) else body
    widths = [max(len(line[column]) for line in lines) for column in range(len(align))]
    shown = [
        "  "
        + "  ".join(
            cell.rjust(width) if side == "r" else cell.ljust(width)
            for cell, width, side in zip(line, widths, align, strict=True)
        ).rstrip()
        for line in body
    ]
    return "\n".join([title, *shown])
