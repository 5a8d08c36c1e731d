"""The one way of text to people: strings of others are escaped, our own styles are added after that.

Names, messages and files of others may hold control sequences, which a terminal would obey: they
change its title, clear it, or show other words than are there.
"""

from __future__ import annotations

import math
import os
import re
import sys
import textwrap
from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TextIO

_CODES: Final = {
    "bold": "1",
    "dim": "2",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "cyan": "36",
}
# Control characters (C0 without newline and tab, DEL, C1), lone surrogates, characters that reorder
# or hide others, line separators. The joiners U+200C and U+200D stay: some scripts need them.
_OBEYED: Final = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e"
    r"\u2060-\u206f\ud800-\udfff\ufeff\ufff9-\ufffb\U000e0000-\U000e007f]"
)
_COLOURS: Final = re.compile(r"\x1b\[[0-9;]*m")
_BREAKS: Final = str.maketrans({"\n": "\\n", "\t": "\\t"})
_C_LOCALES: Final = ("C", "POSIX")


class Part(NamedTuple):
    """A piece of text with styles: names of `_CODES`, separated by spaces; empty: plain."""

    text: str
    style: str = ""


Line = tuple[Part, ...]
Text = str | Part | Line


def visible(text: str) -> str:
    """The text without what a terminal or a browser would obey; newlines and tabs stay.

    >>> print(visible("a\\x1b]0;T\\x07b\\u202ec"))
    a\\x1b]0;T\\x07b\\u202ec
    """
    return _OBEYED.sub(_escaped, text)


def without_colours(text: str) -> str:
    """The text without sequences that only colour it, as libraries write them into messages."""
    return _COLOURS.sub("", text)


def one_line(text: str) -> str:
    """`visible` on one line: a name with a newline must not look like a message of ours."""
    return visible(text).translate(_BREAKS)


def one_short_line(text: str, longest: int) -> str:
    line = one_line(text)
    return line if len(line) <= longest else f"{line[: longest - 3]}..."


def visible_json(document: str) -> str:
    """A JSON document (made with `ensure_ascii=False`) that is also safe to show: `\\u009b`."""
    return _OBEYED.sub(_json_escaped, document)


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    if code == 0x0D:
        return "\\r"
    if 0xDC80 <= code <= 0xDCFF:  # a byte of a file name that is no UTF-8
        return f"\\x{code - 0xDC00:02x}"
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def _json_escaped(match: re.Match[str]) -> str:
    units = match[0].encode("utf-16-be", "surrogatepass")
    return "".join(
        f"\\u{int.from_bytes(units[at : at + 2], 'big'):04x}" for at in range(0, len(units), 2)
    )


def painted(text: Text, *, colour: bool) -> str:
    """Escaped, with our styles if `colour`."""
    return "".join(_painted(part, colour) for part in _parts(text))


def _parts(text: Text) -> Line:
    if isinstance(text, str):
        return (Part(text),)
    return (text,) if isinstance(text, Part) else text


def _painted(part: Part, colour: bool) -> str:
    text = visible(part.text)
    if not colour or not part.style or not text.strip():
        return text
    codes = ";".join(_CODES[style] for style in part.style.split())
    return f"\x1b[{codes}m{text}\x1b[0m"


def line_of(*pieces: str | Part) -> Line:
    return tuple(piece if isinstance(piece, Part) else Part(piece) for piece in pieces)


def wrapped(text: str, width: int, *, hang: int = 0, fold: bool = False) -> list[str]:
    """Lines of `text`, broken between words, of at most `width`; `hang`: indent of all but the
    first.

    Paths and other long words stay whole, so that they can be copied; with `fold` they are cut, so
    that nothing is lost on a terminal that would cut.
    """
    return textwrap.wrap(
        text,
        width,
        subsequent_indent=" " * hang,
        break_long_words=fold,
        break_on_hyphens=False,
    )


def echo(text: Text = "", *, err: bool = False, begin: str = "", end: str = "\n") -> None:
    """Writes to standard output or error; nothing if that is closed. Raises OSError.

    `begin` and `end` are ours: they may move the cursor of a terminal.
    """
    stream = sys.stderr if err else sys.stdout
    if stream is None:  # closed before the process began, as by >&-
        return
    shown = painted(text, colour=wants_colour(is_terminal(stream)))
    stream.write(begin + _encodable(shown, stream) + end)
    stream.flush()


def _encodable(text: str, stream: TextIO) -> str:
    # A locale without a character must not end a command.
    encoding = getattr(stream, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def wants_colour(on_terminal: bool, environ: Mapping[str, str] = os.environ) -> bool:
    """NO_COLOR and FORCE_COLOR decide, if set; else whether it is a terminal that knows colours."""
    return not environ.get("NO_COLOR") and (
        environ.get("FORCE_COLOR", "0") not in ("", "0")
        or (on_terminal and environ.get("TERM", "dumb") not in ("", "dumb"))
    )


def is_terminal(stream: TextIO | None) -> bool:
    return stream is not None and not stream.closed and stream.isatty()


def wants_unicode(stream: TextIO, environ: Mapping[str, str] | None = None) -> bool:
    """Whether bars may be drawn with characters outside ASCII."""
    environ = os.environ if environ is None else environ
    names = (environ.get(name) for name in ("LC_ALL", "LC_CTYPE", "LANG"))
    # Python writes UTF-8 in the C locale (PEP 540), but the user said that the terminal does not.
    if next(filter(None, names), "") in _C_LOCALES:
        return False
    return "utf" in (getattr(stream, "encoding", None) or "ascii").lower()


def joined(lines: Iterable[Line]) -> Line:
    """Lines as one text, separated by newlines."""
    parts: list[Part] = []
    for number, line in enumerate(lines):
        parts += [Part("\n"), *line] if number else line
    return tuple(parts)


# --- what the commands print ----------------------------------------------------------------------


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
    if isinstance(value, os.PathLike):  # pathlib itself costs `ttf --help` a millisecond
        return str(value)
    if hasattr(value, "tolist"):  # numpy and torch, scalars and arrays alike
        return plain(value.tolist())
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")
