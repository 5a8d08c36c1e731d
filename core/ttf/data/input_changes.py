"""Whether the inputs of a run that goes on are the files it began with.

A fingerprint of headers and of a container's own checksums does not see bytes that were changed in
place: so a file that was written to since then is read once, and compared with its checksums.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from ttf.contracts import Store
from ttf.errors import DataChanged
from ttf.incidents.inputs import InputFile
from ttf.rundir.documents import InputState


def noted(stores: Iterable[Store]) -> dict[str, InputState]:
    """For manifest.json: what each local container is now, by path. Reads 64 kB of each."""
    return {store.uri: _look(Path(store.uri)) for store in stores if Path(store.uri).exists()}


def refuse_changed(
    before: Mapping[str, InputState], stores: Iterable[Store], say: Callable[[str], None]
) -> None:
    """Raises DataChanged with what a container was and is; what `before` does not know passes."""
    for store in stores:
        was = before.get(store.uri)
        if was is None or not Path(store.uri).exists():
            continue
        now = _look(Path(store.uri))
        if was == now:
            continue
        if (was["bytes"], was["fingerprint"]) != (now["bytes"], now["fingerprint"]):
            raise _changed(store, was, now, "")
        say(f"{store.uri} was written to since the run began: all of it is read once, to be sure.")
        for problem in store.verify():
            raise _changed(store, was, now, f" {problem}")


def _look(path: Path) -> InputState:
    files = InputFile.look(path).files
    names = hashlib.blake2b(digest_size=8)
    for name, file in sorted(files.items()):
        names.update(f"{name}:{file.size}\n".encode())
    own = files.get("")
    return {
        "bytes": sum(file.size for file in files.values()),
        "mtime_ns": max((file.mtime_ns for file in files.values()), default=0),
        "fingerprint": names.hexdigest() if own is None else own.fingerprint,
    }


def _changed(store: Store, was: InputState, now: InputState, problem: str) -> DataChanged:
    return DataChanged(
        f"{store.uri} is not what it was when the run began (then {_told(was)}; now {_told(now)})."
        f"{problem}",
        hint="Put the file back as it was, or start a new run with ttf train.",
    )


def _told(seen: InputState) -> str:
    written = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seen["mtime_ns"] / 1e9))
    return f"{seen['bytes']:,} bytes, fingerprint {seen['fingerprint']}, written {written}"
