"""What was read, kept for whoever continues: `plan.json` beside the texts, written last."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from ttf.errors import BadData, EntryRefused, storage_error
from ttf.rundir.confined import names_in, read_json, sha256_file
from ttf.rundir.durable import fsync_dir, write_json
from ttf.rundir.removing import remove_if_there
from ttf.text.progress import Reporter
from ttf.tools.encode.collect import Read, Reading, collect_beir, collect_tables
from ttf.tools.encode.collection import Collected
from ttf.tools.encode.links import Links
from ttf.tools.encode.read.inputs import sources
from ttf.tools.encode.sequences import Sequences

PLAN: Final = "plan.json"
TEXTS: Final = "texts"
_KINDS: Final = ("documents", "queries", "passages")


def inputs_key(inputs: Sequence[Path], reading: Reading) -> str:
    """Of the files as they are now and of how they are read; it changes if one is rewritten."""
    told: list[Any] = [dataclasses.asdict(reading)]
    for path in inputs:
        for file in _files(path):
            found = file.stat()
            told.append([str(file.resolve()), found.st_size, found.st_mtime_ns, found.st_ctime_ns])
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()


def _files(path: Path) -> list[Path]:
    if not path.is_dir():
        return [path]
    return sorted(file for file in path.rglob("*") if file.is_file())


def read_inputs(inputs: Sequence[Path], reading: Reading, work: Path, reporter: Reporter) -> Read:
    """All that the inputs say; what an earlier attempt read is used again if nothing changed."""
    tables, beir = sources(inputs)
    key = inputs_key(inputs, reading)
    kept = _kept(work, key)
    if kept is not None:
        reporter.note("The inputs are already read.")
        return kept
    texts = work / TEXTS
    try:
        for name in (PLAN, TEXTS):
            remove_if_there(work / name, work)
        texts.mkdir()
        reporter.stage("read", None)
        with contextlib.ExitStack() as files:
            if beir is not None:
                found = collect_beir(beir, texts, reading, reporter.advance, files)
            else:
                found = collect_tables(tables, texts, reading, reporter.advance, files)
        _sync(texts)
    except OSError as error:
        raise storage_error(error, str(work)) from error
    if inputs_key(inputs, reading) != key:
        raise BadData("An input changed while it was read.", hint="Run the command again.")
    write_json(work / PLAN, {"key": key, "sha256": _hashes(texts, work), **_document(found)})
    return found


def _sync(folder: Path) -> None:
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    fsync_dir(folder)


def _hashes(texts: Path, work: Path) -> dict[str, str]:
    return {name: sha256_file(texts / name, work) for name in names_in(texts, work)}


def _document(found: Read) -> dict[str, Any]:
    kinds = {name: getattr(found, name) for name in _KINDS}
    return {
        "kinds": {
            name: {key: value for key, value in vars(kind).items() if key not in ("name", "folder")}
            for name, kind in kinds.items()
            if kind is not None
        },
        "sequences": found.sequences is not None,
        "skipped": found.skipped,
        "refused_grades": found.refused_grades,
        "columns": found.columns,
        "unused": list(found.unused),
    }


def _kept(work: Path, key: str) -> Read | None:
    texts = work / TEXTS
    try:
        found: Mapping[str, Any] = read_json(work / PLAN, work)
        # The files say which text belongs to which vector: a wrong byte would be a wrong row.
        if found["key"] != key or found["sha256"] != _hashes(texts, work):
            return None
        kinds = {
            name: Collected(name=name, folder=texts, **facts)
            for name, facts in found["kinds"].items()
        }
        return Read(
            documents=kinds["documents"],
            queries=kinds.get("queries"),
            passages=kinds.get("passages"),
            sequences=Sequences(folder=texts) if found["sequences"] else None,
            links=Links(path=texts / "links.bin"),
            skipped=found["skipped"],
            refused_grades=found["refused_grades"],
            columns=found["columns"],
            unused=tuple(found["unused"]),
        )
    except (OSError, BadData, EntryRefused, KeyError, TypeError):
        return None
