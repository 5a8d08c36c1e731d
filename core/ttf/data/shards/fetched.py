"""What is fetched, from where, and how patiently; the protocols of those who have it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from ttf.contracts import Progress
from ttf.host import notices


@dataclass(frozen=True, kw_only=True)
class Shard:
    """An immutable object of a store; its hash says what it contains."""

    key: str
    """Its name in the store."""
    address: str
    """The whole name, for messages."""
    size: int
    sha256: str


class RemoteFault(Exception):
    """A failure of a server or of the network that may pass: a timeout, 5xx, a cut connection."""


class Remote(Protocol):
    """Where the objects are."""

    def read(self, key: str, start: int, stop: int) -> bytes | memoryview:
        """The bytes start..stop of an object; called from several threads. Raises RemoteFault for
        what may pass, a TtfError for what does not."""


@dataclass(frozen=True, kw_only=True)
class Patience:
    """Pauses between the attempts to read one piece, and how long another process is waited for."""

    first_s: float = 0.25
    most_s: float = 16.0
    attempts: int = 9
    # Another process that fetches a shard and shows no progress for so long.
    stalled_s: float = 300.0

    def pauses(self) -> Iterator[float]:
        """One for each attempt after the first; up to a quarter longer, so that the nodes of a run
        do not all ask again at once."""
        pause, chance = self.first_s, random.Random()
        for _ in range(self.attempts - 1):
            yield pause * (1 + chance.random() / 4)
            pause = min(2 * pause, self.most_s)


@dataclass(frozen=True, kw_only=True)
class Fetching:
    """How shards are fetched, and who is told of it; all functions are called from one thread."""

    limit: int | None = None
    """Bytes that all shards of this machine may take; None: all but a twentieth of the disk."""
    say: Callable[[str], None] | None = None
    """None: to standard error, or to whoever listens to notes."""
    progress: Progress | None = None
    """Called with bytes; None: a line to `say` every ten seconds."""
    check: Callable[[], None] | None = None
    """Called several times a second; it may raise, which ends the fetch."""
    patience: Patience = Patience()

    def tell(self, text: str) -> None:
        """A line for the user."""
        (self.say or notices.say)(text)

    def look(self) -> None:
        """Raises what `check` raises."""
        if self.check is not None:
            self.check()


@runtime_checkable
class FetchesRows(Protocol):
    """Optional for a `VectorSource` whose rows are elsewhere, and come to this machine by parts.

    Rows that are not here are fetched when they are read; a run fetches all before its first step.
    """

    @property
    def near_rows(self) -> int:
        """So many rows, from row 0 on, are enough for a look at the array."""
        ...

    @property
    def missing_bytes(self) -> int:
        """What `fetch` would transfer."""
        ...

    def fetch(self) -> None:
        """Fetches what is missing; returns when every row can be read from a mapped file."""
        ...


@runtime_checkable
class FetchesShards(Protocol):
    """Optional for a `Store` whose sources are `FetchesRows`."""

    def fetch_as(self, how: Fetching) -> None:
        """Called once after `open`: how rows are fetched from here on."""
        ...


@runtime_checkable
class RowsOverNetwork(Protocol):
    """Optional for a `VectorSource` that asks a server for rows each time they are read."""

    @property
    def over_network(self) -> str:
        """What the user of a run is told to do instead; empty if the rows are on this machine."""
        ...


@runtime_checkable
class PinnedContent(Protocol):
    """Optional for a `Store` elsewhere: an address of exactly what was opened."""

    @property
    def pinned(self) -> str:
        """Opened by another process of this machine, it gives the same rows, and asks nobody."""
        ...

    @property
    def content_sha256(self) -> str:
        """A hash of the content of all arrays; empty if the store is on this machine."""
        ...

    @property
    def content_bytes(self) -> int: ...


def total_bytes(shards: Sequence[Shard]) -> int:
    """Of distinct shards: equal content is stored once."""
    return sum({shard.sha256: shard.size for shard in shards}.values())
