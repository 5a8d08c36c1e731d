"""The pages: what their blocks are, that their commands exist, and one of them run. All of them run with
`make docs-check`."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import click
import pytest
from tests.unit.project.test_project import ROOT

from ttf.cli import cli

FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
LIGHT = ("docs/reference/environment.md", "docs/plugins/README.md")
"""Pages whose blocks start neither torch nor a run."""
LATER = ("encode", "export", "import", "init", "--text")
"""Of issue 18, and perhaps not there yet; where a command is there, its options are looked at."""


def _tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # for its dataclasses
    spec.loader.exec_module(module)
    return module


BLOCKS = _tool("check_blocks")
PAGES = {str(page.relative_to(ROOT)): page for page in BLOCKS.pages()}


def fences(page: Path) -> Iterator[tuple[str, str]]:
    """Language and text of each fence."""
    for indent, language, text in FENCE.findall(page.read_text()):
        yield language, re.sub(rf"^{indent}", "", text, flags=re.MULTILINE)


def test_every_block_says_what_it_is() -> None:
    known = {*BLOCKS.RUN, *BLOCKS.SHOWN}
    unknown = [
        f"{name}: {language or 'no language'}: {text.partition(chr(10))[0]}"
        for name, page in PAGES.items()
        for language, text in fences(page)
        if language not in known
    ]
    assert not unknown


def test_a_block_that_is_skipped_says_why() -> None:
    silent = [
        f"{name}: {comment}"
        for name, page in PAGES.items()
        for comment in re.findall(r"<!-- skip:.*", page.read_text())
        if not re.search(r'skip: (next|start) (".{10,}"|if\(.*reason=".{10,}"\)) -->', comment)
        and "skip: end" not in comment
    ]
    assert not silent


def test_every_python_block_compiles() -> None:
    for page in PAGES.values():
        for language, text in fences(page):
            if language == "python":
                ast.parse(text)


def test_every_command_of_the_pages_exists_with_its_options() -> None:
    wrong = [
        f"{name}: {line}: {problem}"
        for name, page in PAGES.items()
        for language, text in fences(page)
        if language in ("sh", "console")
        for line in commands(language, text)
        if (problem := what_is_wrong_with(line))
    ]
    assert not wrong


def commands(language: str, text: str) -> Iterator[str]:
    """Every line that calls `ttf`."""
    for line in text.replace("\\\n", " ").splitlines():
        if language == "console" and not line.startswith("$ "):
            continue
        words = line.removeprefix("$ ").strip()
        if words.startswith("ttf "):
            yield re.split(r"\s(#|\||>)", words)[0]


def what_is_wrong_with(line: str) -> str:
    """The words as click reads them, without running anything."""
    command: click.Command = cli
    context = click.Context(cli, info_name="ttf")
    words = shlex.split(line)[1:]
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        found = command.get_command(context, words[0])
        if found is None:
            later = words[0] in LATER
            return "" if later else f"there is no command {words[0]}"
        command, words = found, words[1:]
        context = click.Context(command, info_name=command.name, parent=context)
    known = {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)}
    for word in words:
        if word == "--":
            break
        if word.startswith("--") and word.partition("=")[0] not in {*known, *LATER, "--help"}:
            return f"there is no option {word}"
    return ""


@pytest.mark.parametrize("name", LIGHT)
def test_the_blocks_of_a_page_run_as_they_stand(name: str, tmp_path: Path) -> None:
    result, printed = BLOCKS.run_in_child(ROOT / name, str(tmp_path))
    assert not result.failed, printed + result.failed
    assert result.ran


def test_what_goes_wrong_in_a_block_is_said_with_its_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BLOCKS, "ROOT", tmp_path)
    page = tmp_path / "page.md"
    page.write_text(
        "<!-- exit: 3 -->\n```sh\nexit 3\n```\n\n```sh\necho one two\n```\n<!-- shows: one; three -->\n"
    )
    result = BLOCKS.run_here(page)
    assert result.ran == 2
    assert result.failed.startswith("page.md:9: ['three'] is not in the output")


def test_the_pages_of_the_api_are_up_to_date() -> None:
    for name, text in _tool("make_api").pages().items():
        assert (ROOT / "docs" / "reference" / name).read_text() == text, "run: make docs"
