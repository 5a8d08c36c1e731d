"""One foreign death, and what an engineer would call it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, kw_only=True)
class Foreign:
    name: str
    right: tuple[str, ...]
    """Classes that say what happened."""
    code: str = ""
    """Under guard: the script. In a run: what an observer does after step 12, once."""
    certain: bool = False
    """Whether something other than words proves the cause."""
    under: Literal["guard", "train", "miner"] = "guard"
    """miner: the process of the miner loads `native` and calls its `omp_get_max_threads`."""
    exit_codes: tuple[int, ...] = ()
    """Of the command; empty: any."""
    says: str = ""
    """A regular expression that the explanation or the evidence must contain: the cause."""
    never: str = ""
    """One that neither may contain: it would be false here."""
    native: str = ""
    """Source of {here}/engine.so, in C, or in C++ where it includes a header of C++."""
    flags: tuple[str, ...] = ()
    """Of the compiler."""
    shell: str = ""
    """A line of shell that starts the script as {python} train.py; {here} is its folder."""
    options: tuple[str, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Of the run."""
    mounts: bool = False
    """Only root can do it."""
    beside: str = ""
    """A line of shell that runs beside the guard, where nothing ends it; {here} is the folder."""
    input_open: bool = False
    """Nobody writes to its standard input, and nobody closes it."""
    memory_mb: int = 0
    """How much all processes of it may hold, in a control group of their own; 0: no such group."""

    @property
    def cxx(self) -> bool:
        return "#include <thread>" in self.native
