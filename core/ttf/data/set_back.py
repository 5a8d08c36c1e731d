"""A file of the user that was written to in place, and whose time of writing was set back.

`rsync --inplace -t` and `cp -p` do this. A storage compares size and time of its files, which are those
of before. The time of the last change (ctime) cannot be set back; but permissions and links change it
too, so it is only a reason to compare the content with the checksums of the format.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ttf.contracts import Store
from ttf.errors import DataChanged


class ChangeTimes:
    """Of the files that have checksums, from the moment on when they were opened."""

    def __init__(self, stores: Iterable[Store] = ()) -> None:
        checked = [store for store in stores if getattr(store, "has_checksums", False) is True]
        self._noted = [(store, _changed_at(store)) for store in checked]

    def check(self) -> None:
        """Raises DataChanged. Reads a whole file if its time is another one, then takes that one."""
        for number, (store, before) in enumerate(self._noted):
            now = _changed_at(store)
            if now == before:
                continue
            for problem in store.verify():
                raise DataChanged(
                    f"{store.uri} was overwritten while it was in use, and its time of writing was set "
                    f"back. {problem}",
                    hint="Restore the original file. Write new data to a new file in the same folder, "
                    "then rename the new file over the old one.",
                )
            self._noted[number] = store, now


def _changed_at(store: Store) -> int:
    """0 for what is no single file of this machine."""
    path = Path(store.uri)
    return path.stat().st_ctime_ns if path.is_file() else 0
