"""What two hosts compare before one of them works for the other: pure, but for `own`."""

from __future__ import annotations

import hashlib
import platform
import re
import socket
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import BadData, ConfigError
from ttf.host.version import __version__
from ttf.incidents.inputs import InputFile

# With another of these, equal work gives other numbers.
_MUST_BE_EQUAL: Final = ("ttf", "torch")
_STATED: Final = ("python", "numpy", "processor", "threads")
_LONGEST: Final = 100


def own() -> dict[str, str]:
    """Of this host; nothing of it is secret."""
    from ttf.machine.processor import describe

    machine = describe()
    return {
        "host": host_name(),
        "ttf": __version__,
        "python": platform.python_version(),
        "torch": str(machine["torch"] or "none"),
        "numpy": str(machine["numpy"] or "none"),
        "processor": str(machine["processor"]),
        "threads": str(machine["threads"]),
    }


def host_name() -> str:
    """As it may stand in a file name.

    >>> plain("host b/..")
    'host-b'
    """
    return plain(socket.gethostname())


def plain(name: str) -> str:
    return re.sub(r"[^\w-]+", "-", name, flags=re.ASCII).strip("-")[:60] or "host"


def read(found: object) -> dict[str, str]:
    """What another host told. Raises ValueError."""
    names = {"host", *_MUST_BE_EQUAL, *_STATED}
    if not isinstance(found, Mapping) or not names <= found.keys():
        raise ValueError("it does not say what it is")
    told = {name: str(found[name])[:_LONGEST] for name in names}
    return {**told, "host": plain(told["host"])}


def refuse_other_versions(ours: Mapping[str, str], theirs: Mapping[str, str]) -> None:
    """Raises ConfigError."""
    problems = [
        f"{name}: {theirs[name]} on {theirs['host']}, {ours[name]} on {ours['host']} (node 0)"
        for name in _MUST_BE_EQUAL
        if ours[name] != theirs[name]
    ]
    if problems:
        raise ConfigError(
            f"{theirs['host']} has other versions than node 0:",
            problems=problems,
            hint="Install the same versions on all hosts.",
        )


def stated(ours: Mapping[str, str], theirs: Mapping[str, str]) -> str:
    """What is different and does not matter to the work itself; '' if nothing is."""
    found = [
        f"{name} {theirs[name]} (node 0: {ours[name]})"
        for name in _STATED
        if ours[name] != theirs[name]
    ]
    return ", ".join(found)


# --- data ----------------------------------------------------------------------------------------


def fingerprint(uri: str) -> str:
    """Of the size and of samples of the content, without the path; 'missing: WHY' if it cannot be
    read."""
    if "://" in uri:  # the same place for all
        return hashlib.sha256(uri.encode()).hexdigest()[:16]
    try:
        seen = InputFile.look(Path(uri)).files
    except OSError as error:
        return f"missing: {error.strerror or type(error).__name__}"
    digest = hashlib.blake2b(digest_size=8)
    for name, file in sorted(seen.items()):
        digest.update(f"{name}:{file.size}:{file.fingerprint}\n".encode())
    return f"{sum(file.size for file in seen.values()):,} bytes, {digest.hexdigest()}"


def refuse_other_data(ours: Mapping[str, str], theirs: object, host: str) -> None:
    """`ours`, `theirs`: fingerprints by what the file is for. Raises BadData."""
    told = {str(k): str(v)[:_LONGEST] for k, v in _items(theirs)}
    problems = [
        f"{what}: {told.get(what, 'not named')} on {host}; {ours.get(what, 'not named')} on node 0"
        for what in sorted(ours.keys() | told.keys())
        if ours.get(what) != told.get(what)
    ]
    if problems:
        raise BadData(
            f"{host} has other data than node 0: {'; '.join(problems)}.",
            hint=f"Copy the same files to {host}, or put them on a disk that all hosts share.",
        )


def _items(found: object) -> Iterator[tuple[Any, Any]]:
    if isinstance(found, Mapping):
        yield from found.items()


def refuse_other_settings(ours: Mapping[str, Any], theirs: object, host: str) -> None:
    """What the commands of both hosts ask for. Raises ConfigError."""
    told = dict(_items(theirs))
    different = [key for key in sorted(ours.keys() | told.keys()) if ours.get(key) != told.get(key)]
    if different:
        raise ConfigError(
            f"{host} was started with something else than node 0: {', '.join(different)}.",
            hint="Start the same command with the same files on all hosts.",
        )
