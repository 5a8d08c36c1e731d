"""The four nouns of `ttf`: Tower, Miner, Store and DevicePolicy, and what makes them.

Every kind has two faces. The *factory* is what a plugin's hook hands out: light to import, it
declares its options (a frozen dataclass), says whether it can run here, and estimates its cost.
The *instance* does the work, in the process that needs it. Nothing here imports numpy or torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

Kind = Literal["tower", "miner", "storage", "device", "observer", "check"]
KINDS: tuple[Kind, ...] = ("tower", "miner", "storage", "device", "observer", "check")

DType = Literal["float32", "float16", "bfloat16", "int32", "int64", "uint8"]


@dataclass(frozen=True, kw_only=True)
class Availability:
    """Whether a plugin can run here, and why (not); `fix` is a command the user can type."""

    ok: bool
    reason: str = ""
    fix: str = ""


class Factory(Protocol):
    """What every kind's hook returns; imports nothing heavy until asked to create."""

    name: str
    options_type: type[Any]
    """A frozen, keyword-only dataclass whose fields are made with `ttf.option`."""

    def availability(self) -> Availability:
        """Cheap: looks for the libraries (`importlib.util.find_spec`), never imports them."""
        ...


class VectorSource(Protocol):
    """One named array of a store, read by rows; row 0 is the first axis.

    Rows come back in the stored type; bfloat16 comes back as uint16 bits (numpy has no bfloat16);
    `ttf.data.vectors.to_float32` widens them. Safe to call from several threads.
    """

    name: str
    uri: str
    shape: tuple[int, ...]
    dtype: DType

    def gather(self, ids: NDArray[np.int64], out: NDArray[Any] | None = None) -> NDArray[Any]:
        """The rows `ids` (any order, duplicates and negative ids as in numpy), copied.

        Raises IndexError for ids out of range, before anything is read.
        """
        ...

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows start..stop, contiguous; a read-only view where that needs no copy and no `out`."""
        ...

    def fingerprint(self) -> str:
        """Short hex digest of what identifies the content, from headers and the container's own
        checksums: it never reads the whole array."""
        ...


class Store(Protocol):
    """An open container of named arrays; owns its file handles and maps until `close`."""

    uri: str
    container: str

    def names(self) -> Sequence[str]: ...

    def source(self, name: str) -> VectorSource:
        """Raises ArrayMissing (with the closest name) or a BadData subclass."""
        ...

    def describe(self, name: str) -> Mapping[str, Any]:
        """For `ttf data inspect`: keys `stored` (e.g. "stored", "deflated", "zstd"), `mappable`,
        `aligned`, `bytes`; works for members that `source` refuses."""
        ...

    def check_unchanged(self) -> None:
        """Raises DataChanged when a file behind the store was replaced, cut or rewritten since it
        was opened; costs one stat call per file."""
        ...

    def verify(self) -> Iterator[str]:
        """Reads everything once; yields a problem a line (wrong checksum, short file)."""
        ...

    def close(self) -> None: ...


class ArrayWriter(Protocol):
    """Appends rows to one array of a new container."""

    def append(self, rows: NDArray[Any]) -> None: ...


class StoreWriter(Protocol):
    """Writes a new container with bounded memory; nothing is visible at the uri until `commit`."""

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> ArrayWriter:
        """Opens the next array; arrays are written one after another, in full."""
        ...

    def commit(self) -> None:
        """Flushes, fsyncs and renames into place. Raises if an array is short of rows."""
        ...

    def abort(self) -> None:
        """Removes what was written; does nothing after `commit`."""
        ...


class StorageFactory(Factory, Protocol):
    suffixes: tuple[str, ...]
    """File endings it reads, e.g. (".parquet",); the first is that of files made for it."""

    def claims(self, uri: str) -> bool:
        """Whether it reads this. A plugin of yours is asked where its name is the file's ending:
        `storage.parquet` for `bank.parquet`."""
        ...

    def open(self, uri: str) -> Store: ...

    def create(self, uri: str) -> StoreWriter: ...


@dataclass(frozen=True, kw_only=True)
class TowerShape:
    """What a tower gets to see: vectors of `in_dim`, alone (length 1) or `length` in a row."""

    in_dim: int
    length: int
    sequence: bool
    out_dim: int
    """The width the other side needs; a tower that cannot produce it raises ConfigError."""


@dataclass(frozen=True, kw_only=True)
class TowerCost:
    """Per sample, for the plan: what training keeps for backward, and the work of a forward."""

    parameters: int
    activation_bytes: int
    forward_flops: int


@runtime_checkable
class Tower(Protocol):
    """A `torch.nn.Module`: (B, D) or (B, L, D), optional lengths (B,), to (B, out_dim)."""

    in_dim: int
    out_dim: int
    frozen: bool
    """No trainable parameters: its outputs are computed once per row."""
    identity: bool
    """Returns its input as it is: rows of the bank can be used where they lie."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor: ...


class TowerFactory(Factory, Protocol):
    def estimate(self, shape: TowerShape, options: Any) -> TowerCost: ...

    def create(self, shape: TowerShape, options: Any) -> torch.nn.Module:
        """Called after seeding, so that initial weights follow from the run's seed. The module
        has the attributes of `Tower`."""
        ...


@dataclass(frozen=True, kw_only=True)
class MinerTraits:
    exact: bool
    deterministic: bool
    """Same source, seed and queries give the same ids, bit for bit."""
    has_index: bool
    """`build` makes something worth saving; the exact scan has nothing."""
    native: tuple[str, ...] = ()
    """Native libraries it loads (for doctor), e.g. ("faiss",)."""
    needs_torch: bool = False


@dataclass(frozen=True, kw_only=True)
class MinerCost:
    build_s: float
    search_s: float
    anon_bytes: int
    disk_bytes: int
    recall: float = 1.0
    """Expected share of the true k best that is found, of text vectors; nothing is promised."""


@dataclass(frozen=True, kw_only=True)
class MinerContext:
    """What the run grants a miner."""

    threads: int
    seed: int
    deterministic: bool
    budget_bytes: int
    """Anonymous memory the miner may use for its working blocks; where the index itself cannot
    fit, `build` raises ConfigError with the figure instead of trying."""
    cache: str | None = None
    """Folder for what may be kept for a bank that does not change; None: this bank is thrown
    away."""


class Miner(Protocol):
    """Finds the k best bank rows by dot product; numpy in, numpy out.

    Ids are rows of the source (int64, 0 <= id < rows), best first; ties by smaller id for exact
    miners. Never -1, never a duplicate in a row of the result: k is cut to the number of rows,
    and a search that comes back short is widened until it is not.
    """

    def build(self, source: VectorSource, workdir: Path) -> None:
        """Once per source. `workdir` is scratch space that is removed afterwards."""
        ...

    def search(
        self, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...

    def save(self, path: Path) -> None:
        """Writes the index into the existing, empty folder `path`; the caller hashes the files.
        Raises StorageError when what was written does not read back."""
        ...

    def load(self, path: Path, source: VectorSource) -> None:
        """The inverse; the caller has verified the hashes."""
        ...

    def close(self) -> None: ...


class MinerFactory(Factory, Protocol):
    def traits(self, options: Any, context: MinerContext) -> MinerTraits: ...

    def estimate(
        self, rows: int, dim: int, queries: int, k: int, options: Any, context: MinerContext
    ) -> MinerCost:
        """From static rates, never from a timing: the choice must not differ between two runs."""
        ...

    def create(self, options: Any, context: MinerContext) -> Miner: ...


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """How one optimizer step is cut on a device."""

    micro_batch: int
    accumulate: int
    notes: tuple[str, ...] = ()
    """What the user must hear, e.g. that a cap made the effective batch smaller."""

    fused: int = 1
    """How many micro-batches, as they were asked for, one of these is."""

    @property
    def samples(self) -> int:
        return self.micro_batch * self.accumulate

    @property
    def cut(self) -> str:
        """The cut in the words it was asked for, e.g. "32 x 16, 4 at a time"."""
        asked = f"{self.micro_batch // self.fused} x {self.accumulate * self.fused}"
        return asked if self.fused == 1 else f"{asked}, {self.fused} at a time"


@dataclass(frozen=True, kw_only=True)
class Precision:
    name: Literal["fp32", "bf16"]
    reason: str
    note: str = ""
    """What the user must hear, e.g. that it is slower here."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """What an option left at "auto" comes to on this machine."""

    value: Any
    reason: str
    note: str = ""
    """What the user must hear, e.g. that a stored measurement is damaged."""


class DevicePolicy(Protocol):
    """Owns everything device-specific; created once, before torch is imported."""

    constant_shapes: bool
    """Tensors must keep their shapes from step to step (graph caches, known bugs)."""
    rows_at_once: int
    """Samples it computes fastest at a time: shorter micro-batches of a step are put together up to
    here (`train.fuse`). 0: never, memory is why a step was cut."""
    probe_at_start: bool
    """Its loss and gradients are compared with the CPU's before a run trusts it."""
    name: str
    """The concrete device ("cpu"), also where "auto" was asked for."""
    reason: str
    """Why this one, in a sentence; empty where it was asked for by name."""
    threads: int

    def environment(self) -> Mapping[str, str]:
        """Variables to set before torch loads."""
        ...

    def start(self) -> None:
        """After torch loads: threads, determinism. Called once per process."""
        ...

    def settled(self) -> Mapping[str, Settled]:
        """What each option that may be "auto" comes to here, also where it was asked for; the
        same in every process of this machine, so from nothing that was timed in this one."""
        ...

    def torch_device(self) -> torch.device: ...

    def plan(self, batch_size: int, accumulate: int) -> BatchPlan: ...

    def precision(self, requested: Literal["fp32", "bf16", "auto"]) -> Precision: ...

    def autocast(self, precision: Precision) -> AbstractContextManager[Any]: ...

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """Moves a host tensor; returns it as it is where host and device are one."""
        ...

    def synchronize(self) -> None:
        """Waits for the step's work, so that a fault is met in the step that caused it."""
        ...

    def memory(self) -> Mapping[str, int]:
        """Bytes by name, e.g. {"allocated": ...}; empty where the host's memory is the device's."""
        ...

    def empty_cache(self) -> None: ...

    def rng_state(self) -> dict[str, torch.Tensor]:
        """Every generator a forward pass on this device may draw from, host's included."""
        ...

    def set_rng_state(self, state: Mapping[str, torch.Tensor]) -> None: ...


class DeviceFactory(Factory, Protocol):
    preference: int
    """`--device auto` takes the available one of ttf's own devices with the highest."""

    def create(self, options: Any, threads: int | None) -> DevicePolicy:
        """`threads` None: the device chooses. Raises PluginUnavailable with the reason."""
        ...


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """What is known after an optimizer step; a line of metrics.jsonl."""

    step: int
    epoch: int
    loss: float
    lr: float
    grad_norm: float
    samples_per_s: float
    seconds: float
    extra: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class EvalRecord:
    """One evaluation against the full bank."""

    step: int
    epoch: int
    metrics: Mapping[str, float]
    seconds: float


Progress = Callable[[int, int], None]
"""Called with (done, total) from the calling thread, as often as is cheap."""
