"""Writes docs/plugins/api-v1.txt: all that a plugin of the API `ttf.v1` may rely on, as signatures.

    python docs/make_plugin_api.py

A test compares the file with the code. A line that changes or goes is a new API number, or a way for
the old one to go on working; a new line is fine: rewrite the file, and say so in the changes.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ttf
import ttf.testing
from ttf import contracts, errors, hookspecs, jobs
from ttf.host import installed, options

PAGE = Path(__file__).parent / "plugins" / f"api-v{installed.API}.txt"


def page() -> str:
    """The whole file."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield f"# What plugins of the API {installed.GROUP} may rely on. Written by docs/make_plugin_api.py."
    yield from ("", "[kinds]", *contracts.KINDS)
    yield from ("", "[ttf.__all__]", *sorted(ttf.__all__))
    yield from ("", "[ttf.testing.__all__]", *sorted(ttf.testing.__all__))
    yield from ("", "[hooks]")
    for name, hook in sorted(vars(hookspecs).items()):
        if name.startswith("ttf_"):
            yield f"{name}{inspect.signature(hook)}"
    yield from ("", "[contracts]")
    modules = (contracts, hookspecs, jobs)
    homes = {module.__name__ for module in modules}
    for name, found in sorted({k: v for m in modules for k, v in vars(m).items()}.items()):
        if inspect.isclass(found) and found.__module__ in homes:
            yield from _of_class(name, found)
    yield from ("", "[exporters]")
    for name, found in sorted(vars(hookspecs).items()):
        if inspect.isclass(found) and name in _OF_EXPORTERS:
            yield from _of_class(name, found)
    yield from ("", "[functions]")
    for name in sorted(ttf.__all__):
        found = getattr(ttf, name)
        if inspect.isfunction(found) and name not in _COMMANDS:
            yield f"{name}{inspect.signature(found)}"
    yield f"option{inspect.signature(options.option)}"
    yield from ("", "[helpers]")
    for name in sorted(ttf.__all__):
        found = getattr(ttf, name)
        made = inspect.isclass(found) and not issubclass(found, Exception)
        if made and found.__module__ in _HELPERS:
            yield f"{name}{inspect.signature(found)}"
            yield from _attributes(found)
    yield from ("", "[errors]")
    for name in sorted(ttf.__all__):
        found = getattr(ttf, name)
        if inspect.isclass(found) and issubclass(found, errors.TtfError):
            bases = ", ".join(base.__name__ for base in found.__bases__)
            yield f"{name}({bases}): exit code {int(found.exit_code)}"


_OF_EXPORTERS = {
    "ExportAnswers",
    "ExportFacts",
    "ExportProbe",
    "ExportSource",
    "Exporter",
    "ExporterFactory",
    "Searched",
    "TowerFacts",
}


_COMMANDS = {
    "compare",
    "doctor",
    "encode",
    "evaluate",
    "export",
    "guard",
    "load",
    "mine",
    "open_vectors",
    "option",
    "plan",
    "report",
    "resume",
    "train",
}
"""What users call; their own contract is the command line's."""


_HELPERS = {
    "ttf.data.shards.fetched",
    "ttf.data.shards.node_cache",
    "ttf.machine.processor",
    "ttf.machine.measured",
    "ttf.mining.scan.bank_scan",
    "ttf.mining.scan.scan_counters",
    "ttf.process.job",
    "ttf.rundir.durable",
    "ttf.rundir.metrics_log",
}
"""Whose classes plugins use as they are: they are made by their names, unlike the contracts."""


def _of_class(name: str, found: type[Any]) -> Iterator[str]:
    yield f"{name}({', '.join(base.__name__ for base in found.__bases__)})"
    if dataclasses.is_dataclass(found):
        for field in dataclasses.fields(found):
            default = "" if field.default is dataclasses.MISSING else f" = {field.default!r}"
            yield f"    {field.name}: {field.type}{default}"
        return
    yield from _attributes(found)


def _attributes(found: type[Any]) -> Iterator[str]:
    for attribute, kind in inspect.get_annotations(found).items():
        yield f"    {attribute}: {kind}"
    for method, function in vars(found).items():
        if inspect.isfunction(function) and (not method.startswith("_") or method == "__call__"):
            yield f"    {method}{inspect.signature(function)}"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
