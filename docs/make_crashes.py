"""Writes docs/crashes/ from the pages of `ttf explain`: `make docs`. A test holds both equal."""

from __future__ import annotations

from pathlib import Path

from ttf.tools.explain import pages

FOLDER = Path(__file__).with_name("crashes")
HEAD = """# Why did it die?

A page per incident class: the symptom, what it means, how `ttf` knows, what it is often mistaken for,
what to do, and where it is known from. `ttf explain CLASS` prints the same, `ttf explain 139` says
what an exit code may mean, `ttf explain runs/run-001` what happened in a run. The table of all
classes: [incidents](../incidents.md).

Made from `core/ttf/crashes/` by `make docs`; do not edit by hand.

| class | in a sentence |
|---|---|
"""


def files() -> dict[str, str]:
    """The content of docs/crashes/ by file name."""
    found = {name: pages.page(name) for name in pages.names()}
    rows = "".join(f"| [`{n}`]({n}.md) | {page.summary} |\n" for n, page in found.items())
    return {"README.md": HEAD + rows} | {f"{n}.md": page.markdown for n, page in found.items()}


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.glob("*.md"):
        old.unlink()
    for name, text in files().items():
        (FOLDER / name).write_text(text, encoding="utf-8")
