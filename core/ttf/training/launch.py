"""Starts a run, or predicts one: configuration, device, data, in that order.

The device is chosen and its environment set before anything imports torch. As a program this is the
trainer process: `python -m ttf.training.launch DISPLAY LIFELINE RESULTS PARENT`, three file
descriptors and the parent's process id. It reads its request from the life line, sends messages on
the results pipe, shows progress on the display (-1: none), and exits at once when the life line
closes. Its exit code is 0 only after its final record was sent.

If SIGTERM or SIGINT is sent to this process itself, not to the supervisor: the first signal, if
there are steps to save, makes the run save them and end (143 or 130). Before the first step, and at
the second signal, the process dies as from any other signal, and the supervisor restarts it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from ttf.errors import ConfigError, ExitCode, Told
from ttf.host import at_work, notices
from ttf.machine import numeric_variables
from ttf.machine.processor import processor
from ttf.process import child, lifeline, platform
from ttf.process.collector import paused_for_imports
from ttf.process.error_document import to_document
from ttf.rundir.confined import found_json
from ttf.rundir.documents import Manifest
from ttf.rundir.request import TrainerEnd, TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.typed_json import typed
from ttf.rundir.world_place import WorldPlace
from ttf.training.among_others import join_others, leaving, with_shards
from ttf.training.late_threads import end_in_time
from ttf.training.supervisor_link import LeaveAsked, Link, SupervisedLink

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved
    from ttf.config.schema import RunConfig
    from ttf.contracts import DevicePolicy, Kind
    from ttf.rundir.documents import Summary
    from ttf.rundir.request import Change
    from ttf.text.progress import Reporter
    from ttf.training.plan import Plan

    Tell = Callable[[dict[str, str]], None]

STACKS = "faulthandler.txt"
_GRACE_S = 0.4
# oneDNN keeps a compiled kernel for each shape of a product, 1,024 of them; 400 took 100 MB, and to
# compile one again when it is needed 0.1 ms. Before torch is imported: it is read once.
_KERNELS, _FEW_KERNELS = "ONEDNN_PRIMITIVE_CACHE_CAPACITY", "64"


def main(display: int, life: int, results: int, parent: int) -> int:
    lifeline.die_with_parent(parent)
    lifeline.start_keeper(life, child.TREE, grace_s=_GRACE_S, watched_parent=parent)
    link = SupervisedLink(life, results)
    request = link.request
    at_work.hear(link.plugin_at_work)
    lifeline.leave_when_stopped(parent)
    lifeline.stacks_to(Path(request.run_dir) / STACKS)
    reporter = _reporter(request, link, display)
    end = _end(request, link, reporter)
    link.tell({"end": end})
    code = end["error"]["exit_code"] if "error" in end else ExitCode.DONE
    end_in_time(code, reporter.note)
    return code


def _end(request: TrainRequest, link: SupervisedLink, reporter: Reporter) -> TrainerEnd:
    """Returns the final record: {"summary"}, {"error"} or {"left"}."""
    try:
        return {"summary": train_here(request, RunFolder(Path(request.run_dir)), reporter, link)}
    except LeaveAsked:
        return {"left": "memory"}
    except BaseException as error:  # noqa: BLE001 - sent to the supervisor, which decides
        if not isinstance(error, Told) or os.environ.get("TTF_DEBUG", "0") not in ("", "0"):
            sys.excepthook(type(error), error, error.__traceback__)
        return {"error": to_document(error)}


def _reporter(request: TrainRequest, link: SupervisedLink, display: int) -> Reporter:
    from ttf.text.progress import Reporter, make_reporter, with_log

    shown = Reporter()
    if display >= 0:
        # As our own standard error would be, were it not a pipe.
        encoding = sys.stderr.encoding
        stream = os.fdopen(display, "w", encoding=encoding, errors="replace", closefd=False)
        shown = make_reporter(json=request.json, stream=stream, live_width=request.live_width)
    reporter = with_log(shown, cast("Tell", link.tell), request.command)
    if display >= 0:
        notices.hear(reporter.note)
    return reporter


# --- in whatever process ---------------------------------------------------------------------


def train_here(request: TrainRequest, folder: RunFolder, reporter: Reporter, link: Link) -> Summary:
    """Trains in this process; this process or its parent has claimed the folder."""
    from ttf.config.resolve import flat
    from ttf.data.demo import with_demo

    with reporter:
        if request.resume:  # before any library reads them
            before = typed(found_json(folder.manifest, folder.path), Manifest).get("numeric", {})
            for note in numeric_variables.set_again(before, processor().instructions):
                reporter.note(note)
        resolved = _configuration(request, folder, link)
        edits = _edits(request, folder)
        link.tell({"configured": flat(resolved.config), "inputs": []})
        link.left_out, link.command = request.left_out, request.command
        opening = [f"Run folder: {folder.path}", *_surroundings(request, link)]
        resolved, deviations = with_shards(resolved, request.world, resume=request.resume)
        processes = 1 if request.world is None else request.world.local_size
        policy = prepared_policy(resolved, opening.append, processes=processes)
        if link.supervised and resolved.config.memory.limit != "auto":
            os.environ.setdefault(_KERNELS, _FEW_KERNELS)
        resolved = with_demo(resolved, reporter)
        # Without a supervisor this is the user's process.
        with paused_for_imports() if link.supervised else contextlib.nullcontext():
            from ttf.training import trainer

        joined = None
        if request.world is not None:
            shards = resolved.config.train.shards
            joined = join_others(request.world, shards, link, deviations)
        with leaving(joined):
            return trainer.run(
                resolved,
                folder,
                policy,
                reporter,
                resume=request.resume,
                link=link,
                opening=opening,
                joined=joined,
                edits=edits,
            )


def _surroundings(request: TrainRequest, link: Link) -> Iterator[str]:
    if request.history.incidents:  # said when the run began
        return
    if platform.LINUX and not platform.PROC:
        yield platform.WITHOUT_PROC
    for name, value in request.left_out.items():
        kept = (
            "ttf removes it from the environment of the trainer and the miner"
            if link.supervised
            else "Unset this variable"
        )
        yield (
            f"{name}={value} is set in this environment. {kept}, because it hides that two OpenMP "
            "runtimes are loaded, and the results may be wrong without a warning."
        )


def _edits(request: TrainRequest, folder: RunFolder) -> list[str]:
    if not request.resume:
        return []
    from ttf.training.configurations import changed_by_hand

    return changed_by_hand(folder)


def _configuration(request: TrainRequest, folder: RunFolder, link: Link) -> Resolved:
    resolved = _resolved(request, folder, link)
    if not request.remote or request.adopted:
        from ttf.host import plugins

        where = str(folder.config) if request.resume else "The configuration"
        if not request.adopted:
            plugins.refuse_remote(_addresses(resolved), where)
        else:
            own = _own_addresses(request) if request.remote else frozenset()
            others = [uri for uri in _addresses(resolved) if uri not in own]
            plugins.refuse_remote(others, f"{where}, which came from another node,", _NAME_IT)
    return resolved


_NAME_IT: Final = (
    "If you trust the other nodes, name the same address here: --pairs, --bank or --context, or the "
    "same RUN.toml."
)


def _addresses(resolved: Resolved) -> list[str]:
    """Without the hash that says which content is meant."""
    data = resolved.config.data
    return [uri.partition("#")[0] for uri in (data.pairs, data.bank, data.context) if uri]


def _own_addresses(request: TrainRequest) -> frozenset[str]:
    """Those that the command of this node names; none if its file is gone or wrong by now."""
    from ttf.config.resolve import resolve

    file = Path(request.config) if isinstance(request.config, str) else request.config
    with contextlib.suppress(ConfigError):
        own = resolve(file, request.sets, request.flags, plugins=False)
        return frozenset(_addresses(own))
    return frozenset()


def _resolved(request: TrainRequest, folder: RunFolder, link: Link) -> Resolved:
    def tell_limits(config: RunConfig) -> None:
        # The supervisor needs them before a plugin is imported, which may hang.
        link.tell({"supervise": config.supervise.model_dump(mode="json")})

    if request.resume:
        return read_config(
            folder, to_train=True, overlay=request.overlay, before_plugins=tell_limits
        )
    from ttf.config.resolve import resolve

    config = request.config
    return resolve(
        Path(config) if isinstance(config, str) else config,
        request.sets,
        request.flags,
        safe=request.safe,
        overlay=request.overlay,
        before_plugins=tell_limits,
    )


def read_config(
    folder: RunFolder,
    *,
    to_train: bool = False,
    overlay: Mapping[str, Change] | None = None,
    before_plugins: Callable[[RunConfig], None] = lambda _: None,
) -> Resolved:
    """A run's configuration; raises PluginUnavailable if a plugin that is needed now is missing."""
    from ttf.config.resolve import load_run_toml
    from ttf.host import plugins
    from ttf.rundir.confined import found_json
    from ttf.rundir.documents import Manifest
    from ttf.rundir.typed_json import typed

    resolved = load_run_toml(folder.config, overlay=overlay)
    before_plugins(resolved.config)
    # Only for the message; a missing or damaged manifest raises where it is needed.
    recorded = typed(found_json(folder.manifest, folder.path), Manifest).get("plugins", {})
    for kind, name in _plugins_of(resolved.config, to_train=to_train):
        plugins.require(kind, name, recorded.get(f"{kind}.{name.rpartition(':')[2]}", ""))
    return resolved


def _plugins_of(config: RunConfig, *, to_train: bool) -> Iterator[tuple[Kind, str]]:
    if config.tower.query.name != "auto":
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


def prepared_policy(
    resolved: Resolved, say: Callable[[str], None] = lambda _: None, *, processes: int = 1
) -> DevicePolicy:
    """Chooses the device and sets its environment; call it before anything imports torch.

    Says only which device it is: the reason is in run.toml, at device.name. `processes` of this run
    share the machine.
    """
    from ttf.machine import devices

    settings = resolved.config.device
    threads = settings.threads if isinstance(settings.threads, int) else None
    policy = devices.choose(settings.name, settings.model_extra or {}, threads)
    if threads is None and processes > 1:
        share = max(1, policy.threads // processes)
        policy = devices.choose(settings.name, settings.model_extra or {}, share)
    for note in devices.prepare(policy).notes:
        say(note)
    if policy.reason:
        say(f"Device: {policy.name}, {policy.threads} thread{'s' * (policy.threads > 1)}")
    return policy


def plan_resolved(resolved: Resolved, *, nodes: int = 1, ranks: int = 1) -> Plan:
    # Makes no run folder; without data, the demo set is made once in the cache. `ranks`: of a node.
    from ttf.data.demo import with_demo
    from ttf.text.progress import Reporter

    place = WorldPlace(rank=0, size=nodes * ranks, local_size=ranks)
    resolved, _ = with_shards(resolved, place, resume=False)
    policy = prepared_policy(resolved, processes=ranks)
    resolved = with_demo(resolved, Reporter())
    from ttf.training.plan.facts import predict

    return predict(resolved, policy, nodes, ranks)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
