"""Check `coload`: torch and each miner really at work in one process, in both orders.

    process 1: miner, torch, miner again        process 2: torch, miner, torch again

What dies there would die in a run with miner.isolation = "none", and anywhere else that imports
both. A run as it is by default keeps them in two processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ttf.hookspecs import Verdict
from ttf.host import plugins
from ttf.supervise.isolated_tasks import WAITS_S, Ended, Task, run_all
from ttf.tools.doctor import task_failures
from ttf.tools.doctor.check import fail, ok, skip, warn
from ttf.tools.doctor.context import Examination

DEADLINE_S: Final = 45.0
_ORDERS: Final = {"miner": "the miner first", "torch": "torch first"}
_BEFORE_TORCH: Final = ("", "loading the plugin", "building and searching")


def look_at_coloading(exam: Examination) -> Verdict:
    miners = plugins.choices("miner")
    if not exam.torch.well:
        return skip("torch does not work even without a miner (see the check torch)")
    exam.say(f"coload: torch with each of {len(miners)} miners in one process, in both orders")
    ends: dict[tuple[str, str], Ended] = {}
    for first in _ORDERS:
        wanted = [m for m in miners if first == "miner" or _is_worth_trying(ends[m, "miner"])]
        ends.update(zip(((m, first) for m in wanted), _run(exam, wanted, first), strict=True))
    return judged(miners, ends)


def _is_worth_trying(ended: Ended) -> bool:
    """Whether torch first is worth trying: the miner can be used and did not fail before torch."""
    if ended.answer is not None:
        return "unavailable" not in ended.answer
    return ended.stage not in _BEFORE_TORCH


def _run(exam: Examination, miners: list[str], first: str) -> list[Ended]:
    options = exam.options_of("miner")
    tasks = [
        Task(
            work="ttf.tools.doctor.tasks:coload",
            request={"miner": miner, "first": first, "options": options.get(miner)},
            deadline_s=DEADLINE_S,
            idle_s=WAITS_S,
            process="miner",
        )
        for miner in miners
    ]
    return run_all(tasks)


def judged(miners: list[str], ends: Mapping[tuple[str, str], Ended]) -> Verdict:
    """A death is a failure, even if it happens in only one of the two orders."""
    dead = {key: ended for key, ended in ends.items() if ended.death is not None}
    raised = {key: ended for key, ended in ends.items() if ended.death is None and ended.error}
    unusable = {m: e.answer["unavailable"] for (m, _), e in ends.items()
                if e.answer and "unavailable" in e.answer}  # fmt: skip
    well = [m for m in miners if m not in unusable and not any(k[0] == m for k in (*dead, *raised))]
    summary = [
        *(f"{m}: works together with torch, in both orders" for m in well),
        *(f"{m}: cannot be used on this machine ({why})" for m, why in unusable.items()),
    ]
    if dead:
        return _failed(dead, ends, summary)
    if raised:
        (miner, first), ended = next(iter(raised.items()))
        return warn(
            f"The miner {miner} does not work ({_ORDERS[first]}): {task_failures.in_a_word(ended)}",
            *task_failures.evidence(ended),
            *summary,
            remedy=f"Report it to the authors of {_owner(miner)}, or use another miner.",
        )
    if not well:
        return skip("no miner can be used on this machine", *summary)
    return ok(f"torch works in one process with {', '.join(well)}, in both orders", *summary)


def _failed(
    dead: Mapping[tuple[str, str], Ended], ends: Mapping[tuple[str, str], Ended], summary: list[str]
) -> Verdict:
    (miner, first), ended = next(iter(dead.items()))
    others = len({m for m, _ in dead}) - 1
    more = f"; {others} more miner(s) fail too" if others else ""
    return fail(
        f"The miner {miner} of {_owner(miner)}, {_where(miner, first, ended, dead, ends)}: "
        f"{task_failures.in_a_word(ended)}{more}.",
        *_death_evidence(ended),
        *(
            f"{m}, {_ORDERS[o]}: {task_failures.in_a_word(e)}, at {e.stage}"
            for (m, o), e in dead.items()
        ),
        *summary,
        remedy=_remedy(miner, ended),
    )


def _where(
    miner: str,
    first: str,
    ended: Ended,
    dead: Mapping[tuple[str, str], Ended],
    ends: Mapping[tuple[str, str], Ended],
) -> str:
    if first == "miner" and ended.stage in _BEFORE_TORCH:
        return "alone in a process, before torch was loaded"
    if all((miner, order) in dead for order in _ORDERS):
        return "in one process with torch, in both orders"
    other = next(order for order in _ORDERS if order != first)
    survived = " only" if (miner, other) in ends else ""
    return f"in one process with torch, {_ORDERS[first]}{survived}"


def _death_evidence(ended: Ended) -> Iterator[str]:
    yield from task_failures.evidence(ended)
    maps = [note["openmp"] for note in ended.notes if note.get("openmp")]
    if maps:
        yield f"OpenMP runtimes in the process at the last measurement: {', '.join(maps[-1])}"


def _owner(miner: str) -> str:
    return plugins.find("miner", miner).distribution


def _remedy(miner: str, ended: Ended) -> str:
    if ended.stage in _BEFORE_TORCH and ended.task.request["first"] == "miner":
        return (
            f"Use another miner (--miner exact), or reinstall {_owner(miner)} and the library "
            "that it uses. In a run with the default settings, only the miner process would "
            "crash, and ttf would use another miner."
        )
    if ended.finding is not None and ended.finding.name == "omp-duplicate":
        return (
            'A run with miner.isolation = "process" (the default) works, because it keeps the two '
            'libraries in separate processes. On this machine, do not set it to "none", do not '
            "import both libraries in one script, and never set KMP_DUPLICATE_LIB_OK. To solve "
            "the problem, install both libraries from one source, or use another miner."
        )
    return (
        'Keep miner.isolation = "process" (the default): the two libraries are then in separate '
        "processes, and ttf replaces a miner that crashes. Or use another miner (--miner exact)."
    )
