"""A temporary folder next to its target. It replaces the target once it is complete and durable."""

from __future__ import annotations

from pathlib import Path

from ttf import fsync_dir, remove_if_possible, storage_error, temporary_folder


class FolderOutput:
    """Every failure raises StorageError; the caller then calls `discard`."""

    def __init__(self, uri: str) -> None:
        self.target = Path(uri.rstrip("/"))
        self._published = False
        try:
            self._temporary = temporary_folder(self.target)
        except OSError as error:
            raise storage_error(error, str(self.target)) from error
        self.path = self._temporary.path
        self._old = self.target.with_name(f"{self.path.name}-old")

    def publish(self) -> None:
        try:
            for folder in [p for p in self.path.rglob("*") if p.is_dir()]:
                fsync_dir(folder)
            fsync_dir(self.path)
            if self.target.exists():  # it keeps a name until the new folder has taken its place
                self.target.rename(self._old)
            self.path.rename(self.target)
            fsync_dir(self.target.parent)
        except OSError as error:
            raise storage_error(error, str(self.target)) from error
        self._published = True
        self._temporary.close()
        remove_if_possible(self._old, self._old.parent)

    def discard(self) -> None:
        """Does nothing after `publish`."""
        if self._published:
            return
        self._temporary.remove()
        # If `publish` was interrupted between its two renames.
        if self._old.exists() and not self.target.exists():
            self._old.rename(self.target)
        remove_if_possible(self._old, self._old.parent)
