"""A file of the user that was written to in place, and whose time of writing was set back.

`rsync --inplace -t` and `cp -p` do this. A storage compares size and time of its files, which are those
of before. The time of the last change (ctime) cannot be set back; but permissions and links change it
too, so it is only a reason to compare the content with the checksums of the format. Without checksums
nobody can tell, and a run says so at its end.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from ttf.contracts import Store
from ttf.errors import DataChanged


class ChangeTimes:
    """Of the files of a dataset, from the moment on when they were opened."""

    def __init__(self, stores: Iterable[Store] = ()) -> None:
        noted = [(store, _changed_at(store)) for store in stores]
        self._noted = [(store, at) for store, at in noted if _has_checksums(store)]
        self._unchecked = [(store, at) for store, at in noted if not _has_checksums(store)]

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

    def unknown(self) -> list[str]:
        """Sentences about files without checksums whose time is another one."""
        return [
            f"{store.uri} was written to while it was in use and its time of writing was set back, or "
            "its permissions or links are others; its format has no checksums, so ttf cannot compare "
            "its content"
            for store, before in self._unchecked
            if _changed_at(store) != before
        ]


def _has_checksums(store: Store) -> bool:
    return getattr(store, "has_checksums", False) is True


def _changed_at(store: Store) -> int:
    """Of a file, or of the arrays in a folder; 0 for what is neither, and for chunks of Zarr."""
    path = Path(store.uri)
    if not path.is_dir():
        return path.stat().st_ctime_ns if path.is_file() else 0
    return max((file.stat().st_ctime_ns for file in path.glob("*.npy")), default=0)
