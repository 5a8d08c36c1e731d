"""Chooses the float32 products for this processor: from a static table, or from a measured row.

Measures no time itself: two processes with the same configuration must decide the same.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal

from ttf import ArtifactDamaged, Processor, Settled, tuned_row

ASK_FOR_MORE: Final = "ttf bench --tune measures whether another path is faster on this machine"


@dataclass(frozen=True, kw_only=True)
class Row:
    """A kind of processor, and its path of float32 products."""

    name: str
    fits: Callable[[Processor], bool]
    float32: Literal["highest", "medium"]
    why: str
    bf16: str = ""  # what is known about bf16 products, if the processor has a unit for them


# The first row that fits counts.
TABLE: Final = (
    Row(
        name="x86 with AMX",
        fits=lambda p: "amx_bf16" in p.flags,
        float32="highest",
        why="on a processor with AMX, medium would multiply in bf16",
    ),
    Row(
        name="AMD Zen 5",
        fits=lambda p: p.vendor == "AuthenticAMD" and p.family == 26 and "avx512f" in p.flags,
        float32="medium",
        why=(
            "on AMD Zen 5, the float32 products of oneDNN were 1.8 to 2 times as fast as "
            "those of MKL, with an error of 9e-7"
        ),
        bf16="1.7 to 1.9 times the speed of float32 on AMD Zen 5",
    ),
    Row(
        name="AMD with AVX-512",
        fits=lambda p: p.vendor == "AuthenticAMD" and "avx512f" in p.flags,
        float32="highest",
        why=f"the default of torch; this processor was never measured, and {ASK_FOR_MORE}",
    ),
    Row(
        name="x86 with AVX-512",
        fits=lambda p: "avx512f" in p.flags,
        float32="highest",
        why=f"the default of torch (MKL) is made for this processor; {ASK_FOR_MORE}",
    ),
    Row(
        name="x86",
        fits=lambda p: not p.arm and "avx2" in p.flags,
        float32="highest",
        why="torch uses the products of oneDNN only on processors with AVX-512",
    ),
    Row(
        name="Apple",
        fits=lambda p: p.apple,
        float32="highest",
        why="the default of torch (Accelerate) is the only path on a Mac",
        bf16="never measured on a Mac",
    ),
    Row(
        name="Arm with bf16",
        fits=lambda p: p.arm and "bf16" in p.flags,
        float32="highest",
        why="medium may multiply in bf16 on this processor",
    ),
    Row(
        name="any other",
        fits=lambda p: True,
        float32="highest",
        why="the default of torch; there are no measurements for this processor",
    ),
)


def row_of(processor: Processor) -> Row:
    return next(row for row in TABLE if row.fits(processor))


def settle(processor: Processor) -> Settled:
    """Returns the path for this machine: from the tuned row if there is one, else from the
    table."""
    row = row_of(processor)
    table = f"table, {row.name}: {row.why}"
    try:
        tuned = tuned_row()
    except ArtifactDamaged as error:
        return Settled(
            value=row.float32,
            reason=f"{table} (the tuned row is damaged)",
            note=(
                f"{error} ttf uses its table to choose the path of float32 products: "
                f"{row.float32}. {error.hint}"
            ),
        )
    if tuned is None:
        return Settled(value=row.float32, reason=table)
    if tuned.float32 is None:
        return Settled(value=row.float32, reason=f"{table}; measured {tuned.date}, {tuned.why}")
    return Settled(
        value=tuned.float32, reason=f"measured on this machine on {tuned.date}: {tuned.why}"
    )


def bf16_unit(processor: Processor) -> str:
    """Returns the unit for bf16 products and what is known about it; "" without a unit."""
    unit = processor.bf16_unit
    if not unit:
        return ""
    known = row_of(processor).bf16
    # A damaged row is told of by `settle`.
    with contextlib.suppress(ArtifactDamaged):
        tuned = tuned_row()
        if tuned is not None and tuned.bf16_gain is not None:
            known = f"{tuned.bf16_gain:.1f} times the speed of float32, measured on {tuned.date}"
    return f"{unit} ({known})" if known else unit
