"""What a row of the table of causes consists of."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Final

from ttf.errors import ExitCode
from ttf.incidents.facts import Area

OURS: Final = ("trainer", "miner", "supervisor")
"""Processes of ours, as against strangers' commands."""
COMMAND: Final = "command"
"""A stranger's command. `finished` means of it that Python was shut down in order, with no error
left uncaught."""
EXIT: Final = ""
"""Stands among the signals for an end by exit code."""


@dataclass(frozen=True, kw_only=True)
class When:
    """What must be so; a field that is left out asks for nothing."""

    signals: tuple[str, ...] = ()
    exit_codes: tuple[int, ...] = ()
    text: str = ""
    """A regular expression; its groups can be named in the explanation."""
    areas: tuple[Area, ...] = ("words",)
    """Where the text is looked for, in this order."""
    errors: tuple[str, ...] = ()
    """Class names of the error it told itself."""
    phases: tuple[str, ...] = ()
    processes: tuple[str, ...] = ()
    killed_by_us: tuple[str, ...] = ()
    facts: tuple[str, ...] = ()
    """All of these; see `facts.DeathFacts.names`."""
    without: tuple[str, ...] = ()
    """None of these."""


@dataclass(frozen=True)
class Rule:
    name: str
    """The incident class."""
    when: When
    explanation: str
    """For a person. {who}, {signal}, {code}, {reason}, {at} ('in mining, after step 12'), {native}
    (' in libfoo.so' or nothing), {error}, {file}, {was}, {now}, {full} and the text's groups."""
    _: KW_ONLY
    certain: bool = False
    ends_with: ExitCode | None = None
    """Where a restart would meet it again."""
    own_exit_code: bool = False
    """A run ends of it with the exit code that its error asks for."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """A sentence added to the explanation of some classes: mostly what it is not."""

    names: tuple[str, ...]
    when: When
    text: str
