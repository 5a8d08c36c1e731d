"""Measurements of this machine, kept in its folder: its ceilings (`ttf bench`) and its best float32
products (`ttf bench --tune`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, Literal, get_args

from ttf.errors import ArtifactDamaged
from ttf.machine import processor
from ttf.rundir.cache import cache_dir
from ttf.rundir.confined import read_json
from ttf.rundir.durable import write_json
from ttf.rundir.work_facts import BestProduct, NotedCeilings

Path32 = Literal["highest", "medium"]
# torch's names for float32 products on a CPU: default BLAS, oneDNN.
PATHS: Final[tuple[Path32, ...]] = get_args(Path32)
PrecisionName = Literal["fp32", "bf16"]
MEASURE: Final = "ttf bench"  # the command that measures the ceilings
QUERIES: Final = 2048
DIM: Final = 768
# Rows of the bank that are multiplied with 2,048 queries at a time.
BLOCKS: Final[Mapping[str, Sequence[int]]] = {
    "fp32": (512, 2048, 8192),
    "bf16": (512, 1024, 2048, 4096, 8192, 16_384, 32_768),
}

# --- the way of float32 products --------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Measured:
    """The best rate of one product, and its error against float64, relative to the largest
    result."""

    path: str
    shape: str
    gflops: float
    error: float


@dataclass(frozen=True, kw_only=True)
class TunedRow:
    """The measured products of this machine, and the conclusions."""

    fingerprint: str
    date: str
    torch: str
    threads: int
    # None: no path was clearly better, so the static table decides.
    float32: Path32 | None
    why: str
    measured: tuple[Measured, ...]
    # Speed of the products of a step in bf16 relative to the fastest float32. None: the processor
    # has no bf16 unit.
    bf16_gain: float | None

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> TunedRow:
        """Raises ValueError, LookupError or TypeError."""
        values = {field.name: found[field.name] for field in fields(cls)}
        if values["float32"] not in (*PATHS, None):
            raise ValueError(f"float32 is {values['float32']!r}")
        for name in ("fingerprint", "date", "why"):
            if not isinstance(values[name], str):
                raise TypeError(f"{name} is {values[name]!r}")
        if values["bf16_gain"] is not None:
            values["bf16_gain"] = float(values["bf16_gain"])
        values["measured"] = tuple(Measured(**line) for line in values["measured"])
        return cls(**values)


def row_file() -> Path:
    return processor.machine_dir() / "gemm.json"


def tuned_row() -> TunedRow | None:
    """Returns None if this machine was never tuned. Raises ArtifactDamaged."""
    file = row_file()
    try:
        return TunedRow.from_json(read_json(file, cache_dir()))
    except FileNotFoundError:
        return None
    except (OSError, ArtifactDamaged, ValueError, LookupError, TypeError) as error:
        raise ArtifactDamaged(
            f"ttf cannot read {file}, a file of ttf bench --tune ({type(error).__name__}: "
            f"{error}).",
            hint="Measure again with ttf bench --tune, or delete the file.",
        ) from error


def save_row(row: TunedRow) -> Path:
    """Raises StorageError."""
    return _save(row_file(), row.to_json())


# --- ceilings --------------------------------------------------------------------------------------


# Other processes may use this share of the processors while limits are measured.
_QUIET: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A rate: the best of `repeats`, and the median and worst to show the noise."""

    value: float
    median: float
    worst: float
    repeats: int
    unit: str

    def __str__(self) -> str:
        return f"{self.value:,.3g} {self.unit} (median {self.median:,.3g}, n = {self.repeats})"


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    fingerprint: str
    date: str
    threads: int
    machine: Mapping[str, Any]
    # GF/s by way ("highest", "medium", "numpy": float32; "bf16") and shape ("2048x768x512").
    gemm: Mapping[str, Mapping[str, Figure]]
    # GB/s of copies: "1 thread", "2 threads" (both through memory), "into cache": from memory into
    # a small buffer that is reused, as in a gather.
    copy: Mapping[str, Figure]
    # GB/s of reads from a file: "cold" and "hot", each "sequential" or in random pieces of so many
    # bytes ("cold 4096"), one at a time. Empty if the disk had no room for the test file.
    read: Mapping[str, Figure] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    seconds: float = 0.0  # duration of the measurement
    # Share of all processors that other processes used meanwhile; None: the system does not tell.
    others: float | None = None

    @property
    def disturbed(self) -> bool:
        """Whether the machine was too busy for its limits to be seen."""
        return self.others is not None and self.others > _QUIET

    def with_best_of(self, earlier: Ceilings) -> Ceilings:
        """Each figure from the measurement that has the higher one: others only make it lower."""
        return replace(
            self,
            gemm={
                way: _best(shapes, earlier.gemm.get(way, {})) for way, shapes in self.gemm.items()
            },
            copy=_best(self.copy, earlier.copy),
            read=_best(self.read, earlier.read),
            others=min((o for o in (self.others, earlier.others) if o is not None), default=None),
        )

    @property
    def stale(self) -> bool:
        """Whether the figures are from another machine than this one."""
        return self.fingerprint != processor.fingerprint()

    def best(self, precision: PrecisionName) -> tuple[str, str, Figure]:
        """Returns (way, shape, figure) of the best product of this precision."""
        blocks = {f"{QUERIES}x{DIM}x{block}" for block in BLOCKS[precision]}
        ways = ("bf16",) if precision == "bf16" else tuple(w for w in self.gemm if w != "bf16")
        found = [
            (way, shape, figure)
            for way in ways
            for shape, figure in self.gemm[way].items()
            if shape in blocks
        ]
        return max(found, key=lambda one: one[2].value)

    def to_json(self) -> dict[str, Any]:
        best = {}
        for precision in get_args(PrecisionName):
            way, shape, figure = self.best(precision)
            best[precision] = {"way": way, "shape": shape, "gflops": figure.value}
        return asdict(self) | {"best": best}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Ceilings:
        """Raises ValueError, LookupError or TypeError."""
        values = {one.name: found[one.name] for one in fields(cls)}
        values["gemm"] = {way: _figures(shapes) for way, shapes in values["gemm"].items()}
        values["copy"], values["read"] = _figures(values["copy"]), _figures(values["read"])
        values["notes"] = tuple(values["notes"])
        return cls(**values)


def _best(now: Mapping[str, Figure], earlier: Mapping[str, Figure]) -> dict[str, Figure]:
    def better(name: str, figure: Figure) -> Figure:
        other = earlier.get(name)
        return figure if other is None or other.value <= figure.value else other

    return {name: better(name, figure) for name, figure in now.items()}


def _figures(found: Mapping[str, Any]) -> dict[str, Figure]:
    return {name: Figure(**figure) for name, figure in found.items()}


def ceilings_file() -> Path:
    return processor.machine_dir() / "ceilings.json"


def kept_ceilings() -> Ceilings | None:
    """Returns None if there is no readable file: the caller measures again."""
    try:
        return Ceilings.from_json(read_json(ceilings_file(), cache_dir()))
    except (OSError, ArtifactDamaged, ValueError, LookupError, TypeError, AttributeError):
        return None


def save_ceilings(ceilings: Ceilings) -> Path:
    """Raises StorageError."""
    return _save(ceilings_file(), ceilings.to_json())


def _save(file: Path, content: Mapping[str, Any]) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, content, "machine")
    return file


# --- single figures, from the ceilings as JSON has them; None where there are none ------------------


def gemm_flops(ceilings: Mapping[str, Any], precision: str) -> float | None:
    """Returns floating-point operations per second of the best product at that precision."""
    return _scaled(ceilings, "best", precision, "gflops")


def gather_bytes(ceilings: Mapping[str, Any]) -> float | None:
    """Returns bytes per second from memory into a small reused buffer, as in a gather."""
    return _scaled(ceilings, "copy", "into cache", "value")


def summary(ceilings: Mapping[str, Any]) -> NotedCeilings:
    """Returns the figures that a run records."""
    best = {name: BestProduct(gflops=one["gflops"]) for name, one in ceilings["best"].items()}
    return {"date": ceilings["date"], "best": best}


def _scaled(ceilings: Mapping[str, Any], *path: str) -> float | None:
    value: Any = ceilings
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return 1e9 * float(value) if isinstance(value, int | float) and value > 0 else None


def words(ceilings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yields the figures as rows (name, text) for people."""
    about = ceilings["machine"]
    threads = ceilings["threads"]
    yield "machine", f"{about['processor']}, {threads} thread{'s' * (threads != 1)}"
    for precision, best in ceilings["best"].items():
        yield (
            f"products in {precision}",
            f"{best['gflops']:,.0f} GF/s ({best['way']}, {best['shape']})",
        )
    copies = ", ".join(
        f"{name} {figure['value']:.3g} {figure['unit']}"
        for name, figure in ceilings["copy"].items()
    )
    yield "memory copy", copies
    for kind, of in (("cold", "a disk"), ("hot", "the page cache")):
        reads = ", ".join(
            f"{name.removeprefix(kind).strip()} {figure['value']:.3g}"
            for name, figure in ceilings["read"].items()
            if name.startswith(kind)
        )
        if reads:
            yield f"reads from {of}", f"{reads} GB/s"
    yield (
        "measured",
        f"{ceilings['date']} with torch {about['torch']}; to measure again: ttf bench --fresh",
    )
