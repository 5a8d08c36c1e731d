"""TTF_TRACE_PLUGINS=1: every import of a plugin and every hook call, as it happens."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ttf.host import notices

if TYPE_CHECKING:
    import pluggy

    from ttf.host.installed import PluginInfo

_LONGEST: Final = 80


def wanted() -> bool:
    return os.environ.get("TTF_TRACE_PLUGINS", "0") not in ("", "0")


def imported(info: PluginInfo, seconds: float) -> None:
    if wanted():
        _say(info, f"imported {info.entry_point.value} in {seconds * 1e3:.1f} ms")


def watch(manager: pluggy.PluginManager, info: PluginInfo) -> None:
    """Prints the hook calls of this plugin."""
    if wanted():
        manager.add_hookcall_monitoring(*_monitor(info))


def _monitor(info: PluginInfo) -> tuple[Callable[..., None], Callable[..., None]]:
    began: list[float] = []

    def before(hook: str, methods: Sequence[Any], arguments: Mapping[str, Any]) -> None:
        began.append(time.perf_counter())

    def after(
        outcome: Any, hook: str, methods: Sequence[Any], arguments: Mapping[str, Any]
    ) -> None:
        took = time.perf_counter() - began.pop()
        if methods:
            given = ", ".join(f"{key}={_short(value)}" for key, value in arguments.items())
            _say(info, f"{hook}({given}) -> {_result(outcome)} in {took * 1e3:.1f} ms")

    return before, after


def _result(outcome: Any) -> str:
    error = outcome.exception
    if error is not None:
        return f"{type(error).__name__}: {error}"
    return _short(outcome.get_result())


def _short(value: Any) -> str:
    text = repr(value)
    if " object at 0x" in text:
        text = type(value).__name__
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}..."


def _say(info: PluginInfo, text: str) -> None:
    notices.say(f"trace {info.reference} of {info.distribution} {info.version}: {text}")
