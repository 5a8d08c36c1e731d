"""Opens the folder of a run: its towers, and the files that they are used with."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from ttf.config.other_data import with_sets
from ttf.config.resolve import Resolved
from ttf.contracts import DevicePolicy, TowerShape
from ttf.data.open_dataset import Opening
from ttf.data.shards import Fetching
from ttf.errors import DataMissing
from ttf.host import plugins
from ttf.rundir.confined import read_json
from ttf.rundir.documents import MODEL_CONFIG
from ttf.rundir.run_folder import RunFolder
from ttf.training.borrowed_torch import borrowed_torch
from ttf.training.inference import Model
from ttf.training.own_files import OwnFiles
from ttf.training.towers import load_model


def open_run(
    run_dir: Path,
    *,
    pairs: Path | str | None = None,
    bank: Path | str | None = None,
    sets: Sequence[str] | Mapping[str, Any] = (),
    allow_remote: bool = False,
) -> Model:
    """Opens a run with its own data, or with other pairs, another bank or other keys of `[data]`; of
    a run that has not finished, the model it has so far.

    Opens the bank at once if it is there, the pairs when `evaluate` is called. Without its bank, a
    model encodes. `allow_remote`: also where only the run's own run.toml names a URL.
    """
    from ttf.training.launch import prepared_policy, read_config

    folder = RunFolder.existing(run_dir)
    resolved = read_config(folder)
    policy = prepared_policy(resolved)
    # Towers are made with random weights before their own are read: not the caller's numbers.
    with borrowed_torch(policy.start), torch.random.fork_rng(devices=[]):
        return _opened(folder, resolved, policy, pairs, bank, sets, allow_remote)


def _opened(
    folder: RunFolder,
    resolved: Resolved,
    policy: DevicePolicy,
    pairs: Path | str | None,
    bank: Path | str | None,
    sets: Sequence[str] | Mapping[str, Any],
    allow_remote: bool,
) -> Model:
    towers = load_model(folder.model).to(policy.torch_device())
    facts = read_json(folder.model / MODEL_CONFIG, folder.path)
    shape = TowerShape(**facts["query"]["shape"])
    data = with_sets(resolved.config.data, sets)
    changed = {"pairs": pairs, "bank": bank}
    other = data.model_copy(update={k: str(v) for k, v in changed.items() if v is not None})
    if not allow_remote:
        own_pairs = pairs is None or not (bank or data.bank)  # without a bank, they are it
        own = data.pairs if own_pairs else None, None if bank else data.bank, data.context
        plugins.refuse_remote(own, str(folder.config))
    config = resolved.config.model_copy(update={"data": other})
    own_files = OwnFiles(folder, data, other_pairs=pairs is not None, other_bank=bool(bank))
    seed = resolved.config.train.seed
    opening = Opening(
        other,
        seed=seed,
        own_pairs=data.pairs,
        on_open=own_files.opened,
        fetching=Fetching(limit=other.cache_limit_bytes),
    )
    model = Model(config, opening, towers, shape, policy, folder)
    model.changed_files = own_files.changed
    model.open_tables(facts.get("tables"))
    try:
        # What is wrong with the bank is said early; the run's own may be gone, if nobody needs it.
        with contextlib.suppress(*([] if bank else [DataMissing])):
            model.calibration  # noqa: B018
    except BaseException:
        model.close()
        raise
    return model
