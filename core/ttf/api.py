"""The same verbs as the commands, for Python; light to import, typed, no global state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.runfolder import RunFolder

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved
    from ttf.contracts import DevicePolicy, Store
    from ttf.inference import Model
    from ttf.plan import Plan
    from ttf.reporting import Reporter

__all__ = [
    "Run",
    "evaluate",
    "evaluate_run",
    "load",
    "open_vectors",
    "plan_resolved",
    "resume_run",
    "train",
    "train_resolved",
]


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
    **overrides: Any,
) -> Run:
    """Trains and returns the finished run; raises a `ttf.TtfError` where it does not finish.

    `config` is a TOML file or a mapping of its sections; overrides are named like the flags of
    `ttf train` (`pairs=`, `lr=`, `miner=`). `progress` shows on standard error what the command
    would show.
    """
    from ttf.config.resolve import resolve
    from ttf.reporting import Reporter, make_reporter

    file = Path(config) if isinstance(config, str) else config
    resolved = resolve(file, flags=overrides)
    folder = RunFolder.new(None if out is None else Path(out))
    reporter = make_reporter(json=False) if progress else Reporter()
    return Run(path=folder.path, summary=_train(resolved, folder, reporter, resume=False))


def train_resolved(resolved: Resolved, out: Path | None, *, json: bool) -> dict[str, Any]:
    """What `ttf train` does once the configuration is known; the summary, with `run_dir`."""
    from ttf.reporting import make_reporter

    folder = RunFolder.new(out)
    return _train(resolved, folder, make_reporter(json=json), resume=False)


def resume_run(run_dir: Path, *, json: bool) -> dict[str, Any]:
    """Continues a run where its newest intact checkpoint stands; a finished one is only shown."""
    from ttf.config.toml import load_run_toml
    from ttf.reporting import make_reporter

    folder = RunFolder.existing(run_dir)
    summary = folder.read_summary()
    if summary.get("status") == "finished":
        return {**summary, "run_dir": str(folder.path)}
    resolved = load_run_toml(folder.config)
    return _train(resolved, folder, make_reporter(json=json), resume=True)


def _train(
    resolved: Resolved, folder: RunFolder, reporter: Reporter, *, resume: bool
) -> dict[str, Any]:
    from ttf.demo import with_demo

    try:
        with reporter:
            reporter.note(f"Run folder: {folder.path}")
            policy = prepared_policy(resolved, reporter)
            resolved = with_demo(resolved, reporter)
            from ttf import trainer

            summary = trainer.run(resolved, folder, policy, reporter, resume=resume)
    except BaseException:
        if not resume:
            folder.abandon()
        raise
    finally:
        folder.close()
    return {**summary, "run_dir": str(folder.path)}


def prepared_policy(resolved: Resolved, reporter: Reporter) -> DevicePolicy:
    """The device, with its environment set; call it before anything imports torch."""
    from ttf import devices

    settings = resolved.config.device
    threads = settings.threads if isinstance(settings.threads, int) else None
    policy = devices.choose(settings.name, settings.model_extra or {}, threads)
    for note in devices.prepare(policy).notes:
        reporter.note(note)
    if policy.reason:
        reporter.note(f"Device: {policy.name} ({policy.reason})")
    return policy


def plan_resolved(resolved: Resolved) -> Plan:
    """What a run would take: memory, disk and time, predicted; nothing is written."""
    from ttf.demo import with_demo
    from ttf.reporting import Reporter

    policy = prepared_policy(resolved, Reporter())
    resolved = with_demo(resolved, Reporter())
    from ttf.predict import predict

    return predict(resolved, policy)


def evaluate_run(
    run_dir: Path,
    *,
    pairs: Path | None = None,
    bank: Path | None = None,
    k: Sequence[int] = (1, 10, 100, 500),
) -> dict[str, Any]:
    """Metrics of a finished run's towers on validation pairs, against the full bank."""
    from ttf.inference import open_run

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
    from ttf.inference import open_run

    return open_run(Path(run_dir))


def open_vectors(uri: Path | str, *, storage: str = "auto") -> Store:
    """A container of vectors by path or URL: `.names()`, `.source(name).gather(ids)`."""
    from ttf.data.stores import open_store

    return open_store(str(uri), storage)
