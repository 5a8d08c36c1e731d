"""Fetches many shards at a time, together with the other processes of this machine."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import Final

from ttf.data.shards.cache_folder import LOCK, PART, CacheFolder
from ttf.data.shards.fetched import Fetching, Remote, Shard, total_bytes
from ttf.data.shards.fetching import Left, ShardFetch
from ttf.errors import StorageError
from ttf.rundir.waiting_lock import holder
from ttf.text.numbers import duration, size

_THREADS: Final = 4
_LOOK_EVERY_S: Final = 0.1
_SAY_EVERY_S: Final = 10.0
_LEAVE_S: Final = 5.0  # A request under way ends by its own timeout; nobody waits for that.


def bring(cache: CacheFolder, missing: Sequence[Shard], remote: Remote, how: Fetching) -> None:
    """The caller holds leases on them."""
    work = _Work(cache, missing, remote, how)
    threads = [
        threading.Thread(target=work.take_part, name=f"ttf-fetch-{number}", daemon=True)
        for number in range(min(_THREADS, len(missing)))
    ]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads):
            work.look()
            work.changed.wait(_LOOK_EVERY_S)
            work.changed.clear()
        work.look(last=True)
    finally:
        work.leave.set()
        until = time.monotonic() + _LEAVE_S
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))


class _Work:
    def __init__(
        self, cache: CacheFolder, missing: Sequence[Shard], remote: Remote, how: Fetching
    ) -> None:
        self.leave = threading.Event()
        self.changed = threading.Event()
        self._cache = cache
        self._remote = remote
        self._how = how
        self._todo = deque(missing)
        self._count = len(missing)
        self._total = total_bytes(missing)
        self._done = 0
        self._lock = threading.Lock()
        self._said: queue.SimpleQueue[str] = queue.SimpleQueue()
        self._error: BaseException | None = None
        self._elsewhere: dict[str, tuple[int, float]] = {}
        self._began = time.monotonic()
        self._next_line = self._began + _SAY_EVERY_S
        self._said_some = False
        self._at_first = -1

    # --- by the caller's thread -------------------------------------------------------------------

    def look(self, *, last: bool = False) -> None:
        """Tells what happened; raises what a thread raised, and what `check` raises."""
        while not self._said.empty():
            self._how.tell(self._said.get())
        if self._error is not None:
            raise self._error
        self._how.look()
        if self._at_first < 0:
            self._at_first = self._done
        if self._how.progress is not None:
            self._how.progress(self._done, self._total)
            return
        now = time.monotonic()
        if now >= self._next_line or (last and self._said_some):
            self._next_line, self._said_some = now + _SAY_EVERY_S, True
            self._how.tell(self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        came = self._done - self._at_first
        text = f"Fetching {self._count:,} shards: {size(self._done)} of {size(self._total)}"
        if self._done == self._total:
            return f"{text} in {duration(seconds)}."
        if came <= 0 or seconds <= 0:
            return f"{text}."
        left = (self._total - self._done) * seconds / came
        return f"{text}, {size(int(came / seconds))}/s, {duration(left)} left."

    # --- by the threads that fetch ----------------------------------------------------------------

    def take_part(self) -> None:
        try:
            while not self.leave.is_set() and (shard := self._next()) is not None:
                fetch = ShardFetch(
                    self._cache,
                    shard,
                    self._remote,
                    self._how,
                    say=self._said.put,
                    count=self._add,
                    leave=self.leave,
                )
                if not fetch.run():
                    self._wait_for_another(shard)
        except Left:
            pass
        except BaseException as error:  # noqa: BLE001 - raised again by the caller's thread
            self._error = self._error or error
            self.leave.set()
        finally:
            self.changed.set()

    def _next(self) -> Shard | None:
        with self._lock:
            return self._todo.popleft() if self._todo else None

    def _add(self, count: int) -> None:
        with self._lock:
            self._done += count

    def _wait_for_another(self, shard: Shard) -> None:
        """Puts it back, behind what nobody fetches yet."""
        part = self._cache.folder(shard.sha256) / PART
        try:
            now = part.stat().st_size
        except FileNotFoundError:  # not begun, or whole by now
            now = -1
        seen, since = self._elsewhere.get(shard.sha256, (-2, 0.0))
        if now != seen:
            self._elsewhere[shard.sha256] = now, time.monotonic()
        elif time.monotonic() - since > self._how.patience.stalled_s:
            raise _stalled(self._cache, shard, self._how.patience.stalled_s)
        with self._lock:
            self._todo.append(shard)
        self.leave.wait(_LOOK_EVERY_S)


def _stalled(cache: CacheFolder, shard: Shard, seconds: float) -> StorageError:
    lock = cache.folder(shard.sha256) / LOCK
    pid = holder(lock)
    who = "A process of another container or user" if pid is None else f"Process {pid}"
    return StorageError(
        f"{who} holds {lock}, but has fetched nothing of {shard.address} for {seconds:.0f} s.",
        hint="End that process, or continue it (kill -CONT), then start again.",
    )
