"""Where a model lies on this machine, and what its files contain; nothing here downloads."""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from ttf import ConfigError

_MARKS: Final = ("modules.json", "config.json")
_READ_BYTES: Final = 4 << 20
# The weights once more for other programs, and texts for people: no vector depends on them.
_OTHERS: Final = frozenset({"onnx", "openvino", "coreml"})
_TEXTS: Final = (".md", ".gitattributes", ".h5", ".msgpack", ".onnx", ".tflite")


def local_folder(model: str) -> Path:
    """Raises ConfigError if there is no such model here."""
    if not model:
        raise ConfigError(
            "The encoder sentence-transformers needs a model.",
            hint="Add --model with a folder, or with the name of a model that is on this machine.",
        )
    given = Path(model).expanduser()
    if given.exists():
        return _checked(given)
    found = _in_package(model) or _in_cache(model)
    if found is not None:
        return found
    raise ConfigError(
        f"There is no model {model!r} on this machine: it is no folder, no Python package with a "
        f"model, and it is not in the cache {_cache_folder()}. ttf downloads no models.",
        hint=(
            f"Download it once: hf download {model}   Or copy the folder of the model to this machine, "
            "and give its path."
        ),
    )


def _checked(folder: Path) -> Path:
    if not folder.is_dir():
        raise ConfigError(
            f"The model {folder} is a file.",
            hint="Give the folder of the model: it contains modules.json or config.json.",
        )
    if not _is_model(folder):
        raise ConfigError(
            f"The folder {folder} contains no model: it has neither {' nor '.join(_MARKS)}.",
            hint="Give the folder that SentenceTransformer.save wrote, or a copy of a model's files.",
        )
    return folder


def _is_model(folder: Path) -> bool:
    return any((folder / mark).is_file() for mark in _MARKS)


def _in_package(model: str) -> Path | None:
    """The first folder with a model in an installed package; its code is not run."""
    name = model.replace("-", "_")
    if not name.isidentifier():
        return None
    spec = importlib.util.find_spec(name)
    for place in (spec.submodule_search_locations or ()) if spec is not None else ():
        folders = sorted(path for path in Path(place).iterdir() if path.is_dir())
        for folder in [Path(place), *folders]:
            if _is_model(folder):
                return folder
    return None


def _cache_folder() -> Path:
    from huggingface_hub import constants

    return Path(constants.HF_HUB_CACHE)


def _in_cache(model: str) -> Path | None:
    """The snapshot that the cache calls `main`, else its only one."""
    for name in (model, f"sentence-transformers/{model}"):
        held = _cache_folder() / f"models--{name.replace('/', '--')}"
        head = held / "refs" / "main"
        names = [head.read_text().strip()] if head.is_file() else []
        snapshots = held / "snapshots"
        if not names and snapshots.is_dir():
            names = [path.name for path in snapshots.iterdir()]
        if len(names) == 1 and _is_model(snapshots / names[0]):
            return snapshots / names[0]
    return None


def content_of(folder: Path) -> str:
    """A hash of the files that vectors depend on, with their names."""
    whole = hashlib.sha256()
    for path in sorted(_files(folder)):
        whole.update(f"{path.relative_to(folder).as_posix()}\0{path.stat().st_size}\0".encode())
        with path.open("rb") as file:
            while block := file.read(_READ_BYTES):
                whole.update(block)
    return whole.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        inner = path.relative_to(folder)
        hidden = any(part.startswith(".") or part in _OTHERS for part in inner.parts)
        if path.is_file() and not hidden and not path.name.lower().endswith(_TEXTS):
            yield path


@contextlib.contextmanager
def offline() -> Iterator[None]:
    """The libraries read these variables when they are imported; they stay as they were."""
    wanted = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
