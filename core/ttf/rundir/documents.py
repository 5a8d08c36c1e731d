"""The files of a run's folder, key by key, for their writers and readers.

Any key may be missing: the file may be of an older version, of a run that was cut short, or
damaged. `ttf.rundir.typed_json` reads the files so that every present value has its declared type.
Users' scripts rely on these keys.
"""

from __future__ import annotations

from typing import Any, Final, Literal, TypedDict

from ttf.rundir.calibration_facts import CalibrationSummary
from ttf.rundir.exchange_facts import ExchangeSummary
from ttf.rundir.memory_facts import GovernorLine, MemorySummary
from ttf.rundir.work_facts import Work

# Of the files of a run's folder, in manifest.json as `format`. A version that writes files which an
# earlier one would read wrongly has a higher number.
RUN_FORMAT: Final = 1
DECISION: Final = "decision.json"  # Of `ttf train A --else B`, beside the runs of A and B.

# --- summary.json --------------------------------------------------------------------------------


# An incident in a list; `remedy` None: the run was restarted unchanged.
ListedIncident = TypedDict(
    "ListedIncident",
    # `hidden`: the guarded command ended with exit code 0 all the same.
    {"id": str, "class": str, "process": str, "remedy": str | None, "hidden": bool},
    total=False,
)


class GateResult(TypedDict, total=False):
    """An entry of `[[gates]]`; `value` and `passed` are null until it is judged."""

    at: str  # As configured: 'epoch 2', ...
    step: int  # ... and the step that is.
    need: str
    metric: str
    bound: float
    value: float | None
    passed: bool | None


class Summary(TypedDict, total=False):
    """Of a run, or of a guarded command. A checkpoint keeps what does not depend on the end."""

    status: str
    exit_code: int
    problem: str
    hint: str
    weights_sha256: str | None
    steps: int
    epochs: float
    samples: int
    metrics: dict[str, float]  # Of the kept weights, calibrated where `calibration` is on.
    metrics_uncalibrated: dict[str, float]  # Only where it is on.
    calibration: CalibrationSummary
    metrics_initial: dict[str, float]
    metrics_last: dict[str, float]
    best_step: int
    kept_step: int | None
    chosen_by: str
    samples_per_s: float
    wall_s: float
    peak_anon_mb: float
    predicted_anon_mb: float  # The peak as `--plan` predicts it.
    memory: MemorySummary
    exchange: ExchangeSummary  # Of a run on several processes.
    deviations: list[str]
    notes: list[str]  # What one must know to judge the result.
    miner: str
    seed: int | None
    shards: int  # Parts of a step whose gradients are added in a fixed order.
    world_size: int  # Processes of the last attempt.
    promise: str  # What the results are equal to: "E1: bitwise, ...".
    exact: bool  # True if the numbers are bitwise those of an undisturbed run.
    restarts: int
    gates: list[GateResult]  # In the order of the configuration; missing in earlier versions.
    incidents: list[ListedIncident]
    command: list[str]  # Guarded commands only.
    hidden: list[str]  # Incidents of guarded commands that ended with exit code 0 all the same.
    run_dir: str  # Only in documents that are passed on: the file itself does not contain its path.


# --- model/config.json ---------------------------------------------------------------------------

MODEL_CONFIG: Final = "config.json"


class ModelFacts(TypedDict, total=False):
    """Which weights the folder `model/` holds; the towers stand beside it."""

    weights_sha256: str
    step: int
    metrics: dict[str, float]  # Of these weights; empty if they were not evaluated.


# --- incidents/NNN/ ------------------------------------------------------------------------------


class EvidenceEntry(TypedDict, total=False):
    source: str
    text: str


class RemedyEntry(TypedDict, total=False):
    text: str
    set: dict[str, Any]  # Settings by dotted key.


class NativeFrameDocument(TypedDict):
    function: str
    library: str


Incident = TypedDict(
    "Incident",
    {
        "class": str,
        "certain": bool,
        "process": str,
        "signal": int | None,
        "exit_code": int | None,
        "phase": str | None,
        "step": int | None,
        "evidence": list[EvidenceEntry],
        "explanation": str,
        "remedies": list[RemedyEntry],
        "lost_steps": int | None,
        "time": float,
        "hidden": bool,
        "asked": bool,  # Its user asked the guard to end it: no death.
        "rank": int,  # Of a run on several processes: which one it was ...
        "host": str,  # ... and where; missing elsewhere.
        # Of runs; null where nothing was recorded. Both count from 1; `step` is the steps done.
        "epoch": int | None,
        "batch_of_epoch": int | None,  # Micro-batch, counted through the epoch.
        "micro_batch": int | None,  # Of `micro_batches` in the step.
        "micro_batches": int | None,
        # Of the time of its steps: in the first and last micro-batch and the weight update.
        "boundary_share": float | None,
        "age_s": float | None,  # Since the process started.
        "trained_s": float | None,  # Since its first step began, to the last sign of life.
        "since_mining_s": float | None,  # From the end of the last mining to the last sign of life.
        "since_mining_steps": int | None,
        "mined_for_steps": int | None,  # The steps from that mining to the next.
        "memory_bytes": int | None,  # Anonymous and shared, of the tree, of its last two samples.
        "device_allocated_bytes": int | None,  # At the last step; None: no memory of its own.
        "device_cached_bytes": int | None,
        "machine_available_bytes": int | None,
        # None: nobody asked for core files. Empty: there was none; the evidence says why.
        "native_frames": list[NativeFrameDocument] | None,
    },
    total=False,
)


class FiledIncident(Incident, total=False):
    """An incident with the facts of its other files; `class` and `process` are always there."""

    id: str
    remedy: str | None  # What was done about it: applied.json.


class AppliedRemedy(TypedDict, total=False):
    """applied.json"""

    remedy: str


# --- metrics.jsonl -------------------------------------------------------------------------------


class StepLine(TypedDict, total=False):
    """After an optimizer step; may have more figures."""

    type: Literal["step"]
    step: int
    epoch: int
    loss: float
    lr: float
    grad_norm: float
    samples_per_s: float
    seconds: float
    data_s: float  # Part of `seconds` spent waiting for data.
    compute_s: float
    exchange_s: float  # Of a run on several processes: sending, adding and waiting for others.
    mined: float  # Share of the rows that got mined negatives.


class EvalLine(TypedDict, total=False):
    """After an evaluation against the full bank."""

    type: Literal["eval"]
    time: float  # Unix seconds; only lines of rare events have it.
    step: int
    epoch: int
    metrics: dict[str, float]
    seconds: float
    gates: list[GateResult]  # All, with the values so far; missing if there are none.


# After a mining round.
MiningLine = TypedDict(
    "MiningLine",
    {
        "type": Literal["mining"],
        "time": float,
        "step": int,
        "miner": str,
        "queries": int,
        "from_training": int,  # Of these, those whose vectors the training had kept.
        "yield": float,
        "with_survivor": float,
        "passing": bool,  # Candidates were looked for below the margins.
        "survivors": dict[str, float],
        "negative_score": float | None,
        "positive_score": float | None,
        "seconds": float,
        "encode_s": float,
        "build_s": float,
        "search_s": float,
        "certificate_rate": float | None,
        "reused": bool,
        "deaths": list[str],
    },
    total=False,
)


class CheckpointLine(TypedDict, total=False):
    """Once a checkpoint is durable; `seconds` are those that training waited for it."""

    type: Literal["checkpoint"]
    time: float
    step: int
    seconds: float


class ProbeLine(TypedDict, total=False):
    """After a comparison of the device with the CPU."""

    type: Literal["probe"]
    step: int
    ok: bool
    device: str
    precision: str
    tolerance: float
    loss: float
    loss_cpu: float
    loss_error: float
    grad_error: float
    cosine: float
    parameter: str
    grad_norm: float
    grad_norm_cpu: float
    wrong: int
    parameters: int
    seconds: float


MetricsLine = StepLine | EvalLine | MiningLine | CheckpointLine | ProbeLine | GovernorLine

# By the `type` of the line.
METRICS_LINES: Final[dict[str, type[MetricsLine]]] = {
    "step": StepLine,
    "eval": EvalLine,
    "mining": MiningLine,
    "checkpoint": CheckpointLine,
    "probe": ProbeLine,
    "memory": GovernorLine,
}


# --- memory.jsonl --------------------------------------------------------------------------------


class MemoryLine(TypedDict, total=False):
    """The process tree at one moment; bytes."""

    time: float  # Unix seconds.
    step: int
    anon: int
    shared: int
    file: int
    processes: int
    peak: int  # Most anonymous and shared memory held at once so far.
    limit: int | None
    # The following are missing in folders of earlier versions.
    phase: str | None  # What the trainer was doing; null without a trainer.
    # Of the device, at the last step; null on the CPU. `cached`: all that torch took from it.
    device_allocated: int | None
    device_cached: int | None
    available: int  # What the machine could still give to programs, page cache included.
    swap_used: int
    swap_free: int


# --- manifest.json, environment.json --------------------------------------------------------------


class _InputState(TypedDict):
    bytes: int
    mtime_ns: int  # of the newest file
    fingerprint: str


# Not NotRequired: where annotations are strings, Python 3.11 takes such a key for a required one.
class InputState(_InputState, total=False):
    """A container of vectors at the start of the run."""

    times: str  # digest of inodes and times of all files
    ctimes: str  # of the times that nobody can set back
    cut: bool  # there are more files than were looked at


class DataFacts(TypedDict, total=False):
    fingerprint: str
    pairs: str | None
    bank: str | None
    context: str | None
    train_pairs: int
    val_pairs: int
    bank_rows: int
    bank_dim: int
    query_steps: int
    query_dim: int
    left_out: dict[str, int]
    files: dict[str, InputState]


class Numeric(TypedDict, total=False):
    """What decides the bits of the weights, besides configuration, data and seed."""

    torch: str
    threads: int
    cpu_capability: str
    machine: str
    device: str
    plugins: dict[str, str]
    # This and the following keys: since runs are resumed with their variables.
    arithmetic: int  # Version of our own arithmetic.
    libraries: dict[str, str]  # Version, and a digest of native files, by distribution.
    instructions: str  # Of the processor, those that matter for products.
    variables: dict[str, str]  # Environment variables that change numbers, those that were set.
    bits: dict[str, str]  # Digests of the bits of real products, by what computed them.
    # What may explain other bits; a difference alone is none of the run.
    processor: str
    loader: dict[str, str]


class ChosenSetting(TypedDict):
    value: Any
    origin: str


class Manifest(TypedDict, total=False):
    """The environment of a run or of a guarded command."""

    format: int
    ttf: str
    python: str
    platform: str
    cpus: int | None
    processor: str  # Its model; the architecture if the system does not name it.
    memory_bytes: int  # Physical memory of the machine, whatever limits are below it.
    versions: dict[str, str]
    command: list[str] | str
    openmp_runtimes: list[str]
    plugins: dict[str, str]
    numeric: Numeric
    chosen: dict[str, ChosenSetting]
    data: DataFacts
    work: Work
    seed: int
    configurations: list[dict[str, str]]  # What ttf wrote into run.toml, if it decides numbers.
    edits: list[str]  # What somebody changed there.
    git: str | None
    environment_left_out: dict[str, str]
    time: float  # This and the following keys: guarded commands only.
    python_of: str
    variables: dict[str, str]
