"""`ttf calibrate`: the hub correction of a finished model, for its own bank or another one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.errors import ConfigError
from ttf.rundir.calibration_facts import CalibrationFacts, calibration_facts
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.summary import of_the_model
from ttf.text.shell import quoted

if TYPE_CHECKING:
    from ttf.text.progress import Reporter
    from ttf.training.calibration.calibrate import Subject
    from ttf.training.inference import Model


@dataclass(frozen=True, kw_only=True)
class CalibratedRun:
    """What `ttf calibrate --json` prints; metrics only where the bank has validation pairs."""

    run_dir: str
    bank: str
    documents: int
    on: bool
    a: float
    gain: float
    held_out: int
    why: str = ""  # Why it is not on.
    metrics: Mapping[str, float] = field(default_factory=dict)
    metrics_uncalibrated: Mapping[str, float] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # About files of the run that changed since.


def calibrate(
    run_dir: Path | str,
    *,
    pairs: Path | str | Mapping[str, Any] | None = None,
    bank: Path | str | Any = None,
    progress: bool = False,
    allow_remote: bool = False,
) -> CalibratedRun:
    """Calibrates a finished model; continues an interrupted attempt.

    With `bank` alone, for documents that the run's pairs do not refer to: the strength that was
    chosen stays, and each document is compared with the training queries that were kept. With
    `pairs` their training pairs choose. Both may be arrays as in `ttf.train`.
    """
    from ttf.data.array_arguments import as_files, is_path
    from ttf.text.progress import Reporter, make_reporter

    with (
        make_reporter(json=False) if progress else Reporter() as reporter,
        as_files({"pairs": pairs, "bank": bank}) as files,
    ):
        found = calibrate_run(
            Path(run_dir), files["pairs"], files["bank"], reporter, allow_remote=allow_remote
        )
    given = bank is not None and not is_path(bank)
    return replace(found, bank="the given array") if given else found


def calibrate_run(
    run_dir: Path,
    pairs: Path | str | None,
    bank: Path | str | None,
    reporter: Reporter,
    *,
    allow_remote: bool = False,
) -> CalibratedRun:
    from ttf.training.open_run import open_run

    folder = RunFolder.existing(run_dir)
    with (
        folder,
        folder.writing(),
        open_run(run_dir, pairs=pairs, bank=bank, allow_remote=allow_remote) as model,
        model.borrowed(),
    ):
        subject = model.subject(folder)
        keeps_strength = bank is not None and pairs is None
        if not keeps_strength:
            _ = model.train  # opened now, so that what is to be said of it is said before the work
        for note in model.changed_files:
            reporter.note(note)
        if keeps_strength:
            facts = _other_bank(subject, run_dir, reporter)
            return _result(run_dir, subject, facts, {})
        facts = _chosen_again(model, subject, reporter)
        metrics = model.evaluate(model.config.evaluate.k)
        if bank is None:
            _tell_the_run(folder, facts, metrics)
        found = _result(run_dir, subject, facts, metrics)
        return replace(found, notes=tuple(model.changed_files))


def _other_bank(subject: Subject, run_dir: Path, reporter: Reporter) -> CalibrationFacts:
    from ttf.training.calibration import stored
    from ttf.training.calibration.calibrate import calibrate_other_bank

    model, weights = subject.folder.model, subject.weights_sha256
    facts = calibration_facts(model, weights)
    if facts and not facts.get("on"):
        return facts
    queries = stored.queries_of(model, weights, subject.model.width)
    if "a" not in facts or queries is None:
        raise ConfigError(
            f"The model of {run_dir} is not calibrated yet, so ttf has no training queries to "
            "compare the documents of another bank with.",
            hint=f"First calibrate it with its own bank: ttf calibrate {quoted(run_dir)}",
        )
    found, work = calibrate_other_bank(subject, facts["a"], queries, reporter, reporter.advance)
    stored.save_bank(model, stored.bank_key(subject.bank), weights, found)
    work.clear()
    return facts


def _chosen_again(model: Model, subject: Subject, reporter: Reporter) -> CalibrationFacts:
    from ttf.training.calibration.calibrate import calibrate as calibrated, store

    result, work = calibrated(subject, model.train, reporter, reporter.advance)
    store(subject, result)
    model.calibration = result.found
    work.clear()
    return result.facts


def _tell_the_run(
    folder: RunFolder, facts: CalibrationFacts, metrics: Mapping[str, Mapping[str, float]]
) -> None:
    """The facts of its own bank, its summary and its report."""
    from ttf.tools.report.page import write_page
    from ttf.training.calibration import stored

    if facts["on"]:
        facts["metrics"] = dict(metrics["metrics"])
    stored.save_facts(folder.model, facts)
    summary = folder.read_summary()
    if not summary:  # it has not ended: it writes its own
        return
    summary.pop("metrics_uncalibrated", None)
    summary.update(of_the_model(folder.model))
    folder.write_summary(summary)
    write_page(folder.path)


def _result(
    run_dir: Path,
    subject: Subject,
    facts: CalibrationFacts,
    metrics: Mapping[str, Mapping[str, float]],
) -> CalibratedRun:
    return CalibratedRun(
        run_dir=str(run_dir),
        bank=subject.bank.uri,
        documents=subject.documents.rows,
        on=facts["on"],
        a=facts.get("a", 0.0),
        gain=facts.get("gain", 0.0),
        held_out=facts.get("held_out", 0),
        why=facts.get("why", ""),
        metrics=metrics.get("metrics", {}),
        metrics_uncalibrated=metrics.get("metrics_uncalibrated", {}),
    )
