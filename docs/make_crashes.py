"""Writes docs/crashes/README.md, which links to the pages of `ttf explain`: `make docs`."""

from __future__ import annotations

from pathlib import Path

from ttf.tools.explain import pages

PAGE = Path(__file__).parent / "crashes" / "README.md"
_HEAD = """# Why did it die?

A page per incident class: the symptom, what it means, how `ttf` knows, what it is often mistaken for,
what to do, and where it is known from. `ttf explain CLASS` prints the same page, and adds the rows of the
table of causes that lead to it; `ttf explain 139` says what an exit code may mean, `ttf explain
runs/run-001` what happened in a run. The table of all classes: [incidents](../incidents.md).

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
