"""manifest.json: what a run ran on, and whether a later process gives the same numbers."""

from __future__ import annotations

import hashlib
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from importlib import metadata
from pathlib import Path
from typing import Final, cast

from ttf.config.resolve import Resolved
from ttf.config.schema import RunConfig
from ttf.contracts import DevicePolicy, Kind
from ttf.data.dataset import Dataset
from ttf.host import plugins
from ttf.host.plugins import storage_for
from ttf.host.version import __version__
from ttf.incidents.inputs import noted
from ttf.machine import measured, numeric_variables, processor
from ttf.machine.memory.limits import physical_bytes
from ttf.rundir.documents import RUN_FORMAT, Manifest, Numeric
from ttf.rundir.work_facts import Work
from ttf.training.auto_device_options import recorded
from ttf.training.towers import Specs

_MINER_LIBRARIES: Final = {"faiss": "faiss-cpu", "hnswlib": "hnswlib"}
_NO_RECORD: Final = (
    "an older version of ttf started the run, and did not record everything that affects the "
    "results"
)
_NATIVE = re.compile(r"\.(?:so[.\d]*|dylib|pyd),")
_OPENMP = re.compile(r"lib(?:gomp|iomp5|omp)[-.\w]*")
_LIBRARIES = ("torch", "numpy", "faiss-cpu", "hnswlib", "zarr", "safetensors")


def numeric_fingerprint(config: RunConfig, policy: DevicePolicy) -> Numeric:
    """What decides the bits of the weights, besides configuration, data and seed."""
    import torch

    from ttf.machine.gemm import ARITHMETIC, product_bits

    found = processor.processor()
    return {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "cpu_capability": torch.backends.cpu.get_cpu_capability(),
        "machine": platform.machine(),
        "device": policy.name,
        "plugins": _plugin_versions(config),
        "arithmetic": ARITHMETIC,
        "libraries": _numeric_libraries(config),
        "instructions": found.instructions,
        "variables": numeric_variables.noted(),
        "bits": product_bits(policy.torch_device()),
        "processor": found.model or found.arch,
        "loader": numeric_variables.noted(numeric_variables.LOADER_NAMES),
    }


def _numeric_libraries(config: RunConfig) -> dict[str, str]:
    # Not torch: its version has a key of its own, its build shows in its bits. A miner's library
    # is not asked for bits: it is loaded in another process, if at all.
    names = ["numpy"]
    if config.miner.negatives and config.miner.name in _MINER_LIBRARIES:
        names.append(_MINER_LIBRARIES[config.miner.name])
    return {name: _build_of(name) for name in names}


def _build_of(name: str) -> str:
    """The version, and a digest of what the installer noted about the native files."""
    try:
        found = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        return ""
    listed = (found.read_text("RECORD") or "").splitlines()
    native = sorted(line for line in listed if _NATIVE.search(line))
    digest = hashlib.sha256("\n".join(native).encode()).hexdigest()[:10]
    return f"{found.version} (native files {digest})" if native else found.version


def _plugin_versions(config: RunConfig) -> dict[str, str]:
    used: list[tuple[Kind, str]] = [
        ("tower", config.tower.query.name),
        ("tower", config.tower.doc.name),
        ("device", config.device.name),
    ]
    if config.miner.negatives:
        used.append(("miner", config.miner.name))
    return _owners(used)


def _owners(used: Iterable[tuple[Kind, str]]) -> dict[str, str]:
    infos = [plugins.find(kind, name) for kind, name in used]
    return {i.reference: f"{i.distribution} {i.version}" for i in infos}


def _plugins(config: RunConfig) -> dict[str, str]:
    """Every plugin of the run, including those that do not affect the numbers."""
    given = config.data
    files = [uri for uri in (given.pairs, given.bank, given.context) if uri]
    return _plugin_versions(config) | _owners(
        [
            *(("storage", storage_for(uri, given.storage)) for uri in files),
            *(("miner", name) for name in config.miner.fallback if config.miner.negatives),
            *(("observer", name) for name in config.observers),
        ]
    )


def differences(before: Numeric, now: Numeric) -> list[str]:
    """One sentence for each reason why the numbers may differ from those at the start."""
    if "bits" not in before:
        known = cast("Numeric", {key: value for key, value in now.items() if key in before})
        return [*_changes(_causes(before), _causes(known)), _NO_RECORD]
    found = _changes(_causes(before), _causes(now))
    others = [name for name, bits in now["bits"].items() if before["bits"].get(name) != bits]
    if not others:
        return found
    sentence = f"the same calculations give different bits ({', '.join(others)})"
    reasons = _changes(_explanations(before), _explanations(now))
    if not reasons and not found:
        reasons = ["no recorded difference explains this; perhaps a library was built differently"]
    return [*found, ": ".join([sentence, ", ".join(reasons)]) if reasons else sentence]


def _changes(then: Mapping[str, object], today: Mapping[str, object]) -> list[str]:
    return [
        f"{name} was {_shown(then.get(name))}, is {_shown(today.get(name))}"
        for name in sorted({*then, *today})
        if then.get(name) != today.get(name)
    ]


def _shown(value: object) -> str:
    return "not there" if value is None else repr(value)


def _causes(fingerprint: Numeric) -> dict[str, object]:
    """What changes numbers, entry by entry."""
    apart = ("plugins", "libraries", "variables", "bits", "processor", "loader")
    return {
        **{key: value for key, value in fingerprint.items() if key not in apart},
        **_under("the plugin", fingerprint.get("plugins", {})),
        **_under("the library", fingerprint.get("libraries", {})),
        **_under("the variable", fingerprint.get("variables", {})),
    }


def _explanations(fingerprint: Numeric) -> dict[str, object]:
    """What changes numbers sometimes: of interest only if bits differ."""
    return {
        "the processor": fingerprint.get("processor"),
        **_under("the variable", fingerprint.get("loader", {})),
    }


def _under(kind: str, entries: Mapping[str, str]) -> dict[str, object]:
    return {f"{kind} {name}": value for name, value in entries.items()}


def build(resolved: Resolved, data: Dataset, policy: DevicePolicy, specs: Specs) -> Manifest:
    config = resolved.config
    return {
        "format": RUN_FORMAT,
        "ttf": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        "cpus": os.cpu_count(),
        "processor": processor.name(),
        "memory_bytes": physical_bytes(),
        "versions": _versions(),
        "openmp_runtimes": openmp_runtimes(),
        "plugins": _plugins(config),
        "numeric": numeric_fingerprint(config, policy),
        "chosen": recorded(resolved, policy),
        "data": {
            "fingerprint": data.fingerprint,
            "pairs": config.data.pairs,
            "bank": config.data.bank,
            "context": config.data.context,
            "train_pairs": len(data.train),
            "val_pairs": len(data.val),
            "bank_rows": data.bank.shape[0],
            "bank_dim": data.bank.shape[1],
            "query_steps": data.train.queries.length,
            "query_dim": data.train.queries.dim,
            "left_out": {"train": data.train.left_out, "val": data.val.left_out},
            "files": noted(data.stores),
        },
        "work": _work(config, data, specs),
        "seed": config.train.seed,
        "git": _git(),
        "command": sys.argv,
    }


def _work(config: RunConfig, data: Dataset, specs: Specs) -> Work:
    """The minimum of training computation per sample, and the machine's ceilings if they were ever
    measured. For report.html only, never for a decision. Noted here because the page may be made
    again on another machine."""
    kept = measured.kept_ceilings()
    bank = config.loss.memory_bank
    return {
        "tower_flops": 2 * (specs.query.cost().forward_flops + specs.doc.cost().forward_flops),
        "loss_flops": 4 * data.bank.shape[1] * (bank if isinstance(bank, int) else 0),
        "machine": processor.fingerprint(),
        "ceilings": None if kept is None else measured.summary(kept.to_json()),
    }


def _versions() -> dict[str, str]:
    found = {}
    for name in _LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def openmp_runtimes() -> list[str]:
    """OpenMP libraries mapped into this process; empty if the system does not list them."""
    maps = Path("/proc/self/maps")
    if not maps.exists():
        return []
    lines = maps.read_text(errors="replace").splitlines()  # a mapped file may have any name
    paths = {line.split(maxsplit=5)[5].strip() for line in lines if "/" in line}
    return sorted(p for p in paths if _OPENMP.search(Path(p).name))


def _git() -> str | None:
    """The commit of the folder the run was started in, None outside a repository."""
    try:
        done = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None
