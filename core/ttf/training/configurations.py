"""What a run was configured with: which values decide its numbers, and which of them somebody changed
in run.toml by hand.

manifest.json has what ttf itself wrote into run.toml (a remedy or another number of processes writes
it anew), and the changes by hand, because every later checkpoint has them in its weights.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from ttf.config.resolve import flat, load_run_toml
from ttf.config.schema import RunConfig
from ttf.errors import ArtifactDamaged
from ttf.rundir.confined import read_json
from ttf.rundir.documents import Manifest
from ttf.rundir.durable import write_json
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.typed_json import typed

# What may differ between hosts: where files lie, how often somebody looks, how much memory there is.
OF_A_HOST: Final = (
    "data.pairs",
    "data.bank",
    "data.context",
    "data.storage",
    "train.init",
    "checkpoint.",
    # Where these matter, the compared bits show it.
    "device.threads",
    "miner.threads",
    "memory.",
    "supervise.",
    "scale.",
    "observers",
)
# What a person may change between two starts: it is about crashes and reports. The order of
# evaluations decides which weights are kept, so it is not here.
_OF_A_START: Final = (
    *OF_A_HOST,
    "data.cache_limit",
    "miner.isolation",
    "miner.deadline_s",
    "miner.fallback",
    "probe.",
    "gates",
)


def compared(config: RunConfig, left_out: tuple[str, ...] = OF_A_HOST) -> dict[str, str]:
    # As text: a tuple is a list for those who read it.
    values = flat(config).items()
    return {key: json.dumps(value) for key, value in values if not key.startswith(left_out)}


def changed_by_hand(folder: RunFolder) -> list[str]:
    """Values of run.toml that decide the numbers and that ttf did not write, also those that an
    earlier start found: they are noted. Empty for runs of earlier versions, which noted nothing."""
    manifest = _manifest_of(folder)
    written, edits = manifest.get("configurations", []), manifest.get("edits", [])
    now = compared(load_run_toml(folder.config).config, _OF_A_START)
    if not written or now in written:
        return edits
    manifest["edits"] = [*edits, *_differences(written[-1], now)]
    manifest["configurations"] = [*written, now]
    write_json(folder.manifest, manifest)
    return manifest["edits"]


def note_written(folder: RunFolder, config: RunConfig) -> None:
    """Call it before run.toml is written, so that after a kill in between nothing looks changed by
    hand. Raises StorageError."""
    manifest = _manifest_of(folder)
    written = manifest.get("configurations", [])
    values = compared(config, _OF_A_START)
    if manifest and values not in written:
        manifest["configurations"] = [*written, values]
        write_json(folder.manifest, manifest)


def _manifest_of(folder: RunFolder) -> Manifest:
    """Empty if it cannot be read: a run that goes on says so where it reads its state."""
    try:
        return typed(read_json(folder.manifest, folder.path), Manifest)
    except (OSError, ArtifactDamaged):
        return {}


def _differences(was: Mapping[str, str], now: Mapping[str, str]) -> list[str]:
    keys = [key for key in sorted({*was, *now}) if was.get(key) != now.get(key)]
    return [
        f"{key} is {now.get(key, 'not set')} in run.toml, which was changed by hand; it was "
        f"{was.get(key, 'not set')}"
        for key in keys
    ]
