"""Settings of the site that `make docs` builds with Sphinx into build/site.

The source folder is the whole tree, so that a relative link means the same here and on a code forge.
Pages are plain Markdown: what a README.md of a folder lists is the table of contents of that folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

from docutils import nodes

from ttf import __version__

project = "ttf"
author = "the authors of ttf"
copyright = "2026, the authors of ttf; Apache-2.0"
version = release = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.intersphinx", "sphinx_copybutton"]
root_doc = "docs/README"
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
    "changes/README.md",
    "docs/**",
    "core/ttf/tools/explain/*.md",
    "examples/*/README.md",
]
exclude_patterns = [".*", "build", "runs", "dist", "tests", "benchmarks", "**/__pycache__"]
suppress_warnings = ["myst.header"]  # reports of studies begin their tables at the third level
intersphinx_mapping: dict[str, Any] = {}  # nothing is fetched; ours is objects.inv

myst_heading_anchors = 4
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "mixed"
default_role = "code"  # docstrings are written as in Markdown
python_maximum_signature_line_length = 80
copybutton_prompt_text = "$ "

smartquotes = False  # values are quoted as one types them

html_theme = "furo"
html_title = "ttf"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_copy_source = False
html_show_sphinx = False
html_theme_options = {"navigation_with_keys": True}

_LINK = re.compile(r"\[([^\]]+)\]\(([^)\s#:]+\.(?:md|rst))(?:#[^)]*)?\)")


def _contents(app: Any, docname: str, source: list[str]) -> None:
    """Gives the README of a folder a table of contents: the pages that it lists, in its order."""
    if not docname.endswith("/README") or docname.startswith("examples/"):
        return
    lines = (line for line in source[0].splitlines() if re.match(r"\s*[-|*\d]", line))
    mine = {
        page: title
        for page, title in reversed([*_pages(docname, "\n".join(lines))])
        if page in app.env.found_docs and _owner(page, docname)
    }
    named = docname.startswith(_PARTS) or docname == root_doc  # what the link says, in the sidebar
    entries = [f"{title} </{page}>" if named else f"/{page}" for page, title in mine.items()]
    if entries:
        listed = "\n".join(reversed(entries))
        source[0] += f"\n```{{toctree}}\n:hidden:\n\n{listed}\n```\n"


def _pages(docname: str, text: str) -> Iterator[tuple[str, str]]:
    folder = PurePosixPath(docname).parent
    for title, target in _LINK.findall(text):
        plain = title.replace("`", "").replace("*", "")
        yield os.path.normpath(folder / target).rpartition(".")[0], plain[:1].upper() + plain[1:]


_PARTS = ("docs/tutorial", "docs/how-to", "docs/reference", "docs/explanation")


def _owner(page: str, index: str) -> bool:
    """Whether `index` is where the page stands in the table of contents: the front page holds only
    the four parts and what belongs to none."""
    if index == root_doc:
        return page in {
            *(f"{part}/README" for part in _PARTS),
            "README",
            "CONTRIBUTING",
            "CHANGELOG",
            "changes/README",
        }
    if index.startswith(_PARTS):
        return page != root_doc and not (page.endswith("/README") and page.startswith(_PARTS))
    folder = index.rpartition("/")[0]
    return page.startswith((f"{folder}/", "core/ttf/tools/explain/"))


def _finish(app: Any, exception: Exception | None) -> None:
    """Writes the first page's address and, since nothing outside is asked for, a list of links."""
    if exception is not None or app.builder.format != "html":
        return
    out = Path(app.outdir)
    front = f'<!doctype html><meta http-equiv="refresh" content="0; url={root_doc}.html">'
    out.joinpath("index.html").write_text(f'{front}<a href="{root_doc}.html">ttf</a>\n')
    outside: dict[str, set[str]] = {}
    for name in sorted(app.env.found_docs):
        for link in app.env.get_doctree(name).findall(nodes.reference):
            if "://" in link.get("refuri", ""):
                outside.setdefault(link["refuri"], set()).add(name)
    listed = "".join(
        f"{uri}  {' '.join(sorted(names))}\n" for uri, names in sorted(outside.items())
    )
    out.joinpath("external-links.txt").write_text(listed)
    print(
        f"{len(app.env.found_docs)} pages; {len(outside)} links leave the site: external-links.txt"
    )


def _no_signature(
    app: Any, what: str, name: str, found: Any, *given: Any
) -> tuple[str, None] | None:
    """Nobody makes an object of a protocol: its class has no signature to show."""
    return ("", None) if what == "class" and getattr(found, "_is_protocol", False) else None


def setup(app: Any) -> dict[str, bool]:
    """Called by Sphinx."""
    app.connect("source-read", _contents)
    app.connect("autodoc-process-signature", _no_signature)
    app.connect("build-finished", _finish)
    return {"parallel_read_safe": True}
