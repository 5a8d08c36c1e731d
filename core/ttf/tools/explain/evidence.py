"""The rows of the table of causes in words: the conditions for a class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ttf.incidents.error_texts import Pattern
from ttf.incidents.rule import EXIT, OURS, Rule, When
from ttf.incidents.rules import RULES

_AREAS: Final = {
    "words": "its last messages",
    "stderr": "stderr",
    "stdout": "the end of standard output",
    "faulthandler": "its stacks",
    "kernel": "the kernel log",
}
_FACTS: Final = {
    "failed": "",  # said with the exit code
    "exit-zero": "exit code 0",
    "finished": "its message that it has finished",
    "traceback": "a traceback at the end",
    "oom-rose": "an increased kernel counter of OOM kills",
    "oom-counted": "a kernel counter of OOM kills that could be read",
    "oom-machine-wide": "a counter of the whole machine only",
    "changed-files": "a changed input file",
    "cut-file": "a truncated input file",
    "disk-low": "a full disk or a full /dev/shm",
    "no-stacks": "no stacks",
    "several-openmp": "two OpenMP runtimes in its memory map",
    "uncaught": "a report of Python about an uncaught exception",
    "refused-memory": "an exception class that only a refused allocation raises",
    "cpu-near": "a limit of processor time that was almost used up",
    "last-line": "a last line in stderr",
    "foreign-thread": "stacks in which no thread is the current one",
    "child-crashed": "stacks of a child process that crashed",
    "child-aborted": "a message or stacks of a child process that aborted",
    "child-killed": "a message of a parent process about a child that was killed by SIGKILL",
    "waits-for-lock-file": "a wait for a lock file in the stacks",
    "others-silent": "another host that did not answer",
    "others-gone": "another host that closed the connection",
}
_KILLED_BY_US: Final = {
    "hang": "`ttf` ended it: no sign of life",
    "straggler": "`ttf` ended it: it was alive, but later than the others waited",
    "memory": "`ttf` ended it: its memory limit was reached or almost reached",
    "garbage": "`ttf` ended the process, because the answers of the process were invalid",
    "stop": "`ttf` ended it on request",
}


def rows(name: str) -> list[str]:
    """The rows for a class, in the order they are tried, as items of a list."""
    return [f"- {_row(rule)}" for rule in RULES if rule.name == name]


def signals_of(name: str) -> list[str]:
    """Signals that can end in a class, in the order of the table."""
    found = (s for rule in RULES if rule.name == name for s in rule.when.signals if s != EXIT)
    return list(dict.fromkeys(found))


def classes_of_exit_code(code: int) -> list[str]:
    """Classes that a process with this exit code may have."""
    named = [rule.name for rule in RULES if code in rule.when.exit_codes]
    found = named or [rule.name for rule in RULES if _fits_code(rule.when, code)]
    return list(dict.fromkeys(found))


def _fits_code(when: When, code: int) -> bool:
    if code == 0:
        return "exit-zero" in when.facts
    return EXIT in when.signals and "failed" in when.facts


def _row(rule: Rule) -> str:
    text = "; ".join(filter(None, _conditions(rule.when))) or "any other signal"
    sure = "certain" if rule.certain else "shows what happened, not the cause"
    code = "" if rule.ends_with is None else f", the run ends with exit code {int(rule.ends_with)}"
    return f"{text}: {sure}{code}."


def _conditions(when: When) -> Iterator[str]:
    for reason in when.killed_by_us:
        yield _KILLED_BY_US[reason]
    if when.errors:
        yield "its error report: " + _either([f"`{error}`" for error in when.errors])
    yield _endings(when)
    if when.text:
        yield f"{_pattern_text(when.text)} in {_either([_AREAS[area] for area in when.areas])}"
    yield from map(_fact, when.facts)
    yield from (f"without {_fact(fact)}" for fact in when.without)
    if when.processes == OURS:
        yield "a process of `ttf` itself"
    elif when.processes == ("command",):
        yield "a command under `ttf guard`"


def _fact(name: str) -> str:
    return _FACTS.get(name, name.replace("-", " "))


def _pattern_text(pattern: str) -> str:
    # A short pattern explains itself.
    if isinstance(pattern, Pattern):
        return pattern.shown
    return f"`{pattern.replace('|', '` or `')}`"


def _endings(when: When) -> str:
    code = "an exit code other than 0" if "failed" in when.facts else "an exit code"
    names = [code if name == EXIT else name for name in when.signals]
    names += [f"exit code {number}" for number in when.exit_codes]
    return _either(names)


def _either(names: list[str]) -> str:
    """
    >>> _either(["SIGABRT", "SIGTRAP", "an exit code"])
    'SIGABRT, SIGTRAP or an exit code'
    """
    *others, last = names or [""]
    return f"{', '.join(others)} or {last}" if others else last
