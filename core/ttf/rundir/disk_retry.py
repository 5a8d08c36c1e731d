"""Retries a full or failing disk for `checkpoint.retry_s` seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from ttf.errors import StorageError
from ttf.text.numbers import TIME, moment

_RETRY_EVERY_S: Final = 30.0
LONGEST_PAUSE_S: Final = 15.0
_CHECK_EVERY_S: Final = 0.2


class Patience:
    """Measures consecutive failures, from the first to the last; with 0 seconds the first is
    final."""

    def __init__(self, retry_s: float) -> None:
        self.retry_s = retry_s
        self.error: StorageError | None = None  # The last failure; None after a success.
        self._since = 0.0
        self._last = 0.0
        self._since_wall = 0.0

    def failed(self, error: StorageError) -> None:
        self._last = time.monotonic()
        if self.error is None:
            self._since = self._last
            self._since_wall = time.time()
        self.error = error

    def succeeded(self) -> bool:
        """Returns True if something had failed before."""
        failing = self.error is not None
        self.error = None
        return failing

    @property
    def used_up(self) -> bool:
        """True if this failure is so long after the first that no other attempt is made."""
        return self.error is not None and self._last - self._since >= self.retry_s

    @property
    def left_s(self) -> float:
        """Time left for attempts; meaningful only after a failure."""
        return max(0.0, self._since + self.retry_s - time.monotonic())

    @property
    def retry_due(self) -> bool:
        """True after a failure, if enough time has passed for the next attempt."""
        pause = min(_RETRY_EVERY_S, max(1.0, self.retry_s / 10))
        return self.error is not None and time.monotonic() - self._last >= pause

    @property
    def since(self) -> str:
        """For a person: 'since 14:03:12, for 301 s'."""
        at = moment(self._since_wall, TIME)
        return f"since {at}, for {self._last - self._since:.0f} s"


class StorageRetry:
    """For what training cannot go on without: the time between attempts to write it.

    while True:
        try:
            return write()
        except StorageError as error:
            retry.wait_or_raise(error)
    """

    def __init__(
        self,
        retry_s: float,
        *,
        say: Callable[[str], None],
        check_stop: Callable[[], None],
        title: str,
    ) -> None:
        """`check_stop`: see `wait`; `title` begins the note."""
        self._patience = Patience(retry_s)
        self._say = say
        self._check_stop = check_stop
        self._title = title
        self._pause_s = 1.0

    def wait_or_raise(self, error: StorageError) -> None:
        """Returns when it is time for the next attempt; raises `error` after `retry_s`."""
        patience = self._patience
        patience.failed(error)
        if patience.used_up:
            raise error
        self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S, patience.left_s)
        self._say(
            f"{self._title}: {f'{error} {error.hint}'.rstrip()} Training waits. ttf tries again "
            f"in {self._pause_s:.0f} s, and gives up after another {patience.left_s:.0f} s."
        )
        wait(self._pause_s, self._check_stop)


def wait(seconds: float, check_stop: Callable[[], None]) -> None:
    """`check_stop` is called several times a second and may raise to end the wait: a stop request
    does not wait for the disk."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        check_stop()
        time.sleep(min(left, _CHECK_EVERY_S))
