"""The hooks a plugin may implement, each with its time of call, and the types of encoders and of
`ttf doctor` checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self, get_args, runtime_checkable

import pluggy

from ttf.contracts import Factory

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from ttf.contracts import (
        DeviceFactory,
        EvalRecord,
        MinerFactory,
        StepRecord,
        StorageFactory,
        TowerFactory,
    )

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


class EncoderFactory(Factory, Protocol):
    """An option named `model` is set by `--model`."""

    def create(self, options: Any, context: EncoderContext) -> Encoder:
        """Raises ConfigError if the model is not on this machine; downloads nothing."""


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
