"""Text of others on its way to a terminal: nothing in it is obeyed, nothing of it is lost."""

from __future__ import annotations

import ast
import doctest
import io
import json
import re
import sys
import unicodedata
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from ttf.text import shell, terminal
from ttf.text.terminal import Part, echo, one_line, painted, visible, visible_json

CORE = Path(__file__).parents[3] / "core" / "ttf"
HOSTILE = "a\x1b]0;T\x07\x9b2J\r\u202eb\u2066\x7f\udcff\U000e0041c"


def test_examples_in_the_docstrings_are_true() -> None:
    for module in (terminal, shell):
        assert doctest.testmod(module).failed == 0


def test_every_control_character_is_shown_as_its_escape() -> None:
    assert visible(HOSTILE) == ("a\\x1b]0;T\\x07\\x9b2J\\r\\u202eb\\u2066\\x7f\\xff\\U000e0041c")
    assert visible("two\nlines\tand a joiner \u200d stay") == (
        "two\nlines\tand a joiner \u200d stay"
    )
    assert one_line("a\nerror: b\tc") == "a\\nerror: b\\tc"


@given(st.text())
def test_no_character_that_a_terminal_obeys_passes(text: str) -> None:
    shown = visible(text)
    for character in shown:
        assert character in "\n\t" or unicodedata.category(character) not in (
            "Cc",
            "Cs",
            "Zl",
            "Zp",
        )
        assert unicodedata.bidirectional(character) not in (
            *("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"),
        )
    assert "\n" not in one_line(text)


@given(st.text(alphabet=st.characters(exclude_categories=())))
def test_a_json_document_keeps_its_meaning(text: str) -> None:
    shown = visible_json(json.dumps({text: text}, ensure_ascii=False, indent=2))
    assert visible(shown) == shown
    assert json.loads(shown) == {text: text}


def test_styles_are_ours_alone() -> None:
    line = (Part(HOSTILE, "bold red"), Part("\x1b[31m plain"))
    assert painted(line, colour=True) == (f"\x1b[1;31m{visible(HOSTILE)}\x1b[0m\\x1b[31m plain")
    assert painted(line, colour=False) == visible(f"{HOSTILE}\x1b[31m plain")


@pytest.mark.parametrize(
    ("environ", "on_terminal", "wanted"),
    [
        ({"TERM": "xterm"}, True, True),
        ({"TERM": "xterm"}, False, False),
        ({"TERM": "dumb"}, True, False),
        ({}, True, False),
        ({"FORCE_COLOR": "1"}, False, True),
        ({"FORCE_COLOR": "0", "TERM": "xterm"}, False, False),
        ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, True, False),
        ({"TERM": "xterm", "NO_COLOR": ""}, True, True),
    ],
)
def test_no_color_and_force_color_decide_before_the_terminal(
    environ: dict[str, str], on_terminal: bool, wanted: bool
) -> None:
    assert terminal.wants_colour(on_terminal, environ) is wanted


@pytest.mark.parametrize(
    ("environ", "encoding", "wanted"),
    [
        ({"LANG": "en_US.UTF-8"}, "utf-8", True),
        ({"LC_ALL": "C", "LANG": "en_US.UTF-8"}, "utf-8", False),
        ({"LC_ALL": "", "LANG": "POSIX"}, "utf-8", False),
        ({"LC_CTYPE": "C.UTF-8"}, "utf-8", True),
        ({}, "utf-8", True),
        ({"LANG": "de_DE"}, "iso-8859-1", False),
    ],
)
def test_bars_are_ascii_where_the_locale_is(
    environ: dict[str, str], encoding: str, wanted: bool
) -> None:
    stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    assert terminal.wants_unicode(stream, environ) is wanted


def test_an_encoding_without_a_character_ends_no_command(monkeypatch: pytest.MonkeyPatch) -> None:
    raw = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(raw, encoding="ascii"))
    echo("h\u00e9")
    assert raw.getvalue() == b"h\\xe9\n"


def test_closed_streams_get_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    echo("x", err=True)


# --- the door is the only one ----------------------------------------------------------------------

# Programs of their own (a bundle's scripts), a child's standard error (a file), and bytes that are
# passed on as they come.
ELSEWHERE = {
    "process/lifeline.py": "a child's standard error, which the parent keeps",
    "tools/report/bundle/scripts": "programs that are sent to others; they do not import ttf",
    "tools/plugins/scaffold/templates": "packages of others",
}
WRITES = {
    "print",
    "click.echo",
    "click.secho",
    "click.style",
    "sys.stdout.write",
    "sys.stderr.write",
}


def _calls(tree: ast.Module) -> Iterator[tuple[int, str]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call):
            yield node.lineno, ast.unparse(node.func)


def test_only_the_door_writes_to_the_terminal() -> None:
    offenders = [
        f"{path.relative_to(CORE)}:{line} {name}"
        for path in CORE.rglob("*.py")
        if not path.relative_to(CORE).as_posix().startswith(tuple(ELSEWHERE))
        for line, name in _calls(ast.parse(path.read_text()))
        if name in WRITES
    ]
    assert not offenders, f"use ttf.text.terminal.echo, or say and show: {offenders}"


def test_only_the_door_has_colours() -> None:
    sgr = re.compile(r"\\(?:x1b|033|u001b)\[[^\"']*m")
    offenders = [
        str(path.relative_to(CORE))
        for path in CORE.rglob("*.py")
        if path.name != "terminal.py" and sgr.search(path.read_text())
    ]
    assert not offenders
