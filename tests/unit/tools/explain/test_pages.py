"""Every class has a page that is whole, true to the table, and linked from docs/crashes/."""

from __future__ import annotations

import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from ttf.errors import UnknownName
from ttf.incidents import error_texts
from ttf.incidents.classes import CLASSES
from ttf.incidents.rule import EXIT
from ttf.incidents.rules import RULES
from ttf.tools.explain import evidence, pages

ROOT = Path(__file__).parents[4]
FACTS = ROOT.parent / "shared/FACTS/reliability.md"
OTHER_NAMES = {
    # shown by the page under another line: the pattern of one rule, the class of another
    error_texts.UNCAUGHT_BAD_ALLOC: "std::bad_alloc",
}


@pytest.mark.parametrize("name", CLASSES)
def test_a_page_has_all_its_sections_and_a_readable_length(name: str) -> None:
    page = pages.page(name)
    assert tuple(page.sections) == pages.SECTIONS
    assert all(len(body) > 40 for body in page.sections.values())
    assert page.summary.endswith(".") and len(page.summary) < 130 and "\n" not in page.summary
    lines = page.markdown.splitlines()
    assert 40 <= len(lines) <= 90, len(lines)
    assert max(map(len, lines)) <= 112
    assert page.markdown.isascii()
    todo = page.sections["What to do"]
    for way in ("**In a run of `ttf`**", "**In your own script", "**Under `ttf guard"):
        assert way in todo, way
    assert page.sections["Symptom"].count("```") == 2


@pytest.mark.parametrize("name", CLASSES)
def test_a_page_names_every_signal_that_its_rules_use(name: str) -> None:
    page = pages.page(name)
    for signal in evidence.signals_of(name):
        assert signal in page.sections["How ttf knows"], signal


@pytest.mark.parametrize("name", CLASSES)
def test_a_symptom_shows_a_line_that_each_rule_would_find(name: str) -> None:
    """The very patterns of the table, on the lines that a page shows to a person."""
    symptom = pages.page(name).sections["Symptom"]
    for rule in RULES:
        if rule.name == name and rule.when.text:
            assert re.search(rule.when.text, symptom, re.MULTILINE), rule.when.text


def test_every_row_of_the_table_stands_on_one_page() -> None:
    for name in CLASSES:
        knows = " ".join(pages.page(name).sections["How ttf knows"].split())
        rules = [rule for rule in RULES if rule.name == name]
        rows = evidence.rows(name)
        assert rules and len(rows) == len(rules)
        for row, rule in zip(rows, rules, strict=True):
            assert " ".join(row.split()) in knows
            assert ("certain" in row) == rule.certain
            assert (f"exit code {rule.ends_with}" in row) or rule.ends_with is None
            if EXIT in rule.when.signals:
                assert "exit code" in row


def test_what_a_class_does_and_what_avoids_it_are_those_of_the_table_of_classes() -> None:
    for name, about in CLASSES.items():
        todo = " ".join(pages.page(name).sections["What to do"].split())
        assert " ".join(about.does.split()) in todo
        assert " ".join(about.remedy.split()) in todo


def test_nobody_is_told_to_silence_the_check_for_two_runtimes() -> None:
    for name in CLASSES:
        text = pages.page(name).markdown
        assert not re.search(r"KMP_DUPLICATE_LIB_OK\s*=", text), name
        for line in text.split("\n\n"):
            if "KMP_DUPLICATE_LIB_OK" in line:
                assert "silences" in line, name


def test_only_issues_that_were_read_are_cited() -> None:
    if not FACTS.is_file():
        pytest.skip("the notes are not beside the project")
    known = set(re.findall(r"\d{2,6}", FACTS.read_text()))
    for name in CLASSES:
        cited = re.findall(r"(?<!Error )#(\d+)", pages.page(name).sections["Sources"])
        assert set(cited) <= known, f"{name}: {set(cited) - known}"


@pytest.mark.parametrize("name", CLASSES)
def test_commands_that_a_page_names_exist(name: str) -> None:
    """Flags of ours, as far as the commands are here."""
    from ttf import cli

    text = pages.page(name).markdown
    for words_ in re.findall(r"`ttf ([a-z]+)\b", text):
        assert words_ in {*cli.COMMANDS, "guard", "bisect", "report", "ab"}, words_
    for key in re.findall(r"--set ([a-z_.]+)=", text):
        section, _, field = key.partition(".")
        assert _default(section, field) is not None, key


def _default(section: str, field: str) -> Any:
    from ttf.config.resolve import resolve

    return getattr(getattr(resolve(plugins=False).config, section), field)


def test_the_list_of_pages_is_up_to_date() -> None:
    page = ROOT / "docs/crashes/README.md"
    made = runpy.run_path(str(ROOT / "docs/make_crashes.py"))["page"]()
    assert page.read_text() == made, "run: make docs (docs/make_crashes.py)"
    for link in re.findall(r"\]\(([^)#]+\.md)[)#]", made):
        assert (page.parent / link).is_file(), link


def test_every_page_is_in_the_folder_that_is_packaged_and_no_other() -> None:
    folder = Path(pages.__file__).parent
    assert {path.stem for path in folder.glob("*.md")} == set(CLASSES)


def test_a_misspelt_class_is_offered_the_closest() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'segfault'"):
        pages.page("segfaul")


@pytest.mark.parametrize(
    ("ending", "classes"),
    [
        ("139", ["segfault"]),
        ("-11", ["segfault"]),
        ("SIGBUS", ["bus-error"]),
        ("ill", ["illegal-instruction"]),
        ("137", ["oom-kill", "killed"]),
        ("0", ["vanished"]),
        ("120", ["killed"]),
        ("SIGUSR2", ["killed"]),
    ],
)
def test_an_ending_leads_to_its_classes(ending: str, classes: list[str]) -> None:
    found = pages.classes_of_ending(ending)
    assert found is not None
    assert [name for name in found if name in classes] == classes
    assert len(found) <= len(classes) + 2


def test_an_exit_code_of_the_programs_own_may_be_many_things() -> None:
    found = pages.classes_of_ending("1") or []
    assert {"python-error", "alloc-failure", "disk-full", "unknown"} <= set(found)
    assert "segfault-like" not in found and "vanished" not in found and "memory-limit" not in found


@pytest.mark.parametrize("text", ["", "segfault", "999", "-999", "sig", "1.5"])
def test_what_is_no_ending_is_not_taken_for_one(text: str) -> None:
    assert pages.classes_of_ending(text) is None
