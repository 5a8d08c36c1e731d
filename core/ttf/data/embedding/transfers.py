"""The one thread that touches a table's files, in the order in which it is asked."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Final, TypeVar

from ttf.errors import StorageError

_T = TypeVar("_T")
_LONGEST_QUEUE: Final = 64


class Transfers:
    """After a failure every later call raises the same error: what is on disk is then the last
    version that was committed, and what memory holds is no longer to be trusted."""

    def __init__(self, most_waiting_bytes: int) -> None:
        """`most_waiting_bytes`: of what waits to be written, except if it is a single task."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="ttf-table")
        self._under_way: list[tuple[Future[object], int]] = []
        self.most_waiting_bytes = most_waiting_bytes
        self._failed: BaseException | None = None
        self._closing = threading.Event()
        self._ending = threading.Lock()
        self.waited_s = 0.0

    def submit(self, task: Callable[[], _T], *, waiting_bytes: int = 0) -> Future[_T]:
        """`waiting_bytes`: memory that the task holds until it is done."""
        self._raise_failure()
        while self._under_way and not self._has_room(waiting_bytes):
            self.wait(self._under_way[0][0])
        future = self._thread.submit(self._guarded, task)
        self._under_way.append((future, waiting_bytes))  # type: ignore[arg-type]
        return future

    @property
    def waiting_bytes(self) -> int:
        return sum(size for future, size in self._under_way if not future.done())

    def _has_room(self, more: int) -> bool:
        if len(self._under_way) >= _LONGEST_QUEUE:
            return False
        return not more or self.waiting_bytes + more <= self.most_waiting_bytes

    def in_background(self, parts: Iterator[None]) -> None:
        """Does the parts one by one, after everything that is asked for meanwhile. What is left when
        the table is closed is left undone."""
        self._raise_failure()

        def one() -> None:
            try:
                next(parts)
            except StopIteration:
                return
            with self._ending:
                if not self._closing.is_set():
                    self._thread.submit(self._guarded, one)

        self._thread.submit(self._guarded, one)

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
        self._under_way = [each for each in self._under_way if not each[0].done()]
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
        with self._ending:
            self._closing.set()
        self._thread.shutdown()
