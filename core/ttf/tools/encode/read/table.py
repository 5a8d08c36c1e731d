"""What every reader of tables offers: names of columns, and rows of values with their places."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol


class Table(Protocol):
    """A table that is read once, from its beginning."""

    uri: str
    columns: Sequence[str]
    place: str
    """How a row is called in messages: "line" or "row"."""

    def rows(self, names: Sequence[str]) -> Iterator[tuple[int, Sequence[Any]]]:
        """(place, values of these columns) of each row."""

    def position(self) -> tuple[int, int]:
        """(done, total) of the reading, in any unit."""
