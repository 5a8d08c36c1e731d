"""Whose fault it is: what a stranger's code raises is told with its plugin and distribution."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final

from ttf.errors import PluginBroken, TtfError
from ttf.host.installed import PluginInfo

_ASKED: Final = frozenset({"availability", "traits", "estimate", "claims"})
"""Methods of a factory that only answer; what creates and works has handling of its own."""


class Blamed:
    """A stranger's factory, as it is, but for what its answers raise."""

    def __init__(self, wrapped: Any, info: PluginInfo) -> None:
        self.wrapped, self._info = wrapped, info

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.wrapped, name)
        return self._named(found, name) if name in _ASKED else found

    def _named(self, method: Callable[..., Any], name: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            try:
                return method(*args, **kwargs)
            except TtfError:
                raise
            except Exception as error:
                raise broken(self._info, f"failed in {name}()", error) from error

        return call


def broken(info: PluginInfo, did: str, error: BaseException) -> PluginBroken:
    """For a plugin that raised what no plugin should."""
    return PluginBroken(
        f"The plugin {info.reference} of the distribution {info.distribution} "
        f"{info.version} {did}: {type(error).__name__}: {error}",
        hint=_mend(info),
    )


def _mend(info: PluginInfo) -> str:
    if info.editable:
        return "TTF_DEBUG=1 shows where."
    again = f"Reinstall it: pip install --force-reinstall --no-deps {info.distribution}"
    return f"{again}{'' if info.ours else f', or switch it off: TTF_DISABLE_PLUGINS={info.distribution}'}."
