"""Writes docs/reference/python-api.rst and plugin-api.rst, which Sphinx fills from the docstrings:
`make docs`. A test holds them up to date, so no public name is missing."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import ttf
import ttf.testing
from ttf import contracts, errors, hookspecs, jobs

FOLDER: Final = Path(__file__).parent / "reference"
_USERS: Final = ("ttf.api", "ttf.tools.", "ttf.training.", "ttf.data.embedding.")
_NOT_OURS: Final = ("TableRows", "TableTower")  # of `ttf.data.embedding`, for authors of towers


def pages() -> dict[str, str]:
    """By file name: the whole page."""
    mine = {name: getattr(ttf, name) for name in ttf.__all__ if name != "__version__"}
    users = [name for name, found in mine.items() if _of_users(name, found)]
    failures = [name for name, found in mine.items() if _is_error(found)]
    rest = [name for name in mine if name not in {*users, *failures}]
    homes = {module.__name__ for module in (contracts, hookspecs, jobs)}
    nouns = [name for name in rest if _home(mine[name]) in homes]
    help_ = [name for name in rest if name not in nouns]
    hooks = [name for name in vars(hookspecs) if name.startswith("ttf_")]

    functions = [name for name in users if inspect.isfunction(mine[name])]
    results = [name for name in users if name not in functions]
    user = [
        *_title("Python API", "ttf"),
        "What scripts and notebooks import. How to use it: :doc:`../python`. What plugins import:",
        ":doc:`plugin-api`. Other projects can link here with intersphinx (`objects.inv`).",
        *_section("Functions", functions),
        *_section("What they return, and tables", results),
        *_section("Errors", failures),
    ]
    plugin = [
        *_title("Plugin API", "ttf"),
        "What plugins of the group `ttf.v1` may rely on; a test compares the same list as signatures",
        "with the code (:download:`api-v1.txt <../plugins/api-v1.txt>`). How to write a plugin:",
        ":doc:`../plugins/README`.",
        *_section("Contracts", nouns),
        *_section("Hooks", hooks, module="ttf.hookspecs"),
        *_section("Helpers", help_, module="ttf"),
        *_section("Conformance suites", sorted(ttf.testing.__all__), module="ttf.testing"),
    ]
    return {"python-api.rst": _text(user), "plugin-api.rst": _text(plugin)}


def _of_users(name: str, found: object) -> bool:
    return name not in _NOT_OURS and _home(found).startswith(_USERS)


def _home(found: object) -> str:
    return str(getattr(found, "__module__", ""))


def _is_error(found: object) -> bool:
    if not inspect.isclass(found):
        return False
    return found is errors.ExitCode or issubclass(found, (errors.TtfError, errors.Stopped))


def _title(text: str, module: str) -> Iterator[str]:
    yield from (".. Made by docs/make_api.py (`make docs`); do not edit by hand.", "")
    yield from (text, "=" * len(text), "", f".. currentmodule:: {module}", "")


def _section(title: str, names: Iterable[str], module: str = "ttf") -> Iterator[str]:
    yield from ("", title, "-" * len(title), "", f".. currentmodule:: {module}", "")
    for name in names:
        found = getattr(hookspecs if module == "ttf.hookspecs" else ttf, name, None)
        found = getattr(ttf.testing, name) if module == "ttf.testing" else found
        if inspect.isclass(found):
            yield f".. autoclass:: {name}"
            if module != "ttf.testing":
                yield "   :members:"
            if getattr(found, "_is_protocol", False):  # all of it is to be written by somebody
                yield "   :undoc-members:"
        elif inspect.isfunction(found):
            yield f".. autofunction:: {name}"
        else:
            yield f".. autodata:: {name}"
            yield "   :no-value:"
        yield ""


def _text(lines: Iterable[str]) -> str:
    return "\n".join(lines).rstrip("\n") + "\n"


if __name__ == "__main__":
    for name, text in pages().items():
        FOLDER.joinpath(name).write_text(text, encoding="utf-8")
