"""The one thread that touches a table's files, in the order in which it is asked."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from ttf.errors import StorageError

_T = TypeVar("_T")
_LONGEST_QUEUE: Final = 64


class Transfers:
    """After a failure every later call raises the same error: what is on disk is then the last
    version that was committed, and what memory holds is no longer to be trusted."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ttf-table")
        self._under_way: list[Future[object]] = []
        self._failed: BaseException | None = None
        self.waited_s = 0.0

    def submit(self, task: Callable[[], _T]) -> Future[_T]:
        self._raise_failure()
        while len(self._under_way) >= _LONGEST_QUEUE:  # what waits to be written takes memory
            self.wait(self._under_way[0])
        future = self._thread.submit(self._guarded, task)
        self._under_way.append(future)  # type: ignore[arg-type]
        return future

    def _guarded(self, task: Callable[[], _T]) -> _T:
        self._raise_failure()
        try:
            return task()
        except BaseException as error:
            self._failed = error
            raise

    def wait(self, future: Future[_T]) -> _T:
        """The result; counts the time."""
        if not future.done():
            began = time.perf_counter()
            future.exception()
            self.waited_s += time.perf_counter() - began
        self._under_way = [other for other in self._under_way if not other.done()]
        return future.result()

    def _raise_failure(self) -> None:
        if self._failed is None:
            return
        if isinstance(self._failed, StorageError):
            raise StorageError(
                f"The embedding table stopped after an error: {self._failed}",
                hint="Open it again: it then has the rows of its last sync.",
            ) from self._failed
        raise self._failed

    def close(self) -> None:
        """Waits for what is under way."""
        self._thread.shutdown()
