"""Runs an exporter in a process of its own; a crash there is an error with a name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Literal

from ttf.errors import GaveUp, PluginBroken, TtfError
from ttf.host import plugins
from ttf.host.plugin_faults import mend
from ttf.process.error_document import from_document
from ttf.supervise.isolated_tasks import Ended, Task, run
from ttf.tools.doctor import task_failures

if TYPE_CHECKING:
    from ttf.text.progress import Reporter

_LONGEST_S: Final = 30 * 24 * 3600.0
_DOES: Final = {"write": "wrote the export", "read_back": "loaded the export back"}


def run_exporter(
    work: Literal["write", "read_back"], request: Mapping[str, Any], reporter: Reporter
) -> Mapping[str, Any]:
    """The answer of the task. Call it in the main thread."""

    def heard(message: Mapping[str, Any]) -> None:
        if "note" in message:
            reporter.note(str(message["note"]))
        elif "done" in message:
            reporter.advance(int(message["done"]), int(message["total"]))

    ended = run(
        Task(
            work=f"ttf.tools.export.child:{work}",
            request=request,
            deadline_s=_LONGEST_S,
            heard=heard,
        )
    )
    if ended.well and ended.answer is not None:
        return ended.answer
    raise _failure(work, request["exporter"], ended)


def _failure(work: str, name: str, ended: Ended) -> BaseException:
    info = plugins.find("exporter", name)
    if ended.finding is not None:
        lines = [line for line in task_failures.evidence(ended) if line.startswith("stderr")]
        last = f" Its last words: {lines[-1].removeprefix('stderr: ')}" if lines else ""
        return GaveUp(
            f"The process that {_DOES[work]} ({info.reference} of {info.distribution}) died: "
            f"{task_failures.in_a_word(ended)}. {ended.finding.explanation}{last}",
            hint="Nothing was written to --out. To look at the libraries: ttf doctor",
        )
    assert ended.error is not None
    if ended.error["known"]:
        return from_document(ended.error)
    said = f"{ended.error['class']}: {ended.error['message']}"
    kind: type[TtfError] = TtfError if info.ours else PluginBroken
    return kind(
        f"The exporter {info.reference} of {info.distribution} {info.version} failed in "
        f"{work}(): {said}",
        hint=mend(info),
    )
