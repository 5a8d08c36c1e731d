"""Puts a page together, and finds pages for an ending."""

from __future__ import annotations

import re
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from ttf.errors import UnknownName
from ttf.incidents.classes import CLASSES
from ttf.text.terminal import wrapped
from ttf.tools.explain import evidence

SECTIONS: Final = (
    "Symptom",
    "What it means",
    "How ttf knows",
    "What it is often mistaken for",
    "What to do",
    "Sources",
)
_KNOWS, _DO = "How ttf knows", "What to do"
_WIDTH: Final = 100
_SHELL: Final = 128
_LAST_CODE: Final = 255
_ROWS: Final = (
    "The rows of the table that lead to this class, in the order in which `ttf` tries them:"
)


@dataclass(frozen=True, kw_only=True)
class Page:
    name: str
    summary: str  # one sentence
    sections: dict[str, str]  # Markdown by heading, in the order of `SECTIONS`

    @property
    def markdown(self) -> str:
        parts = [f"# {self.name}", self.summary]
        for title, body in self.sections.items():
            parts.append(f"## {title}\n{body}")
        return "\n\n".join(parts) + "\n"


def names() -> tuple[str, ...]:
    return tuple(CLASSES)


def page(name: str) -> Page:
    """Raises UnknownName."""
    if name not in CLASSES:
        raise UnknownName("incident class", name, CLASSES)
    text = Path(__file__).with_name(f"{name}.md").read_text(encoding="utf-8")
    head, *rest = re.split(r"^## (.+)\n", text, flags=re.MULTILINE)
    sections = {title: body.strip() for title, body in zip(rest[::2], rest[1::2], strict=True)}
    items = "\n".join(line for row in evidence.rows(name) for line in wrapped(row, _WIDTH, hang=2))
    sections[_KNOWS] += f"\n\n{_ROWS}\n{items}"
    sections[_DO] = f"{_what_ttf_does(name)}\n\n{sections[_DO]}"
    summary = " ".join(head.partition("\n")[2].split())
    return Page(name=name, summary=summary, sections=sections)


def _what_ttf_does(name: str) -> str:
    about = CLASSES[name]
    text = f"`ttf train` and `ttf resume`: {about.does}. How to avoid it: {about.remedy}."
    return "\n".join(wrapped(text, _WIDTH))


def classes_of_ending(text: str) -> list[str] | None:
    """The possible classes of 'SIGSEGV', 'segv', '139' or '-11'; None if `text` is no ending.

    An exit code below 128 is the program's own and can have many causes.
    """
    name = _signal_named(text)
    if name is not None:
        return [each for each in CLASSES if name in evidence.signals_of(each)] or ["killed"]
    if re.fullmatch(r"\d+", text) and int(text) <= _LAST_CODE:
        return evidence.classes_of_exit_code(int(text))
    return None


def _signal_named(text: str) -> str | None:
    number = 0
    if re.fullmatch(r"-?\d+", text):
        number = int(text) - _SHELL if int(text) > _SHELL else -int(text)
    name = text.upper() if text.upper().startswith("SIG") else f"SIG{text.upper()}"
    number = next((int(s) for s in signal.Signals if s.name == name), number)
    try:
        return signal.Signals(number).name
    except ValueError:
        return None
