"""The run configuration: every section and key, its type, default and bounds.

Imported only when a configuration is read: pydantic takes 200 ms. Plugin options are in free-form
tables (`[tower.query]` with `name`, `[miner.<name>]`, `[device.<name>]`); the plugin's own options
type validates them in `ttf.config.resolve`.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from ttf.config.declare import (
    MOST_FLOAT32,
    MOST_ROWS,
    Auto,
    Candidates,
    CandidatesOrZero,
    Name,
    PathText,
    Section,
    Share,
    ShareBelowOne,
    Steps,
    StepsOrZero,
    Threads,
    Timeout,
    key,
    within,
)
from ttf.config.evaluation_schema import CalibrateConfig, EvaluateConfig
from ttf.config.safety_schema import CheckpointConfig, MemoryConfig, ProbeConfig, SuperviseConfig
from ttf.config.scale_schema import ScaleConfig
from ttf.config.train_schema import TrainConfig

_WANTED_YIELD = 0.1
MOST_ITEMS: Final = 2**31 - 2
MOST_CANDIDATES_OF_AUTO: Final = 200


class WithPluginTables(Section):
    """A section that may also hold one table of options per plugin name."""

    model_config = ConfigDict(extra="allow", frozen=True)

    def options_of(self, name: str) -> dict[str, Any]:
        return dict((self.model_extra or {}).get(name, {}))


class DataConfig(Section):
    """The files with your vectors."""

    pairs: PathText | None = key(
        None, "file with training and validation pairs; none: the demo data set"
    )
    bank: PathText | None = key(
        None, "file with the documents; none: the distinct rows of Y_train and Y_val"
    )
    items: Annotated[int, within(2, MOST_ITEMS)] | None = key(
        None,
        "number of items whose vectors are trained, in place of a bank: seq_* and pos_* hold item "
        "numbers from 0 (towers `embedding`); none: documents have vectors",
        unit="items",
    )
    item_width: Annotated[int, within(2, 65_536)] = key(
        128, "width of the vectors of items", unit="values"
    )
    context: PathText | None = key(
        None, "file with the vectors that seq_* arrays refer to; none: the bank"
    )
    storage: Name = key(
        "auto", "storage plugin that reads the files; auto: by the file's ending", plugin="storage"
    )
    missing: Literal["refuse", "fill"] = key(
        "refuse",
        "chunks of Zarr that do not exist: refuse, because they may be lost; or fill: read them as "
        "the fill value of the array, because chunks of zeros are often not written",
    )
    val_split: ShareBelowOne | Auto = key(
        "auto",
        "share of the training pairs to use for validation if the file has no validation pairs; "
        "pairs of one document stay together; auto: 5%, at least 200 and at most 5000 pairs; 0: "
        "none",
        unit="share of the training pairs",
    )
    hold_out: ShareBelowOne = key(
        0.0,
        "share of the training pairs on which the run is evaluated instead of the validation pairs, "
        "which are then not read; it does not train on these pairs. ttf tune sets it; 0: none",
        unit="share of the training pairs",
    )
    own_negatives: Annotated[int, within(0, 1000)] = key(
        4,
        "negatives of neg_train (rows of the bank) that are drawn per query and step, beside mined "
        "ones; 0: none",
        unit="documents",
    )
    names: dict[str, Name] = key(
        {}, "array names in your files, e.g. X_train = 'queries'", max_length=100
    )


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
        "auto", "CPU threads of the miner; auto: as many as the trainer has", unit="threads"
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


class NegativesConfig(Section):
    """The positive-aware filter: which mined candidates may be drawn.

    It leaves out candidates that score almost as high as the positive: many of these are right
    answers. s is a candidate's score, s_pos the score of the query's positive.
    """

    relative_margin: ShareBelowOne | None = key(
        0.05,
        "keep a candidate if s < s_pos - relative_margin * |s_pos|; none: no such filter",
        unit="share of |s_pos|",
    )
    absolute_margin: Annotated[float, within(0, MOST_FLOAT32)] | None = key(
        None, "keep a candidate if s < s_pos - absolute_margin; none: no such filter", unit="score"
    )
    rank_from: CandidatesOrZero = key(
        0, "lowest rank from which negatives are drawn; 0 is the nearest document", unit="rank"
    )
    rank_to: Candidates | None = key(
        None, "negatives are drawn from ranks below this number; none: no limit", unit="rank"
    )
    draw_from: Candidates = key(
        10, "negatives are drawn from the first N candidates that pass", unit="documents"
    )
    min_yield: Share | Auto = key(
        "auto",
        "share of queries that must have a candidate after the filter, otherwise the run ends "
        "with exit code 2; auto: below 0.1, the run continues with a note",
        unit="share of queries",
    )

    @property
    def wanted_yield(self) -> float:
        return _WANTED_YIELD if self.min_yield == "auto" else self.min_yield


class LossConfig(Section):
    """The contrastive loss (InfoNCE) and its negatives."""

    temperature: Annotated[float, Field(gt=0, le=100)] = key(
        0.05,
        ("the loss divides similarities by this number; a lower number makes differences larger"),
        unit="no unit",
    )
    learn_temperature: bool = key(False, "train the temperature too; it stays between 0.01 and 1")
    temperature_schedule: Literal["falling", "constant"] = key(
        "falling",
        "falling: from 1.4 times loss.temperature at the first step to 0.8 times it at the last, by the "
        "same factor at each step; constant: loss.temperature at all steps, as with "
        "loss.learn_temperature",
    )
    similarity: Literal["cosine", "dot"] = key(
        "cosine", "how vectors are compared; cosine: after scaling them to length 1, dot: unchanged"
    )
    memory_bank: Annotated[int, within(0, MOST_ROWS)] | Auto = key(
        "auto",
        "documents of earlier steps that are used as negatives; auto: min(50000, distinct "
        "documents) if a step has fewer than 1024 documents of its own, otherwise none",
        unit="documents",
    )
    memory_bank_start: StepsOrZero = key(
        0, "first step that uses the memory bank", unit="optimizer steps"
    )
    symmetric: bool = key(False, "average of two losses: query to document, and document to query")
    negatives: Literal["sampled", "bank"] = key(
        "sampled",
        "sampled: documents of the step, of the memory bank and of the miner; bank: all documents "
        "of the bank at every step (only if the document tower is not trained)",
    )


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
