"""Starts a run in this process, or predicts one: configuration, device, data, in that order.

The device is chosen and its environment set before anything imports torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from ttf.rundir.run_folder import RunFolder

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved
    from ttf.config.schema import RunConfig
    from ttf.contracts import DevicePolicy, Kind
    from ttf.rundir.documents import Summary
    from ttf.rundir.request import Change, TrainRequest
    from ttf.text.progress import Reporter
    from ttf.training.plan import Plan
    from ttf.training.supervisor_link import Link


def train_here(request: TrainRequest, folder: RunFolder, reporter: Reporter, link: Link) -> Summary:
    """Trains in this process, whose claim or whose parent's claim the folder is."""
    from ttf.data.demo import with_demo

    with reporter:
        resolved = _configuration(request, folder)
        link.configured(resolved.config)
        reporter.note(f"Run folder: {folder.path}")
        _note_left_out(request, link, reporter)
        policy = prepared_policy(resolved, reporter)
        resolved = with_demo(resolved, reporter)
        from ttf.training import trainer

        return trainer.run(resolved, folder, policy, reporter, resume=request.resume, link=link)


def _note_left_out(request: TrainRequest, link: Link, reporter: Reporter) -> None:
    link.left_out = request.left_out
    link.command = request.command
    if request.history.incidents:  # said when the run began
        return
    for name, value in request.left_out.items():
        kept = "It is kept from the trainer and the miner" if link.supervised else "Unset it"
        reporter.note(
            f"{name}={value} is set here. {kept}: it hides that two OpenMP runtimes meet, and may "
            "make results silently wrong."
        )


def _configuration(request: TrainRequest, folder: RunFolder) -> Resolved:
    if request.resume:
        return read_config(folder, to_train=True, overlay=request.overlay)
    from ttf.config.resolve import resolve

    config = request.config
    return resolve(
        Path(config) if isinstance(config, str) else config,
        request.sets,
        request.flags,
        safe=request.safe,
        overlay=request.overlay,
    )


def read_config(
    folder: RunFolder, *, to_train: bool = False, overlay: Mapping[str, Change] | None = None
) -> Resolved:
    """A run's configuration; PluginUnavailable where a plugin is gone that is needed now."""
    from ttf.config.toml import load_run_toml
    from ttf.host import plugins
    from ttf.rundir.durable import read_json

    resolved = load_run_toml(folder.config, overlay=overlay)
    recorded: Mapping[str, str] = {}
    # Only for the message: a manifest that is gone or damaged is the business of whoever needs it.
    with contextlib.suppress(OSError, ValueError, LookupError, TypeError):
        recorded = read_json(folder.manifest)["plugins"]
    for kind, name in _plugins_of(resolved.config, to_train=to_train):
        plugins.require(kind, name, recorded.get(f"{kind}.{name.rpartition(':')[2]}", ""))
    return resolved


def _plugins_of(config: RunConfig, *, to_train: bool) -> Iterator[tuple[Kind, str]]:
    yield "tower", config.tower.query.name
    yield "tower", config.tower.doc.name
    if config.device.name != "auto":
        yield "device", config.device.name
    if config.data.storage != "auto":
        yield "storage", config.data.storage
    if not to_train:
        return
    if config.miner.negatives:
        for miner in (config.miner.name, *config.miner.fallback):
            if miner != "auto":
                yield "miner", miner
    for observer in config.observers:
        yield "observer", observer


def prepared_policy(resolved: Resolved, reporter: Reporter) -> DevicePolicy:
    """The device, with its environment set; call it before anything imports torch."""
    from ttf.machine import devices

    settings = resolved.config.device
    threads = settings.threads if isinstance(settings.threads, int) else None
    policy = devices.choose(settings.name, settings.model_extra or {}, threads)
    for note in devices.prepare(policy).notes:
        reporter.note(note)
    if policy.reason:
        reporter.note(f"Device: {policy.name} ({policy.reason})")
    return policy


def plan_resolved(resolved: Resolved) -> Plan:
    """What a run would take: memory, disk and time, predicted.

    No run folder is made; without data, the demo set is made once in the cache.
    """
    from ttf.data.demo import with_demo
    from ttf.text.progress import Reporter

    policy = prepared_policy(resolved, Reporter())
    resolved = with_demo(resolved, Reporter())
    from ttf.training.plan.facts import predict

    return predict(resolved, policy)
