"""The run configuration: every section and key, its type, default and bounds.

Imported only when a configuration is read: pydantic takes 200 ms. Plugin options are in free-form
tables (`[tower.query]` with `name`, `[miner.<name>]`, `[device.<name>]`); the plugin's own options
type validates them in `ttf.config.resolve`.
"""

# ruff: noqa: PLC0414 -- `name as name` offers a name of another file here as well

from __future__ import annotations

import re
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ttf.config.data_schema import MOST_ITEMS as MOST_ITEMS, DataConfig as DataConfig
from ttf.config.declare import (
    Auto,
    Candidates,
    CandidatesOrZero,
    Name,
    Section,
    Steps,
    StepsOrZero,
    Threads,
    Timeout,
    key,
)
from ttf.config.evaluation_schema import CalibrateConfig, EvaluateConfig
from ttf.config.loss_schema import LossConfig, NegativesConfig
from ttf.config.safety_schema import CheckpointConfig, MemoryConfig, ProbeConfig, SuperviseConfig
from ttf.config.scale_schema import ScaleConfig
from ttf.config.train_schema import TrainConfig

MOST_CANDIDATES_OF_AUTO: Final = 200


class WithPluginTables(Section):
    """A section that may also hold one table of options per plugin name."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def options_of(self, name: str) -> dict[str, Any]:
        return dict((self.model_extra or {}).get(name, {}))


class TowerConfig(BaseModel):
    """One tower: its name, and the options of that tower."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: Name = Field(
        description=(
            "name of the tower; its options (ttf config explain tower.gru) are keys of the "
            "same table; auto (queries only): linear or mlp, from the data; gru, if the table has "
            "options, which are then those of the gru tower"
        ),
        json_schema_extra={"plugin": "tower"},
    )

    def options(self) -> dict[str, Any]:
        return dict(self.model_extra or {})


class TowersConfig(Section):
    """The two towers: one for queries, one for documents."""

    query: TowerConfig = key(TowerConfig(name="auto"), "The tower that encodes queries.")
    doc: TowerConfig = key(TowerConfig(name="identity"), "The tower that encodes documents.")


class MinerConfig(WithPluginTables):
    """How hard negatives are found: a search for each query's nearest documents."""

    name: Name = key(
        "auto",
        (
            "name of the miner; auto: exact, or an index if the cost model predicts that it "
            "is much faster"
        ),
        plugin="miner",
    )
    k: Candidates | Auto = key(
        "auto",
        "candidates kept per query; auto: as many as [negatives] can draw from: draw_from and the "
        "known positives, and rank_from; with a margin, 200 if candidates is nearest; at most rank_to",
        unit="documents",
    )
    candidates: Literal["passing", "below", "nearest"] | Auto = key(
        "auto",
        "which documents are a query's candidates; nearest: the k nearest, of which the margins of "
        "[negatives] leave some; passing: the k best that the margins leave of the 200 nearest (or of "
        "rank_to): the same draws in less time, with the miner exact; below: the same whatever their "
        "rank; auto: passing where that can be, else nearest",
    )
    negatives: CandidatesOrZero | Auto = key(
        "auto",
        "mined negatives drawn per query; 0: none; auto: 4 if a step has fewer than 1024 documents "
        "of its own and mining takes at most a quarter of the work of the training, or if name, k, refresh "
        "or start of this section is set; otherwise none",
        unit="documents",
    )
    refresh: Literal["epoch", "auto"] | Steps = key(
        "epoch",
        "how often candidates are mined again: every epoch, or every N steps; auto: every epoch, or "
        "every 2 or 4 epochs while the old negatives stay hard",
        unit="optimizer steps",
    )
    queries: Literal["encode", "reuse"] = key(
        "encode",
        "vectors of the queries that candidates are mined for; encode: all are encoded anew; reuse: "
        "those that training computed in the last epoch, with dropout and up to an epoch old, which "
        "costs nothing (only if the document tower is not trained)",
    )
    start: Literal["epoch"] | StepsOrZero = key(
        0,
        "first step with mined negatives; epoch: after the first epoch",
        unit="optimizer steps",
    )
    isolation: Literal["process", "none"] = key(
        "process", "process: a crash of the miner cannot end the trainer; none: in the trainer"
    )
    fallback: tuple[Name, ...] = key(
        ("exact",),
        "miners to use, in this order, if the miner fails",
        plugin="miner",
        max_length=16,
    )
    deadline_s: Timeout | Auto = key(
        "auto",
        "time that one mining round may take; auto: 20 times the estimate, at least 600 s",
        unit="s",
    )
    deterministic: bool = key(
        True, "the same ids in every run; hnswlib then builds its index with 1 thread"
    )
    threads: Threads | Auto = key(
        "auto",
        "CPU threads of the miner; auto: as many as the trainer has; the miner exact: as all trainers "
        "of this run on the machine",
        unit="threads",
    )
    split: Literal["auto", "queries", "rows"] = key(
        "auto",
        "what the machines of a run share when the miner exact searches, which changes no number; queries: "
        "each reads the whole bank for a part of them; rows: each reads a part of the bank; auto: "
        "rows if the bank in bfloat16 is larger than the memory of one of them",
    )

    @property
    def num_negatives(self) -> int:
        """`negatives` of a run whose "auto" is settled."""
        assert isinstance(self.negatives, int)
        return self.negatives

    @property
    def keeps_queries(self) -> bool:
        return self.queries == "reuse" and self.negatives not in (0, "auto")

    @property
    def num_candidates(self) -> int:
        """`k`; the most where nothing has settled "auto", because nothing draws: `ttf mine`."""
        return MOST_CANDIDATES_OF_AUTO if isinstance(self.k, str) else self.k


class DeviceConfig(WithPluginTables):
    """Where and how the towers are computed."""

    name: Name = key(
        "auto", "name of the device; auto: the best device of this machine", plugin="device"
    )
    threads: Threads | Auto = key(
        "auto", "CPU threads; auto: the physical cores that this process may use", unit="threads"
    )
    precision: Literal["fp32", "bf16", "auto"] = key(
        "auto", "number format of matrix products in the towers; auto: recommended by the device"
    )


class Gate(Section):
    """A value that a metric must have at some point; if it has not, the run ends with exit code 7."""

    at: Name = Field(description="when it is checked: 'epoch N' or 'step N'")
    need: Name = Field(description="'<metric> >= <number>'; also >, <= and <")

    @field_validator("at")
    @classmethod
    def _at(cls, value: str) -> str:
        if not re.fullmatch(r"(epoch|step) [1-9]\d{0,8}", value):
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
    calibrate: CalibrateConfig = CalibrateConfig()
    checkpoint: CheckpointConfig = CheckpointConfig()
    memory: MemoryConfig = MemoryConfig()
    supervise: SuperviseConfig = SuperviseConfig()
    probe: ProbeConfig = ProbeConfig()
    scale: ScaleConfig = ScaleConfig()
    observers: tuple[Name, ...] = key(
        (),
        "observer plugins that receive the events of the run, e.g. ['tensorboard']",
        plugin="observer",
        max_length=64,
    )
    gates: tuple[Gate, ...] = key(
        (), "conditions that a metric must meet at an epoch or a step", max_length=1000
    )


def metric_names(ks: tuple[int, ...]) -> list[str]:
    return [*(f"recall@{k}" for k in ks), "mrr@10", "ndcg@10"]
