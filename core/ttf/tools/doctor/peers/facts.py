"""What a node tells the others about itself: nothing of it is secret, and values of settings are
told as digests."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import socket
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any, Final, Self

from ttf.host.version import __version__
from ttf.incidents.inputs import InputFile
from ttf.machine import numeric_variables
from ttf.machine.interfaces import address_of, address_towards, addresses, interface_towards
from ttf.rundir.typed_json import dataclass_from
from ttf.supervise.isolated_tasks import Task, run
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.task_failures import in_a_word

_LIBRARIES: Final = ("numpy", "faiss-cpu", "hnswlib", "zarr", "safetensors")
_DATA: Final = ("data.pairs", "data.bank", "data.context", "train.init")
# They may differ from node to node.
_OF_NODE: Final = (*_DATA, "scale.interface", "device.threads", "data.storage")
_MOST_INTERFACES: Final = 16
_TORCH_S: Final = 180.0


@dataclass(frozen=True, kw_only=True)
class FileFacts:
    """A file or folder of vectors, without its path; `problem` if it cannot be looked at."""

    bytes: int = 0
    fingerprint: str = ""  # of sizes, and for a plain file of 64 kB of its content
    problem: str = ""


@dataclass(frozen=True, kw_only=True)
class Facts:
    host: str
    machine: str  # The same for processes that share a kernel and its network.
    interface: str
    address: str
    interfaces: tuple[str, ...] = ()  # 'eth0 10.0.0.1'
    ttf: str = ""
    python: str = ""
    torch: str = ""
    libraries: Mapping[str, str] = field(default_factory=dict)
    architecture: str = ""
    capability: str = ""  # torch's: "AVX512", ...
    instructions: str = ""
    bits: Mapping[str, str] = field(default_factory=dict)
    threads: int = 0
    variables: Mapping[str, str] = field(default_factory=dict)
    problem: str = ""  # Why torch could not be asked.
    settings: Mapping[str, str] | None = None  # Digests by key; None without RUN.toml.
    data: Mapping[str, FileFacts] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: object) -> Self:
        """Raises TypeError, LookupError or ValueError."""
        return dataclass_from(cls, values)


def gather(exam: Examination, host: str, port: int) -> Facts:
    """Loads torch in a process of its own. Raises OSError if the host has no address."""
    settings = exam.settings
    wanted = str(settings.get("scale.interface") or "")
    if wanted:
        interface, address = wanted, address_of(wanted)
    else:
        interface, address = interface_towards(host, port), address_towards(host, port)
    numbers = _numbers(exam)
    return Facts(
        host=socket.gethostname(),
        machine=machine(),
        interface=interface,
        address=address,
        interfaces=tuple(f"{name} {at}" for name, at in addresses())[:_MOST_INTERFACES],
        ttf=__version__,
        python=platform.python_version(),
        libraries={name: version for name in _LIBRARIES if (version := _version(name))},
        architecture=platform.machine(),
        variables=numeric_variables.noted(),
        settings=_digests(settings) if exam.run_toml is not None else None,
        data={key: _file(str(uri)) for key in _DATA if (uri := settings.get(key))},
        **numbers,
    )


def machine() -> str:
    """A name of this kernel and this network namespace; '' where the system tells neither."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot}/{os.stat('/proc/self/ns/net').st_ino}"  # noqa: PTH116 - a link to no file
    except OSError:
        return ""


def _numbers(exam: Examination) -> dict[str, Any]:
    settings = exam.settings
    threads = settings.get("device.threads")
    request = {
        "device": settings.get("device.name", "auto"),
        "options": dict(exam.options_of("device")),
        "threads": threads if isinstance(threads, int) else None,
    }
    ended = run(
        Task(work="ttf.tools.doctor.peers.tasks:numbers", request=request, deadline_s=_TORCH_S)
    )
    if ended.answer is None or not ended.well:
        return {"problem": in_a_word(ended)}
    return dict(ended.answer)


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


def _digests(settings: Mapping[str, Any]) -> dict[str, str]:
    return {
        key: hashlib.sha256(json.dumps(value, default=str).encode()).hexdigest()[:12]
        for key, value in settings.items()
        if key not in _OF_NODE
    }


def _file(uri: str) -> FileFacts:
    if "://" in uri:
        # An address is the same place for all of them.
        return FileFacts(fingerprint=hashlib.sha256(uri.encode()).hexdigest()[:16])
    try:
        seen = InputFile.look(uri).files
    except OSError as error:
        return FileFacts(problem=error.strerror or type(error).__name__)
    digest = hashlib.blake2b(digest_size=8)
    for name, file in sorted(seen.items()):
        digest.update(f"{name}:{file.size}:{file.fingerprint}\n".encode())
    return FileFacts(bytes=sum(file.size for file in seen.values()), fingerprint=digest.hexdigest())
