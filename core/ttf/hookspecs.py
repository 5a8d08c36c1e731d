"""The hooks a plugin may implement, each with its time of call, and the types of three kinds of
plugins: checks of `ttf doctor`, encoders and exporters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, get_args, runtime_checkable

import pluggy

from ttf.contracts import Factory

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    from ttf.contracts import (
        DeviceFactory,
        EvalRecord,
        MinerFactory,
        StepRecord,
        StorageFactory,
        TowerFactory,
        TowerShape,
        VectorSource,
    )
    from ttf.jobs import ExecutorFactory

hookspec = pluggy.HookspecMarker("ttf")
hookimpl = pluggy.HookimplMarker("ttf")

Status = Literal["ok", "warn", "fail", "skip"]
Cause = Literal["environment", "data", "configuration"]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The result of a check: one line, its evidence, and what to do."""

    status: Status
    detail: str
    """One line; names what was checked."""
    evidence: tuple[str, ...] = ()
    """Facts and where they were found, a line each."""
    remedy: str = ""
    cause: Cause = "environment"
    """Whose failure it is: decides the exit code (environment 6, data 3, configuration 2)."""

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ValueError(
                f"the status of a verdict must be one of {get_args(Status)}, not {self.status!r}"
            )
        if self.cause not in get_args(Cause):
            raise ValueError(
                f"the cause of a verdict must be one of {get_args(Cause)}, not {self.cause!r}"
            )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        texts = {key: str(values[key]) for key in ("detail", "remedy")}
        evidence = tuple(map(str, values["evidence"]))
        return cls(status=values["status"], cause=values["cause"], evidence=evidence, **texts)


@dataclass(frozen=True, kw_only=True)
class CheckContext:
    """The input of a plugin's check."""

    run_toml: Path | None = None
    """The given configuration, if any."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Its values by dotted key, {"miner.name": "faiss", ...}; empty without one."""


class Check(Protocol):
    """A plugin's check: an entry point `check.<name>` whose hook `ttf_doctor_check` returns it. It
    is loaded and run in a process of its own."""

    id: str
    """The name of its entry point."""
    title: str
    """The question it answers, in a line."""

    def run(self, context: CheckContext) -> Verdict:
        """May take some seconds; an exception or a crash is reported as a finding."""
        ...


Role = Literal["query", "document"]
"""What a text is: encoders may treat questions and passages differently."""


@dataclass(frozen=True, kw_only=True)
class EncoderContext:
    """What a command gives its encoder."""

    threads: int


class Encoder(Protocol):
    """Turns texts into vectors; lives in a process of its own.

    Deterministic: equal texts in equal calls give equal vectors, bit for bit on a CPU.
    """

    dim: int
    about: Mapping[str, Any]
    """For the card of the data: the model, its longest text, prompts, versions of libraries.
    Values as in JSON; what changes here makes the vectors that are done stale as well."""

    def fingerprint(self) -> str:
        """Hex digest of what the vectors depend on besides the texts: the content of the model's
        files, prompts, options. The same on every machine."""

    def encode(self, texts: Sequence[str], role: Role) -> NDArray[np.float32]:
        """One finite row of `dim` numbers per text, in the order of the texts. Texts are not empty;
        a call may have thousands of them, sorted by length."""


@runtime_checkable
class CutsTexts(Protocol):
    """What an `Encoder` may have besides, if it reads only the beginning of long texts."""

    def too_long(self, texts: Sequence[str], role: Role) -> NDArray[np.bool_]:
        """Of which texts `encode` does not read the end."""


@runtime_checkable
class ModelFolder(Protocol):
    """What an `EncoderFactory` may have besides, if its model is a folder that others can load."""

    def model_folder(self, options: Any) -> Path:
        """Raises ConfigError if the model is not on this machine."""


class EncoderFactory(Factory, Protocol):
    """An option named `model` is set by `--model`."""

    def create(self, options: Any, context: EncoderContext) -> Encoder:
        """Raises ConfigError if the model is not on this machine; downloads nothing."""


@dataclass(frozen=True, kw_only=True)
class TowerFacts:
    """One tower of a run."""

    name: str
    options: Mapping[str, Any]
    shape: TowerShape


@dataclass(frozen=True, kw_only=True)
class ExportFacts:
    """What an exporter is told of the run; nothing here was written by the exporter itself."""

    run: str
    """The name of its folder."""
    query: TowerFacts
    document: TowerFacts
    similarity: Literal["cosine", "dot"]
    """Vectors have unit length with cosine; they are compared by inner product in any case."""
    rows: int
    dim: int
    """Width of the document vectors as they are exported, the calibration included."""
    calibrated: bool
    """Documents have the calibration as their last dimension; a query has a 1 there."""
    mean_correction: float
    """Last dimension for documents that are not in the bank; 0 if not calibrated."""
    vector_type: Literal["float32", "int8"] = "float32"
    """int8: the values of `documents` are whole numbers from -127 to 127."""
    prepared: bool = False
    """A query vector is first multiplied by the matrix query.npy of the folder."""
    lengths: Sequence[int]
    """How many steps queries have, ascending; (1,) for vectors."""
    ids_are: str
    weights_sha256: str
    bank_fingerprint: str
    metrics: Mapping[str, float] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """The configuration of the run by dotted key."""
    encoder: str = ""
    """Folder of the text encoder that made the vectors; empty: none was given."""
    prompts: Mapping[str, str] = field(default_factory=dict)
    """What the encoder put before texts of the role `query` or `document`, where the card of the data
    says it."""


@dataclass(frozen=True, kw_only=True)
class Searched:
    """Some queries of the run's validation pairs with what `ttf search` finds for them."""

    queries: NDArray[np.int64]
    """Rows of the pairs' file."""
    rows: NDArray[np.int64]
    """Rows of the bank (queries, k), best first."""
    scores: NDArray[np.float32]
    positives: NDArray[np.int64]
    """Rows of the bank, padded with -1."""
    grades: NDArray[np.float32] | None = None
    """Of each positive, for nDCG; None: all count the same."""


class ExportSource(Protocol):
    """A trained retriever, opened in the process of the exporter; what it does not ask for is not
    loaded."""

    facts: ExportFacts

    def documents(self) -> VectorSource:
        """The bank as the document tower sees it, (rows, dim) float32."""

    def ids(self) -> NDArray[np.int64] | NDArray[np.str_] | None:
        """Those of the bank; None: documents are known by their rows."""

    def query_matrix(self) -> NDArray[np.float32] | None:
        """What `facts.prepared` says: (width of a query vector with its 1, dim)."""

    def towers(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        """The query tower and the document tower on the CPU, in eval mode, without what brings
        vectors to unit length."""

    def searched(self, k: int, split: Literal["train", "val"] = "val") -> Iterator[Searched]:
        """In blocks, in the order of the file."""

    def texts(self, role: Literal["query", "document"]) -> Sequence[str] | None:
        """Of the queries of `searched` by row of the file, or of the bank; None: not known."""

    def say(self, note: str) -> None:
        """For the user, once."""

    def advance(self, done: int, total: int) -> None:
        """As often as is cheap."""


@dataclass(frozen=True, kw_only=True)
class ExportProbe:
    """What an export is asked for, to compare its answers with those of the run."""

    facts: ExportFacts
    k: int
    queries: NDArray[np.float32]
    """Inputs of the query tower, (Q, D) or (Q, L, D)."""
    lengths: NDArray[np.int64] | None
    query_rows: NDArray[np.int64]
    """Rows of the pairs' file."""
    query_vectors: NDArray[np.float32]
    """The same queries as they are compared with the exported documents."""
    document_rows: NDArray[np.int64]
    """Some rows of the bank, ascending."""
    documents: NDArray[np.float32]
    """Inputs of the document tower for these rows."""
    ids: NDArray[np.int64] | NDArray[np.str_] | None
    query_texts: Sequence[str] | None = None
    document_texts: Sequence[str] | None = None


@dataclass(frozen=True, kw_only=True)
class ExportAnswers:
    """What the library of the format says; each answer that is given is compared."""

    rows: NDArray[np.int64] | None = None
    """Rows of the bank for each query, best first, (Q, k)."""
    scores: NDArray[np.float32] | None = None
    query_vectors: NDArray[np.float32] | None = None
    """As the exported encoder makes them, (Q, D)."""
    document_vectors: NDArray[np.float32] | None = None
    """For `document_rows`; of an index the stored ones, which must be equal bit for bit."""
    query_inputs: NDArray[np.float32] | None = None
    """Of exports that read texts: what the encoder alone makes of them. The towers of the run are
    asked about these, instead of about the vectors of the probe."""
    document_inputs: NDArray[np.float32] | None = None
    count: int | None = None
    """How many documents, answers or lines the format has; None: nothing to count."""
    library: str = ""
    """Who answered, with its version."""


class Exporter(Protocol):
    """Writes a retriever in a format of others, and reads it back with their library. Both happen in
    processes of their own, so that a crash of a library has a name."""

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        """Fills an empty folder with bounded memory; returns what export.json is to say of it.
        Raises ConfigError for what the format cannot hold."""

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        """Called in another process, on the finished folder."""


class ExporterFactory(Factory, Protocol):
    @property
    def exports(self) -> Literal["vectors", "encoder", "results"]:
        """vectors: of the documents, with the calibration; encoder: the towers, without it except
        with --calibrated; results: what was found with both."""

    def create(self, options: Any) -> Exporter: ...


@hookspec(firstresult=True)
def ttf_tower(name: str) -> TowerFactory | None:
    """Return the factory of the tower `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_miner(name: str) -> MinerFactory | None:
    """Return the factory of the miner `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_storage(name: str) -> StorageFactory | None:
    """Return the factory of the storage `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_device(name: str) -> DeviceFactory | None:
    """Return the factory of the device `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_encoder(name: str) -> EncoderFactory | None:
    """Return the factory of the encoder `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_exporter(name: str) -> ExporterFactory | None:
    """Return the factory of the exporter `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_executor(name: str) -> ExecutorFactory | None:
    """Return the factory of the executor `name`, or None if it is not yours."""


@hookspec(firstresult=True)
def ttf_doctor_check(name: str) -> Check | None:
    """Return the check `name` of `ttf doctor`, or None if it is not yours. It is loaded and run in
    a process of its own."""


@hookspec
def ttf_run_started(run_dir: Path, config: Mapping[str, Any], resumed_from: int) -> None:
    """Called in every process that trains, once the data is open and the towers are built. Steps
    after `resumed_from` are done, perhaps again; 0: a new run, or one that ended before its first
    checkpoint."""


@hookspec
def ttf_step(record: StepRecord) -> None:
    """Called after every optimizer step; keep it below a millisecond."""


@hookspec
def ttf_evaluated(record: EvalRecord) -> None:
    """Called after every evaluation, the one before training included."""


@hookspec
def ttf_checkpointed(step: int, path: Path) -> None:
    """Called when a checkpoint is complete and durable."""


@hookspec
def ttf_incident(incident: Mapping[str, Any]) -> None:
    """Called when an incident was written; the mapping is its incident.json."""


@hookspec
def ttf_run_finished(run_dir: Path, summary: Mapping[str, Any]) -> None:
    """Called once summary.json is written, however the run ended."""
