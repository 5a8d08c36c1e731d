"""Keys and sections explained, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ttf.config.reference import Key, Section
from ttf.text.terminal import wrapped

_LABEL = len("  default  ")


def explained(sections: Sequence[Section], width: int) -> Iterator[str]:
    for number, section in enumerate(sections):
        if number:
            yield ""
        if section.path:
            yield f"[{section.path}]"
        for paragraph in section.description.split("\n\n"):
            yield from wrapped(paragraph, width)
        for key in section.keys:
            yield ""
            yield from _key(key, width)


def _set_by(key: Key) -> str:
    if key.flag:
        return f"{key.flag}, or --set {key.path}=..."
    return (
        f"a table [[{key.path.rpartition('.')[0]}]] of run.toml"
        if key.listed
        else f"--set {key.path}=..."
    )


def _key(key: Key, width: int) -> Iterator[str]:
    yield key.path + (f"  ({key.plugin})" if key.plugin else "")
    yield from (f"  {line}" for line in wrapped(key.description, width - 2))
    facts = {
        "takes": key.takes,
        "unit": key.unit,
        "default": key.default or "none: this key is required",
        "set by": _set_by(key),
    }
    for label, text in facts.items():
        if text:
            yield from wrapped(f"  {label:<{_LABEL - 2}}{text}", width, hang=_LABEL)
