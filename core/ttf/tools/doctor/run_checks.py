"""Checks `config`, `data` and `plan` of a given run, before it is started."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from ttf.errors import ExitCode
from ttf.hookspecs import Cause, Verdict
from ttf.rundir.cache import cache_dir
from ttf.supervise.isolated_tasks import Ended, run
from ttf.text.numbers import duration, size
from ttf.text.shell import quoted
from ttf.tools.doctor import task_failures
from ttf.tools.doctor.check import fail, ok, skip, warn
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.disk_and_limits import existing, room

DATA_DEADLINE_S: Final = 900.0
PLAN_DEADLINE_S: Final = 300.0
_MOST_SHOWN: Final = 20
_OF_DATA: Final = ("bus-error", "data-changed")


def look_at_config(exam: Examination) -> Verdict:
    ended = exam.config
    assert ended is not None
    if ended.error is not None and ended.error["exit_code"] == ExitCode.USAGE:
        first, *rest = str(ended.error["message"]).splitlines()
        problems = [task_failures.one_line(line).removeprefix("- ") for line in rest]
        text = f"{first.rstrip(':')}: {problems[0]}" if len(problems) == 1 else first
        return fail(
            text,
            *problems,
            remedy=str(ended.error["hint"]) or f"Correct {exam.run_toml}.",
            cause="configuration",
        )
    if ended.answer is None or not ended.well:
        return _task_failed("The configuration could not be read", ended)
    settings = ended.answer["flat"]
    shown = ", ".join(f"{key} = {settings[key]}" for key in ("tower.query.name", "miner.name",
                      "miner.isolation", "train.batch_size", "train.accumulate"))  # fmt: skip
    notes = [str(note) for note in ended.answer["notes"]]
    return ok(f"{exam.run_toml} is valid: {shown}", *notes)


def look_at_data(exam: Examination) -> Verdict:
    if not exam.settings:
        return _config_unreadable()
    if exam.demo:
        return skip("it names no data files: the run would use the built-in demo data set")
    exam.say("data: reads the files of the configuration")
    ended = run(exam.of_run("data", DATA_DEADLINE_S))
    if ended.answer is None or not ended.well:
        of_data = ended.finding is not None and ended.finding.name in _OF_DATA
        return _task_failed("The data could not be read", ended, cause="data" if of_data else None)
    told = ended.answer
    problems = told["problems"]
    if not problems:
        *files, summary = told["read"]
        return ok(f"{summary}: no problems", *files, *told["notes"])
    exam.no_trial = "the data has problems (see the check data)"
    texts = [task_failures.one_line(problem["text"]) for problem in problems]
    more = f" (and {len(texts) - 1} more)" if len(texts) > 1 else ""
    hints = dict.fromkeys(problem["hint"] for problem in problems if problem["hint"])
    return fail(
        f"{texts[0]}{more}",
        *texts[1:_MOST_SHOWN],
        *told["read"],
        remedy=" ".join(hints) or _verify_commands(exam.settings),
        cause="data",
    )


def _verify_commands(settings: Mapping[str, Any]) -> str:
    files = [settings.get(f"data.{name}") for name in ("pairs", "bank", "context")]
    commands = [f"ttf data verify {quoted(file)}" for file in files if file]
    return f"To find the wrong rows: {'; '.join(commands)}. Then write correct files."


def look_at_plan(exam: Examination) -> Verdict:
    if not exam.settings:
        return _config_unreadable()
    exam.say("plan: predicts memory, disk and time")
    ended = run(exam.of_run("plan", PLAN_DEADLINE_S))
    if ended.error is not None and ended.error["exit_code"] == ExitCode.BAD_DATA:
        return skip("the data cannot be opened (see the check data), so there is no prediction")
    if ended.answer is None or not ended.well:
        return _task_failed("The prediction failed", ended)
    told = ended.answer
    if "refused" in told:
        return fail(told["refused"], remedy=told["hint"] or "Correct it.", cause="configuration")
    verdict = judged_plan(told, _free_disk())
    if verdict.status == "fail":
        exam.no_trial = "the memory is not enough for the run (see the check plan)"
    return verdict


def judged_plan(told: Mapping[str, Any], free_disk: int) -> Verdict:
    limit, peak = told["limit"], told["peak_anon_bytes"]
    phase = told["peak_phase"]
    what = f"{size(peak)} predicted during {phase}, the limit is {size(limit['bytes'])}"
    evidence = [
        *(f"{size(held)} in {name}" for name, held in told["anon_bytes"].items()),
        f"memory.budget: {size(told['budget'])}",
        f"disk: {size(told['disk_bytes'])} needed, {size(free_disk)} free",
        f"time: about {duration(told['seconds'])}",
        *told["notes"],
    ]
    if not told["fits"]:
        return fail(
            f"The memory is not enough for the run: {what} ({limit['source']}).",
            *evidence,
            remedy=_what_to_lower(told),
        )
    if told["above_budget"]:
        return fail(
            told["above_budget"],
            *evidence,
            remedy="Raise it (--set memory.budget=4GiB) or choose --miner exact.",
        )
    if told["disk_bytes"] > free_disk:
        return warn(
            f"The run may write {size(told['disk_bytes'])}, but only {size(free_disk)} are free.",
            *evidence,
            remedy="Free some space, or choose another folder with --out.",
        )
    return ok(f"{what} ({limit['source']})", *evidence)


def _what_to_lower(told: Mapping[str, Any]) -> str:
    if told["fixed_bytes"] > told["limit"]["bytes"]:
        return (
            f"{size(told['fixed_bytes'])} of this cannot be lowered by an option: use a machine "
            "with more memory, or a smaller tower."
        )
    options = "; ".join(f"{option}: {size(held)}" for option, held, _ in told["lowerable"])
    return (
        f"Lower these options, the one with the most memory first: {options}. Or use a "
        "machine with more memory."
    )


def _free_disk() -> int:
    # The smaller one of the folder of runs and the cache.
    return min(room(existing(path)) for path in (Path.cwd(), cache_dir()))


def _config_unreadable() -> Verdict:
    return skip("the configuration could not be read (see the check config)")


def _task_failed(what: str, ended: Ended, cause: Cause | None = None) -> Verdict:
    if cause is None:
        bad = ended.error is not None and ended.error["exit_code"] == ExitCode.BAD_DATA
        cause = "data" if bad else "environment"
    remedy = "Read the evidence, and the checks above this one."
    return task_failures.failed(what, ended, remedy=remedy, cause=cause)
