"""The remedies of each incident class: configuration edits, cheapest first.

`KMP_DUPLICATE_LIB_OK` is not a remedy: it silences a check, and its authors warn of silently wrong
results.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ttf.incidents.death import ProcessName, Remedy

_IN_CTYPES: Final = re.compile(r"[/\\]ctypes[/\\]")
SMALLEST_BUDGET: Final = 64 << 20
# Deep accumulation is suspect on some devices; their remedy reduces it to this.
MOST_ACCUMULATE: Final = 4
_CPU: Final = "cpu"
_FLAGS: Final = {
    "miner.isolation": "--isolation",
    "miner.name": "--miner",
    "train.batch_size": "--batch-size",
    "train.accumulate": "--accum",
    "device.name": "--device",
    "device.threads": "--threads",
}


@dataclass(frozen=True)
class Situation:
    """What a recipe may read."""

    settings: Mapping[str, Any]
    process: ProcessName
    phase: str

    def number(self, key: str) -> int | None:
        value = self.settings.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def while_searching(self) -> bool:
        return self.process == "miner" or self.phase in ("mining", "evaluate")

    @property
    def accumulation_cap(self) -> int | None:
        # Set if the device in use limits accumulation.
        return self.number(f"device.{self.settings.get('device.name')}.max_accumulate")


Recipe = Callable[[Situation], Remedy | None]


def remedies_for(
    name: str,
    settings: Mapping[str, Any],
    *,
    process: ProcessName = "trainer",
    phase: str = "",
    frame: str = "",
    threads: bool = True,
) -> tuple[Remedy, ...]:
    """Returns configuration edits for an incident class, or ().

    The configuration of a foreign command is unknown: its remedies are advice with an empty `set`.
    `frame`: where its Python was. `threads`: it may have had threads of OpenMP.
    """
    if process == "command":
        return tuple(Remedy(text=text) for text in _advice(name, frame, threads))
    situation = Situation(settings, process, phase)
    found = (recipe(situation) for recipe in RECIPES.get(name, ()))
    return tuple(remedy for remedy in found if remedy is not None)


def without_device() -> Remedy:
    """Of a trainer that found its device's numbers to be wrong."""
    return _remedy(
        {"device.name": _CPU},
        "the rest was computed on a different device, because the parity probe failed",
    )


def _advice(name: str, frame: str, threads: bool) -> Iterator[str]:
    by_ctypes = _IN_CTYPES.search(frame) is not None
    for text in ADVICE.get(name, ()):
        if text != _THREADS:
            yield text
        elif by_ctypes:
            yield _CTYPES
        elif threads:
            yield text


def command(edits: Mapping[str, Any]) -> str:
    """The edits as a person types them.

    >>> command({"miner.isolation": "process"})
    'ttf train ... --isolation process'
    """
    words = [
        f"{_FLAGS[key]} {value}" if key in _FLAGS else f"--set {key}={value}"
        for key, value in edits.items()
    ]
    return " ".join(["ttf train ...", *words])


def _remedy(edits: Mapping[str, Any], deviation: str = "") -> Remedy:
    return Remedy(text=command(edits), set=dict(edits), deviation=deviation)


# --- recipes ---------------------------------------------------------------------------------------


def _isolate(situation: Situation) -> Remedy | None:
    if situation.process == "miner" or situation.settings.get("miner.isolation") != "none":
        return None
    return _remedy({"miner.isolation": "process"})


def _other_miner(situation: Situation) -> Remedy | None:
    # Only if the miner process died: another miner does not help a trainer.
    name = situation.settings.get("miner.name")
    if situation.process != "miner" or name is None:
        return None
    others = [*(situation.settings.get("miner.fallback") or ()), "exact"]
    other = next((choice for choice in others if choice != name), None)
    if other is None:
        return None
    return _remedy(
        {"miner.name": other},
        f"mined negatives come from the miner {other} instead of {name}",
    )


def _smaller_budget(situation: Situation) -> Remedy | None:
    budget = situation.number("memory.budget")
    if not situation.while_searching or budget is None or budget < 2 * SMALLEST_BUDGET:
        return None
    smaller = max(SMALLEST_BUDGET, budget // 4)  # few restarts, little lost: it costs only time
    return _remedy(
        {"memory.budget": smaller},
        "smaller blocks in mining and evaluation: the scores differ by rounding only",
    )


def _unfused(situation: Situation) -> Remedy | None:
    """Turns off fusing: one micro-batch at a time, as configured."""
    fused = situation.number("train.fuse")
    if fused is None or fused < 2 or situation.process == "miner":
        return None
    batch, parts = situation.number("train.batch_size"), situation.number("train.accumulate")
    text = _deviation(situation, batch or 1, parts or 1, parts or 1, batch or 1)
    return _remedy({"train.fuse": 1}, text)


def _smaller_micro_batch(situation: Situation) -> Remedy | None:
    """The same optimizer step in more parts: divides the batch size by its smallest factor."""
    batch, parts = situation.number("train.batch_size"), situation.number("train.accumulate")
    if batch is None or parts is None or batch < 2 or situation.process == "miner":
        return None
    factor = next(n for n in range(2, batch + 1) if batch % n == 0)
    smaller, more = batch // factor, parts * factor
    edits = {"train.batch_size": smaller, "train.accumulate": more}
    if "train.fuse" in situation.settings:
        edits["train.fuse"] = 1  # else the parts would be put together again
    return _remedy(edits, _deviation(situation, smaller, parts, more, batch))


def _deviation(situation: Situation, smaller: int, parts: int, more: int, batch: int) -> str:
    text = "the same optimizer step in smaller micro-batches: the results differ by rounding only"
    if any(situation.settings.get(f"tower.{side}.dropout") for side in ("query", "doc")):
        text = (
            "the same optimizer step in smaller micro-batches: rounding differs, and dropout "
            "drops other values"
        )
    cap = situation.accumulation_cap
    if cap is not None and more > cap:
        before, after = batch * min(parts, cap), smaller * cap
        text = (
            f"the device allows {cap} micro-batches per step: a step has {after} samples "
            f"instead of {before}"
        )
    return text


def _on_cpu(situation: Situation) -> Remedy | None:
    name = situation.settings.get("device.name")
    if name in (None, _CPU) or situation.process == "miner":
        return None
    return _remedy(
        {"device.name": _CPU}, f"computed on the cpu instead of {name}: rounding differs"
    )


def _capped_accumulation(situation: Situation) -> Remedy | None:
    # Only if the device itself has a cap: on other devices deep accumulation is not suspect.
    batch, parts = situation.number("train.batch_size"), situation.number("train.accumulate")
    cap = situation.accumulation_cap
    if situation.process == "miner" or batch is None or parts is None or cap is None:
        return None
    granted = min(parts, cap)
    if granted <= MOST_ACCUMULATE:
        return None
    samples = batch * granted
    fewer = next(n for n in range(MOST_ACCUMULATE, 0, -1) if samples % n == 0)
    return _remedy(
        {"train.batch_size": samples // fewer, "train.accumulate": fewer},
        "the same optimizer step in larger micro-batches: the results differ by rounding only",
    )


def _one_thread(situation: Situation) -> Remedy | None:
    key = "miner.threads" if situation.process == "miner" else "device.threads"
    if situation.settings.get(key) in (None, 1):
        return None
    return _remedy(
        {key: 1}, "one thread: the order of sums changes, and the results differ by rounding only"
    )


_MEMORY: Final[tuple[Recipe, ...]] = (_smaller_budget, _unfused, _smaller_micro_batch)
_NATIVE: Final[tuple[Recipe, ...]] = (
    _isolate,
    _other_miner,
    _on_cpu,
    _capped_accumulation,
    _one_thread,
)
# No edit avoids the classes that are missing here.
RECIPES: Final[Mapping[str, tuple[Recipe, ...]]] = {
    "omp-duplicate": (_isolate, _other_miner),
    "oom-kill": _MEMORY,
    "memory-limit": _MEMORY,
    "alloc-failure": _MEMORY,
    "segfault": _NATIVE,
    "abort": _NATIVE,
    "heap-corruption": _NATIVE,
    "cxx-exception": _NATIVE,
    "bus-error": _NATIVE,
    "illegal-instruction": _NATIVE,
    "hang": _NATIVE,
    "device-lost": (_on_cpu,),
    "unknown": (_other_miner,),
}

_THREADS: Final = (
    "Set OMP_NUM_THREADS=1. Run libraries that start their own threads in other processes."
)
_CTYPES: Final = (
    "The crash is in a call through ctypes: check the arguments, argtypes and restype of this call."
)
_NATIVE_ADVICE: Final = (
    "Look at the stacks in faulthandler.txt. The innermost frame is the call that crashed.",
    _THREADS,
)
AFTER_A_REASON: Final = (
    _NATIVE_ADVICE[0],
    "Search for this message, together with the name of the library that wrote it.",
)
AFTER_A_HANG: Final = (
    "Start worker processes with spawn, not with fork, and set OMP_NUM_THREADS=1.",
    "If the command was only slow, use a longer --hang-timeout.",
)
AFTER_A_WAIT_FOR_A_LOCK: Final = (
    (
        "Make sure that no other process builds or downloads the same. Then remove the lock file: of an "
        "extension of torch, the file lock in its build folder (~/.cache/torch_extensions, "
        "TORCH_EXTENSIONS_DIR)."
    ),
    "If the command was only slow, use a longer --hang-timeout.",
)
AFTER_A_WAIT_FOR_INPUT: Final = (
    "Answer in advance, with an option or a variable of the library that asks.",
    "Without an input (< /dev/null), a question is an error at once.",
)
IF_OTHERS_HELD_IT: Final = (
    "Look at the files in /dev/shm and other file systems in memory (df -t tmpfs): write them to a disk.",
    "If the command itself grew at once: a smaller batch, fewer workers, or a higher memory limit.",
)
AFTER_A_WAIT_FOR_STORAGE: Final = (
    "Check the disk or the network file system of the files that it uses (dmesg, mount, df).",
)
_NEW_FILE: Final = (
    "Never change a data file while it is read. Write new data to a new file in the same folder, "
    "then rename the new file over the old one."
)
ADVICE: Final[Mapping[str, tuple[str, ...]]] = {
    "omp-duplicate": (
        "Two libraries contain an OpenMP runtime: run them in separate processes.",
        "Install both libraries from one source that shares the runtime (conda-forge).",
    ),
    "oom-kill": ("Use a smaller batch, fewer workers, or a higher memory limit.",),
    "memory-limit": ("Use a smaller batch, fewer workers, or a higher --memory-limit.",),
    "alloc-failure": ("Use a smaller batch, or raise the limit (ulimit -v, ulimit -d).",),
    "segfault": _NATIVE_ADVICE,
    "abort": _NATIVE_ADVICE,
    "heap-corruption": (
        (
            "Run the command once under valgrind, or with MALLOC_CHECK_=3, to find the first wrong "
            "write."
        ),
        *_NATIVE_ADVICE,
    ),
    "cxx-exception": _NATIVE_ADVICE[:1],
    "bus-error": (
        _NEW_FILE,
        "If the command uses shared memory, check the free space in /dev/shm (docker: --shm-size).",
    ),
    "hang": (
        "Look at the stacks in faulthandler.txt: they show where each thread was waiting.",
        *AFTER_A_HANG,
    ),
    "illegal-instruction": (
        "On this machine, build the library that crashed again from its source.",
    ),
    "cpu-limit": ("Raise the limit of processor time: ulimit -t.",),
    "disk-full": (
        "Free some space, or write to another disk.",
        "If shared memory is full: use fewer workers, or enlarge /dev/shm (docker: --shm-size).",
    ),
    "data-changed": (_NEW_FILE,),
    "device-lost": ("Run on the CPU, or look at the log of the driver.",),
    "non-finite": (
        "Lower the learning rate, clip gradients, use fp32, or check the data for NaN.",
    ),
    "rendezvous-failed": (
        "Check that every process starts, with the same address and port.",
        "End processes of an earlier training.",
    ),
    "peer-lost": ("Look at the output of the other processes: the first one that ended.",),
    "network-partition": ("Check the network between the machines.",),
    "store-lost": ("Look at the output of rank 0 and of the launcher on its machine.",),
    "wrong-interface": (
        "List the interfaces (ip addr), then set GLOO_SOCKET_IFNAME or NCCL_SOCKET_IFNAME, or neither.",
    ),
    "clock-skew": ("Set the clock of the machine: timedatectl set-ntp true.",),
    "ranks-disagree": ("Use the same version, options and files on all machines.",),
    "straggler": ("Use a longer timeout, or fewer processes on that machine.",),
    "vanished": ("Search for os._exit in the script and its libraries. Use sys.exit instead.",),
}
