"""The functions behind the commands, for Python; fast to import, typed, no global state."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, Unpack

from ttf.data.array_arguments import (
    about_arrays,
    as_files,
    data_path,
    into_folder,
    named_as_given,
    refuse_arrays,
    without_arrays,
)
from ttf.errors import ConfigError, ExitCode, GateNotMet, Stopped, Told
from ttf.rundir.run_folder import RunFolder
from ttf.text.shell import quoted
from ttf.tools.ended_runs import finished, point_to_model, write_report
from ttf.tools.in_process import train_in_process
from ttf.tools.several import run_several, scale_of

if TYPE_CHECKING:
    from ttf.config.other_data import OtherData
    from ttf.config.overrides import MineOverrides, Overrides
    from ttf.contracts import Store
    from ttf.rundir.documents import Summary
    from ttf.rundir.request import TrainRequest
    from ttf.supervise.attempts import Team
    from ttf.supervise.nodes.scale import Scale
    from ttf.tools.mine.offline import Mined
    from ttf.training.inference import Model
    from ttf.training.plan import Plan

__all__ = [
    "Run",
    "evaluate",
    "evaluate_run",
    "load",
    "mine",
    "open_vectors",
    "plan",
    "resume",
    "resume_run",
    "run",
    "train",
]


ConfigSource: TypeAlias = str | os.PathLike[str] | Mapping[str, Any] | None
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
    # Also after the program has moved to another working directory.
    _place: Path = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_place", self.path.absolute())

    @property
    def metrics(self) -> Mapping[str, float]:
        found: Mapping[str, float] = self.summary["metrics"]
        return found

    def load(self) -> Model:
        return load(self._place)

    def __repr__(self) -> str:
        from ttf.text.progress.ending import in_a_line

        return f"Run({str(self.path)!r}: {in_a_line(self.summary)})"

    def _repr_html_(self) -> str:
        from ttf.text.html import facts_table
        from ttf.text.progress.ending import summary_rows

        return facts_table(str(self.path), summary_rows(self.summary))


def train(
    config: ConfigSource = None,
    *,
    out: Path | str | None = None,
    sets: Mapping[str, Any] | None = None,
    progress: bool = False,
    safe: bool = False,
    remedies: bool | None = None,
    supervised: bool = True,
    nodes: int = 1,
    ranks: int = 1,
    rendezvous: str = "",
    node: int | None = None,
    **overrides: Unpack[Overrides],
) -> Run:
    """Trains and returns the finished run; raises a `ttf.TtfError` if it does not finish, or if its
    model is no better than chance.

    `config` is a TOML or YAML file, or a mapping of its sections; overrides are named like the flags of `ttf
    train` (`pairs=`, `lr=`, `miner=`); `sets` sets any key, e.g. `{"tower.query.hidden": 512}`.
    `pairs` may be a mapping of arrays, `{"X_train": ...}`, and `bank` an array, a tensor or a frame:
    they are written to the folder of the run. `progress` shows the command's progress on standard
    error, or in the cell of a notebook. The training has a process of its own, so a crash costs only
    some steps; `supervised=False` trains in this process, for debuggers. `nodes`, `ranks`,
    `rendezvous` and `node` are those of `ttf train`: several processes, on this and other machines.
    """
    from ttf.config.values import plain_arguments
    from ttf.rundir.request import TrainRequest

    files, arrays = without_arrays(overrides)
    source, flags = plain_arguments(config, {**(sets or {}), **files})
    scale = scale_of(nodes, ranks, rendezvous, node, supervised=supervised)
    if scale is not None:
        refuse_arrays(arrays, "ttf.train with several processes", "each of them reads the files")
        request = TrainRequest(
            run_dir="", config=source, flags=flags, safe=safe, remedies=remedies, progress=progress
        )
        summary = run_several(request, None if out is None else Path(out), scale, run)
        return Run(path=Path(summary["run_dir"]), summary=summary)
    folder = RunFolder.new(None if out is None else Path(out))
    written = into_folder(arrays, folder)
    flags |= written
    request = TrainRequest(
        run_dir=str(folder.path),
        config=source,
        flags=flags,
        safe=safe,
        remedies=remedies,
        progress=progress,
    )
    with named_as_given(written):
        return Run(path=folder.path, summary=run(request, folder, supervised=supervised))


def resume(
    run_dir: Path | str,
    *,
    progress: bool = False,
    supervised: bool = True,
    allow_remote: bool = False,
    nodes: int = 1,
    ranks: int = 1,
    rendezvous: str = "",
    node: int | None = None,
) -> Run:
    """Continues a run from its newest intact checkpoint; returns a finished run unchanged.

    `allow_remote`: also with data at a URL, which the folder's own run.toml names. `nodes`, `ranks`,
    `rendezvous` and `node` are those of `ttf resume`, and may differ from those before.
    """
    summary = resume_run(
        Path(run_dir),
        progress=progress,
        supervised=supervised,
        allow_remote=allow_remote,
        scale=scale_of(nodes, ranks, rendezvous, node, supervised=supervised),
    )
    return Run(path=Path(summary["run_dir"]), summary=summary)


def plan(
    config: ConfigSource = None,
    *,
    sets: Mapping[str, Any] | None = None,
    safe: bool = False,
    **overrides: Unpack[Overrides],
) -> Plan:
    """Predicts memory, disk and time of `ttf.train` with the same arguments.

    Makes no run folder; without data, the demo set is made once in the cache.
    """
    from ttf.config.resolve import resolve
    from ttf.config.values import plain_arguments
    from ttf.training.launch import plan_resolved

    files, arrays = without_arrays(overrides)
    source, flags = plain_arguments(config, {**(sets or {}), **files})
    file = Path(source) if isinstance(source, str) else source
    with as_files(arrays) as written:
        flags |= {role: str(path) for role, path in written.items()}
        found = plan_resolved(resolve(file, flags=flags, safe=safe))
    for role, path in written.items():
        found = found.told(partial(about_arrays, role=role, path=str(path)))
    return found


def mine(
    run_dir: Path | str | None = None,
    *,
    out: Path | str,
    queries: Path | str | None = None,
    bank: Path | str | None = None,
    similarity: Literal["cosine", "dot"] = "cosine",
    overwrite: bool = False,
    progress: bool = False,
    allow_remote: bool = False,
    **overrides: Unpack[MineOverrides],
) -> Mined:
    """Mines a candidate table for a run's training queries, or for the vectors of a file.

    Give `run_dir`, or `queries` and `bank`; `similarity` belongs to the latter. Overrides are named
    like the flags of `ttf mine` (`k=`, `miner=`, `memory_budget=`, `threads=`).
    """
    from ttf.config.resolve import resolve
    from ttf.config.values import plain_values
    from ttf.text.progress import Reporter, make_reporter
    from ttf.training.launch import prepared_policy

    if (run_dir is None) == (queries is None) or (queries is not None and bank is None):
        raise ConfigError("It is not clear what to mine. Give run_dir, or give queries and bank.")
    why = "the table refers to its rows, also after this call"
    refuse_arrays({"queries": queries, "bank": bank}, "ttf.mine", why)
    keys = {_MINE_KEYS.get(name, name): value for name, value in overrides.items()}
    resolved = resolve(None, flags=plain_values(keys))
    with contextlib.ExitStack() as stack:
        reporter = stack.enter_context(make_reporter(json=False) if progress else Reporter())
        policy = prepared_policy(resolved, reporter.note)
        from ttf.tools.mine import inputs as vectors, offline

        target, other = Path(out), data_path(bank)
        files, unit = resolved.config.data, similarity == "cosine"
        if run_dir is not None:
            opened = vectors.run_inputs(
                Path(run_dir), other, target, say=reporter.note, allow_remote=allow_remote
            )
        else:
            assert queries is not None
            assert other is not None
            opened = vectors.file_inputs(
                str(queries),
                other,
                unit=unit,
                storage=files.storage,
                missing=files.missing,
                say=reporter.note,
            )
        inputs = stack.enter_context(opened)
        return offline.mine(
            inputs, target, resolved.config, policy.threads, reporter, overwrite=overwrite
        )


def resume_run(
    run_dir: Path,
    *,
    json: bool = False,
    progress: bool = True,
    supervised: bool = True,
    own_process: bool = False,
    allow_remote: bool = False,
    scale: Scale | None = None,
) -> Summary:
    """Continues a run from its newest intact checkpoint; only shows a finished one."""
    from ttf.rundir.request import TrainRequest

    folder = RunFolder(run_dir)
    # Of a run on several machines, this one may have nothing yet.
    if scale is None or scale.nodes == 1 or folder.is_run():
        folder = RunFolder.existing(run_dir)
    if (summary := finished(folder)) is not None:
        return summary
    request = TrainRequest(
        run_dir=str(run_dir), resume=True, json=json, progress=progress, remote=allow_remote
    )
    if scale is not None:
        return run_several(request, run_dir, scale, run, own_process=own_process)
    return run(request, folder, supervised=supervised, own_process=own_process)


def run(
    request: TrainRequest,
    folder: RunFolder,
    *,
    supervised: bool = True,
    own_process: bool = False,
    team: Team | None = None,
) -> Summary:
    """Runs a new or resumed run to its end; returns the summary, with `run_dir`.

    `own_process`: this process exists only for the run, and adopts its orphaned child processes.
    `team`: its other processes and machines.
    """
    from ttf.rundir.request import hides_faults

    request = replace(request, left_out=hides_faults(), command=tuple(sys.argv))
    try:
        folder.claim()
        try:
            if supervised:
                from ttf.supervise.supervisor import supervise

                summary = supervise(request, folder, own_process=own_process, team=team)
            else:
                summary = train_in_process(request)
        finally:  # every end of a run passes here, also those without a trainer
            write_report(folder)
    except (Stopped, GateNotMet) as error:
        if not folder.config.exists():  # it ended before there was a run to continue
            if not request.resume:
                folder.abandon()
            raise
        summary = folder.read_summary()
        error.details = {"run_dir": str(folder.path), "summary": summary}
        if summary.get("status") == "finished":  # there is nothing to continue
            raise
        error.hint = f"The last checkpoint is kept. Continue with: ttf resume {quoted(folder.path)}"
        point_to_model(folder, error)
        raise
    except BaseException as error:
        if isinstance(error, Told):
            point_to_model(folder, error)
        if not request.resume:
            refusals = (ExitCode.USAGE, ExitCode.BAD_DATA)
            folder.abandon(refused=isinstance(error, Told) and error.exit_code in refusals)
        raise
    finally:
        folder.close()
    return {**summary, "run_dir": str(folder.path)}


def evaluate_run(
    run_dir: Path,
    *,
    k: Sequence[int] = (1, 10, 100, 500),
    **other: Unpack[OtherData],
) -> dict[str, Any]:
    """Metrics of a finished run's towers on validation pairs, against the full bank."""
    from ttf.training.open_run import open_run

    with open_run(run_dir, **other) as opened:
        return opened.evaluate(k)


def evaluate(
    run_dir: Path | str,
    *,
    pairs: Path | str | Mapping[str, Any] | None = None,
    bank: Path | str | Any = None,
    k: Sequence[int] = (1, 10, 100, 500),
    sets: Mapping[str, Any] | None = None,
    allow_remote: bool = False,
) -> Mapping[str, float]:
    """Only the metrics: `recall@k`, `mrr@10`, `ndcg@10`. `sets`: keys of `[data]`, such as
    `{"data.names.X_val": "queries"}`. `pairs` and `bank` may be arrays as in `train`.
    `allow_remote`: see `resume`."""
    with as_files({"pairs": pairs, "bank": bank}) as files:
        found = evaluate_run(
            Path(run_dir),
            pairs=files["pairs"],
            bank=files["bank"],
            k=k,
            sets=sets or {},
            allow_remote=allow_remote,
        )
    metrics: Mapping[str, float] = found["metrics"]
    return metrics


def load(
    run_dir: Path | str, *, bank: Path | str | Any = None, allow_remote: bool = False
) -> Model:
    """The trained towers of a run, of an unfinished one those it has so far; close it (or use
    `with`) when done.

    `bank`: other documents to search, a path or an array. Without any bank, also if that of the run
    is gone, `encode_queries` and `encode_documents` work. `allow_remote`: see `resume`.
    """
    from ttf.training.open_run import open_run

    with contextlib.ExitStack() as stack:
        files = stack.enter_context(as_files({"bank": bank}))
        model = open_run(Path(run_dir), bank=files["bank"], allow_remote=allow_remote)
        model.close_with(stack.pop_all().close)
        return model


def open_vectors(uri: Path | str, *, storage: str = "auto") -> Store:
    """A container of vectors by path or URL: `.names()`, `.source(name).gather(ids)`."""
    from ttf.config.values import plain_path
    from ttf.host.plugins import open_store

    return open_store(plain_path(uri, "uri"), storage)
