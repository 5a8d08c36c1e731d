"""Check `device`: which devices work here, and which one a run would choose."""

from __future__ import annotations

from typing import Any

from ttf.hookspecs import Verdict
from ttf.supervise.isolated_tasks import Task, run
from ttf.tools.doctor.check import ok
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.task_failures import failed, one_line


def look_at_device(exam: Examination) -> Verdict:
    name, threads = exam.settings.get("device.name", "auto"), exam.settings.get("device.threads")
    request: dict[str, Any] = {
        "name": name,
        "threads": threads if isinstance(threads, int) else None,
        "options": dict(exam.options_of("device")),
    }
    ended = run(Task(work="ttf.tools.doctor.tasks:device", request=request, deadline_s=120))
    listed = [_listed(note) for note in ended.notes if "device" in note]
    if ended.answer is None or not ended.well:
        remedy = "Use --device cpu. If it fails too, see the check torch."
        return failed(f"The device {name!r} does not work", ended, *listed, remedy=remedy)
    told = ended.answer
    count = told["threads"]
    reason = f": {told['reason']}" if told["reason"] else ""
    return ok(
        f"{told['name']} with {count} thread{'s' * (count != 1)} computes correct numbers{reason}",
        *listed,
        *told["notes"],
    )


def _listed(note: Any) -> str:
    if "broken" in note:
        return f"{note['device']}: broken: {one_line(str(note['broken']))}"
    if note["ok"]:
        return f"{note['device']}: usable{', but ' if note['reason'] else ''}{note['reason']}"
    return f"{note['device']}: cannot be used on this machine, {note['reason']}"
