"""The end of a run in a few sentences."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Final

from ttf.errors import ExitCode
from ttf.text import numbers
from ttf.text.progress.ending import exchange, gate_rows, governed
from ttf.tools.report.page._read import RunFiles

_WHY: Final[Mapping[int, str]] = {
    ExitCode.USAGE: "its configuration is not valid",
    ExitCode.BAD_DATA: "its data is not valid or has changed",
    ExitCode.NUMERIC: "the numbers became invalid (not finite, or different from those of the CPU)",
    ExitCode.GAVE_UP: "it crashed repeatedly without any progress",
    ExitCode.GATE: "it did not reach the required quality",
    ExitCode.STORAGE: "it could not write to the disk",
    ExitCode.NO_CHECKPOINT: "there was no intact checkpoint to continue from",
    ExitCode.OUR_FAULT: "of a bug in ttf",
}


def status_of(run: RunFiles) -> str:
    if "status" in run.summary:
        return str(run.summary["status"])
    return "running" if run.owner is not None else "unfinished"


def story(run: RunFiles) -> str:
    return " ".join(_guarded(run) if run.guarded and run.summary else _trained(run))


# --- a run ------------------------------------------------------------------------------------


def _trained(run: RunFiles) -> Iterator[str]:
    status, code = run.summary.get("status"), run.summary.get("exit_code")
    if status == "finished":
        yield f"The run finished{_work(run)}."
        yield from _gain(run)
    elif status == "stopped" and code == ExitCode.GATE:
        yield f"The run was ended{_work(run)}, because {_WHY[ExitCode.GATE]}."
    elif status == "stopped":
        yield f"The run was stopped on request{_work(run)}; it can be continued."
    elif status == "failed":
        why = _WHY.get(code, "") if isinstance(code, int) else ""
        yield f"The run failed{_work(run)}{f', because {why}' if why else ''}."
        yield from _kept(run)
    else:
        yield from _without_end(run)
    for _, gate in gate_rows(run.summary):
        yield f"The gate {gate}."
    yield from _sittings(run)
    yield from _survived(run)
    if kept := governed(run.summary):
        yield f"Its memory limit is {kept}."
    if text := exchange(run.summary):
        yield f"Its processes exchanged gradients for {text}."


def _sittings(run: RunFiles) -> Iterator[str]:
    """What happened to the program itself: no incident of a trainer tells it."""
    *earlier, _ = run.sittings or [None]
    if not earlier:
        return
    killed = sum(sitting is not None and not sitting.ended for sitting in earlier)
    stopped = sum(sitting is not None and sitting.ended == "stopped" for sitting in earlier)
    failed = len(earlier) - killed - stopped
    how = [
        f"{what} {_times(count)}"
        for what, count in (
            ("it was stopped on request", stopped),
            ("ttf itself was killed", killed),
            ("it ended with an error", failed),
        )
        if count
    ]
    yield f"It was continued {_times(len(earlier))}: {', '.join(how)}."


def _without_end(run: RunFiles) -> Iterator[str]:
    if run.owner is not None:
        yield f"The run is in progress as process {run.owner}{_reached(run)}."
    elif run.guarded and run.memory:
        yield "The command is still running, or ttf guard ended without a record."
    elif not (run.steps or run.evals or run.memory or run.incidents or run.flight):
        yield (
            "This run has only its configuration: it has not started, or its files were removed."
        )
    else:
        yield (
            f"The run has no record of its end{_reached(run)}: its trainer and its supervisor no "
            "longer exist."
        )
        yield from _kept(run)


def _reached(run: RunFiles) -> str:
    noted = run.steps[-1].get("step", 0) if run.steps else 0
    step = max(noted, 0 if run.flight is None else run.flight.step)
    return f", at step {step:,}" if step > 0 else ""


def _kept(run: RunFiles) -> Iterator[str]:
    if run.checkpoint >= 0:
        yield (
            f"Everything up to step {run.checkpoint:,} is saved, and ttf resume continues from "
            "there."
        )
    elif run.config and not run.summary.get("weights_sha256"):
        yield "There is no checkpoint to continue from."


def _work(run: RunFiles) -> str:
    steps, epochs = run.summary.get("steps"), run.summary.get("epochs", 0)
    work = "" if steps is None else f" after {steps:,} step{'' if steps == 1 else 's'}"
    if work and epochs > 0:
        work += f" ({epochs:.1f} epochs)"
    wall = run.summary.get("wall_s", 0)
    return f"{work} in {numbers.duration(wall)}" if wall > 0 else work


def _gain(run: RunFiles) -> Iterator[str]:
    name = run.summary.get("chosen_by") or "recall@10"
    old = run.summary.get("metrics_initial", {}).get(name)
    calibrated = run.summary.get("metrics", {}).get(name)
    plain = run.summary.get("metrics_uncalibrated", {}).get(name)
    new = calibrated if plain is None else plain
    if old is not None and new is not None:
        verb = "rose from" if new > old else "fell from" if new < old else "stayed at"
        was = "" if new == old else f"{numbers.metric(name, old)} to "
        yield f"{name} {verb} {was}{numbers.metric(name, new)}."
    if plain is not None and calibrated is not None:
        yield f"With the calibration for hubs it is {numbers.metric(name, calibrated)}."


def _survived(run: RunFiles) -> Iterator[str]:
    if not run.incidents:
        if run.summary.get("exact") is True and run.summary.get("status") == "finished":
            yield "There were no incidents."
        return
    yield f"During the run, {_met(run)}{_redone(run)}."
    if run.summary.get("exact") is True:
        yield "The results are bitwise equal to those of an uninterrupted run."
    elif run.summary.get("exact") is False:
        yield (
            "The results are not bitwise equal to those of an uninterrupted run. The "
            "differences are listed below."
        )


def _met(run: RunFiles) -> str:
    counted = Counter(str(found.get("class")) for found in run.incidents)
    kinds = ", ".join(name if n == 1 else f"{name} {n} times" for name, n in counted.most_common(6))
    count = len(run.incidents)
    restarts = run.summary.get("restarts")
    again = f" and was restarted {_times(restarts)}" if restarts else ""
    return f"it had {'an incident' if count == 1 else f'{count} incidents'} ({kinds}){again}"


def _redone(run: RunFiles) -> str:
    lost = sum(found.get("lost_steps") or 0 for found in run.incidents)
    if lost <= 0:
        return ""
    return f"; {lost:,} step{' was' if lost == 1 else 's were'} computed twice"


# --- a guarded command ----------------------------------------------------------------------------


def _guarded(run: RunFiles) -> Iterator[str]:
    code, wall = run.summary.get("exit_code"), run.summary.get("wall_s", 0)
    took = f" after {numbers.duration(wall)}" if wall > 0 else ""
    hidden = sum(found.get("hidden") is True for found in run.incidents)
    if code == 0 and hidden:
        who = "a process below it" if hidden == 1 else f"{hidden} processes below it"
        yield (
            f"The command ended with exit code 0{took}, but {who} died: a pipeline or a script hid "
            "this."
        )
    elif code == 0:
        yield f"The command ended normally{took}."
    elif code is not None:
        yield f"The command ended{took} with {ending(code)}."
    else:
        yield f"The command ended{took}; its exit code was not recorded."
    if run.incidents:
        met = _met(run)
        yield f"{met[0].upper()}{met[1:]}."


def ending(code: int) -> str:
    """
    >>> ending(3), ending(139)
    ('exit code 3', 'exit code 139 (SIGSEGV)')
    """
    try:
        name = signal.Signals(code - 128).name if code > 128 else ""
    except ValueError:
        name = ""
    return f"exit code {code} ({name})" if name else f"exit code {code}"


def _times(count: float) -> str:
    return "once" if count == 1 else f"{count:.0f} times"
