"""Runs that lead out, hang, inflate or lie."""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.kit.hostile.table import (
    TABLE,
    TERABYTE,
    Place,
    hostile,
)

from ttf.rundir.verified_folders import with_own_digest

# --- runs: links ----------------------------------------------------------------------------------


def unfinished(place: Place) -> None:
    """The run goes on when it is resumed: its last checkpoint is that of step 2 of 3."""
    (place.run / "summary.json").unlink(missing_ok=True)
    text = (place.run / "run.toml").read_text()
    (place.run / "run.toml").write_text(text.replace("\nsteps = 2 ", "\nsteps = 3 "))


def _link(name: str, target: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        unfinished(place)
        place.path(name).symlink_to(place.outside / target)

    return make


_RESUME: Final = "resume run --in-process"
_REPORT: Final = "report run --bundle bundle.zip"
for _name in ("candidates", "checkpoints", "incidents", "index", "model"):
    hostile(f"{_name} of a run is a link", _RESUME, _REPORT, "eval run")(_link(_name, ""))
for _name in (".owner", ".lock", ".writer", "memory.jsonl", "metrics.jsonl", "flight.bin"):
    hostile(f"{_name} of a run is a link", _RESUME, _REPORT)(_link(_name, "secret.txt"))
for _name in (
    "stderr.txt",
    "environment.json",
    "supervision.json",
    "faulthandler.txt",
    "manifest.json",
    "summary.json",
    "report.html",
):
    hostile(f"{_name} of a run is a link", _REPORT)(_link(_name, "secret.txt"))
hostile("run.toml is a link", "eval run", _REPORT, _RESUME)(_link("run.toml", "secret.txt"))
hostile("a run's only incident is a link", _REPORT, "explain run")(_link("incidents/001", "001"))


@hostile("files of an incident are links", _REPORT, "explain run")
def _incident_files(place: Place) -> None:
    folder = place.run / "incidents" / "001"
    folder.mkdir()
    for name in ("incident.md", "stderr.txt", "faulthandler.txt", "applied.json", "memory.csv"):
        (folder / name).symlink_to(place.outside / "secret.txt")
    (folder / "incident.json").symlink_to(place.outside / "001" / "incident.json")


@hostile("files of the model are links", "eval run", "search run --queries pairs.npz -k 3")
def _model_links(place: Place) -> None:
    for name in ("config.json", "model.safetensors"):
        place.path(f"model/{name}").symlink_to(place.outside / "secret.txt")


@hostile("a leftover of a run is a link", _RESUME)
def _leftover_link(place: Place) -> None:
    unfinished(place)
    (place.run / ".tmp-report.html-1.0").symlink_to(place.outside / "home")
    (place.run / "checkpoints" / ".tmp-step-1").symlink_to(place.outside)
    (place.run / "candidates" / ".tmp-old-home-1").symlink_to(place.outside / "home")


# --- runs: names that lead out ------------------------------------------------------------------------


def _sealed_checkpoint(place: Place, change: Callable[[dict[str, Any]], None]) -> None:
    """Changes the newest checkpoint.json and repairs its own hash."""
    newest = max((place.run / "checkpoints").iterdir())
    document = json.loads((newest / "checkpoint.json").read_text())
    document.pop("sha256")
    change(document)
    seal = hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
    (newest / "checkpoint.json").write_text(json.dumps({**document, "sha256": seal}))


@hostile("a checkpoint names a file outside", _RESUME)
def _checkpoint_files(place: Place) -> None:
    unfinished(place)
    digest = hashlib.sha256((place.outside / "secret.txt").read_bytes()).hexdigest()
    out = "../../../../outside/secret.txt"
    _sealed_checkpoint(place, lambda found: found["files"].update({out: digest}))


@hostile("a checkpoint names a table outside", _RESUME)
def _checkpoint_table(place: Place) -> None:
    unfinished(place)
    manifest = (place.outside / TABLE / "manifest.json").read_bytes()
    table = {
        "key": f"../../../outside/{TABLE}",
        "sha256": hashlib.sha256(manifest).hexdigest(),
    }
    _sealed_checkpoint(place, lambda found: found.update(table=table))


@hostile("a checkpoint holds values of other types", _RESUME)
def _checkpoint_types(place: Place) -> None:
    unfinished(place)
    _sealed_checkpoint(
        place,
        lambda found: found["progress"].update(
            totals={"__class__": "x", "wall_s": "a"}, selection={"weights": 1}, bank_position=-1e300
        ),
    )


@hostile("a folder of tables holds somebody's files", _RESUME)
def _foreign_tables(place: Place) -> None:
    unfinished(place)
    (place.run / "candidates" / "notes").mkdir()
    (place.run / "candidates" / "notes" / "mine.txt").write_text("kept")


# --- runs: pipes, devices, bombs ------------------------------------------------------------------------

_DOCUMENTS: Final = (
    "run.toml",
    "summary.json",
    "manifest.json",
    "supervision.json",
    "metrics.jsonl",
    "memory.jsonl",
    "flight.bin",
    "stderr.txt",
    ".owner",
)


def _pipe(name: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        if name != "run.toml":
            unfinished(place)
        os.mkfifo(place.path(name))

    return make


for _name in _DOCUMENTS:
    hostile(f"{_name} of a run is a pipe", _REPORT, _RESUME, "monitor run --once", "eval run")(
        _pipe(_name)
    )


@hostile("documents of a run are devices", _REPORT, "eval run", root_only=True)
def _devices(place: Place) -> None:
    for name in ("summary.json", "metrics.jsonl", "model/model.safetensors"):
        os.mknod(place.path(name), 0o020666, os.makedev(1, 5))


@hostile("a document of a run is a socket", _REPORT)
def _socket(place: Place) -> None:
    path = place.path("summary.json")
    here = Path.cwd()
    os.chdir(path.parent)
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(path.name)
    os.chdir(here)


@hostile("documents of a run claim a terabyte", _REPORT, "monitor run --once", _RESUME)
def _sparse(place: Place) -> None:
    for name in ("summary.json", "metrics.jsonl", "memory.jsonl", "supervision.json", "stderr.txt"):
        with place.path(name).open("wb") as file:
            file.truncate(TERABYTE)


def _text(name: str, text: str | bytes) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        if name != "summary.json":
            unfinished(place)
        data = text.encode() if isinstance(text, str) else text
        place.path(name).write_bytes(data)

    return make


_DEEP: Final = "[" * 100_000
_OTHER_TYPES: Final = {
    "status": ["x"],
    "metrics": {"recall@1": "x"},
    "incidents": True,
    "restarts": "many",
    "overlay": 3,
    "data": [],
    "numeric": 1,
    "format": {},
    "wall_s": "long",
}
TEXTS: Final[dict[str, str | bytes]] = {
    "empty": "",
    "half": '{"status": "fini',
    "utf-16": '{"status": "finished"}'.encode("utf-16"),
    "a number": "17",
    "a huge number": "9" * 10_000,
    "deep": _DEEP,
    "deep objects": '{"a":' * 50_000,
    "infinite": '{"status": "finished", "wall_s": 1e999, "restarts": 1e999, "time": -1e999}',
    "other types": json.dumps(_OTHER_TYPES),
    "wide": "[" + "[]," * 3_000_000 + "[]]",
}
# Each kind of text in one of the documents; a campaign puts each into all of them.
for _at, _name in enumerate(("summary.json", "manifest.json", "supervision.json")):
    for _number, (_kind, _content) in enumerate(TEXTS.items()):
        _elsewhere = _number % 3 != _at
        hostile(f"{_name} of a run is {_kind}", _RESUME, _REPORT, one_of_many=_elsewhere)(
            _text(_name, _content)
        )


@hostile("lines of a run are no lines", _REPORT, "monitor run --once", _RESUME)
def _lines(place: Place) -> None:
    unfinished(place)
    bad = [_DEEP, "1e999", '{"type": "step", "step": 1e999, "loss": NaN}', "\0" * 1000, '{"time":1e300}',
           '{"type": "eval", "step": "x", "metrics": 3, "time": 1e18}', "9" * 5000]  # fmt: skip
    for name in ("metrics.jsonl", "memory.jsonl"):
        place.path(name).write_text("\n".join(bad))


@hostile("the incidents of a run are numbered out of all bounds", _REPORT, "explain run")
def _numbers(place: Place) -> None:
    for name in ("9" * 200, "0", "²", "١٢"):
        (place.run / "incidents" / name).mkdir()
        (place.run / "incidents" / name / "incident.json").write_text('{"class": "hang"}')


# --- runs: models and configurations ------------------------------------------------------------------


def _model(place: Place, change: Callable[[dict[str, Any]], None]) -> None:
    config = place.run / "model" / "config.json"
    document = json.loads(config.read_text())
    document.pop("document_sha256")
    change(document)
    config.write_text(json.dumps(with_own_digest(document)))


@hostile("the model asks for other towers", "eval run")
def _other_towers(place: Place) -> None:
    other = {"name": "mlp", "options": {"hidden": 77}}
    _model(place, lambda found: found["query"].update(other))


@hostile("the model asks for towers of a terabyte", "eval run")
def _huge_towers(place: Place) -> None:
    other = {"name": "mlp", "options": {"hidden": 500_000, "layers": 4}}
    _model(place, lambda found: found["query"].update(other))


@hostile("the weights are junk with the right hash", "eval run")
def _junk_weights(place: Place) -> None:
    junk = b"\xff" * 500
    (place.run / "model" / "model.safetensors").write_bytes(junk)
    _model(place, lambda found: found.update(weights_sha256=hashlib.sha256(junk).hexdigest()))


@hostile("checkpoints are junk with the right hashes", _RESUME)
def _junk_checkpoints(place: Place) -> None:
    unfinished(place)
    newest = max((place.run / "checkpoints").iterdir())
    junk = b"\xff" * 500
    (newest / "model.safetensors").write_bytes(junk)
    digest = hashlib.sha256(junk).hexdigest()
    _sealed_checkpoint(place, lambda found: found["files"].update({"model.safetensors": digest}))


def _configured(key: str, value: str) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        path = place.run / "run.toml"
        lines = path.read_text().splitlines()
        changed = [f'{key} = "{value}"' if line.startswith(f"{key} = ") else line for line in lines]
        path.write_text("\n".join(changed) + "\n")
        if value == "pipe":
            os.mkfifo(place.run / "pipe")

    return make


hostile("run.toml names data behind a URL", "eval run", "search run --queries pairs.npz -k 3")(
    _configured("bank", "http://127.0.0.1:9/bank.zarr")
)
hostile("run.toml names a device as data", "eval run")(_configured("pairs", "/dev/zero"))
hostile("run.toml names a pipe as data", "eval run")(_configured("pairs", "pipe"))
