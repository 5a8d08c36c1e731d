"""Studies that lead out, and shared folders where links wait."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from tests.kit.hostile.table import (
    BISECT_COMMANDS,
    STUDY_COMMANDS,
    Place,
    hostile,
)

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
    recorded = Path(__file__).parents[2] / "recorded" / "studies"
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
}


def _changed_study(values: dict[str, Any]) -> Callable[[Place], None]:
    def make(place: Place) -> None:
        _study(place, "ab", lambda setup: setup.update(values))

    return make


hostile(
    "a study that runs elsewhere", "ab --resume study", every=("report study", "ab --resume study")
)(_changed_study({"cwd": "/nowhere/at/all"}))
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
