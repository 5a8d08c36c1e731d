"""The four main types of `ttf`: Tower, Miner, Store and DevicePolicy, and their factories.

A *factory* (a hook returns it, it imports nothing heavy) declares options; an *instance* works.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, get_args, runtime_checkable

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

Kind = Literal[
    "tower", "miner", "storage", "device", "encoder", "exporter", "executor", "observer", "check"
]
KINDS: tuple[Kind, ...] = get_args(Kind)

DType = Literal["float32", "float16", "bfloat16", "int32", "int64", "uint8"]


@dataclass(frozen=True, kw_only=True)
class Availability:
    """If a plugin can run here, and why (not); `fix` is a command the user can type."""

    ok: bool
    reason: str = ""
    fix: str = ""


class Factory(Protocol):
    """Returned by every kind's hook; imports nothing heavy until asked to create."""

    name: str
    options_type: type[Any]
    """A frozen, keyword-only dataclass whose fields are made with `ttf.option`."""

    def availability(self) -> Availability:
        """Cheap: looks for the libraries (`importlib.util.find_spec`), never imports them."""


class VectorSource(Protocol):
    """One named array of a store, read by rows; row 0 is the first axis.

    Rows have the stored type; bfloat16 rows are uint16 bits (numpy has no bfloat16);
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

    def read(self, start: int, stop: int, out: NDArray[Any] | None = None) -> NDArray[Any]:
        """Rows start..stop, contiguous; a read-only view if no copy is needed and `out` is not
        given."""

    def fingerprint(self) -> str:
        """Short hex digest that identifies the content, from headers and the container's own
        checksums: it never reads the whole array."""


class Store(Protocol):
    """An open container of named arrays; owns its file handles and maps until `close`."""

    uri: str
    container: str

    def names(self) -> Sequence[str]: ...

    def source(self, name: str) -> VectorSource:
        """Raises ArrayMissing (with the closest name) or a BadData subclass."""

    def describe(self, name: str) -> Mapping[str, Any]:
        """For `ttf data inspect`: keys `stored` (e.g. "stored", "deflated", "zstd"), `mappable`,
        `aligned`, `bytes`; works for members that `source` refuses."""

    def check_unchanged(self) -> None:
        """Raises DataChanged if a file of the store was replaced, cut or rewritten since it was
        opened; costs one stat call per file."""

    def verify(self) -> Iterator[str]:
        """Reads everything once; yields one problem per line (wrong checksum, short file)."""

    def close(self) -> None: ...


class ArrayWriter(Protocol):
    """Appends rows to one array of a new container."""

    def append(self, rows: NDArray[Any]) -> None: ...


class StoreWriter(Protocol):
    """Writes a new container with bounded memory; nothing is visible at the uri until `commit`."""

    def array(self, name: str, shape: tuple[int, ...], dtype: DType) -> ArrayWriter:
        """Opens the next array; write arrays one after another, each complete."""

    def commit(self) -> None:
        """Flushes, fsyncs and renames into place. Raises if an array is short of rows."""

    def abort(self) -> None:
        """Removes what was written; does nothing after `commit`."""


class StorageFactory(Factory, Protocol):
    suffixes: tuple[str, ...]
    """File endings it reads, e.g. (".parquet",); new files get the first."""

    def claims(self, uri: str) -> bool:
        """True if it reads this uri. A third-party plugin is asked if its name is the file's
        ending: `storage.parquet` for `bank.parquet`."""

    def open(self, uri: str) -> Store: ...

    def create(self, uri: str) -> StoreWriter: ...


@dataclass(frozen=True, kw_only=True)
class TowerShape:
    """A tower's input: vectors of `in_dim`, alone (length 1) or `length` in a row."""

    in_dim: int
    length: int
    sequence: bool
    out_dim: int
    """The width the other side needs; a tower that cannot produce it raises ConfigError."""
    numbers_only: bool = False
    """Inputs are zeros but for the number of the item, see `TableTower`."""


@dataclass(frozen=True, kw_only=True)
class TowerCost:
    """Per sample, for the plan: bytes that training keeps for backward, and the work of a
    forward."""

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
    """Returns its input unchanged: rows of the bank are used directly."""

    def __call__(self, x: torch.Tensor, lengths: torch.Tensor | None = None) -> torch.Tensor: ...


class TowerFactory(Factory, Protocol):
    def estimate(self, shape: TowerShape, options: Any) -> TowerCost: ...

    def create(self, shape: TowerShape, options: Any) -> torch.nn.Module:
        """Called after seeding, so that initial weights depend on the run's seed. The module has
        the attributes of `Tower`."""


@dataclass(frozen=True, kw_only=True)
class MinerTraits:
    exact: bool
    deterministic: bool
    """Same source, seed and queries give the same ids, bit for bit."""
    has_index: bool
    """`build` makes something worth saving; the exact scan has no index."""
    native: tuple[str, ...] = ()
    """Native libraries it loads (for doctor), e.g. ("faiss",)."""
    needs_torch: bool = False
    looks_below: bool = False  # Its instances are `LooksBelow`.


@dataclass(frozen=True, kw_only=True)
class MinerCost:
    build_s: float
    search_s: float
    anon_bytes: int
    disk_bytes: int
    recall: float = 1.0
    """Expected share of the true k best that is found, for text vectors; no guarantee."""


@dataclass(frozen=True, kw_only=True)
class MinerContext:
    """What a run gives its miner."""

    threads: int
    seed: int
    deterministic: bool
    budget_bytes: int
    """Anonymous memory the miner may use for its working blocks; if the index itself cannot fit,
    `build` raises ConfigError with the figure instead of trying."""
    cache: str | None = None
    """Folder for files of a bank that does not change; None: this bank is thrown away."""
    queries_at_once: int = 8192
    """The most queries of one call of `search`; memory is needed for that many, not for all."""


class Miner(Protocol):
    """Finds the k best bank rows by dot product; numpy in, numpy out.

    Ids are rows of the source (int64, 0 <= id < rows), best first; ties by smaller id for exact
    miners. Never -1, never a duplicate in a result row: k is cut to the number of rows, and a
    search with too few results is widened until it has enough.
    """

    def build(self, source: VectorSource, workdir: Path) -> None:
        """Called once per source. `workdir` is scratch space that is removed afterwards."""

    def search(
        self, queries: NDArray[np.float32], k: int
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]: ...

    def save(self, path: Path) -> None:
        """Writes the index into the existing, empty folder `path`; the caller hashes the files.
        Raises StorageError if what was written does not read back."""

    def load(self, path: Path, source: VectorSource) -> None:
        """The inverse of `save`; the caller has verified the hashes."""

    def close(self) -> None: ...


class LooksBelow(Protocol):
    """What a `Miner` may have besides `search`; its traits say so."""

    def search_below(
        self,
        queries: NDArray[np.float32],
        k: int,
        ceilings: NDArray[np.float32],
        within: int | None,
    ) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """Of the `within` best rows those that score lower. Fewer than k end with -1 and -inf."""


class MinerFactory(Factory, Protocol):
    def traits(self, options: Any, context: MinerContext) -> MinerTraits: ...

    def estimate(
        self, rows: int, dim: int, queries: int, k: int, options: Any, context: MinerContext
    ) -> MinerCost:
        """From static rates, never from a timing: the choice must not differ between two runs."""

    def create(self, options: Any, context: MinerContext) -> Miner: ...


@dataclass(frozen=True, kw_only=True)
class BatchPlan:
    """How one optimizer step is cut on a device."""

    micro_batch: int
    accumulate: int
    notes: tuple[str, ...] = ()
    """Messages for the user, e.g. that a cap made the effective batch smaller."""

    fused: int = 1
    """Number of requested micro-batches that were put together to one."""

    @property
    def samples(self) -> int:
        return self.micro_batch * self.accumulate

    @property
    def cut(self) -> str:
        """The cut with the requested sizes, e.g. "32 x 16, 4 at a time"."""
        asked = f"{self.micro_batch // self.fused} x {self.accumulate * self.fused}"
        return asked if self.fused == 1 else f"{asked}, {self.fused} at a time"


@dataclass(frozen=True, kw_only=True)
class Precision:
    name: Literal["fp32", "bf16"]
    reason: str
    note: str = ""
    """Message for the user, e.g. that it is slower here."""


@dataclass(frozen=True, kw_only=True)
class Settled:
    """The value of an option left at "auto" on this machine."""

    value: Any
    reason: str
    note: str = ""
    """Message for the user, e.g. that a stored measurement is damaged."""


class DevicePolicy(Protocol):
    """Owns everything device-specific; created once, before torch is imported."""

    constant_shapes: bool
    """Tensors must keep their shapes from step to step (graph caches, known bugs)."""
    rows_at_once: int
    """Number of samples it computes fastest at a time: shorter micro-batches of a step are put
    together up to here (`train.fuse`). 0: never, because memory is the reason for the cut."""
    probe_at_start: bool
    """Compare its loss and gradients with the CPU's before a run trusts it."""
    name: str
    """The concrete device ("cpu"), also if "auto" was asked for."""
    reason: str
    """Why this device, in a sentence; empty if it was asked for by name."""
    threads: int

    def environment(self) -> Mapping[str, str]:
        """Variables to set before torch loads."""

    def start(self) -> None:
        """After torch loads: threads, determinism. Called once per process."""

    def settled(self) -> Mapping[str, Settled]:
        """The "auto" value of each option that may be "auto", also if the user set another value.
        The same in every process of this machine, so it must not depend on timing in this one."""

    def torch_device(self) -> torch.device: ...

    def plan(self, batch_size: int, accumulate: int) -> BatchPlan: ...

    def precision(self, requested: Literal["fp32", "bf16", "auto"]) -> Precision: ...

    def autocast(self, precision: Precision) -> AbstractContextManager[Any]: ...

    def to_device(self, tensor: torch.Tensor) -> torch.Tensor:
        """Moves a host tensor; returns it unchanged if host and device are one."""

    def synchronize(self) -> None:
        """Waits for the step's work, so that a fault is raised in the step that caused it."""

    def memory(self) -> Mapping[str, int]:
        """Bytes by name, e.g. {"allocated": ...}; empty if the device uses the host's memory."""

    def empty_cache(self) -> None: ...

    def rng_state(self) -> dict[str, torch.Tensor]:
        """Every generator that a forward pass on this device may use, including the host's."""

    def set_rng_state(self, state: Mapping[str, torch.Tensor]) -> None: ...


@runtime_checkable
class StepPacing(Protocol):
    """What a `DevicePolicy` may have besides, to wait or to empty its cache where its options say."""

    def micro_batch_ended(self) -> None:
        """After each backward pass of a step."""

    def step_ended(self) -> None:
        """After the update of the weights, instead of `synchronize`."""


class DeviceFactory(Factory, Protocol):
    preference: int
    """`--device auto` takes the available device of ttf itself with the highest value."""

    def create(self, options: Any, threads: int | None) -> DevicePolicy:
        """`threads` None: the device chooses. Raises PluginUnavailable with the reason."""


@dataclass(frozen=True, kw_only=True)
class StepRecord:
    """Data of an optimizer step; a line of metrics.jsonl."""

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
