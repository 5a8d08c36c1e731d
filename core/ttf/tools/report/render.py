"""Pages from templates: values are escaped, control characters too, and the size is limited."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.text.terminal import visible

if TYPE_CHECKING:
    from jinja2 import Environment

MOST_BYTES: Final = 480_000
# In the head of every page, also of earlier versions (their titles).
PAGE_MARKS: Final = (b'<meta name="generator" content="ttf">', b": ttf run</title>")
_SHARED: Final = Path(__file__).parent / "templates"


def render(template: Path, versions: Iterable[Mapping[str, Any]]) -> bytes:
    """The first version that is small enough, or the last; each version is given by its values."""
    made = _environment(template.parent).get_template(template.name)
    page = b""
    for values in versions:
        page = made.render(values).encode(errors="replace")
        if len(page) < MOST_BYTES:
            break
    return page


@cache
def _environment(folder: Path) -> Environment:
    # Cached: it keeps the templates compiled.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # not before there is a page

    environment = Environment(
        loader=FileSystemLoader([folder, _SHARED]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_printable,
    )
    environment.filters.update(cut=cut)
    return environment


def _printable(value: Any) -> Any:
    """Every value of every template goes through here: a page shows what a browser would obey."""
    if not isinstance(value, str):
        return value
    text = visible(value)
    return value if text == value else type(value)(text)  # Markup stays Markup


def cut(text: str, longest: int) -> str:
    return text if len(text) <= longest else f"{text[: longest - 3]}..."
