"""Where the parts of a scan are computed: in threads, or all in the caller's."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from typing import ParamSpec, TypeVar

_P = ParamSpec("_P")
_T = TypeVar("_T")


class InThisThread(Executor):
    """Does at once what it is asked: whoever gave a scan one thread shall see no second one."""

    def submit(self, fn: Callable[_P, _T], /, *args: _P.args, **kwargs: _P.kwargs) -> Future[_T]:
        future: Future[_T] = Future()
        future.set_result(fn(*args, **kwargs))
        return future


def executor(workers: int, threads: int) -> Executor:
    """For `workers` of a scan that may use so many threads."""
    return InThisThread() if threads == 1 else ThreadPoolExecutor(workers)
