"""The two tasks of an exporter's processes: write a folder, and read it back."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.hookspecs import ExportAnswers, Exporter, ExportProbe
from ttf.host import plugins
from ttf.host.options import checked
from ttf.tools.export import facts as export_facts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ttf.process.serve import Tell

ARRAYS: Final = (
    *("rows", "scores", "query_vectors", "document_vectors"),
    *("query_inputs", "document_inputs"),
)
_EVERY_S: Final = 0.25


def write(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.tools.export.given import Given

    exporter = _exporter(request)
    with Given(request, _Telling(tell)) as given:
        told = exporter.write(given, Path(request["folder"]))
    return {"told": dict(told)}


def read_back(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    import numpy as np

    exporter = _exporter(request)
    answers = exporter.read_back(Path(request["folder"]), probe(request))
    for name in ARRAYS:
        found = getattr(answers, name)
        if found is not None:
            np.save(Path(request["answers"]) / f"{name}.npy", np.asarray(found))
    return {"count": answers.count, "library": answers.library}


def _exporter(request: Mapping[str, Any]) -> Exporter:
    name = request["exporter"]
    factory = plugins.usable("exporter", name)
    return factory.create(checked(factory.options_type, request["options"], f"exporter.{name}"))


class _Telling:
    """Notes and progress for the parent, not more often than a person can read."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._next = 0.0

    def say(self, note: str) -> None:
        self._tell({"note": note})

    def advance(self, done: int, total: int) -> None:
        now = time.monotonic()
        if now >= self._next or done == total:
            self._next = now + _EVERY_S
            self._tell({"done": done, "total": total})


# --- between parent and child ---------------------------------------------------------------------


def probe(request: Mapping[str, Any]) -> ExportProbe:
    """The probe that `save_probe` wrote."""
    from ttf.tools.export.texts import StoredTexts

    folder = Path(request["probe"])
    return ExportProbe(
        facts=export_facts.from_json(request["facts"]),
        k=request["k"],
        lengths=_array(folder, "lengths"),
        ids=_array(Path(request["ids"]).parent, "ids"),
        **{name: _array(folder, name) for name in _PROBE},
        query_texts=StoredTexts.found(folder / "query-texts"),
        document_texts=StoredTexts.found(folder / "document-texts"),
    )


_PROBE: Final = ("queries", "query_rows", "query_vectors", "document_rows", "documents")


def save_probe(folder: Path, found: Mapping[str, NDArray[Any] | None]) -> None:
    import numpy as np

    for name, array in found.items():
        if array is not None:
            np.save(folder / f"{name}.npy", array)


def answers(folder: Path, said: Mapping[str, Any]) -> ExportAnswers:
    """What `read_back` wrote."""
    arrays = {name: _array(folder, name) for name in ARRAYS}
    return ExportAnswers(count=said["count"], library=said["library"], **arrays)


def _array(folder: Path, name: str) -> Any:
    import numpy as np

    path = folder / f"{name}.npy"
    return np.load(path, allow_pickle=False) if path.is_file() else None
