"""Pages from templates: whatever they show is escaped, and they stay below a size."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

MOST_BYTES: Final = 480_000
_SHARED: Final = Path(__file__).parent / "templates"


def render(template: Path, versions: Iterable[Mapping[str, Any]]) -> bytes:
    """The first version of the page that is small enough, or the last; each is given by its values."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader([template.parent, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(cut=cut, printable=printable)
    page = b""
    for values in versions:
        text = environment.get_template(template.name).render(values)
        page = text.encode(errors="replace")
        if len(page) < MOST_BYTES:
            break
    return page


def cut(text: str, longest: int) -> str:
    """What comes from outside is not longer than the page can take."""
    return text if len(text) <= longest else f"{text[: longest - 3]}..."


def printable(text: str) -> str:
    """Without what does something to a reader: control characters, half characters."""
    return "".join(c if c.isprintable() or c in "\n\t" else "?" for c in text)
