"""Data types of a prediction: what goes in, and what comes out."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf.contracts import BatchPlan, MinerCost, TowerCost
from ttf.machine.memory.limits import Limit
from ttf.rundir.documents import GateResult
from ttf.text.html import preformatted
from ttf.text.numbers import duration, size

if TYPE_CHECKING:
    from ttf.training.plan.scaled import ScalePlan

Phase = Literal["always", "training", "mining", "evaluation", "calibration"]
# Of the activations of micro-batches computed together, and their gradients. With 256 sequences of
# the founding workload instead of 512 a step takes as long (docs/decisions/0026).
FUSED_BYTES: Final = 3 << 29
PHASES: tuple[Phase, ...] = ("training", "mining", "evaluation", "calibration")


@dataclass(frozen=True, kw_only=True)
class ArrayFacts:
    name: str
    uri: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    mappable: bool
    aligned: bool

    @property
    def access(self) -> str:
        if not self.mappable:
            return "decoded in parts"
        return "mapped" if self.aligned else "mapped, unaligned (gathered as bytes)"


@dataclass(frozen=True, kw_only=True)
class DataFacts:
    train_pairs: int
    val_pairs: int
    length: int
    in_dim: int
    sequence: bool
    doc_dim: int
    bank_rows: int
    distinct_documents: int
    own_negatives: int = 0  # of a query in a step
    arrays: tuple[ArrayFacts, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Choices:
    """What was decided for this run, with every "auto" settled."""

    query: TowerCost
    doc: TowerCost
    doc_frozen: bool
    batch: BatchPlan
    total_steps: int
    device: str
    threads: int
    precision: str
    memory_bank: int
    miner: str = ""  # Empty: no mined negatives.
    miner_cost: MinerCost | None = None  # Of one mining round.
    miner_needs_torch: bool = False
    miner_keeps_index: bool = False  # In memory, between two rounds.
    refreshes: int = 0
    evaluations: int = 2
    patience: int = 0
    """Evaluations without gain after which the run ends; 0: never."""
    gates: tuple[GateResult, ...] = ()  # None is judged yet.
    notes: tuple[str, ...] = ()

    @property
    def trained_parameters(self) -> int:
        return self.query.parameters + (0 if self.doc_frozen else self.doc.parameters)

    @property
    def parameters(self) -> int:
        return self.query.parameters + self.doc.parameters

    @property
    def samples(self) -> int:
        return self.total_steps * self.batch.samples


@dataclass(frozen=True, kw_only=True)
class Item:
    """One component's share."""

    component: str
    phase: Phase
    anon_bytes: int = 0
    disk_bytes: int = 0
    seconds: float = 0.0
    why: str = ""
    """The calculation of the figure, in words."""
    lower: str = ""
    """The option that lowers it, with its current value; '' if there is none."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A prediction; `text` for people, `to_json` for scripts."""

    facts: DataFacts
    choices: Choices
    towers: tuple[str, str]
    items: tuple[Item, ...]
    limit: Limit
    gflops_per_thread: float
    scale: ScalePlan | None = None  # Of a run on several processes.

    def told(self, rename: Callable[[str], str]) -> Plan:
        """The same prediction with other names of files."""
        arrays = tuple(replace(a, uri=rename(a.uri)) for a in self.facts.arrays)
        notes = tuple(map(rename, self.choices.notes))
        return replace(
            self,
            facts=replace(self.facts, arrays=arrays),
            choices=replace(self.choices, notes=notes),
        )

    def anon_bytes(self, phase: Phase) -> int:
        """Bytes held during `phase`, including those that are always held."""
        return sum(i.anon_bytes for i in self.items if i.phase in ("always", phase))

    @property
    def peak_phase(self) -> Phase:
        return max(PHASES, key=self.anon_bytes)

    @property
    def peak_anon_bytes(self) -> int:
        return self.anon_bytes(self.peak_phase)

    @property
    def file_bytes(self) -> int:
        """All bytes that may end up in the page cache; freed when others need memory."""
        return sum(a.bytes for a in self.facts.arrays if a.mappable)

    @property
    def disk_bytes(self) -> int:
        return sum(i.disk_bytes for i in self.items)

    @property
    def seconds(self) -> float:
        return sum(i.seconds for i in self.items)

    @property
    def lowerable(self) -> list[tuple[str, int, list[str]]]:
        """(option, bytes, components) of the peak's phase, the largest first."""
        found: dict[str, tuple[int, list[str]]] = {}
        for item in self.items:
            if item.lower and item.anon_bytes and item.phase in ("always", self.peak_phase):
                held, names = found.get(item.lower, (0, []))
                found[item.lower] = (held + item.anon_bytes, [*names, item.component])
        ranked = [(option, held, names) for option, (held, names) in found.items()]
        return sorted(ranked, key=lambda row: -row[1])

    @property
    def fits(self) -> bool:
        return self.peak_anon_bytes <= self.limit.bytes

    def __repr__(self) -> str:
        fits = "fits in" if self.fits else "does NOT fit in"
        return (
            f"Plan({self.choices.total_steps:,} steps, {duration(self.seconds)}, peak memory "
            f"{size(self.peak_anon_bytes)}, {fits} {size(self.limit.bytes)})"
        )

    def _repr_html_(self) -> str:
        return preformatted(self.text())

    def text(self) -> str:
        from ttf.training.plan._text import render

        return render(self)

    def to_json(self) -> dict[str, Any]:
        return {
            "steps": self.choices.total_steps,
            "samples_per_step": self.choices.batch.samples,
            "micro_batch": self.choices.batch.micro_batch,
            "accumulate": self.choices.batch.accumulate,
            "device": self.choices.device,
            "threads": self.choices.threads,
            "precision": self.choices.precision,
            "towers": {"query": self.towers[0], "doc": self.towers[1]},
            "parameters": self.choices.parameters,
            "miner": self.choices.miner or None,
            "patience": self.choices.patience,
            "gates": list(self.choices.gates),
            "arrays": [{**asdict(a), "access": a.access} for a in self.facts.arrays],
            "items": [asdict(item) for item in self.items],
            "anon_bytes": {phase: self.anon_bytes(phase) for phase in PHASES},
            "peak_anon_bytes": self.peak_anon_bytes,
            "file_bytes": self.file_bytes,
            "disk_bytes": self.disk_bytes,
            "seconds": self.seconds,
            "gflops_per_thread": self.gflops_per_thread,
            "limit": {"bytes": self.limit.bytes, "source": self.limit.source},
            "fits": self.fits,
            "notes": list(self.choices.notes),
            **({} if self.scale is None else {"scale": self.scale.to_json()}),
        }
