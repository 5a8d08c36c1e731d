"""The end of the other nodes: finds node 0, does what it gives, and looks for it again if it is lost."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

from ttf.errors import BadData, ConfigError, PeerLost, TtfError
from ttf.process.error_document import from_document
from ttf.process.line import Line, LineLost, connected
from ttf.text.terminal import echo, is_terminal, say
from ttf.tools.tickets.desk import BEAT, BEAT_S, PROTOCOL, SILENT_S
from ttf.tools.tickets.place import Place

_CONNECT_S: Final = 2.0
_ANSWER_S: Final = 30.0
_TRY_EVERY_S: Final = 0.5
_LOOK_EVERY_S: Final = 0.05
# Each takes one sentence, and its exit code says whose fault it is.
_REFUSALS: Final = {kind.__name__: kind for kind in (BadData, ConfigError)}


class Hand(Protocol):
    """Does the work of tickets, in processes of its own, and never waits for it."""

    def hello(self) -> Mapping[str, Any]:
        """What this host is, and what it holds of tickets from before."""

    def welcomed(self, welcome: Mapping[str, Any]) -> None:
        """What was not confirmed is said again, unless node 0 says otherwise."""

    def heard(self, message: Mapping[str, Any]) -> None: ...

    def look(self) -> None:
        """Moves the work on; called many times a second, with and without a connection."""

    def to_say(self) -> Iterable[Mapping[str, Any]]:
        """What is new for node 0."""


def follow(place: Place, hand: Hand) -> Mapping[str, Any]:
    """Works until node 0 says that the whole is over; returns its last words.

    Raises PeerLost if node 0 is away for longer than the patience, and what node 0 refused.
    """
    met_before = False
    while True:
        line, welcome = _met(place, hand, met_before=met_before)
        say(f"Works for node 0 ({place.address}) as {welcome['welcome']}.")
        met_before = True
        try:
            return _served(line, hand, welcome)
        except LineLost as error:
            say(f"The connection to node 0 is lost ({error}); what runs here goes on.")
        finally:
            line.close()


def _served(line: Line, hand: Hand, welcome: Mapping[str, Any]) -> Mapping[str, Any]:
    hand.welcomed(welcome)
    said_at = heard_at = time.monotonic()
    while True:
        # Before more is read: the last words may be here already, and the connection closed.
        while (found := line.next_message()) is not None:
            heard_at = time.monotonic()
            if "over" in found:
                return found
            if found != BEAT:
                hand.heard(found)
        hand.look()
        for message in hand.to_say():
            line.send(message)
            said_at = time.monotonic()
        if time.monotonic() - said_at >= BEAT_S:
            line.send(BEAT)
            said_at = time.monotonic()
        line.connection.settimeout(_LOOK_EVERY_S)
        line.take()
        if time.monotonic() - heard_at > SILENT_S:
            raise LineLost(f"no sign of life for {SILENT_S:.0f} s")


# --- finding node 0 ------------------------------------------------------------------------------


def _met(place: Place, hand: Hand, *, met_before: bool) -> tuple[Line, Mapping[str, Any]]:
    with _Waiting(place) as waiting:
        while True:
            line, why = _tried(place, hand)
            if line is not None:
                return line
            waiting.still(why)
            if waiting.lasted_s > place.patience_s:
                raise PeerLost(
                    f"Node 0 ({place.address}) does not answer since {waiting.lasted_s:.0f} s: {why}.",
                    hint="Is its command running? Start it again there, and this one again here. "
                    "--patience TIME waits longer."
                    if met_before
                    else "Start the same command on node 0, with the same --rendezvous; is a "
                    "firewall in between?",
                )
            hand.look()
            time.sleep(_TRY_EVERY_S)


def _tried(place: Place, hand: Hand) -> tuple[tuple[Line, Mapping[str, Any]] | None, str]:
    """The line and the welcome, or None and why not. Raises what node 0 refused."""
    try:
        line = connected((place.host, place.port), _CONNECT_S)
    except OSError as error:
        return None, error.strerror or str(error)
    try:
        line.send({"hello": PROTOCOL, **hand.hello()})
        answer = line.receive(_ANSWER_S)
        while answer == BEAT:
            answer = line.receive(_ANSWER_S)
        if "later" in answer:
            raise LineLost(str(answer["later"]))
        if "welcome" in answer:
            return (line, answer), ""
    except LineLost as error:
        line.close()
        return None, str(error)
    line.close()
    raise _refused(answer.get("refused"))


def _refused(said: object) -> TtfError:
    if not isinstance(said, Mapping):
        return ConfigError(
            f"Node 0 refuses this host: {said}.",
            hint="Is it the same version of ttf, and the right port?",
        )
    kind = str(said.get("class"))
    document = {
        "class": kind if kind in _REFUSALS else "ConfigError",
        "message": str(said.get("message")),
        "hint": str(said.get("hint", "")),
        "exit_code": int(_REFUSALS.get(kind, ConfigError).exit_code),
        "fields": {},
    }
    error = from_document(document)
    assert isinstance(error, TtfError)
    if isinstance(error, ConfigError):
        error.problems = ()  # they are in the message
    return error


class _Waiting(contextlib.AbstractContextManager["_Waiting"]):
    """One line on a terminal, which renews itself; elsewhere one line."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._began = time.monotonic()
        self._live = is_terminal(sys.stderr)
        self._shown = False

    @property
    def lasted_s(self) -> float:
        return time.monotonic() - self._began

    def still(self, why: str) -> None:
        text = f"Waits for node 0 ({self._place.address}): {why}"
        if self._live:
            left = max(0.0, self._place.patience_s - self.lasted_s)
            echo(f"{text}; {left:.0f} s left", err=True, begin="\r\x1b[K", end="")
        elif not self._shown:
            echo(f"{text}.", err=True)
        self._shown = True

    def __exit__(self, *of_error: object) -> None:
        if self._live and self._shown:
            echo(err=True, begin="\r\x1b[K", end="")
