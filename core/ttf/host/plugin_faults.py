"""Errors of third-party code, reported with the plugin and its distribution."""

from __future__ import annotations

import contextlib
import functools
import signal
import threading
from collections.abc import Callable, Iterator
from typing import Any, Final

from ttf.errors import PluginBroken, Stopped, TtfError
from ttf.host.at_work import at_work
from ttf.host.installed import PluginInfo

# Methods of a factory that only answer; creating and working have their own error handling.
_ASKED: Final = frozenset({"availability", "traits", "estimate", "claims"})
_MAKE: Final = frozenset({"create", "open"})


class Blamed:
    """A third-party factory; errors of its answers become PluginBroken."""

    def __init__(self, wrapped: Any, info: PluginInfo) -> None:
        self.wrapped, self._info = wrapped, info

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        if name in _MAKE:
            return self._noted(found, name)
        return self._named(found, name) if name in _ASKED else found

    def _noted(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            with at_work(self._info, f"in {name}() of", brief=False):
                return method(*args, **kwargs)

        return call

    def _named(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                with at_work(self._info, f"in {name}() of", brief=True):
                    return method(*args, **kwargs)
            except TtfError:
                raise
            except Exception as error:
                raise broken(self._info, f"failed in {name}()", error) from error

        return call


@contextlib.contextmanager
def loading(info: PluginInfo) -> Iterator[None]:
    """Whatever the import raises becomes PluginBroken, except what a signal raised in it."""
    with _interrupts() as arrived:
        try:
            yield
        except Stopped:
            raise
        except BaseException as error:
            if isinstance(error, KeyboardInterrupt) and arrived():
                raise
            raise broken(info, "failed to load", error) from error


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], bool]]:
    # A module that raises KeyboardInterrupt looks like one that Ctrl-C interrupted.
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield lambda: False
        return
    arrived = False

    def note(signum: int, frame: Any) -> Any:
        nonlocal arrived
        arrived = True
        return before(signum, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield lambda: arrived
    finally:
        if signal.getsignal(signal.SIGINT) is note:  # else the module has set one
            signal.signal(signal.SIGINT, before)


def broken(info: PluginInfo, did: str, error: BaseException) -> PluginBroken:
    return PluginBroken(
        f"The plugin {info.reference} of the distribution {info.distribution} "
        f"{info.version} {did}: {type(error).__name__}: {error}",
        hint=mend(info),
    )


def mend(info: PluginInfo) -> str:
    """What to do about a plugin that does not work."""
    if info.editable:
        return "Set TTF_DEBUG=1 to see the traceback."
    again = f"Reinstall it: pip install --force-reinstall --no-deps {info.distribution}"
    return f"{again}{'' if info.ours else f', or disable it: TTF_DISABLE_PLUGINS={info.distribution}'}."
