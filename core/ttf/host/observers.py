"""A run's observers: hooks that receive its events and cannot end the run."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

from ttf import hookspecs
from ttf.host.installed import PluginInfo


class Observers:
    """Calls the hooks of a run's observers, as `observers.ttf_step(record=...)`.

    An observer that raises must not end the run: it is left out from then on.
    """

    def __init__(
        self, loaded: Iterable[tuple[PluginInfo, Any]], say: Callable[[str], None]
    ) -> None:
        self._loaded, self._say = list(loaded), say

    def __getattr__(self, hook: str) -> Callable[..., None]:
        if not hasattr(hookspecs, hook):
            raise AttributeError(f"there is no hook {hook!r}")
        return functools.partial(self._call, hook)

    def _call(self, hook: str, **arguments: Any) -> None:
        for entry in list(self._loaded):
            info, hooks = entry
            try:
                getattr(hooks, hook)(**arguments)
            except (Exception, SystemExit) as error:  # noqa: BLE001 - third-party code
                self._loaded.remove(entry)
                self._say(
                    f"The {info.reference} of the distribution {info.distribution} failed in {hook} "
                    f"({type(error).__name__}: {error}). ttf does not call it again in this run."
                )
