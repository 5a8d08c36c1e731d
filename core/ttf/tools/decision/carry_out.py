"""Trains the configurations of a decision one after the other, until one is good enough."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Final

from ttf.errors import (
    ExitCode,
    GateNotMet,
    GaveUp,
    NumericFailure,
    PluginBroken,
    Stopped,
    TrainerFault,
    TtfError,
)
from ttf.host import notices
from ttf.rundir.documents import Summary
from ttf.text.shell import quoted
from ttf.tools.decision.record import Candidate, Decision, last_incident
from ttf.tools.decision.words import fall_text

# Trains or resumes the run of a candidate; raises as `ttf train` does.
Train = Callable[[Candidate], Summary]
Say = Callable[[str], None]

# What the next configuration may do better. Not among them: wrong data, a full disk, a folder in
# use, for they would end it as well; they end the command, and it can be resumed.
_FALLS: Final = (GateNotMet, NumericFailure, GaveUp, TrainerFault)
_CODES: Final = {int(kind.exit_code): kind for kind in _FALLS}


def carry_out(decision: Decision, train: Train, say: Say) -> Summary:
    """Returns the summary of the chosen run. Raises the error of the last one if none is chosen, and
    Stopped if anybody asked for a stop: then nothing more is begun."""
    chosen = decision.chosen
    if chosen is not None:
        return train(chosen)
    if decision.current is None:
        raise _nothing_left(decision)
    error: TtfError | None = None
    while (candidate := decision.current) is not None:
        if error is not None:
            say(f"Now {candidate.title} is trained, in {decision.run_of(candidate)}.")
        summary, error = _tried(decision, candidate, train)
        if error is None:
            decision.note(candidate, "finished", ExitCode.DONE)
            _write_page(decision)
            return summary
        say(fall_text(_noted(decision, candidate, error)))
        _write_page(decision)
        asked = [signum for signum in error.signals if signum != signal.SIGTSTP]
        if asked and decision.current is not None:
            raise _stopped(decision, asked[0])
    assert error is not None
    _point_to_all(decision, error)
    raise error


def _tried(
    decision: Decision, candidate: Candidate, train: Train
) -> tuple[Summary, TtfError | None]:
    """The summary, or the error that leads to the next configuration."""
    fallen = _fell_before(decision, candidate)
    if fallen is not None:
        return {}, fallen
    run = decision.run_of(candidate)
    before = last_incident(run)
    try:
        return train(candidate), None
    except (TtfError, Stopped) as error:
        # A broken plugin: the run died in its code, or it could not be loaded.
        died = isinstance(error, PluginBroken) and last_incident(run) != before
        if isinstance(error, TtfError) and (died or isinstance(error, _FALLS)):
            return {}, error
        again = f"ttf resume {quoted(decision.folder)}"
        error.hint = error.hint.replace(f"ttf resume {quoted(run)}", again)
        error.details["decision"] = decision.document()
        raise


def _fell_before(decision: Decision, candidate: Candidate) -> TtfError | None:
    """Of a run that ended just before this command was killed: it is not trained again."""
    summary = decision.summary_of(candidate)
    kind = _CODES.get(summary.get("exit_code", 0))
    if kind is None or not decision.has_begun(candidate):
        return None
    error = kind(summary.get("problem", ""), hint=summary.get("hint", ""))
    error.details = {"run_dir": str(decision.run_of(candidate)), "summary": summary}
    return error


def _noted(decision: Decision, candidate: Candidate, error: TtfError) -> Candidate:
    first = str(error).partition("\n")[0]
    if isinstance(error, GateNotMet):
        return decision.note(candidate, "gate", error.exit_code, first)
    incidents = decision.summary_of(candidate).get("incidents") or []
    last = incidents[-1] if incidents else {}
    what = f"{last.get('class')} (incident {last.get('id')}): " if last else ""
    return decision.note(candidate, "died", error.exit_code, f"{what}{first}")


def _stopped(decision: Decision, signum: int) -> Stopped:
    name = signal.Signals(signum).name
    error = Stopped(
        signum,
        f"{name} came while that run ended, so the next configuration is not begun.",
        hint=f"Continue with: ttf resume {quoted(decision.folder)}",
    )
    error.details = {"decision": decision.document()}
    return error


def _nothing_left(decision: Decision) -> TtfError:
    last = decision.candidates[-1]
    kind = _CODES.get(last.exit_code, PluginBroken)
    error = kind(f"All configurations were tried. The last one: {fall_text(last)}")
    error.details = {
        "run_dir": str(decision.run_of(last)),
        "summary": decision.summary_of(last),
    }
    again = quoted(decision.run_of(last))
    error.hint = f"To continue that run anyway: ttf resume {again}"
    _point_to_all(decision, error)
    return error


def _point_to_all(decision: Decision, error: TtfError) -> None:
    look = f"Everything on one page: ttf report {quoted(decision.folder)}"
    error.hint = f"{error.hint} {look}".lstrip()
    error.details["decision"] = decision.document()


def _write_page(decision: Decision) -> None:
    from ttf.tools.decision.page import write_page

    try:
        write_page(decision.folder)
    except Exception as error:  # noqa: BLE001 - everything it shows is in the folder
        notices.say(f"ttf could not write the report: {error} (to try again: ttf report)")
