"""A plugin `crashing` of every kind: it wraps another plugin and dies once per run by a segfault.

Within `crashing`, a metadata folder on sys.path declares it, so every process of a run finds it.
TTF_TESTING_CRASH says what to wrap and when to die.
"""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

from ttf.contracts import Kind, StepPacing
from ttf.hookspecs import hookimpl
from ttf.host import installed, plugins

NAME: Final = "crashing"
VARIABLE: Final = "TTF_TESTING_CRASH"
# The call of forward, search, gather or synchronize in which the process dies.
_TOWER_CALL, _MINER_CALL, _STORE_CALL, _DEVICE_CALL, _ENCODER_CALL = 3, 1, 4, 3, 2


@contextlib.contextmanager
def crashing(kind: Kind, name: str, folder: Path) -> Iterator[str]:
    """Yields the name to use instead of `name`. `folder` must be empty."""
    import pytest  # here: every process of the run imports this module as well

    info = folder / "ttf_testing_crashing-0.dist-info"
    info.mkdir()
    info.joinpath("METADATA").write_text(
        "Metadata-Version: 2.1\nName: ttf-testing-crashing\nVersion: 0\n"
    )
    info.joinpath("entry_points.txt").write_text(
        f"[{installed.GROUP}]\n{kind}.{NAME} = {__name__}\n"
    )
    told = {"kind": kind, "name": name, "mark": str(folder / "died")}
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(VARIABLE, json.dumps(told))
            patch.syspath_prepend(folder)
            _clear_plugin_caches()
            yield NAME
    finally:
        _clear_plugin_caches()


def _clear_plugin_caches() -> None:
    installed.installed.cache_clear()
    plugins.load.cache_clear()


def _settings() -> dict[str, str]:
    told: dict[str, str] = json.loads(os.environ[VARIABLE])
    return told


def _die_once() -> None:
    mark = Path(_settings()["mark"])
    if not mark.exists():
        mark.touch()
        ctypes.string_at(0)


def _dying_at(call: int, function: Callable[..., Any]) -> Callable[..., Any]:
    """Wraps `function` so that its process dies inside the given call, once per run."""
    counted = itertools.count(1)

    def call_it(*args: Any, **kwargs: Any) -> Any:
        result = function(*args, **kwargs)
        if next(counted) == call:
            _die_once()
        return result

    return call_it


class _Wrapped:
    """Delegates to the wrapped object, except for the attributes in `own`."""

    def __init__(self, wrapped: Any, **own: Any) -> None:
        self._wrapped = wrapped
        vars(self).update(own)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


def _factory(kind: Kind) -> Any:
    factory = plugins.load(kind, _settings()["name"])
    wraps = {
        "tower": _tower,
        "miner": _miner,
        "storage": _storage,
        "device": _device,
        "encoder": _encoder,
        "exporter": _exporter,
    }
    return wraps[kind](factory)


def _tower(factory: Any) -> Any:
    def create(shape: Any, options: Any) -> Any:
        module = factory.create(shape, options)
        dying = _dying_at(_TOWER_CALL, lambda: None)

        def before_forward(module: Any, inputs: Any) -> None:
            if module.training:
                dying()

        module.register_forward_pre_hook(before_forward)
        return module

    return _Wrapped(factory, name=NAME, create=create)


def _miner(factory: Any) -> Any:
    def create(options: Any, context: Any) -> Any:
        miner = factory.create(options, context)
        return _Wrapped(miner, search=_dying_at(_MINER_CALL, miner.search))

    return _Wrapped(factory, name=NAME, create=create)


def _storage(factory: Any) -> Any:
    dying = _dying_at(_STORE_CALL, lambda: None)

    def open(uri: str) -> Any:
        store = factory.open(uri)

        def source(name: str) -> Any:
            found = store.source(name)

            def gather(*args: Any, **kwargs: Any) -> Any:
                dying()
                return found.gather(*args, **kwargs)

            return _Wrapped(found, gather=gather)

        return _Wrapped(store, source=source)

    return _Wrapped(factory, name=NAME, open=open)


def _device(factory: Any) -> Any:
    def create(options: Any, threads: int | None) -> Any:
        policy = factory.create(options, threads)
        ended = {"synchronize": _dying_at(_DEVICE_CALL, policy.synchronize)}
        if isinstance(policy, StepPacing):  # a step of it ends with this instead
            ended = {"step_ended": _dying_at(_DEVICE_CALL, policy.step_ended)}
        return _Wrapped(policy, name=NAME, **ended)

    return _Wrapped(factory, name=NAME, create=create)


def _encoder(factory: Any) -> Any:
    def create(options: Any, context: Any) -> Any:
        encoder = factory.create(options, context)
        return _Wrapped(encoder, encode=_dying_at(_ENCODER_CALL, encoder.encode))

    return _Wrapped(factory, name=NAME, create=create)


def _exporter(factory: Any) -> Any:
    def create(options: Any) -> Any:
        exporter = factory.create(options)
        return _Wrapped(exporter, write=_dying_at(1, exporter.write))

    return _Wrapped(factory, name=NAME, create=create)


@hookimpl
def ttf_tower(name: str) -> Any:
    return _factory("tower")


@hookimpl
def ttf_miner(name: str) -> Any:
    return _factory("miner")


@hookimpl
def ttf_storage(name: str) -> Any:
    return _factory("storage")


@hookimpl
def ttf_device(name: str) -> Any:
    return _factory("device")


@hookimpl
def ttf_encoder(name: str) -> Any:
    return _factory("encoder")


@hookimpl
def ttf_exporter(name: str) -> Any:
    return _factory("exporter")
