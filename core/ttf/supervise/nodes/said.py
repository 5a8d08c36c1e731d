"""What supervisors say to each other, as types; `heard` refuses everything else.

follower                                node 0
  hello ------------------------------>        which run, version, how many nodes
  <----------- welcome, refused or later       its number
  ready ------------------------------>        its ranks, what its folder has
  <-------------------------- want, go         its documents; the places of its ranks
  report ----------------------------->        all its trainers have ended, and how
  <----------------------------------- end     a trainer elsewhere has ended: so will yours
  <------------------------- again or over     another attempt, or the end of the run
  stopping --------------------------->        a signal ended it here
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final, TypeVar

from ttf.incidents.death import Death, Finding
from ttf.process.error_document import ErrorDocument, from_document
from ttf.rundir.request import Change, History
from ttf.rundir.typed_json import dataclass_from
from ttf.supervise.rank_ends import RankEnd

PROTOCOL: Final = 1
_LONGEST_STDERR: Final = 16 << 10
_LONGEST_STACKS: Final = 64 << 10
_SENT: Final = (
    "process", "pid", "time", "age_s", "signal", "exit_code", "killed_by_us", "reason", "rank",
    "host", "others", "finished", "uncaught", "native", "openmp", "kernel",
)  # fmt: skip

M = TypeVar("M")


@dataclass(frozen=True, kw_only=True)
class Hello:
    protocol: int
    ttf: str
    host: str
    nodes: int
    node: int  # -1: any.
    who: str  # Of this supervisor: who comes again takes its old place, though that seems taken.
    run_id: str  # Empty: it has none yet.
    time: float  # Its clock, only to say how far it is off.


@dataclass(frozen=True, kw_only=True)
class Welcome:
    node: int
    run_id: str
    mark: str  # Stands in a file of node 0's folder: who sees it there sees the same folder.


@dataclass(frozen=True, kw_only=True)
class Ready:
    ranks: int
    has_run: bool
    newest: int  # Step of its newest checkpoint; -1: none.


@dataclass(frozen=True, kw_only=True)
class Go:
    attempt: int
    first: int  # The rank of this node's first trainer.
    store: str
    hosts: tuple[str, ...]  # Of each rank.
    overlay: Mapping[str, Change] = field(default_factory=dict)
    save_every: int = 0
    history: History = field(default_factory=History)
    documents: dict[str, str] = field(default_factory=dict)  # For who has no run.


@dataclass(frozen=True, kw_only=True)
class Account:
    """One death with what is known about it: enough for an incident on every host."""

    death: Death
    finding: Finding
    error: dict[str, Any] | None = None  # Its final record, where it ended with an error.
    told: bool = False  # That error ends the run.


@dataclass(frozen=True, kw_only=True)
class Report:
    attempt: int
    ends: tuple[RankEnd, ...]  # `at` is how long ago.
    late: bool = False  # Somebody was waited for in vain.
    account: Account | None = None  # Of the first cause of this node; None: all is well.

    @property
    def well(self) -> bool:
        return self.account is None


@dataclass(frozen=True, kw_only=True)
class Again:
    because: str
    account: Account | None = None
    others: tuple[RankEnd, ...] = ()


_KINDS: Final[Mapping[str, type[Any]]] = {
    "hello": Hello,
    "welcome": Welcome,
    "ready": Ready,
    "go": Go,
    "report": Report,
    "again": Again,
}
_PLAIN: Final[Mapping[str, type[Any] | tuple[type[Any], ...]]] = {
    "refused": str,
    "later": str,
    "want": str,
    "documents": dict,
    "end": bool,
    "over": (dict, type(None)),
    "stopping": int,
}


class NotUnderstood(Exception):
    """A message that is none of these."""


def heard(message: Mapping[str, Any]) -> tuple[str, Any]:
    """Its kind, and the content as that type. Raises NotUnderstood."""
    if len(message) != 1:
        raise NotUnderstood(f"a message of {len(message)} parts")
    ((kind, value),) = message.items()
    try:
        if kind in _KINDS:
            content = dataclass_from(_KINDS[kind], value)
            if isinstance(content, Report | Again) and content.account is not None:
                _check_error(content.account.error)
            return kind, content
        if isinstance(value, _PLAIN[kind]):
            return kind, value
    except (TypeError, LookupError, ValueError) as error:
        raise NotUnderstood(f"{kind[:20]!r}: {error}") from error
    raise NotUnderstood(f"{kind[:20]!r}: {type(value).__name__}")


def _check_error(document: Mapping[str, Any] | None) -> None:
    """It is raised here later. Raises LookupError, TypeError or ValueError for what is no error."""
    if document is not None:
        from_document({key: document[key] for key in ErrorDocument.__annotations__})


def said(kind: str, content: Any) -> dict[str, Any]:
    """A message, without what an account has too much of."""
    if isinstance(content, Report | Again) and content.account is not None:
        document = asdict(type(content)(**{**vars(content), "account": None}))
        return {kind: {**document, "account": _account(content.account)}}
    return {kind: asdict(content) if kind in _KINDS else content}


def _account(account: Account) -> dict[str, Any]:
    death = account.death
    kept: dict[str, Any] = {name: getattr(death, name) for name in _SENT}
    kept["stderr"] = death.stderr[-_LONGEST_STDERR:]
    kept["faulthandler"] = death.faulthandler[:_LONGEST_STACKS]
    kept["flight"] = None if death.flight is None else asdict(death.flight)
    found = {"death": kept, "finding": asdict(account.finding)}
    return {**found, "error": account.error, "told": account.told}


def error_of(account: Account | None) -> ErrorDocument | None:
    found: Any = None if account is None else account.error
    document: ErrorDocument | None = found
    return document
