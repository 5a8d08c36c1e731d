"""Folders and files from somebody who means harm: runs, studies, stores, caches, shared folders.

Each maker changes good things in a place (see `Place`) into bad ones. `quick` are command lines that
meet them at once and start no process; the whole set is given to every command where there is time.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import os
import socket
import stat
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

SECRET: Final = "the-secret-of-the-owner"
STRANGER: Final = 12345
TABLE: Final = "0123456789abcdef01234567"
TERABYTE: Final = 1 << 40
BOMB: Final = 1 << 30 if os.environ.get("TTF_CHAOS") else 1 << 26

RUN_COMMANDS: Final = (
    "report run",
    "report run --bundle bundle.zip",
    "explain run",
    "monitor run --once",
    "eval run",
    "search run --queries pairs.npz -k 3",
    "mine run --out found.npz --isolation none",
    "resume run --in-process",
    "config show run/run.toml",
    "train run/run.toml --plan",
    "train run/run.toml --out again --in-process",
)
STUDY_COMMANDS: Final = ("report study", "ab --resume study", "ab study/a.toml study/b.toml")
BISECT_COMMANDS: Final = ("bisect --resume study",)
DATA_COMMANDS: Final = (
    "data inspect bad",
    "data verify bad",
    "data convert bad copy.npz",
    "data subset bad --out part --rows 2",
    "train --pairs pairs.npz --bank bad --plan",
    "train --pairs bad --bank bank.npz --plan",
    "mine --queries bad --bank bank.npz --out found.npz --isolation none",
    "mine --queries pairs.npz --bank bad --out found.npz --isolation none",
    "search run --queries bad -k 3",
    "eval run --pairs bad",
    "eval run --bank bad",
)
CACHE_COMMANDS: Final = (
    "mine --queries pairs.npz --bank bank.npz --miner hnswlib --out found.npz --isolation none",
    "search run --queries pairs.npz -k 3",
    "eval run",
    "bench --help",
)


@dataclass(frozen=True)
class Place:
    """`root` holds pairs.npz, bank.npz and a finished run; `outside` is somebody else's, and stays
    as it is; `home` is TTF_HOME."""

    root: Path
    outside: Path
    home: Path

    @property
    def run(self) -> Path:
        return self.root / "run"

    def path(self, name: str) -> Path:
        """A file of the run, gone from its place."""
        path = self.run / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir() and not path.is_symlink():
            path.rename(self.root / f"was-{path.name}")
        else:
            path.unlink(missing_ok=True)
        return path


@dataclass(frozen=True)
class Hostile:
    name: str
    make: Callable[[Place], None]
    quick: tuple[str, ...]  # Meets it without a process.
    every: tuple[str, ...]
    root_only: bool = False

    def __str__(self) -> str:
        return self.name


TABLE_OF_ALL: list[Hostile] = []
Added = Callable[[Callable[[Place], None]], Callable[[Place], None]]


def hostile(
    name: str, *quick: str, every: tuple[str, ...] = RUN_COMMANDS, root_only: bool = False
) -> Added:
    def add(make: Callable[[Place], None]) -> Callable[[Place], None]:
        TABLE_OF_ALL.append(Hostile(name, make, quick or every[:2], every, root_only))
        return make

    return add


def prepare(root: Path) -> Place:
    """Fills `outside` and returns the place; `root` has a trained run already."""
    outside = root.parent / "outside"
    (outside / "home" / "letters").mkdir(parents=True)
    (outside / "home" / "letters" / "one.txt").write_text(SECRET)
    (outside / "secret.txt").write_text(f"{SECRET}\n" * 3)
    (outside / TABLE).mkdir()
    (outside / TABLE / "manifest.json").write_text(json.dumps({"key": TABLE, "text": SECRET}))
    (outside / "step-000000001").mkdir()
    (outside / "step-000000001" / "checkpoint.json").write_text(json.dumps({"text": SECRET}))
    (outside / ".tmp-mine").mkdir()
    (outside / ".tmp-mine" / "draft.txt").write_text(SECRET)
    (outside / "001").mkdir()
    (outside / "001" / "incident.json").write_text(json.dumps({"class": SECRET}))
    (outside / "001" / "stderr.txt").write_text(SECRET)
    np.save(outside / "vectors.npy", np.full((40, 8), 0.25, np.float32))
    home = root.parent / "home"
    home.mkdir(exist_ok=True)
    return Place(root, outside, home)


def look(folder: Path) -> dict[str, tuple[Any, ...]]:
    """All that can be told of a folder: names, kinds, owners, rights, times and contents."""
    found: dict[str, tuple[Any, ...]] = {}
    for path in sorted(folder.rglob("*")):
        about = path.lstat()
        content = b""
        if stat.S_ISREG(about.st_mode):
            content = hashlib.sha256(path.read_bytes()).digest()
        kind = stat.S_IFMT(about.st_mode), stat.S_IMODE(about.st_mode)
        # The access time tells of reading: see `unread`.
        found[str(path.relative_to(folder))] = (
            *kind,
            about.st_uid,
            about.st_size,
            about.st_mtime_ns,
            about.st_nlink,
            content,
        )
    return found


def written_texts(root: Path, outside: Path) -> Iterator[tuple[Path, bytes]]:
    """What was written in a place: files, and the members of zip files."""
    for path in root.rglob("*"):
        about = path.lstat()
        if not stat.S_ISREG(about.st_mode) or about.st_size > 1 << 26:
            continue
        if path.suffix == ".zip" and zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as archive:
                for name in archive.namelist():
                    yield path / name, archive.read(name)
        else:
            yield path, path.read_bytes()


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
for _name in ("summary.json", "manifest.json", "supervision.json"):
    for _kind, _content in TEXTS.items():
        hostile(f"{_name} of a run is {_kind}", _RESUME, _REPORT)(_text(_name, _content))


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
    change(document)
    config.write_text(json.dumps(document))


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


# --- shared folders ------------------------------------------------------------------------------------


@hostile(
    "a link waits where a temporary file comes",
    "report run --out shared/page.html",
    "data convert bank.npz shared/copy.npz",
    "data convert bank.npz shared/copy.zarr",
    "search run --queries pairs.npz --out shared/found.npz -k 3",
    every=(
        "report run --out shared/page.html --bundle shared/bundle.zip",
        "data convert bank.npz shared/copy.npz",
        "data convert bank.npz shared/copy.zarr",
        "search run --queries pairs.npz --out shared/found.npz -k 3",
        "mine run --out shared/found.npz --isolation none",
    ),
)
def _waiting_links(place: Place) -> None:
    shared = place.root / "shared"
    shared.mkdir()
    shared.chmod(0o1777)
    for name in ("page.html", "copy.npz", "copy.zarr", "found.npz", "bundle.zip"):
        for suffix in (f"{os.getpid()}", f"{os.getpid()}.0", "0123456789ab"):
            (shared / f".tmp-{name}-{suffix}").symlink_to(place.outside / "secret.txt")


@hostile(
    "the folder of unfinished mining is a link",
    "mine run --out found.npz --isolation none",
    every=("mine run --out found.npz --isolation none",),
)
def _partial_link(place: Place) -> None:
    (place.root / "found.npz.partial").symlink_to(place.outside / "home")


@hostile(
    "the lock of mining is a link",
    "mine run --out found.npz --isolation none",
    every=("mine run --out found.npz --isolation none",),
)
def _lock_link(place: Place) -> None:
    (place.root / ".found.npz.lock").symlink_to(place.outside / "secret.txt")


@hostile(
    "the folder of a guard holds links",
    every=("guard --out guarded -- true",),
)
def _guarded(place: Place) -> None:
    folder = place.root / "guarded"
    folder.mkdir()
    for name in ("memory.jsonl", "stderr.txt", "environment.json", "summary.json"):
        (folder / name).symlink_to(place.outside / "secret.txt")
    (folder / "incidents").symlink_to(place.outside)


# --- studies --------------------------------------------------------------------------------------------


def _study(place: Place, kind: str, change: Callable[[dict[str, Any]], None]) -> Path:
    """A study of the recorded kind, whose configurations are in its folder."""
    recorded = Path(__file__).parents[1] / "recorded" / "studies"
    folder = place.root / "study"
    folder.mkdir()
    for path in (recorded / kind).iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    (place.root / "a.toml").write_bytes((recorded / "a.toml").read_bytes())
    document = json.loads((folder / "study.json").read_text())
    document["setup"]["cwd"] = str(place.root)
    change(document["setup"])
    (folder / "study.json").write_text(json.dumps(document))
    return folder


def _nothing(setup: dict[str, Any]) -> None:
    del setup


@hostile("the name of an arm leads out of the study", "ab --resume study", every=STUDY_COMMANDS[:2])
def _slug(place: Place) -> None:
    _study(place, "ab", lambda setup: setup["arms"][1].update(slug="a/../../../../outside/home"))


@hostile("the runs of a study are a link", "ab --resume study", every=STUDY_COMMANDS[:2])
def _runs_link(place: Place) -> None:
    (_study(place, "ab", _nothing) / "runs").symlink_to(place.outside)


@hostile("runs of a study are links", "ab --resume study --budget 1ms", every=STUDY_COMMANDS[:2])
def _run_links(place: Place) -> None:
    folder = _study(place, "ab", _nothing)
    (folder / "runs").mkdir()
    for name in ("001-train.accumulate=2", "002-x", "003-x.out"):
        (folder / "runs" / name).symlink_to(place.outside / "home")


@hostile(
    "files of a study are links", "ab --resume study", "report study", every=STUDY_COMMANDS[:2]
)
def _study_links(place: Place) -> None:
    folder = _study(place, "ab", _nothing)
    for name in (".owner", ".lock", "result.json"):
        (folder / name).symlink_to(place.outside / "secret.txt")
    (folder / "samples.jsonl").unlink()
    (folder / "samples.jsonl").symlink_to(place.outside / "secret.txt")


@hostile(
    "files of a study are pipes", "ab --resume study", "report study", every=STUDY_COMMANDS[:2]
)
def _study_pipes(place: Place) -> None:
    folder = _study(place, "ab", _nothing)
    (folder / "samples.jsonl").unlink()
    os.mkfifo(folder / "samples.jsonl")


@hostile("study.json is a pipe", "ab --resume study", "report study", every=STUDY_COMMANDS[:2])
def _study_pipe(place: Place) -> None:
    folder = _study(place, "ab", _nothing)
    (folder / "study.json").unlink()
    os.mkfifo(folder / "study.json")


@hostile("a study compares a device", "ab --resume study", every=STUDY_COMMANDS[:2])
def _device_arm(place: Place) -> None:
    nothing = hashlib.sha256(b"").hexdigest()
    device = {"toml": "/dev/zero", "toml_sha256": nothing}

    def change(setup: dict[str, Any]) -> None:
        for arm in setup["arms"]:
            arm.update(device)

    _study(place, "ab", change)


SETUPS: Final[dict[str, dict[str, Any]]] = {
    "a huge study": {"repeats": 1 << 62},
    "a study with a huge seed": {"seed": 10**100},
    "a study of no arms": {"arms": []},
    "a study with another type": {"repeats": "many"},
    "a study with an absurd alpha": {"alpha": 1e300},
    "a study that runs elsewhere": {"cwd": "/nowhere/at/all"},
}


def _changed_study(values: dict[str, Any]) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        _study(place, "ab", lambda setup: setup.update(values))

    return make


for _name, _values in SETUPS.items():
    hostile(_name, "report study", every=STUDY_COMMANDS[:2])(_changed_study(_values))


@hostile("the journal of a study is out of range", "report study", every=STUDY_COMMANDS[:2])
def _journal(place: Place) -> None:
    folder = _study(place, "ab", _nothing)
    line = json.loads((folder / "samples.jsonl").read_text().splitlines()[0])
    line |= {"block": 1 << 60, "steps": -(1 << 62), "wall_s": 1e300, "seed": 1 << 60}
    (folder / "samples.jsonl").write_text(json.dumps(line) + "\n")


@hostile("an ingredient of a bisection leads out", "bisect --resume study", every=BISECT_COMMANDS)
def _ingredient(place: Place) -> None:
    _study(
        place,
        "bisect",
        lambda setup: setup["factors"][0].update(name="../../../outside/home", rewrite={"rows": 1}),
    )


@hostile("the data of a bisection is a link", "bisect --resume study", every=BISECT_COMMANDS)
def _bisect_data(place: Place) -> None:
    nowhere = {"toml": "/dev/null", "toml_sha256": hashlib.sha256(b"").hexdigest()}
    folder = _study(place, "bisect", lambda setup: setup.update(nowhere))
    (folder / "data").symlink_to(place.outside)
    (folder / "runs").symlink_to(place.outside)


# --- stores -------------------------------------------------------------------------------------------


def zarr_store(place: Place, *, shape: tuple[int, ...] = (40, 8), chunks: tuple[int, ...] = (40, 8),
               compressor: dict[str, Any] | None = None, **more: Any) -> Path:  # fmt: skip
    """A good zarr v2 store `bad` of one array; returns the folder of the array."""
    folder = place.root / "bad" / "vectors"
    folder.mkdir(parents=True)
    (place.root / "bad" / ".zgroup").write_text('{"zarr_format": 2}')
    about = {
        "zarr_format": 2, "shape": shape, "chunks": chunks, "dtype": "<f4", "order": "C",
        "compressor": compressor, "filters": None, "fill_value": 0, **more,
    }  # fmt: skip
    (folder / ".zarray").write_text(json.dumps(about))
    rows = np.random.default_rng(0).standard_normal(chunks, np.float32)
    (folder / "0.0").write_bytes(rows.tobytes())
    return folder


def _store(name: str, bad: str = "bad") -> Added:
    every = tuple(words.replace("bad", bad) for words in DATA_COMMANDS)
    return hostile(name, *every[:3], every=every)


@_store("a chunk is a link to a device")
def _chunk_device(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "gzip", "level": 1})
    (folder / "0.0").unlink()
    (folder / "0.0").symlink_to("/dev/zero")


@_store("a chunk is a link out of the store")
def _chunk_link(place: Place) -> None:
    folder = zarr_store(place)
    (folder / "0.0").unlink()
    (folder / "0.0").symlink_to(place.outside / "vectors.npy")


@_store("a chunk is a pipe")
def _chunk_pipe(place: Place) -> None:
    folder = zarr_store(place)
    (folder / "0.0").unlink()
    os.mkfifo(folder / "0.0")


@_store("a compressed chunk is a pipe")
def _compressed_pipe(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "zstd", "level": 1})
    (folder / "0.0").unlink()
    os.mkfifo(folder / "0.0")


@_store("an array is a link out of the store")
def _array_link(place: Place) -> None:
    folder = zarr_store(place)
    folder.rename(place.outside.parent / "array")
    folder.symlink_to(place.outside.parent / "array")


@_store("a separator leads out of the store")
def _separator(place: Place) -> None:
    zarr_store(place, dimension_separator="/../../../../outside/")


@_store("a separator is no character")
def _no_separator(place: Place) -> None:
    zarr_store(place, dimension_separator="\0")


@_store("metadata of a store is a pipe")
def _meta_pipe(place: Place) -> None:
    folder = zarr_store(place)
    (folder / ".zarray").unlink()
    os.mkfifo(folder / ".zarray")


@_store("metadata of a store is deep")
def _meta_deep(place: Place) -> None:
    folder = zarr_store(place)
    (folder / ".zarray").write_text('{"a":' * 100_000)
    (folder / ".zattrs").write_text(_DEEP)


@_store("metadata of a store claims a terabyte")
def _meta_large(place: Place) -> None:
    folder = zarr_store(place)
    with (folder / ".zattrs").open("wb") as file:
        file.truncate(TERABYTE)


def bomb(codec: str, size: int = BOMB) -> bytes:
    """`size` zeros, compressed to next to nothing."""
    if codec == "zstd":  # a frame that does not say its size, of blocks of one repeated byte
        block = ((128 << 10) << 3) | 2
        blocks = size >> 17
        head = b"\x28\xb5\x2f\xfd\x00\x50"
        body = b"".join(
            (block | (number == blocks - 1)).to_bytes(3, "little") + b"\0"
            for number in range(blocks)
        )
        return head + body
    return gzip.compress(bytes(size), 9) if size <= 1 << 26 else _gzip_of(size)


def _gzip_of(size: int) -> bytes:
    import zlib

    packer = zlib.compressobj(9, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    block = bytes(1 << 20)
    return b"".join(packer.compress(block) for _ in range(size >> 20)) + packer.flush()


@_store("a chunk inflates without end")
def _gzip_bomb(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "gzip", "level": 1})
    (folder / "0.0").write_bytes(bomb("gzip"))


@_store("a chunk of unknown size inflates without end")
def _zstd_bomb(place: Place) -> None:
    folder = zarr_store(place, compressor={"id": "zstd", "level": 1})
    (folder / "0.0").write_bytes(bomb("zstd", 4 * BOMB))


@_store("a chunk claims two gigabytes")
def _blosc_claim(place: Place) -> None:
    folder = zarr_store(
        place, compressor={"id": "blosc", "cname": "lz4", "clevel": 5, "shuffle": 1, "blocksize": 0}
    )
    size = (1 << 31) - 1
    parts = (size, 1 << 20, 4000)
    head = bytes((2, 1, 0x21, 1)) + b"".join(part.to_bytes(4, "little") for part in parts)
    (folder / "0.0").write_bytes(head.ljust(4000, b"\0"))


@_store("an array declares chunks of a terabyte")
def _huge_chunk(place: Place) -> None:
    big = 1 << 35
    folder = zarr_store(place, compressor={"id": "zstd", "level": 1})
    about = json.loads((folder / ".zarray").read_text())
    (folder / ".zarray").write_text(json.dumps(about | {"shape": [big, 8], "chunks": [big, 8]}))
    (folder / "0.0").write_bytes(bomb("zstd"))


@_store("a codec executes what it reads")
def _pickle(place: Place) -> None:
    folder = zarr_store(place, filters=[{"id": "pickle"}])
    (folder / "0.0").write_bytes(b"cos\nsystem\n(S'touch executed'\ntR.")


@_store("a chunk is compressed twice")
def _twice(place: Place) -> None:
    folder = zarr_store(
        place, compressor={"id": "gzip", "level": 1}, filters=[{"id": "gzip", "level": 1}]
    )
    (folder / "0.0").write_bytes(gzip.compress(bomb("gzip", BOMB >> 2)))


@_store("a zip file of zarr inflates without end", "bad.zarr.zip")
def _zip_bomb(place: Place) -> None:
    folder = zarr_store(place)
    with zipfile.ZipFile(place.root / "bad.zarr.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(folder.parent / ".zgroup", ".zgroup")
        archive.write(folder / ".zarray", "vectors/.zarray")
        with archive.open("vectors/0.0", "w", force_zip64=True) as member:
            for _ in range(BOMB >> 20):
                member.write(bytes(1 << 20))


def _data_pipe(name: str) -> Callable[[Place], None]:
    return lambda place: os.mkfifo(place.root / name)


for _name in ("bad.npz", "bad.npy", "bad.zarr", "bad.zarr.zip"):
    _store(f"{_name} is a pipe", _name)(_data_pipe(_name))


def _npy(header: str, held: int = 0) -> bytes:
    text = header.encode()
    head = b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little")
    return head + text + bytes(held)


def _npz(place: Place, shape: str, held: int = 0, *, deflated: bool = False) -> None:
    text = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    method = zipfile.ZIP_DEFLATED if deflated else zipfile.ZIP_STORED
    with zipfile.ZipFile(place.root / "bad.npz", "w", method) as archive:
        for name in ("vectors", "X_train", "X_val"):
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                member.write(_npy(text))
                for _ in range(held >> 20):
                    member.write(bytes(1 << 20))


def _shaped(shape: str) -> Callable[[Place], None]:
    return lambda place: _npz(place, shape)


for _name, _shape in {
    "no width and a huge length": f"({1 << 62}, 0)",
    "no length and a huge width": f"(0, {1 << 62})",
    "a huge shape": f"({1 << 40}, {1 << 40})",
    "many dimensions": str((1,) * 60),
    "a shape beyond integers": f"({10**30}, 8)",
}.items():
    _store(f"an array declares {_name}", "bad.npz")(_shaped(_shape))


@_store("a deflated member inflates without end", "bad.npz")
def _npz_bomb(place: Place) -> None:
    _npz(place, "(40, 8)", BOMB, deflated=True)


# --- caches ---------------------------------------------------------------------------------------------


def _index(place: Place) -> Path:
    """A folder of the index cache for the bank of the place, made by the command itself."""
    from ttf import cli

    words = (
        "mine --queries pairs.npz --bank bank.npz --miner hnswlib --out first.npz --isolation none"
    )
    assert cli.run(words.split()) == 0
    return next(path for path in (place.home / "index").iterdir() if path.is_dir())


def _cache(name: str, *quick: str, root_only: bool = False) -> Added:
    quick = quick or CACHE_COMMANDS[:1]
    return hostile(name, *quick, every=CACHE_COMMANDS, root_only=root_only)


@_cache("an index belongs to another user", root_only=True)
def _foreign_index(place: Place) -> None:
    folder = _index(place)
    for path in (folder, *folder.iterdir()):
        os.chown(path, STRANGER, STRANGER)


@_cache("an index names a file outside")
def _index_name(place: Place) -> None:
    folder = _index(place)
    manifest = json.loads((folder / "manifest.json").read_text())
    digest = hashlib.sha256((place.outside / "secret.txt").read_bytes()).hexdigest()
    manifest["sha256"] = {"../../../outside/secret.txt": digest}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@_cache("an index holds a file without a hash")
def _index_extra(place: Place) -> None:
    folder = _index(place)
    manifest = json.loads((folder / "manifest.json").read_text())
    for name in list(manifest["sha256"]):
        (folder / name).write_bytes(b"\xff" * 1000)
    manifest["sha256"] = {}
    (folder / "manifest.json").write_text(json.dumps(manifest))


@_cache("an index is a link")
def _index_link(place: Place) -> None:
    folder = _index(place)
    folder.rename(place.outside.parent / "index-elsewhere")
    folder.symlink_to(place.outside.parent / "index-elsewhere")


@_cache("folders of the cache are links", *CACHE_COMMANDS[:2])
def _cache_links(place: Place) -> None:
    for name in ("index", "half", "machine"):
        (place.home / name).symlink_to(place.outside)


@_cache("the manifest of an index is a pipe")
def _index_pipe(place: Place) -> None:
    folder = _index(place)
    (folder / "manifest.json").unlink()
    os.mkfifo(folder / "manifest.json")


@_cache("measurements of the cache are a pipe", "report run", "train run/run.toml --plan")
def _machine_pipe(place: Place) -> None:
    from ttf.machine.processor import machine_dir

    machine_dir().mkdir(parents=True)
    for name in ("gemm.json", "ceilings.json"):
        os.mkfifo(machine_dir() / name)
