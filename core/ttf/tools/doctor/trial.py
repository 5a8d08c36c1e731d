"""Check `steps`: three real optimizer steps of the run, in a temporary folder.

Runs a supervised `ttf train` with the run's own shapes. Mining and the memory bank start with the
first step. No restarts, remedies, gates or observers.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.errors import ExitCode
from ttf.hookspecs import Cause, Verdict
from ttf.process.child import inherited
from ttf.process.command import TtfCommand
from ttf.rundir.documents import FiledIncident
from ttf.rundir.incident_files import incident_folders, read_incident
from ttf.text.numbers import duration, size
from ttf.tools.doctor import task_failures
from ttf.tools.doctor.check import fail, ok, skip, warn
from ttf.tools.doctor.context import Examination

STEPS: Final = 3
DEADLINE_S: Final = 300.0
_GRACE_S: Final = 15.0
_SAY_EVERY_S: Final = 10.0
_ALWAYS: Final[Mapping[str, str]] = {
    "train.steps": str(STEPS),
    "evaluate.every": "end",
    "evaluate.above_chance": "false",
    "checkpoint.every_s": "none",
    "supervise.max_restarts": "0",
    "supervise.remedies": "false",
    "loss.memory_bank_start": "0",
    "observers": "[]",
    "gates": "[]",
}


@dataclass(frozen=True, kw_only=True)
class Trial:
    code: int | None  # None: the time was over
    seconds: float
    document: Mapping[str, Any]  # from `ttf train --json`
    incidents: tuple[FiledIncident, ...]
    stderr: str


def look_at_steps(exam: Examination) -> Verdict:
    if not exam.settings:
        return skip("the configuration could not be read (see the check config)")
    if not exam.torch.well:
        return skip("torch does not work (see the check torch)")
    if exam.no_trial:
        return skip(f"{exam.no_trial}, so ttf does not try the steps")
    exam.say(f"steps: {STEPS} optimizer steps with mining, and an evaluation before and after")
    with tempfile.TemporaryDirectory(prefix="ttf-doctor-") as folder:
        return judged(_run_trial(exam, Path(folder)))


def judged(trial: Trial) -> Verdict:
    summary = trial.document.get("summary", trial.document)
    evidence = [*_evidence(trial)]
    if trial.code is None:
        return warn(
            f"{STEPS} steps did not finish within {duration(DEADLINE_S)}. The run was still "
            "working.",
            *evidence,
            remedy=(
                "Mining or evaluation may need this time. To see the predicted time: ttf "
                "train RUN.toml --plan"
            ),
        )
    if trial.code == ExitCode.DONE and not summary.get("incidents"):
        peak = summary.get("peak_anon_mb")
        held = f", with at most {size(float(peak) * 1e6)} of memory" if peak else ""
        return ok(
            f"{summary.get('steps')} steps in {duration(trial.seconds)}, with start and "
            f"evaluations{held}",
            f"miner: {summary.get('miner')}; losses were finite",
        )
    if trial.code == ExitCode.DONE:
        names = ", ".join(f"{i['class']} ({i['process']})" for i in summary["incidents"])
        return warn(
            f"{STEPS} steps were done, but there were incidents: {names}.",
            *evidence,
            remedy=(
                "A run would continue in the same way. Read the evidence. Another miner may "
                "avoid the incident."
            ),
        )
    error = trial.document.get("error", {})
    names = ", ".join(f"{i['class']} of the {i['process']}" for i in trial.incidents)
    what = names or task_failures.one_line(str(error.get("message", f"exit code {trial.code}")))
    cause: Cause = "data" if trial.code == ExitCode.BAD_DATA else "environment"
    if trial.code == ExitCode.USAGE:
        cause = "configuration"
    return fail(f"The first {STEPS} steps fail: {what}", *evidence, remedy=_remedy(trial, error),
                cause=cause)  # fmt: skip


def _remedy(trial: Trial, error: Mapping[str, Any]) -> str:
    for incident in trial.incidents:
        for remedy in incident.get("remedies", []):
            return str(remedy.get("text"))
    hint = "" if trial.incidents else str(error.get("hint", ""))
    return hint or "To find the part of the configuration that causes it: ttf bisect RUN.toml."


def _evidence(trial: Trial) -> Iterator[str]:
    for incident in trial.incidents:
        yield f"class {incident['class']}: {incident.get('explanation')}"
        for line in incident.get("evidence", ()):
            yield f"{line.get('source')}: {line.get('text')}"
    if trial.code != ExitCode.DONE:
        lines = [line for line in trial.stderr.splitlines() if line.strip()]
        yield from (f"stderr: {task_failures.one_line(line)}" for line in lines[-4:])


# --- the trial -------------------------------------------------------------------------------------


def _arguments(exam: Examination, run_dir: Path) -> list[str]:
    sets = dict(_ALWAYS)
    if exam.settings.get("miner.start"):  # untrained towers need not yield what trained ones do
        sets |= {"miner.start": "0", "negatives.min_yield": "0"}
    return [
        *("train", str(exam.run_toml)),
        *("--out", str(run_dir), "--json"),
        *(word for key, value in sets.items() for word in ("--set", f"{key}={value}")),
    ]


def _run_trial(exam: Examination, folder: Path) -> Trial:
    run_dir, began = folder / "run", time.monotonic()
    command = TtfCommand(
        _arguments(exam, run_dir),
        folder / "out",
        folder / "err",
        # torch leaves a folder where temporary files go.
        environment={**inherited(), "TMPDIR": str(folder)},
    )
    try:
        code = _exit_code(exam, command.process, began)
    finally:
        command.end(_GRACE_S)
    return Trial(
        code=code,
        seconds=time.monotonic() - began,
        document=_document(_read(command.out)),
        incidents=tuple(map(read_incident, incident_folders(run_dir / "incidents"))),
        stderr=_read(command.err),
    )


def _exit_code(exam: Examination, process: subprocess.Popen[bytes], began: float) -> int | None:
    """None if the process still runs at the deadline."""
    while (left := began + DEADLINE_S - time.monotonic()) > 0:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return process.wait(min(left, _SAY_EVERY_S))
        exam.say(f"steps: still running after {time.monotonic() - began:.0f} s")
    return None


def _read(path: Path) -> str:
    return path.read_bytes().decode(errors="replace")


def _document(text: str) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:  # it was killed before it could say anything
        return {}
    return found if isinstance(found, dict) else {}
