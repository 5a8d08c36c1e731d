"""`ttf explain` as a person uses it: by class, by ending, by incident; on a terminal and in a pipe."""

from __future__ import annotations

import re

import pytest
from tests.conftest import Invoke

from ttf.incidents.classes import CLASSES
from ttf.text.terminal import painted
from ttf.tools.explain import pages
from ttf.tools.explain.markdown import rendered

ANSI = re.compile(r"\x1b\[[\d;]*m")


@pytest.mark.parametrize("name", CLASSES)
def test_a_class_prints_its_page_as_plain_markdown_in_a_pipe(invoke: Invoke, name: str) -> None:
    done = invoke(["explain", name])
    assert (done.code, done.err) == (0, "")
    assert done.out == pages.page(name).markdown


@pytest.mark.parametrize("width", [30, 40, 79, 200])
@pytest.mark.parametrize("name", CLASSES)
def test_a_page_fits_a_terminal_and_loses_no_word(name: str, width: int) -> None:
    markdown = pages.page(name).markdown
    page = rendered(markdown, width)
    plain, coloured = (painted(page, colour=colour) for colour in (False, True))
    assert ANSI.sub("", coloured) == plain
    inside = [line for line in plain.splitlines() if not line.startswith("    ")]
    assert max(map(len, inside)) <= width
    assert _letters(re.sub(r"```\w*|^#+ ", "", markdown, flags=re.MULTILINE)) == _letters(plain)
    for number, line in enumerate(coloured.splitlines()):
        assert not ANSI.findall(line) or ANSI.findall(line)[-1] == "\x1b[0m", number


def _letters(text: str) -> str:
    return re.sub(r"[\s`*]", "", text)


def test_without_a_class_there_is_a_line_for_each(invoke: Invoke) -> None:
    done = invoke(["explain"])
    assert done.code == 0
    lines = done.out.splitlines()
    assert [line.split()[0] for line in lines] == list(CLASSES)
    assert done.err.startswith("Next: ttf explain ")
    listed = invoke(["explain", "--json"]).json()["classes"]
    assert [entry["class"] for entry in listed] == list(CLASSES)


def test_json_has_the_sections_and_the_whole_page(invoke: Invoke) -> None:
    found = invoke(["explain", "oom-kill", "--json"]).json()
    assert list(found) == ["class", "summary", "sections", "markdown"]
    assert tuple(found["sections"]) == pages.SECTIONS
    assert found["markdown"] == pages.page("oom-kill").markdown


def test_a_typo_and_a_path_that_is_not_there_say_what_would_do(invoke: Invoke) -> None:
    typo = invoke(["explain", "oomkill"])
    assert typo.code == 2 and typo.out == "" and "Did you mean 'oom-kill'?" in typo.err
    missing = invoke(["explain", "runs/none/incidents/001"])
    assert missing.code == 3 and "runs/none/incidents/001 does not exist." in missing.err
    as_json = invoke(["explain", "oomkill", "--json"])
    assert as_json.code == 2 and as_json.json()["error"]["class"] == "UnknownName"


def test_an_exit_code_lists_what_it_may_have_been(invoke: Invoke) -> None:
    done = invoke(["explain", "137"])
    assert done.code == 0
    assert [line.split()[0] for line in done.out.splitlines()] == [
        "oom-kill",
        "killed",
        "cpu-limit",
    ]
    assert "The evidence decides" in done.err
