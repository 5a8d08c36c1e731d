"""An error as JSON, to send it to another process and raise it there."""

from __future__ import annotations

import json
import traceback
from collections.abc import Mapping
from typing import Any, TypedDict

from ttf import errors
from ttf.errors import ExitCode, Told, TtfError

# `known`: it is an error of ttf, and `fields` are its attributes.
ErrorDocument = TypedDict(
    "ErrorDocument",
    {
        "class": str,
        "message": str,
        "known": bool,
        "exit_code": int,
        "hint": str,
        "fields": dict[str, Any],
        "traceback": str,
    },
)


def to_document(error: BaseException) -> ErrorDocument:
    """Returns what `from_document` needs, and the traceback for the incident."""
    document: ErrorDocument = {
        "class": type(error).__name__,
        "message": str(error),
        "known": isinstance(error, Told),
        "exit_code": int(ExitCode.OUR_FAULT),
        "hint": "",
        "fields": {},
        "traceback": "".join(traceback.format_exception(error)),
    }
    if isinstance(error, Told):
        document["exit_code"] = int(error.exit_code)
        document["hint"] = error.hint
        document["fields"] = _plain_fields(error)
    return document


def from_document(document: Mapping[str, Any]) -> Told:
    """Returns the error with its own class. A class unknown to this process becomes TtfError. Raises
    LookupError, TypeError or ValueError for what is no such document."""
    message, hint, fields = (
        str(document["message"]),
        str(document["hint"]),
        dict(document["fields"]),
    )
    kind: Any = getattr(errors, str(document["class"]), None)
    if not (isinstance(kind, type) and issubclass(kind, Told)):
        kind = TtfError
    # Past __init__, whose arguments differ from class to class: what it made of them is in fields.
    error: Told = kind.__new__(kind, message)
    error.args = (message,)
    error.__dict__.update(fields)
    error.hint = hint
    error.details = dict(fields.get("details", {}))
    error.exit_code = ExitCode(document["exit_code"])
    return error


def _plain_fields(error: Told) -> dict[str, Any]:
    fields = {}
    for name, value in vars(error).items():
        try:
            fields[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            fields[name] = str(value)
    return fields
