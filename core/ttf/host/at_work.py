"""Which plugin is at work right now, so that a crash or a hang inside it can name it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ttf.host.installed import PluginInfo


@dataclass(frozen=True, kw_only=True)
class PluginWork:
    """Its text completes "while it was ..."."""

    doing: str  # 'importing', 'in create() of'
    plugin: str  # 'miner.faiss'
    distribution: str
    version: str
    module: str
    # A third-party plugin is imported or asked a question: seconds at most.
    brief: bool

    def __str__(self) -> str:
        owner = f"the distribution {self.distribution} {self.version}"
        return f"{self.doing} the plugin {self.plugin} of {owner} (module {self.module})"


# Called at every change, in the main thread; None: no plugin is at work.
Listener = Callable[[PluginWork | None], None]
_listener: Listener | None = None
_now: PluginWork | None = None


def hear(listener: Listener | None) -> None:
    global _listener
    _listener = listener


@contextlib.contextmanager
def at_work(info: PluginInfo, doing: str, *, brief: bool) -> Iterator[None]:
    """Notes what the plugin does within the block. `brief`: it should take seconds."""
    if threading.current_thread() is not threading.main_thread():
        yield  # one note has room for one thread
        return
    before = _now
    _note(
        PluginWork(
            doing=doing,
            plugin=info.reference,
            distribution=info.distribution,
            version=info.version,
            module=info.entry_point.module,
            brief=brief and not info.ours,
        )
    )
    try:
        yield
    finally:
        _note(before)


def _note(work: PluginWork | None) -> None:
    global _now
    _now = work
    if _listener is not None:
        _listener(work)
