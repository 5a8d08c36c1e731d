"""What an exporter gets in its own process; what it does not ask for is not loaded."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, Self

import numpy as np
from numpy.typing import NDArray

from ttf.contracts import VectorSource
from ttf.data.array_arguments import data_path
from ttf.data.sources import VectorRef, open_ref
from ttf.errors import ConfigError
from ttf.hookspecs import Searched
from ttf.tools.export import facts as export_facts
from ttf.tools.export.texts import StoredTexts

if TYPE_CHECKING:
    import torch

    from ttf.data.dataset import Split
    from ttf.training.inference import Model

_BLOCK: Final = 1024


class Listener(Protocol):
    def say(self, note: str) -> None: ...
    def advance(self, done: int, total: int) -> None: ...


class Given:
    """The `ttf.ExportSource` of a request."""

    def __init__(self, request: Mapping[str, Any], listener: Listener) -> None:
        self.facts = export_facts.from_json(request["facts"])
        self._request = request
        self._listener = listener
        self._open = contextlib.ExitStack()
        self._model: Model | None = None

    def documents(self) -> VectorSource:
        opened = self._open.enter_context(open_ref(VectorRef(**self._request["documents"])))
        return opened.source

    def ids(self) -> NDArray[np.int64] | NDArray[np.str_] | None:
        found: NDArray[np.int64] | NDArray[np.str_] | None = _array(self._request["ids"])
        return found

    def query_matrix(self) -> NDArray[np.float32] | None:
        found: NDArray[np.float32] | None = _array(self._request["matrix"])
        return found

    def towers(self) -> tuple[torch.nn.Module, torch.nn.Module]:
        from ttf.training.towers import load_model

        found = load_model(Path(self._request["run_dir"]) / "model")
        return found.query, found.doc

    def searched(self, k: int, split: Literal["train", "val"] = "val") -> Iterator[Searched]:
        model = self._opened_model()
        with model.borrowed():
            part = model.judged if split == "val" else model.train
            yield from self._searched(model, part, k)

    def _searched(self, model: Model, part: Split, k: int) -> Iterator[Searched]:
        for start in range(0, len(part), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(part)), dtype=np.int64)
            batch = part.batch(rows)
            found = model.search(batch.x, k, batch.lengths)
            self.advance(int(rows[-1]) + 1, len(part))
            yield Searched(
                queries=part.keep[rows],
                rows=found.rows,
                scores=found.scores,
                positives=part.known(rows),
                grades=part.graded(rows),
            )

    def texts(self, role: Literal["query", "document"]) -> Sequence[str] | None:
        return StoredTexts.found(Path(self._request["texts"]) / role)

    def say(self, note: str) -> None:
        self._listener.say(note)

    def advance(self, done: int, total: int) -> None:
        self._listener.advance(done, total)

    def _opened_model(self) -> Model:
        from ttf.training.open_run import open_run

        if self._model is None:
            if self.facts.prepared:
                raise ConfigError("Smaller vectors (--dims, --dtype) are only for vectors.")
            asked = self._request["asked"]
            paths = {role: data_path(p) for role, p in asked["data"].items()}
            model = open_run(
                Path(self._request["run_dir"]),
                pairs=paths["pairs"],
                bank=paths["bank"],
                allow_remote=asked["allow_remote"],
            )
            self._model = self._open.enter_context(model)
        return self._model

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _array(path: str) -> Any:
    return np.load(path, allow_pickle=False) if path and Path(path).is_file() else None
