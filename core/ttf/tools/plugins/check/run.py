"""Runs the suite of a plugin's kind in child processes. A death is a finding; the next test follows.

parent ── load it ────────> child: if it dies, raises or hangs, the check ends here
   └───── the whole suite ─> child (pytest): reports each test's beginning and end
                              if it dies in a test, a new child does the rest
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ttf.errors import ConfigError
from ttf.host import plugins
from ttf.host.installed import PluginInfo
from ttf.supervise.isolated_tasks import WAITS_S, Ended, Task, run
from ttf.tools.doctor import task_failures

Status = Literal["ok", "fail", "died", "skip"]

# The class of `ttf.testing` for each kind that has one.
SUITES: Final = {
    "device": "DeviceTests",
    "encoder": "EncoderTests",
    "executor": "ExecutorTests",
    "exporter": "ExporterTests",
    "miner": "MinerTests",
    "storage": "StoreTests",
    "tower": "TowerTests",
}
QUIET_S: Final = 120.0
_LOADING_S: Final = 30.0
_WHOLE_S: Final = 3600.0
_BAD: Final[tuple[Status, ...]] = ("fail", "died")


@dataclass(frozen=True, kw_only=True)
class Finding:
    """The result of one check of a plugin."""

    check: str  # a sentence
    status: Status
    seconds: float
    detail: str = ""  # one line: why it failed, died or was skipped
    evidence: tuple[str, ...] = ()

    @property
    def bad(self) -> bool:
        return self.status in _BAD


@dataclass(frozen=True, kw_only=True)
class Wanted:
    info: PluginInfo
    options: Mapping[str, Any] = field(default_factory=dict)
    only: str = ""  # only tests with this text in their names
    quiet_s: float = QUIET_S  # a check that takes longer is a hang

    @property
    def name(self) -> str:
        return plugins.choice_of(self.info)


def check(wanted: Wanted) -> Iterator[Finding]:
    """Yields every finding as soon as it is made. Call it in the main thread."""
    loaded = _load(wanted)
    yield loaded
    if loaded.status == "ok" and wanted.info.kind in SUITES:
        yield from _suite(wanted)


def _load(wanted: Wanted) -> Finding:
    request = {"plugins": [[wanted.info.kind, wanted.name]]}
    ended = run(
        Task(
            work="ttf.tools.doctor.tasks:load_plugins",
            request=request,
            deadline_s=min(wanted.quiet_s, _LOADING_S),
            idle_s=WAITS_S,
        )
    )
    what = (
        f"checking whether it can be imported ({wanted.info.entry_point.module}) and can run here"
    )
    state = next((note for note in ended.notes if "plugin" in note), {})
    if not ended.well:
        return _death(what, ended)
    if "broken" in state:
        fix = (str(state["fix"]),) if state["fix"] else ()
        return _finding(what, "fail", ended.seconds, str(state["broken"]), fix)
    if not state["ok"]:
        return _finding(what, "skip", ended.seconds, str(state["reason"]), (str(state["fix"]),))
    return _finding(what, "ok", ended.seconds)


def _suite(wanted: Wanted) -> Iterator[Finding]:
    """Repeats the suite without the tests that died, until every test has ended."""
    done: list[str] = []
    while True:
        findings: list[Finding] = []
        heard = _SuiteMessages(findings.append)
        ended = run(
            Task(
                work="ttf.tools.plugins.check.suite:suite",
                request={
                    "suite": SUITES[wanted.info.kind],
                    "name": wanted.name,
                    "options": dict(wanted.options),
                    "only": wanted.only,
                    "done": done,
                },
                deadline_s=_WHOLE_S,
                quiet_s=wanted.quiet_s,
                heard=heard,
            )
        )
        yield from findings
        done += heard.done
        if ended.well:
            if ended.answer is not None and not ended.answer["found"]:
                raise ConfigError(
                    f"No check of {SUITES[wanted.info.kind]} has {wanted.only!r} in its name.",
                    hint=f"To run all checks: ttf plugins check {wanted.info.kind}.{wanted.name}",
                )
            return
        yield _death(_sentence(heard.at) if heard.at else "the suite begins", ended)
        if not heard.at:
            return
        done.append(heard.at)


class _SuiteMessages:
    """Collects the messages of a suite: `at` is the running test, `done` those that ended."""

    def __init__(self, found: Callable[[Finding], None]) -> None:
        self._found = found
        self.at, self.done = "", list[str]()

    def __call__(self, message: Mapping[str, Any]) -> None:
        if "test" not in message:
            return
        test = str(message["test"])
        if "status" not in message:
            self.at = test
            return
        self.at = ""
        self.done.append(test)
        text = str(message["text"]).strip()
        last = text.splitlines()[-1:] or [""]
        self._found(
            _finding(
                _sentence(test),
                message["status"],
                float(message["seconds"]),
                str(message["why"]) or last[0],
                tuple(text.splitlines()[-12:]) if message["status"] == "fail" else (),
            )
        )


def _sentence(test: str) -> str:
    """'test_a_bank_of_one_row[x]' as words.

    >>> _sentence("test_no_queries_get_no_answers[2-D]")
    'no queries get no answers (2-D)'
    """
    name, bracket, case = test.partition("[")
    words = name.removeprefix("test_").replace("_", " ")
    return f"{words} ({case.rstrip(']')})" if bracket else words


def _death(what: str, ended: Ended) -> Finding:
    kind: Status = "fail" if ended.death is None else "died"
    told = tuple(task_failures.evidence(ended))
    return _finding(what, kind, ended.seconds, task_failures.in_a_word(ended), told)


def _finding(
    what: str, status: Any, seconds: float, detail: str = "", evidence: tuple[str, ...] = ()
) -> Finding:
    return Finding(
        check=what,
        status=status,
        seconds=round(seconds, 3),
        detail=task_failures.one_line(detail) if status != "ok" else "",
        evidence=evidence,
    )
