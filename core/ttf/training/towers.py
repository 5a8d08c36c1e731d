"""The two towers as one module: built from the configuration, saved to and loaded from a folder."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from safetensors import SafetensorError
from safetensors.torch import load, load_file
from torch import Tensor, nn

from ttf.config.loss_schema import LossConfig
from ttf.config.schema import TowerConfig, TowersConfig
from ttf.contracts import TowerCost, TowerShape
from ttf.data.embedding.tower_rows import TableTower
from ttf.data.items import Items
from ttf.errors import (
    ArtifactDamaged,
    BadData,
    ConfigError,
    DataMissing,
    EntryRefused,
    PluginUnavailable,
    UnknownName,
)
from ttf.host import plugins
from ttf.host.options import checked
from ttf.rundir.confined import open_named, read_json, sha256_file
from ttf.rundir.documents import MODEL_CONFIG
from ttf.rundir.durable import finite, write_json
from ttf.rundir.removing import folder_written_whole
from ttf.rundir.verified_folders import matches_own_digest, with_own_digest
from ttf.text.shell import quoted
from ttf.training.checkpoint import save_tensors

if TYPE_CHECKING:
    from ttf.data.dataset import Dataset

WEIGHTS = "model.safetensors"
MIN_TEMPERATURE = 0.01
MAX_TEMPERATURE = 1.0
_ESTIMATE_WITHIN = 4
_SMALL_BYTES = 64 << 20
# What a description of towers that do not exist, or other weights than theirs, leads to.
_NO_MODEL = (
    ArtifactDamaged,
    ConfigError,
    OSError,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    RuntimeError,
    SafetensorError,
)


class Temperature(nn.Module):
    """The temperature of a run, fixed or learned within [0.01, 1]; part of the model's state."""

    log_scale: Tensor

    def __init__(self, temperature: float, *, learned: bool = False) -> None:
        super().__init__()
        if learned and not MIN_TEMPERATURE <= temperature <= MAX_TEMPERATURE:
            raise ConfigError(
                f"loss.temperature is {temperature}, but a learned temperature must be between "
                f"{MIN_TEMPERATURE} and {MAX_TEMPERATURE}.",
                hint="Choose a value in this range, or set loss.learn_temperature = false.",
            )
        if not temperature > 0:
            raise ConfigError(
                f"loss.temperature is {temperature}, but it must be greater than 0.",
                hint="The default is 0.05.",
            )
        self.learned = learned
        start = torch.tensor(-math.log(temperature))
        if learned:
            self.log_scale = nn.Parameter(start)
        else:
            self.register_buffer("log_scale", start)

    def scale(self) -> Tensor:
        """1 / temperature (0-d); a learned temperature gets its gradient through it."""
        if self.learned:
            # The parameter itself, not only its value: a clamp in the graph would have no
            # gradient outside its range, and a temperature that overshot could not come back.
            with torch.no_grad():
                self.log_scale.clamp_(-math.log(MAX_TEMPERATURE), -math.log(MIN_TEMPERATURE))
        return self.log_scale.exp()

    def set_to(self, temperature: float) -> None:
        """For a temperature that is not learned."""
        self.log_scale.fill_(-math.log(temperature))

    def temperature(self) -> float:
        return 1.0 / float(self.scale().detach())


class TwoTower(nn.Module):
    def __init__(
        self, query: nn.Module, doc: nn.Module, temperature: Temperature, *, unit: bool
    ) -> None:
        super().__init__()
        self.query = query
        self.doc = doc
        self.temperature = temperature
        self.unit = unit  # Vectors are compared at unit length (cosine), or unchanged (dot).

    def encode_queries(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        return self._seen(self.query(x, lengths))

    @property
    def documents_numbered(self) -> bool:
        """The document tower reads the number of a document beside its vector."""
        return isinstance(self.doc, TableTower)

    def encode_documents(self, x: Tensor) -> Tensor:
        return self._seen(self.doc(x))

    def _seen(self, vectors: Tensor) -> Tensor:
        vectors = vectors.float()
        return nn.functional.normalize(vectors, dim=-1) if self.unit else vectors

    @property
    def width(self) -> int:
        """Of the vectors that are compared."""
        return int(cast("Any", self.query).out_dim)

    @property
    def documents_as_stored(self) -> bool:
        """Document vectors are rows of the bank: nothing is encoded, nothing becomes stale."""
        return bool(cast("Any", self.doc).identity)

    @property
    def documents_frozen(self) -> bool:
        """Document vectors never change, but are not rows of the bank: encoded once."""
        return bool(cast("Any", self.doc).frozen) and not self.documents_as_stored


class TowerSpec:
    """A tower named in the configuration, its options validated, ready to be built."""

    def __init__(self, side: str, config: TowerConfig, shape: TowerShape) -> None:
        self.side = side
        self.name = config.name
        self.shape = shape
        self.factory = plugins.usable("tower", config.name)
        # Its inputs say which row they are: `ttf.TableTower`.
        self.wants_numbers = bool(getattr(self.factory, "wants_numbers", False))
        self.options: Any = checked(self.factory.options_type, config.options(), f"tower.{side}")

    def create(self) -> nn.Module:
        return self.factory.create(self.shape, self.options)

    def cost(self) -> TowerCost:
        return self.factory.estimate(self.shape, self.options)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "shape": asdict(self.shape), "options": asdict(self.options)}

    @classmethod
    def from_json(cls, side: str, value: dict[str, Any]) -> TowerSpec:
        config = TowerConfig(name=value["name"], **value["options"])
        return cls(side, config, TowerShape(**value["shape"]))


@dataclass(frozen=True, kw_only=True)
class Specs:
    """Both towers, validated and with their cost, not built."""

    query: TowerSpec
    doc: TowerSpec

    @property
    def train_rows(self) -> bool:
        """Some tower has rows of a table."""
        return self.query.wants_numbers or self.doc.wants_numbers


def specify(towers: TowersConfig, data: Dataset) -> Specs:
    # Both towers end at the width of the bank's vectors.
    width = data.bank.shape[1]
    queries = data.train.queries
    query = TowerShape(
        in_dim=queries.dim,
        length=queries.length,
        sequence=queries.sequence,
        out_dim=width,
        numbers_only=isinstance(queries.context, Items),
    )
    only = isinstance(data.bank, Items)
    doc = TowerShape(in_dim=width, length=1, sequence=False, out_dim=width, numbers_only=only)
    specs = Specs(
        query=TowerSpec("query", towers.query, query),
        doc=TowerSpec("doc", towers.doc, doc),
    )
    _refuse_without_rows(specs)
    return specs


def _refuse_without_rows(specs: Specs) -> None:
    for spec in (specs.query, specs.doc):
        if spec.shape.numbers_only and not spec.wants_numbers:
            raise ConfigError(
                f"The {spec.side} tower {spec.name!r} reads vectors, but items (data.items) have none.",
                hint="--tower embedding --doc-tower embedding",
            )
    if specs.query.wants_numbers and not specs.query.shape.numbers_only:
        raise ConfigError(
            f"The query tower {specs.query.name!r} needs item numbers, but the queries are vectors.",
            hint="Give seq_* with item numbers and --items N, or choose another query tower.",
        )


def build(query: TowerSpec, doc: TowerSpec, loss: LossConfig) -> TwoTower:
    """Initial weights depend on torch's seed at the time of the call."""
    temperature = Temperature(loss.temperature, learned=loss.learn_temperature)
    return TwoTower(query.create(), doc.create(), temperature, unit=loss.similarity == "cosine")


def save_model(
    folder: Path,
    weights: Mapping[str, Tensor],
    query: TowerSpec,
    doc: TowerSpec,
    loss: LossConfig,
    *,
    step: int,
    metrics: Mapping[str, float],
    tables: Mapping[str, Any] | None = None,
) -> str:
    """Writes the towers after `step` steps and returns the SHA-256 of their weights; `metrics` of
    these weights, empty if they were not evaluated."""
    with folder_written_whole(folder) as temp:
        digest = save_tensors(weights, temp / WEIGHTS)
        config = {
            "format": 1,
            "query": query.to_json(),
            "doc": doc.to_json(),
            "loss": loss.model_dump(mode="json"),
            "weights_sha256": digest,
            "step": step,
            "metrics": dict(metrics),
            **({"tables": dict(tables)} if tables else {}),
        }
        write_json(temp / MODEL_CONFIG, with_own_digest(finite(config)))
    return digest


def tower_specs(folder: Path) -> tuple[Specs, str]:
    """Both towers of a model that was loaded, not built, and the SHA-256 of its weights."""
    config = read_json(folder / MODEL_CONFIG, folder.parent)
    specs = Specs(
        query=TowerSpec.from_json("query", config["query"]),
        doc=TowerSpec.from_json("doc", config["doc"]),
    )
    return specs, str(config["weights_sha256"])


def load_model(folder: Path) -> TwoTower:
    """Loads the towers that `save_model` wrote to a run's folder, weights verified, in eval mode."""
    run = folder.parent
    if not (folder / MODEL_CONFIG).is_file():
        raise DataMissing(
            f"{folder.parent} contains no model: the run ended before it saved one.",
            hint=f"Continue the training first: ttf resume {quoted(folder.parent)}",
        )
    try:
        config = read_json(folder / MODEL_CONFIG, run)
        if not matches_own_digest(config):
            raise ValueError(f"{MODEL_CONFIG} does not match its own SHA-256")
        if sha256_file(folder / WEIGHTS, run) != config["weights_sha256"]:
            raise ValueError(f"{WEIGHTS} does not match its recorded SHA-256")
        query = TowerSpec.from_json("query", config["query"])
        doc = TowerSpec.from_json("doc", config["doc"])
        refuse_larger(query, doc, (folder / WEIGHTS).stat().st_size, WEIGHTS)
        model = build(query, doc, LossConfig(**config["loss"]))
        model.load_state_dict(_tensors(folder / WEIGHTS))
    except (PluginUnavailable, UnknownName):
        raise
    except _NO_MODEL as error:
        reason = str(error).strip().partition("\n")[0][:300]
        raise ArtifactDamaged(
            f"The model in {folder} is damaged: {type(error).__name__}: {reason.rstrip('.')}.",
            hint="Delete this folder and summary.json, then write the model again: "
            f"ttf resume {quoted(folder.parent)}",
        ) from error
    return model.eval()


def _tensors(path: Path) -> dict[str, torch.Tensor]:
    try:
        str(path).encode()
    except UnicodeEncodeError:  # safetensors opens only names that are UTF-8
        with open_named(path) as file:
            return load(file.read())
    return load_file(path)


def refuse_larger(query: TowerSpec, doc: TowerSpec, saved_bytes: int, what: str) -> None:
    """Raises ValueError if towers of this size cannot have been saved in so many bytes. Before they
    are built: a configuration can ask for any amount of memory. A plugin's estimate need not be
    exact."""
    needed = 4 * (query.cost().parameters + doc.cost().parameters)
    if needed > _ESTIMATE_WITHIN * saved_bytes + _SMALL_BYTES:
        raise ValueError(
            f"its towers need {needed:,} bytes of weights, but {what} has {saved_bytes:,}"
        )


def check_init(path: Path) -> None:
    """Whether `--init` names a file of weights; reads its header. Raises DataMissing, BadData."""
    hint = "Use the model/model.safetensors of a finished run."
    try:
        with open_named(path) as file:
            length = int.from_bytes(file.read(8), "little")
            begins = file.read(1)
            whole = os.fstat(file.fileno()).st_size >= 8 + length
    except FileNotFoundError:
        raise DataMissing(f"--init {path}: there is no such file.", hint=hint) from None
    except EntryRefused as error:
        raise BadData(f"--init {error}", hint=hint) from None
    except OSError as error:
        raise BadData(f"--init {path} could not be read: {error.strerror}.", hint=hint) from error
    if not whole or begins != b"{":
        raise BadData(f"--init {path} is not a readable safetensors file.", hint=hint)


def start_from(model: TwoTower, path: Path) -> None:
    """Loads `--init` weights; every name and shape must fit."""
    check_init(path)
    try:
        tensors = _tensors(path)
    except SafetensorError as error:
        raise BadData(
            f"--init {path} is not a readable safetensors file: {error}.",
            hint="Use the model/model.safetensors of a finished run.",
        ) from None
    own = model.state_dict()
    problems = [f"{name}: not in the file" for name in own if name not in tensors]
    problems += [f"{name}: not in the model" for name in tensors if name not in own]
    problems += [
        f"{name}: the shape is {tuple(tensors[name].shape)} in the file and "
        f"{tuple(own[name].shape)} in the model"
        for name in own
        if name in tensors and tensors[name].shape != own[name].shape
    ]
    if problems:
        raise ConfigError(
            f"The weights of --init {path} do not fit these towers:",
            problems=problems[:8],
            hint=(
                "Use the same tower names, tower options and vector widths as in the run of "
                "this file."
            ),
        )
    model.load_state_dict(tensors)
