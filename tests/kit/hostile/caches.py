"""Caches that somebody else wrote."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

from tests.kit.hostile.table import (
    CACHE_COMMANDS,
    STRANGER,
    Added,
    Place,
    hostile,
)

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
