"""Output of the commands: results, messages, JSON."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ttf.text.terminal import Part, Text, echo, line_of, visible_json


def say(text: Text = "") -> None:
    """Prints a message for people on standard error."""
    echo(text, err=True)


def say_error(text: str) -> None:
    """Prints the one line that says why a command failed, on standard error."""
    say(line_of(Part("error:", "bold red"), f" {text}"))


def show(text: Text = "") -> None:
    """Prints a line of the result on standard output. Raises StorageError."""
    from ttf.errors import StorageError

    hint = "Redirect standard output to a file or a pipe that can be written."
    if sys.stdout is None:
        raise StorageError(
            "Standard output is closed, so the result could not be written.", hint=hint
        )
    try:
        echo(text)
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up_stdout()
        raise StorageError(
            f"The result could not be written to standard output: {error.strerror}.", hint=hint
        ) from error


def _give_up_stdout() -> None:
    # Neither the error message nor Python's flush at exit may fail on stdout again.
    import os

    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    finally:
        os.close(null)


def next_command(text: str) -> None:
    """Prints on standard error which command is useful next."""
    say(line_of("Next: ", Part(text, "bold")))


def emit_json(document: Any) -> None:
    """Prints the one JSON document of a command on standard output."""
    import json

    text = json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False)
    show(visible_json(text))


def show_result(document: Any, text: Text, as_json: bool) -> None:
    """Prints the result of a command as JSON or as text."""
    if as_json:
        emit_json(document)
    else:
        show(text)


def plain(value: Any) -> Any:
    """Converts dataclasses, models, paths, numpy and torch values to JSON types. NaN becomes
    null."""
    import dataclasses
    import enum

    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy and torch, scalars and arrays alike
        return plain(value.tolist())
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")
