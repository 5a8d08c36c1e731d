"""The options of `ttf.train`, `ttf.plan` and `ttf.mine` with their types, for editors and type
checkers. A test compares them with the flags and the keys that they set."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, TypeAlias, TypedDict

Path: TypeAlias = str | os.PathLike[str]
# Numbers of Python, NumPy and torch; text is none of these.
Whole: TypeAlias = SupportsIndex
Real: TypeAlias = SupportsFloat
Auto: TypeAlias = Literal["auto"]


class Rows(Protocol):
    """An array, a tensor or a frame."""

    def __array__(self, *args: Any, **kwargs: Any) -> Any: ...


class Overrides(TypedDict, total=False):
    """Named like the flags of `ttf train`; each wins over the same key of the configuration."""

    pairs: Path | Mapping[str, object]
    bank: Path | Mapping[str, object] | Rows
    items: Whole
    context: Path | Mapping[str, object] | Rows
    val_split: Real | Auto
    storage: str
    tower: str
    doc_tower: str
    miner: str
    isolation: Literal["process", "none"]
    memory_bank: Whole | Auto
    epochs: Whole
    steps: Whole
    batch_size: Whole | Auto
    accum: Whole
    lr: Real
    seed: Whole
    init: Path
    device: str
    threads: Whole | Auto
    precision: Literal["fp32", "bf16", "auto"]
    core: bool


class MineOverrides(TypedDict, total=False):
    """Named like the flags of `ttf mine`."""

    k: Whole
    miner: str
    isolation: Literal["process", "none"]
    memory_budget: Whole | str
    threads: Whole | Auto
