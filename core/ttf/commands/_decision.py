"""`ttf train A.toml --else B.toml`, and `ttf resume` of its folder."""

from __future__ import annotations

import contextlib
import signal
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from ttf.commands._signals import handled
from ttf.errors import DataMissing, Stopped, TtfError
from ttf.rundir.documents import Summary
from ttf.text.shell import quoted
from ttf.text.terminal import next_command, say, show_result
from ttf.tools.decision.carry_out import carry_out
from ttf.tools.decision.check import num_gates
from ttf.tools.decision.record import Candidate, Decision, Terms, named
from ttf.tools.decision.words import beginning, rows


def terms_of(
    sets: tuple[str, ...], flags: Mapping[str, Any], *, safe: bool, remedies: bool | None
) -> Terms:
    return Terms(cwd=str(Path.cwd()), sets=sets, flags=flags, safe=safe, remedies=remedies)


def begin(
    files: Sequence[Path], out: Path | None, terms: Terms, *, remote: bool, as_json: bool
) -> None:
    """Checks all configurations, then trains them until one is good enough."""
    with _stops():
        gates = num_gates(named(files), terms, remote=remote)
        decision = Decision.begin(out, files, terms)
        with contextlib.closing(decision):
            say(f"note: Folder of the decision: {decision.folder}")
            say(f"note: {beginning(decision.candidates, gates)}")
            _carry_out(decision, remote=remote, as_json=as_json)


def resume(folder: Path, *, allow_remote: bool, as_json: bool) -> None:
    with _stops(), _there(Decision.read(folder), folder) as absolute:
        decision = Decision.open(absolute)
        with contextlib.closing(decision):
            _carry_out(decision, remote=allow_remote, as_json=as_json)


def plans(files: Sequence[Path], terms: Terms, as_json: bool) -> None:
    """Prints what each run would do."""
    from ttf.config.resolve import resolve
    from ttf.training.launch import plan_resolved

    candidates = named(files)
    found = [
        plan_resolved(resolve(Path(c.file), terms.sets, terms.flags, safe=terms.safe))
        for c in candidates
    ]
    document = [
        {"name": c.name, "file": c.file, "plan": plan.to_json()}
        for c, plan in zip(candidates, found, strict=True)
    ]
    texts = [f"{c.title}\n{plan.text()}" for c, plan in zip(candidates, found, strict=True)]
    show_result({"candidates": document}, "\n\n".join(texts), as_json)


def _carry_out(decision: Decision, *, remote: bool, as_json: bool) -> None:
    def train(candidate: Candidate) -> Summary:
        return _train(decision, candidate, remote=remote, as_json=as_json)

    try:
        summary = carry_out(decision, train, lambda text: say(f"note: {text}"))
    except (TtfError, Stopped) as error:
        decision.abandon()
        error.details.setdefault("decision", decision.document())
        if isinstance(error, Stopped) and not error.hint and decision.exists:
            error.hint = f"Continue with: ttf resume {quoted(decision.folder)}"
        raise
    _report(decision, summary, as_json)


def _train(decision: Decision, candidate: Candidate, *, remote: bool, as_json: bool) -> Summary:
    from ttf import api
    from ttf.rundir.request import TrainRequest
    from ttf.rundir.run_folder import RunFolder

    run, terms = decision.run_of(candidate), decision.terms
    if decision.has_begun(candidate):
        return api.resume_run(run, json=as_json, own_process=True, allow_remote=remote)
    request = TrainRequest(
        run_dir=str(run),
        config=candidate.file,
        sets=terms.sets,
        flags=terms.flags,
        safe=terms.safe,
        remedies=terms.remedies,
        remote=remote,
        json=as_json,
    )
    return api.run(request, RunFolder.new(run), own_process=True)


@contextlib.contextmanager
def _stops() -> Iterator[None]:
    """A signal between two runs ends the whole, like one during a run."""

    def stop(signum: int, frame: Any) -> NoReturn:
        raise Stopped(signum, f"{signal.Signals(signum).name} stopped ttf train --else.")

    wanted = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:  # else: under nohup
        wanted.append(signal.SIGHUP)
    with handled(wanted, stop):
        yield


@contextlib.contextmanager
def _there(decision: Decision, folder: Path) -> Iterator[Path]:
    """In the folder where the decision was begun: relative paths of its flags start there."""
    cwd = Path(decision.terms.cwd)
    if cwd == Path.cwd():
        yield folder
        return
    if not cwd.is_dir():
        raise DataMissing(
            f"The decision in {folder} was begun in the folder {cwd}, which does not exist here. "
            "Relative paths of its flags start there.",
            hint="Make this folder with the data in it, or start a new decision.",
        )
    absolute = folder.absolute()
    with contextlib.chdir(cwd):
        yield absolute


def _report(decision: Decision, summary: Mapping[str, Any], as_json: bool) -> None:
    from ttf.text.progress.ending import summary_rows
    from ttf.text.tables import screen_width, table

    told = [*rows(decision), *summary_rows(summary)]
    text = table(told, width=screen_width())
    show_result({**summary, "decision": decision.document()}, text, as_json)
    next_command(f"ttf eval {quoted(summary['run_dir'])}")
    next_command(f"ttf report {quoted(decision.folder)}")
