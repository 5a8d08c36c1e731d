"""Pages from templates: whatever they show is escaped, and they stay below a size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_BYTES: Final = 480_000
_SHARED: Final = Path(__file__).parent / "templates"


def render(template: Path, versions: Iterable[Mapping[str, Any]]) -> bytes:
    """The first version of the page that is small enough, or the last; each is given by its values."""
    made = _environment(template.parent).get_template(template.name)
    page = b""
    for values in versions:
        page = made.render(values).encode(errors="replace")
        if len(page) < MOST_BYTES:
            break
    return page


@cache
def _environment(folder: Path) -> Environment:
    """Of templates in that folder; it keeps them compiled."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # not before there is a page

    environment = Environment(
        loader=FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(cut=cut, printable=printable)
    return environment


def cut(text: str, longest: int) -> str:
    """What comes from outside is not longer than the page can take."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable(text: str) -> str:
    """Without what does something to a reader: control characters, half characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
