"""Writes docs/crashes/README.md, which links to the pages of `ttf explain`: `make docs`."""

from __future__ import annotations

from pathlib import Path

from ttf.tools.explain import pages

PAGE = Path(__file__).parent / "crashes" / "README.md"
_HEAD = """# Why did it die?

Each class of incident has a page: the symptom, the meaning, how `ttf` detects the class, what it is often
mistaken for, what to do, and the sources. `ttf explain CLASS` prints the same page and adds the matching rows
of the table of causes. `ttf explain 139` lists the possible classes of an exit code; `ttf explain runs/run-001`
shows the newest incident of a run. To have these commands beside an environment of your own, without torch:
`pip install twotower-guard` ([guard](../guard.md#beside-your-own-environment)). The table of all classes: [incidents](../incidents.md). Terms:
[glossary](../glossary.md).

| class | in a sentence |
|---|---|
"""
_FOLDER = "../../core/ttf/tools/explain"


def page() -> str:
    """The whole file."""
    rows = ((name, pages.page(name).summary) for name in pages.names())
    return _HEAD + "".join(f"| [`{n}`]({_FOLDER}/{n}.md) | {summary} |\n" for n, summary in rows)


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
