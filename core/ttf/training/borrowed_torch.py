"""What a device sets in torch for the whole process, lent to a model while it works.

A program that opens a model has settings of its own: a model that leaves it the deterministic mode,
another number of threads or another arithmetic changes its results, or makes its operations fail.
The other way round, its default type, its default device and its autocast are not those of a model.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, Protocol, TypeVar

import torch

_P = ParamSpec("_P")
_R = TypeVar("_R")
# Those whose products have a setting of their own.
_LIBRARIES: Final = tuple(
    module.matmul
    for module in vars(torch.backends).values()
    if hasattr(getattr(module, "matmul", None), "fp32_precision")
)

_ACCELERATOR: Final = torch.accelerator.current_accelerator()
_KINDS: Final = ("cpu", _ACCELERATOR.type) if _ACCELERATOR is not None else ("cpu",)


@dataclass(frozen=True, kw_only=True)
class TorchSettings:
    threads: int
    deterministic: int
    fills_memory: bool
    matmul: str
    dtype: torch.dtype  # of new tensors
    products: tuple[tuple[Any, str], ...]  # float32 products of each library, as torch sets them

    @classmethod
    def now(cls) -> TorchSettings:
        return cls(
            threads=torch.get_num_threads(),
            deterministic=torch.get_deterministic_debug_mode(),
            fills_memory=torch.utils.deterministic.fill_uninitialized_memory,  # type: ignore[attr-defined]
            matmul=torch.get_float32_matmul_precision(),
            dtype=torch.get_default_dtype(),
            products=tuple((each, each.fp32_precision) for each in _LIBRARIES),
        )

    def apply(self) -> None:
        if self.threads != torch.get_num_threads():
            torch.set_num_threads(self.threads)
        torch.set_deterministic_debug_mode(self.deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = self.fills_memory  # type: ignore[attr-defined]
        torch.set_float32_matmul_precision(self.matmul)
        torch.set_default_dtype(self.dtype)
        for library, precision in self.products:  # the call above also sets these
            library.fp32_precision = precision


_lock = threading.Lock()
_users = 0
_callers: TorchSettings | None = None
_forked = False


def _in_child() -> None:
    """A fork copies neither the threads of the parent nor what they were doing."""
    global _lock, _users, _callers, _forked
    _lock, _users, _callers, _forked = threading.Lock(), 0, None, True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


@contextlib.contextmanager
def borrowed_torch(apply: Callable[[], None]) -> Iterator[None]:
    """Calls `apply`; afterwards torch has the settings of the caller again. Of several threads at
    once, the last one gives them back."""
    global _users, _callers
    with _lock:
        if not _users:
            _callers = TorchSettings.now()
        _users += 1
    try:
        torch.set_default_dtype(torch.float32)
        apply()
        if _forked and torch.get_num_threads() > 1:
            # The OpenMP of torch waits for ever for the threads that its parent had.
            torch.set_num_threads(1)
        with _plain_thread():
            yield
    finally:
        with _lock:
            _users -= 1
            if not _users and _callers is not None:
                _callers.apply()
                _callers = None


@contextlib.contextmanager
def _plain_thread() -> Iterator[None]:
    """What torch keeps for each thread is at its defaults: the device of new tensors, no autocast."""
    with contextlib.ExitStack() as stack:
        if torch.get_default_device().type != "cpu":
            stack.enter_context(torch.device("cpu"))
        for kind in _KINDS:
            if torch.is_autocast_enabled(kind):
                stack.enter_context(torch.autocast(kind, enabled=False))
        yield


class Borrows(Protocol):
    def borrowed(self) -> contextlib.AbstractContextManager[None]: ...


_S = TypeVar("_S", bound=Borrows)


def borrowing(method: Callable[Concatenate[_S, _P], _R]) -> Callable[Concatenate[_S, _P], _R]:
    """A method that works with the settings of its own device."""

    @wraps(method)
    def call(self: _S, /, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        with self.borrowed():
            return method(self, *args, **kwargs)

    return call
