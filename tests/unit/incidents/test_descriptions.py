"""What the page and the descriptions say agrees with the tables."""

from __future__ import annotations

from tests.unit.incidents.test_table import CONTRACT, DOCS

from ttf.incidents.classes import CLASSES, table
from ttf.incidents.remedies import ADVICE, RECIPES
from ttf.incidents.rules import RULES


def test_the_page_has_the_table() -> None:
    assert table() in DOCS.read_text(), "put the output of ttf.incidents.classes.table() there"


def test_the_descriptions_agree_with_the_tables() -> None:
    assert list(CLASSES) == CONTRACT
    for name, about in CLASSES.items():
        rules = [rule for rule in RULES if rule.name == name]
        for code in {rule.ends_with for rule in rules if rule.ends_with} - {
            8 if name == "killed" else 0
        }:
            assert f"exit code {int(code)}" in about.does, name
        at_once = name in RECIPES and any(
            (r.certain or r.at_once) and r.ends_with is None for r in rules
        )
        assert ("after the first crash" in about.does) == at_once, name
        assert ("with a remedy" in about.does) <= (name in RECIPES), name
    assert RECIPES.keys() <= CLASSES.keys() and ADVICE.keys() <= CLASSES.keys()
