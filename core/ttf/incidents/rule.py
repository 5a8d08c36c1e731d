"""The types of the rules in `rules.py`."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from ttf.errors import ExitCode
from ttf.incidents.facts import Area

OURS: Final = ("trainer", "miner", "supervisor")  # processes of ttf, unlike foreign commands
# A foreign command. Its `finished` means: Python shut down normally, without an uncaught error.
COMMAND: Final = "command"
EXIT: Final = ""  # stands in `signals` for an end by exit code


@dataclass(frozen=True, kw_only=True)
class When:
    """Conditions that must all be true. An omitted field sets no condition."""

    signals: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    text: str = ""  # a regular expression; the explanation may use its groups
    areas: tuple[Area, ...] = ("words",)  # where to search the text, in this order
    errors: tuple[str, ...] = ()  # class names of the error that the process reported
    phases: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    killed_by_us: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()  # all of these must hold; see `facts.DeathFacts.names`
    without: tuple[str, ...] = ()  # none of these may hold


@dataclass(frozen=True)
class Rule:
    name: str  # the incident class
    when: When
    # For people. Fields: {who}, {signal}, {code}, {reason}, {at} ('in mining, after step 12'),
    # {native} (' in libfoo.so' or ''), {error}, {file}, {was}, {now}, {full}, {line} (where the text was
    # found), and the groups of the text.
    explanation: str
    _: KW_ONLY
    certain: bool = False  # the evidence proves the cause; words that a process wrote prove nothing
    at_once: bool = False  # its remedy is applied at the first death, though it is not certain
    ends_with: ExitCode | None = None  # set if a restart would fail in the same way
    own_exit_code: bool = False  # the run ends with the exit code of the error
    # To a foreign command, instead of the advice for the class, where that would not apply.
    advice: tuple[str, ...] | None = None


@dataclass(frozen=True, kw_only=True)
class Note:
    """A sentence added to the explanation of some classes, mostly to exclude a cause."""

    names: tuple[str, ...]
    when: When
    text: str
