"""The run configuration: every section and key, its type, default and bounds.

Imported only when a configuration is read: pydantic takes 200 ms. Plugin options are in free-form
tables (`[tower.query]` with `name`, `[miner.<name>]`, `[device.<name>]`); the plugin's own options
type validates them in `ttf.config.resolve`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

Auto = Literal["auto"]
Positive = Annotated[int, Field(ge=1)]
NonNegative = Annotated[int, Field(ge=0)]
_WANTED_YIELD = 0.1


class Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class WithPluginTables(Section):
    """A section that may also hold one table of options per plugin name."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def options_of(self, name: str) -> dict[str, Any]:
        return dict((self.model_extra or {}).get(name, {}))


class DataConfig(Section):
    pairs: str | None = Field(None, description="the pairs file; without it the demo set is made")
    bank: str | None = Field(None, description="the documents; without it the distinct rows of Y")
    context: str | None = Field(None, description="vectors that seq_* refers to; else the bank")
    storage: str = Field("auto", description="storage plugin; auto: by the file's ending")
    names: dict[str, str] = Field(
        default_factory=dict, description="array names in your files, e.g. X_train = 'queries'"
    )


class TowerConfig(BaseModel):
    """`name`, and the options of that tower."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str

    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class TowersConfig(Section):
    query: TowerConfig = TowerConfig(name="gru")
    doc: TowerConfig = TowerConfig(name="identity")


class MinerConfig(WithPluginTables):
    name: str = Field("auto", description="auto: exact, or an index where its cost model says so")
    k: Positive = Field(200, description="candidates kept per query")
    negatives: NonNegative = Field(4, description="mined negatives drawn per query; 0: none")
    refresh: Literal["epoch"] | Positive = Field(
        "epoch", description="mine anew every epoch, or every N optimizer steps"
    )
    start: Literal["epoch"] | NonNegative = Field(
        0, description="first step with mined negatives; epoch: after the first epoch"
    )
    isolation: Literal["process", "none"] = Field(
        "process", description="process: the miner cannot take the trainer with it"
    )
    fallback: tuple[str, ...] = Field(("exact",), description="tried in turn when a miner dies")
    deadline_s: Annotated[float, Field(gt=0)] | Auto = Field(
        "auto", description="seconds one mining round may take; auto: 20 x the estimate, >= 600"
    )
    deterministic: bool = Field(True, description="same ids in every run; hnswlib: 1 thread")
    threads: Positive | Auto = Field("auto", description="auto: as many as the trainer has")


class NegativesConfig(Section):
    """The positive-aware filter: which mined candidates may be drawn."""

    relative_margin: Annotated[float, Field(ge=0, lt=1)] | None = Field(
        0.05, description="keep s < s_pos - margin * |s_pos|"
    )
    absolute_margin: Annotated[float, Field(ge=0)] | None = Field(
        None, description="keep s < s_pos - margin"
    )
    rank_from: NonNegative = Field(0, description="best rank that may be drawn (0: the first)")
    rank_to: Positive | None = Field(None, description="one past the last rank that may be drawn")
    draw_from: Positive = Field(10, description="draw from the first N survivors")
    min_yield: Annotated[float, Field(ge=0, le=1)] | Auto = Field(
        "auto",
        description="refuse to train if fewer queries than this share have a survivor; auto: "
        "below 0.1, say so and train on",
    )

    @property
    def wanted_yield(self) -> float:
        return _WANTED_YIELD if self.min_yield == "auto" else self.min_yield


class LossConfig(Section):
    temperature: Annotated[float, Field(gt=0, le=100)] = 0.05
    learn_temperature: bool = Field(False, description="learned, clamped to [0.01, 1]")
    similarity: Literal["cosine", "dot"] = "cosine"
    memory_bank: NonNegative | Auto = Field(
        "auto",
        description="documents kept as negatives; auto: min(50000, distinct documents) where a "
        "step offers fewer than 1024 itself, else none",
    )
    memory_bank_start: NonNegative = Field(0, description="first step that uses the memory bank")
    symmetric: bool = Field(False, description="average of query-to-document and the reverse")
    negatives: Literal["sampled", "bank"] = Field(
        "sampled",
        description="bank: all documents of the bank, in one pass a step (documents that do not "
        "train); sampled: those of the step, the memory bank and the miner",
    )


class TrainConfig(Section):
    epochs: Positive = Field(8, description="passes over the training pairs")
    steps: Positive | None = Field(None, description="stop after N optimizer steps")
    batch_size: Positive | Auto = Field(
        "auto", description="samples per micro-batch; auto: by the tower's activations"
    )
    accumulate: Positive = Field(1, description="micro-batches per optimizer step")
    fuse: Positive | Auto = Field(
        "auto",
        description="micro-batches computed at a time: the same step, rounded otherwise; auto: up "
        "to the rows the device computes fastest, within the memory budget",
    )
    lr: Annotated[float, Field(gt=0)] = 1e-3
    schedule: Literal["cosine", "linear", "constant"] = "cosine"
    warmup: Annotated[float, Field(ge=0, lt=1)] = Field(0.05, description="share of all steps")
    weight_decay: Annotated[float, Field(ge=0)] = 0.01
    clip: Annotated[float, Field(ge=0)] = Field(1.0, description="gradient norm; 0: no clipping")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    shuffle: bool = Field(
        True, description="rows in a random order, another one each epoch; false: as they lie"
    )
    grad_cache: bool | Auto = Field(
        "auto", description="one large batch in chunks; auto: where accumulation needs it"
    )
    init: str | None = Field(None, description="safetensors file the towers start from")


class DeviceConfig(WithPluginTables):
    name: str = "auto"
    threads: Positive | Auto = "auto"
    precision: Literal["fp32", "bf16", "auto"] = "auto"


class EvaluateConfig(Section):
    every: Literal["epoch", "end"] | Positive = Field(
        "epoch", description="evaluate each epoch, every N optimizer steps, or at the end only"
    )
    k: tuple[Positive, ...] = (1, 10, 100, 500)
    metric: str = Field("recall@10", description="what the best checkpoint is chosen by")
    patience: NonNegative | Auto = Field(
        "auto",
        description="stop after N evaluations without gain; 0: never; auto: a third of the run's "
        "evaluations, at least 3; never where there are gates or the last weights are kept",
    )
    keep_best: bool = Field(True, description="end with the weights of the best evaluation")


class CheckpointConfig(Section):
    every_s: Annotated[float, Field(gt=0)] | None = Field(
        60.0, description="written beside the training; none: only by steps and at the end"
    )
    every_steps: Positive | None = None
    keep: Annotated[int, Field(ge=2)] = Field(2, description="intact ones that stay")
    retry_s: Annotated[float, Field(ge=0)] = Field(
        300.0,
        description="a disk that is full or fails: train on and try again for so long; 0: stop",
    )


class SuperviseConfig(Section):
    """What the supervisor does about a process that dies or hangs."""

    max_restarts: NonNegative = Field(5, description="restarts in a row without progress")
    hang_timeout_s: Annotated[float, Field(gt=0)] | Auto = Field(
        "auto",
        description="seconds without a sign of life; auto: 600, later 10 x the longest pause seen "
        "in that phase, at least 60; while it starts never less than 600",
    )
    remedies: bool = Field(True, description="change the configuration where the evidence asks")


class ProbeConfig(Section):
    """Compares loss and gradients of one micro-batch on the device and on the CPU."""

    every: NonNegative = Field(
        0, description="optimizer steps between probes; 0: only where the device asks, at start"
    )
    tolerance: Annotated[float, Field(gt=0, lt=1)] | Auto = Field(
        "auto", description="relative; auto: by precision, 0.001 for fp32"
    )
    on_mismatch: Literal["stop", "cpu"] = Field(
        "stop", description="stop: exit code 4; cpu: go on there from the last checkpoint"
    )


class MemoryConfig(Section):
    budget: NonNegative | str = Field(
        "auto",
        description="memory for mining (blocks, index) and evaluation, e.g. '512MiB'; "
        "auto: a quarter of the memory limit in force, at least 1 GiB",
    )


class Gate(Section):
    at: str = Field(description="'epoch N' or 'step N'")
    need: str = Field(description="'<metric> >= <number>'")

    @field_validator("at")
    @classmethod
    def _at(cls, value: str) -> str:
        if not re.fullmatch(r"(epoch|step) [1-9]\d*", value):
            raise ValueError("must be 'epoch N' or 'step N'")
        return value

    @field_validator("need")
    @classmethod
    def _need(cls, value: str) -> str:
        if not re.fullmatch(r"[a-z]+@\d+ *(>=|>|<=|<) *[0-9.eE+-]+", value):
            raise ValueError("must be like 'recall@500 >= 0.25'")
        return value


class RunConfig(Section):
    """A whole run; `RunConfig()` is the demo."""

    data: DataConfig = DataConfig()
    tower: TowersConfig = TowersConfig()
    miner: MinerConfig = MinerConfig()
    negatives: NegativesConfig = NegativesConfig()
    loss: LossConfig = LossConfig()
    train: TrainConfig = TrainConfig()
    device: DeviceConfig = DeviceConfig()
    evaluate: EvaluateConfig = EvaluateConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    memory: MemoryConfig = MemoryConfig()
    supervise: SuperviseConfig = SuperviseConfig()
    probe: ProbeConfig = ProbeConfig()
    observers: tuple[str, ...] = ()
    gates: tuple[Gate, ...] = ()


def metric_names(ks: tuple[int, ...]) -> list[str]:
    return [*(f"recall@{k}" for k in ks), "mrr@10", "ndcg@10"]
