"""A disk that is full or fails is tried again for `checkpoint.retry_s` seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from ttf.errors import StorageError

T = TypeVar("T")
_RETRY_EVERY_S: Final = 30.0
LONGEST_PAUSE_S: Final = 15.0
_CHECK_EVERY_S: Final = 0.2


class Patience:
    """Counts from the first failure to the last one in a row; 0 seconds end with the first."""

    def __init__(self, retry_s: float) -> None:
        self.retry_s = retry_s
        self.error: StorageError | None = None
        """The last failure; None while all is well."""
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
        """Whether something had failed before."""
        failing = self.error is not None
        self.error = None
        return failing

    @property
    def used_up(self) -> bool:
        """A failure so long after the first one that no other attempt is to be made."""
        return self.error is not None and self._last - self._since >= self.retry_s

    @property
    def left_s(self) -> float:
        """How much longer attempts are made; meaningful while something fails."""
        return max(0.0, self._since + self.retry_s - time.monotonic())

    @property
    def retry_due(self) -> bool:
        """It fails, and long enough ago to look whether it still does."""
        pause = min(_RETRY_EVERY_S, max(1.0, self.retry_s / 10))
        return self.error is not None and time.monotonic() - self._last >= pause

    @property
    def since(self) -> str:
        """For a person: 'since 14:03:12, for 301 s'."""
        at = time.strftime("%H:%M:%S", time.localtime(self._since_wall))
        return f"since {at}, for {self._last - self._since:.0f} s"


def retry_storage(
    write: Callable[[], T],
    retry_s: float,
    *,
    say: Callable[[str], None],
    check_stop: Callable[[], None],
    title: str,
) -> T:
    """What `write` returns, tried again while it raises StorageError, for `retry_s`: for what
    training cannot go on without. `check_stop`: see `wait`; `title` begins the note."""
    patience = Patience(retry_s)
    pause = 1.0
    while True:
        try:
            return write()
        except StorageError as error:
            patience.failed(error)
            if patience.used_up:
                raise
            pause = min(2 * pause, LONGEST_PAUSE_S, patience.left_s)
            say(
                f"{title}: {f'{error} {error.hint}'.rstrip()} Training waits; the next attempt is in "
                f"{pause:.0f} s, and they go on for another {patience.left_s:.0f} s."
            )
            wait(pause, check_stop)


def wait(seconds: float, check_stop: Callable[[], None]) -> None:
    """`check_stop` is called several times a second, and what it raises ends the wait: a person who
    asks for an end does not wait for the disk."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        check_stop()
        time.sleep(min(left, _CHECK_EVERY_S))
