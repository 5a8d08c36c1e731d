"""Writes the folder of sentence-transformers: Router, Transformer, Pooling, Dense, Normalize."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import torch
from safetensors.torch import save_file

from ttf import ConfigError, ExportFacts, ExportSource, open_named
from ttf_exporters._card import card
from ttf_exporters._native import Layer, constant, layers

TYPES: Final = "sentence_transformers.models."
_PASSED: Final = ("Pooling", "Dense", "Normalize", "LayerNorm", "Dropout")
_NOT_COPIED: Final = frozenset(
    {"modules.json", "config_sentence_transformers.json", "README.md", "data_config.json"}
)
_MODULE: Final = re.compile(r"\w[\w-]*(\.[\w-]+)*", re.ASCII)  # As the library names them.
_MOST_BYTES: Final = 8 << 20
_UNIT: Final = "unit"
_USAGE: Final = """
## Usage
```python
from sentence_transformers import SentenceTransformer

model = SentenceTransformer("PATH")
queries = model.encode_query(["a question"])
documents = model.encode_document(["a text"])
scores = model.similarity(queries, documents)
```
"""


def write(source: ExportSource, folder: Path, route: str | None) -> dict[str, Any]:
    facts = source.facts
    query, document = source.towers()
    heads = {
        "query": layers(query, facts.query, "query"),
        "document": layers(document, facts.document, "document"),
    }
    encoder = Path(_encoder(facts))
    shared, width = _copy_encoder(encoder, folder)
    if width != facts.query.shape.in_dim or width != facts.document.shape.in_dim:
        raise ConfigError(
            f"The encoder {encoder} makes vectors of width {width}, but the towers read vectors of "
            f"width {facts.query.shape.in_dim}: they were trained with vectors of another encoder.",
            hint="Give the encoder that made the vectors of pairs and bank: --encoder DIR.",
        )
    types = dict(shared)
    structure = {}
    for side, value in (("query", 1.0), ("document", facts.mean_correction)):
        chain = list(shared)
        for number, layer in enumerate(heads[side]):
            chain.append(_dense(folder, f"{side}_head" + (f"_{number}" if number else ""), layer))
            types[chain[-1]] = f"{TYPES}Dense"
        if facts.calibrated:
            if facts.similarity == "cosine":
                chain.append(_normalize(folder, f"{side}_{_UNIT}"))
                types[chain[-1]] = f"{TYPES}Normalize"
            chain.append(_dense(folder, f"{side}_constant", constant(facts.dim - 1, value)))
            types[chain[-1]] = f"{TYPES}Dense"
        structure[side] = chain
    _json(folder / "router_config.json", {
        "types": types,
        "structure": structure,
        "parameters": {"default_route": route, "allow_empty_key": route is not None},
    })  # fmt: skip
    _modules(folder, facts)
    _config(folder, facts, encoder)
    text = card(facts, _USAGE, library="sentence-transformers", base_model=_base_name(encoder))
    folder.joinpath("README.md").write_text(text, "utf-8")
    plain = f"plain encode() is encode_{route}()" if route else "encode() needs a task"
    return {"modules": f"{len(types)} native modules", "default_route": plain}


def _encoder(facts: ExportFacts) -> str:
    if facts.encoder:
        return facts.encoder
    raise ConfigError(
        "The towers read vectors, and sentence-transformers reads texts: the text encoder that made "
        "the vectors is needed.",
        hint="Give its folder: --encoder DIR. Without one: ttf export RUN_DIR onnx, or torch-export.",
    )


def _copy_encoder(encoder: Path, folder: Path) -> tuple[dict[str, str], int]:
    """The encoder's modules, stored once: their names with their types, and the width at the end."""
    modules = _read(encoder / "modules.json")
    names = [str(one["type"]).rpartition(".")[2] for one in modules]
    odd = [n for n in names[1:] if n not in _PASSED]
    if not names or names[0] != "Transformer" or odd:
        raise ConfigError(
            f"The encoder {encoder} has the modules {', '.join(names)}. Only a Transformer, followed by "
            f"{', '.join(_PASSED)}, can be taken over.",
            hint="ttf export RUN_DIR onnx writes the towers alone.",
        )
    types, width = {}, 0
    for number, (one, name) in enumerate(zip(modules, names, strict=True)):
        target = "encoder" if name == "Transformer" else f"encoder_{number}_{name.lower()}"
        _copy(_inside(encoder, one["path"]), folder / target, encoder, top=not one["path"])
        types[target] = TYPES + name
        config = folder / target / "config.json"
        if name in ("Pooling", "Dense"):
            known = _read(config)
            width = _width(known, width)
    return types, width


def _width(config: Mapping[str, Any], before: int) -> int:
    for key in ("out_features", "word_embedding_dimension", "embedding_dimension"):
        if key in config:
            return int(config[key])
    return before


def _inside(encoder: Path, named: Any) -> Path:
    """The folder of a module. modules.json may be of anybody, and what is copied is given away."""
    if not isinstance(named, str) or (named and not _MODULE.fullmatch(named)):
        raise ConfigError(
            f"{encoder / 'modules.json'} names the folder {str(named)[:80]!r}, which is none of a module.",
            hint="Get the encoder from where it was published, and look at its modules.json.",
        )
    return encoder / named


def _copy(source: Path, target: Path, encoder: Path, *, top: bool) -> None:
    target.mkdir()
    if not source.is_dir():  # Normalize has no files
        return
    own = _own_places(encoder)
    for path in sorted(source.iterdir()):
        if path.is_file() and not path.name.startswith(".") and path.name not in _NOT_COPIED:
            if not any(path.resolve().is_relative_to(place) for place in own):
                raise ConfigError(
                    f"{path} is a link to a file outside of {encoder}, so ttf does not copy it.",
                    hint="If it belongs to the encoder, put the file itself there: cp -L.",
                )
            shutil.copyfile(path, target / path.name)
    if top and not any(target.glob("*.safetensors")) and not any(target.glob("*.bin")):
        raise ConfigError(f"{source} contains no weights (model.safetensors).")


def _own_places(encoder: Path) -> list[Path]:
    """Where the files of an encoder may lie: the cache of the Hub has links from each snapshot to its
    blobs."""
    folder = encoder.resolve()
    cached = folder.parent.name == "snapshots"
    return [folder, folder.parents[1] / "blobs"] if cached else [folder]


def _dense(folder: Path, name: str, layer: Layer) -> str:
    target = folder / name
    target.mkdir()
    outputs, inputs = layer.weight.shape
    kind = "linear.Identity" if layer.activation == "Identity" else f"activation.{layer.activation}"
    _json(target / "config.json", {
        "in_features": inputs,
        "out_features": outputs,
        "bias": layer.bias is not None,
        "activation_function": f"torch.nn.modules.{kind}",
    })  # fmt: skip
    tensors = {"linear.weight": layer.weight.to(torch.float32).contiguous()}
    if layer.bias is not None:
        tensors["linear.bias"] = layer.bias.to(torch.float32).contiguous()
    save_file(tensors, target / "model.safetensors")
    return name


def _normalize(folder: Path, name: str) -> str:
    folder.joinpath(name).mkdir()
    return name


def _modules(folder: Path, facts: ExportFacts) -> None:
    found = [{"idx": 0, "name": "0", "path": "", "type": f"{TYPES}Router"}]
    if facts.similarity == "cosine" and not facts.calibrated:
        name = _normalize(folder, "1_Normalize")
        found.append({"idx": 1, "name": "1", "path": name, "type": f"{TYPES}Normalize"})
    _json(folder / "modules.json", found)


def _config(folder: Path, facts: ExportFacts, encoder: Path) -> None:
    before = _read(encoder / "config_sentence_transformers.json", missing={})
    prompts = {"query": "", "document": "", **(before.get("prompts") or {}), **facts.prompts}
    dot = facts.calibrated or facts.similarity == "dot"
    _json(folder / "config_sentence_transformers.json", {
        "model_type": "SentenceTransformer",
        "__version__": {"sentence_transformers": "5.1.0"},
        "prompts": prompts,
        "default_prompt_name": before.get("default_prompt_name"),
        "similarity_fn_name": "dot" if dot else "cosine",
    })  # fmt: skip


def _base_name(encoder: Path) -> str:
    """The public name of the encoder, if its configuration says one."""
    name = str(_read(encoder / "config.json", missing={}).get("_name_or_path", ""))
    return name if name.count("/") == 1 and not name.startswith((".", "/")) else ""


def _json(path: Path, value: Any) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", "utf-8")


def _read(path: Path, missing: Any = None) -> Any:
    try:
        with open_named(path) as file:
            return json.loads(file.read(_MOST_BYTES).decode())
    except FileNotFoundError:
        if missing is not None:
            return missing
        raise ConfigError(
            f"{path.parent} is no folder of sentence-transformers: it has no {path.name}.",
            hint="--encoder DIR must be a folder that SentenceTransformer(DIR) loads.",
        ) from None
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} cannot be read: {error}") from error
