"""What a PyTorch DataLoader will hold, by arithmetic, and what will be killed for it.

The figures of a process were measured with smaps (Linux x86-64, Python 3.11, torch 2.13, 2026-11-20):
a forked worker has 11 MB of its own, a spawned one 145 MB with torch and numpy; a worker holds the samples
of the batch that it makes, and each batch that waits lies in shared memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from ttf.hookspecs import Verdict
from ttf.machine.memory.limits import Limit
from ttf.text.numbers import size
from ttf.tools.doctor.check import fail, ok, warn

MB: Final = 10**6
MAIN: Final = 150 * MB
FORKED, SPAWNED = 11 * MB, 145 * MB
TIGHT: Final = 0.8
_TAKEN: Final = 2  # batches that the main process holds: the one in use, and the one just taken


@dataclass(frozen=True, kw_only=True)
class Loader:
    """A DataLoader and its dataset; sizes in bytes."""

    num_workers: int = 0
    batch_size: int = 1
    prefetch_factor: int = 2
    sample: int = 0  # one sample, as the batch holds it
    dataset: int = 0  # what the dataset object holds in memory; 0: mapped, or read from files
    objects: bool = False  # it holds Python objects (lists, dicts, strings), not arrays
    cache: int = 0  # what a dataset object may keep of what it has read, in each process
    model: int = 0  # weights, gradients, optimizer and activations of the main process
    spawn: bool = False
    pin_memory: bool = False
    loaders: int = 1  # alive at the same time, with persistent workers: training and validation

    @property
    def batch(self) -> int:
        return self.batch_size * self.sample

    @property
    def waiting(self) -> int:
        """Batches in shared memory that nobody has taken yet."""
        return self.loaders * self.num_workers * self.prefetch_factor * self.batch


@dataclass(frozen=True)
class Part:
    what: str
    bytes: int
    why: str


def parts(loader: Loader) -> Iterator[Part]:
    """What all processes together hold at most."""
    pinned = 2 if loader.pin_memory else 1
    yield Part("main process", MAIN + loader.model, "Python, torch, numpy and the model")
    if loader.dataset:
        yield Part("dataset in the main process", loader.dataset, "as given")
    in_main = _TAKEN * pinned * loader.batch
    yield Part("batches in the main process", in_main, f"{_TAKEN * pinned} x {size(loader.batch)}")
    caching = max(1, loader.loaders * loader.num_workers)
    if loader.cache:
        yield Part("caches", caching * loader.cache, f"{caching} x {size(loader.cache)}")
    workers = loader.loaders * loader.num_workers
    if not workers:
        return
    own = SPAWNED if loader.spawn else FORKED
    how = "spawned" if loader.spawn else "forked"
    yield Part("workers", workers * own, f"{workers} {how} x {size(own)}")
    yield Part("batches being made", workers * loader.batch, f"{workers} x {size(loader.batch)}")
    waits = f"{workers} workers x {loader.prefetch_factor} x {size(loader.batch)}"
    yield Part("batches that wait, in shared memory", loader.waiting, waits)
    if loader.dataset and loader.spawn:
        copies = f"{workers} x {size(loader.dataset)}: a spawned worker gets a copy of the dataset"
        yield Part("copies of the dataset", workers * loader.dataset, copies)
    elif loader.dataset and loader.objects:
        copies = (
            f"{workers} x {size(loader.dataset)}: reading a Python object changes its reference "
            "count, so a forked worker copies every page that it reads"
        )
        yield Part("copies of the dataset", workers * loader.dataset, copies)


def total(loader: Loader) -> int:
    return sum(part.bytes for part in parts(loader))


def judged(loader: Loader, limit: Limit, shared: Limit | None) -> Verdict:
    """`shared`: what /dev/shm can take."""
    found = [*parts(loader)]
    evidence = [f"{size(part.bytes)}: {part.what} ({part.why})" for part in found if part.bytes]
    whole = total(loader)
    held = f"{size(whole)} predicted, the limit is {size(limit.bytes)} ({limit.source})"
    if shared is not None and loader.waiting > shared.bytes:
        return fail(
            f"A worker will die of SIGBUS ({_BUS}): {size(loader.waiting)} of batches wait in "
            f"shared memory, but {shared.source} takes {size(shared.bytes)}.",
            *evidence,
            remedy=_remedy(loader, limit) + " Or docker run --shm-size.",
        )
    if whole > limit.bytes:
        return fail(
            f"This will be killed: {held}. {_victim(loader, limit)}",
            *evidence,
            remedy=_remedy(loader, limit),
        )
    if whole > TIGHT * limit.bytes:
        return warn(f"There is little room: {held}.", *evidence, remedy=_remedy(loader, limit))
    return ok(f"fits: {held}", *evidence)


_BUS: Final = "DataLoader worker is killed by signal: Bus error"


def _victim(loader: Loader, limit: Limit) -> str:
    """Who goes first: the kernel kills the process with the most memory of its own."""
    if limit.source.startswith("RLIMIT"):
        return "The process that asks for too much gets a MemoryError or a RuntimeError."
    main = MAIN + loader.model + loader.dataset + _TAKEN * loader.batch
    copies = loader.dataset if loader.spawn or loader.objects else 0
    worker = (SPAWNED if loader.spawn else FORKED) + loader.batch + loader.cache + copies
    if not loader.num_workers or main + loader.cache * (not loader.num_workers) >= worker:
        return "The kernel will kill the main process first: it ends with exit code 137 (SIGKILL)."
    return (
        'The kernel will kill a worker first: the main process says "DataLoader worker (pid ...) is '
        'killed by signal: Killed".'
    )


def _remedy(loader: Loader, limit: Limit) -> str:
    most = TIGHT * limit.bytes
    fitting = next((c for c in _smaller(loader, most) if total(c[1]) <= most), None)
    if fitting is None:
        return (
            "No number of workers makes this fit: map the data (np.load(..., mmap_mode='r') of .npy "
            "files) instead of holding it, or make the caches and the batch smaller."
        )
    what, smaller = fitting
    return f"With {what} it is predicted to hold {size(total(smaller))}."


def _smaller(loader: Loader, most: float) -> Iterator[tuple[str, Loader]]:
    """Smaller settings, those that cost least first; of the numbers of workers the largest that holds
    at most that many bytes."""
    if loader.prefetch_factor > 1:
        yield "prefetch_factor=1", replace(loader, prefetch_factor=1)

    def few(workers: int) -> Loader:
        prefetched = min(2, loader.prefetch_factor)
        return replace(loader, num_workers=workers, prefetch_factor=prefetched)

    fitting = bisect_right(range(loader.num_workers), most, key=lambda n: total(few(n)))
    if fitting:
        yield f"num_workers={fitting - 1}", few(fitting - 1)
    if loader.cache:
        yield "num_workers=0 and no cache", replace(loader, num_workers=0, cache=0)
