"""The same verbs as the commands, for Python; light to import, typed, no global state."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf.errors import GateNotMet, Stopped
from ttf.rundir.folder import RunFolder

if TYPE_CHECKING:
    from ttf.config.request import Change, TrainRequest
    from ttf.config.resolve import Resolved
    from ttf.config.schema import RunConfig
    from ttf.contracts import DevicePolicy, Kind, Store
    from ttf.text.progress import Reporter
    from ttf.tools.mine.offline import Mined
    from ttf.training.inference import Model
    from ttf.training.plan import Plan
    from ttf.training.supervisor_link import Link

__all__ = [
    "Run",
    "evaluate",
    "evaluate_run",
    "load",
    "mine",
    "open_vectors",
    "plan",
    "plan_resolved",
    "resume",
    "resume_run",
    "run",
    "train",
    "train_here",
]


_MINE_KEYS: Final[Mapping[str, str]] = {
    "k": "miner.k",
    "memory_budget": "memory.budget",
    "threads": "device.threads",
    "miner": "miner.name",
    "isolation": "miner.isolation",
}


@dataclass(frozen=True, kw_only=True)
class Run:
    """A finished run: its folder and its summary (the content of summary.json)."""

    path: Path
    summary: Mapping[str, Any]

    @property
    def metrics(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self.summary["metrics"]
        return found

    def load(self) -> Model:
        return load(self.path)


def train(
    config: Path | str | Mapping[str, Any] | None = None,
    *,
    out: Path | str | None = None,
    progress: bool = False,
    safe: bool = False,
    remedies: bool | None = None,
    supervised: bool = True,
    **overrides: Any,
) -> Run:
    """Trains and returns the finished run; raises a `ttf.TtfError` where it does not finish.

    `config` is a TOML file or a mapping of its sections; overrides are named like the flags of
    `ttf train` (`pairs=`, `lr=`, `miner=`). `progress` shows on standard error what the command
    would show. The training has a process of its own, so that a crash of it costs no more than
    some steps; `supervised=False` trains in this one, for debuggers.
    """
    from ttf.config.request import TrainRequest

    folder = RunFolder.new(None if out is None else Path(out))
    request = TrainRequest(
        run_dir=str(folder.path),
        config=_plain(config),
        flags=_plain(overrides),
        safe=safe,
        remedies=remedies,
        progress=progress,
    )
    return Run(path=folder.path, summary=run(request, folder, supervised=supervised))


def _plain(value: Any) -> Any:
    """What crosses to the trainer's process: JSON's own types."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return str(value) if isinstance(value, Path) else value


def _resolved(
    config: Path | str | Mapping[str, Any] | None, overrides: Mapping[str, Any]
) -> Resolved:
    from ttf.config.resolve import resolve

    file = Path(config) if isinstance(config, str) else config
    return resolve(file, flags=overrides)


def resume(run_dir: Path | str, *, progress: bool = False, supervised: bool = True) -> Run:
    """Continues a run from its newest intact checkpoint; a finished one is returned as it is."""
    folder = RunFolder.existing(Path(run_dir))
    summary = resume_run(folder, progress=progress, supervised=supervised)
    return Run(path=folder.path, summary=summary)


def plan(config: Path | str | Mapping[str, Any] | None = None, **overrides: Any) -> Plan:
    """What `ttf.train` with the same arguments would take: memory, disk and time, predicted.

    No run folder is made; without data, the demo set is made once in the cache.
    """
    return plan_resolved(_resolved(config, overrides))


def mine(
    run_dir: Path | str | None = None,
    *,
    out: Path | str,
    queries: Path | str | None = None,
    bank: Path | str | None = None,
    similarity: Literal["cosine", "dot"] = "cosine",
    overwrite: bool = False,
    progress: bool = False,
    **overrides: Any,
) -> Mined:
    """A table of candidates for a run's training queries, or for the vectors of a file.

    Give `run_dir`, or `queries` and `bank`; `similarity` goes with the latter. Overrides are
    named like the flags of `ttf mine` (`k=`, `miner=`, `memory_budget=`, `threads=`).
    """
    from ttf.config.resolve import resolve
    from ttf.errors import ConfigError
    from ttf.text.progress import Reporter, make_reporter

    if (run_dir is None) == (queries is None) or (queries is not None and bank is None):
        raise ConfigError("It is not clear what to mine: give run_dir, or queries and bank.")
    keys = {_MINE_KEYS.get(name, name): value for name, value in overrides.items()}
    resolved = resolve(None, flags=keys)
    with contextlib.ExitStack() as stack:
        reporter = stack.enter_context(make_reporter(json=False) if progress else Reporter())
        policy = prepared_policy(resolved, reporter)
        from ttf.tools.mine import offline

        target, other = Path(out), None if bank is None else Path(bank)
        storage, unit = resolved.config.data.storage, similarity == "cosine"
        if run_dir is not None:
            inputs = stack.enter_context(offline.run_inputs(Path(run_dir), other, target))
        else:
            assert queries is not None
            assert other is not None
            opened = offline.file_inputs(
                Path(queries), other, unit=unit, storage=storage, say=reporter.note
            )
            inputs = stack.enter_context(opened)
        return offline.mine(
            inputs, target, resolved.config, policy.threads, reporter, overwrite=overwrite
        )


def resume_run(
    folder: RunFolder,
    *,
    json: bool = False,
    progress: bool = True,
    supervised: bool = True,
    own_process: bool = False,
) -> dict[str, Any]:
    """Continues a run where its newest intact checkpoint stands; a finished one is only shown."""
    from ttf.config.request import TrainRequest

    summary = folder.read_summary()
    if summary.get("status") == "finished":
        return {**summary, "run_dir": str(folder.path)}
    request = TrainRequest(run_dir=str(folder.path), resume=True, json=json, progress=progress)
    return run(request, folder, supervised=supervised, own_process=own_process)


def run(
    request: TrainRequest, folder: RunFolder, *, supervised: bool = True, own_process: bool = False
) -> dict[str, Any]:
    """A new run or one to be continued, to its end; the summary, with `run_dir`.

    `own_process`: this process is there for the run alone, and adopts what it leaves behind.
    """
    from dataclasses import replace

    from ttf.config.request import hides_faults

    request = replace(request, left_out=hides_faults(), command=tuple(sys.argv))
    try:
        with folder:
            summary = _supervised(request, folder, own_process) if supervised else _here(request)
    except (Stopped, GateNotMet) as error:
        if not folder.config.exists():  # it ended before there was a run to continue
            folder.abandon()
            raise
        error.hint = f"Its last checkpoint is kept. Continue with: ttf resume {_quoted(folder)}"
        error.details = {"run_dir": str(folder.path), "summary": folder.read_summary()}
        raise
    except BaseException:
        if not request.resume:
            folder.abandon()
        raise
    finally:
        folder.close()
    return {**summary, "run_dir": str(folder.path)}


def _supervised(request: TrainRequest, folder: RunFolder, own_process: bool) -> dict[str, Any]:
    from ttf.supervise.supervisor import supervise

    return supervise(request, folder, own_process=own_process)


def _here(request: TrainRequest) -> dict[str, Any]:
    from ttf.text.progress import Reporter, make_reporter
    from ttf.training.supervisor_link import Link

    reporter = make_reporter(json=request.json) if request.progress else Reporter()
    return train_here(request, RunFolder(Path(request.run_dir)), reporter, Link())


def train_here(
    request: TrainRequest, folder: RunFolder, reporter: Reporter, link: Link
) -> dict[str, Any]:
    """Trains in this process, whose claim or whose parent's claim the folder is."""
    from ttf.data.demo import with_demo

    with reporter:
        resolved = _configuration(request, folder)
        link.configured(resolved.config)
        reporter.note(f"Run folder: {folder.path}")
        _tell_left_out(request, link, reporter)
        policy = prepared_policy(resolved, reporter)
        resolved = with_demo(resolved, reporter)
        from ttf.training import trainer

        return trainer.run(resolved, folder, policy, reporter, resume=request.resume, link=link)


def _tell_left_out(request: TrainRequest, link: Link, reporter: Reporter) -> None:
    link.left_out, link.command = request.left_out, request.command
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


def _quoted(folder: RunFolder) -> str:
    import shlex

    return shlex.quote(str(folder.path))


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


def evaluate_run(
    run_dir: Path,
    *,
    pairs: Path | None = None,
    bank: Path | None = None,
    k: Sequence[int] = (1, 10, 100, 500),
) -> dict[str, Any]:
    """Metrics of a finished run's towers on validation pairs, against the full bank."""
    from ttf.training.inference import open_run

    with open_run(run_dir, pairs=pairs, bank=bank) as opened:
        return opened.evaluate(k)


def evaluate(
    run_dir: Path | str,
    *,
    pairs: Path | str | None = None,
    bank: Path | str | None = None,
    k: Sequence[int] = (1, 10, 100, 500),
) -> Mapping[str, float]:
    """The metrics alone: `recall@k`, `mrr@10`, `ndcg@10`."""
    found = evaluate_run(
        Path(run_dir),
        pairs=None if pairs is None else Path(pairs),
        bank=None if bank is None else Path(bank),
        k=k,
    )
    metrics: Mapping[str, float] = found["metrics"]
    return metrics


def load(run_dir: Path | str) -> Model:
    """The trained towers of a finished run; close it (or use `with`) when done."""
    from ttf.training.inference import open_run

    return open_run(Path(run_dir))


def open_vectors(uri: Path | str, *, storage: str = "auto") -> Store:
    """A container of vectors by path or URL: `.names()`, `.source(name).gather(ids)`."""
    from ttf.data.stores import open_store

    return open_store(str(uri), storage)
