"""What a supervisor and its trainer say to each other, as JSON on two pipes: one key each.

Beside the request, because both ends are: the supervisor above `training/`, the trainer in it.
"""

from __future__ import annotations

from typing import Any, Literal, TypedDict, final

from ttf.process.error_document import ErrorDocument
from ttf.rundir.documents import Summary

# --- to the trainer -------------------------------------------------------------------------------


@final
class Request(TypedDict):
    """The first one: see `TrainRequest.to_json`."""

    request: dict[str, Any]


@final
class Stop(TypedDict):
    """Save at the next step and end, as at this signal."""

    stop: int


@final
class Shed(TypedDict):
    """Memory is short: give back what can be made anew."""

    shed: Literal[True]


@final
class Leave(TypedDict):
    """Memory is short: save and end; a fresh process goes on."""

    leave: Literal[True]


@final
class Say(TypedDict):
    """A line for the screen, which the trainer has."""

    say: str


ToTrainer = Request | Stop | Shed | Leave | Say

# --- from the trainer -----------------------------------------------------------------------------


@final
class Configured(TypedDict):
    """As soon as the configuration is known, and again when every "auto" is settled."""

    configured: dict[str, Any]
    """By dotted key."""
    inputs: list[str]
    """Files that the run reads."""


@final
class Checkpointed(TypedDict):
    """A checkpoint of this step is durable."""

    checkpointed: int


class TrainerEnd(TypedDict, total=False):
    """One of them."""

    summary: Summary
    error: ErrorDocument
    left: Literal["memory"]


@final
class End(TypedDict):
    """The last one."""

    end: TrainerEnd


FromTrainer = Configured | Checkpointed | End
