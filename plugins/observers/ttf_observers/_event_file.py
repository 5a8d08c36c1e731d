"""Writes an event file of TensorBoard. Each event reaches the kernel before the call returns.

TensorBoard reads the files of a folder in the order of their names. A file that starts a session at
step N deletes step N and later steps of earlier files.
"""

from __future__ import annotations

import io
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.compat.proto.tensor_pb2 import TensorProto
from tensorboard.compat.proto.types_pb2 import DT_STRING
from tensorboard.summary.writer.record_writer import RecordWriter

from ttf import OpenFile, StorageError, fsync_dir, storage_error

_AREA: Final = "tensorboard"
_PREFIX: Final = "events.out.tfevents."
# Limit of events held in memory while the disk is full. A step has about 400 bytes.
_MOST_BYTES: Final = 16 << 20
_AS_TEXT: Final = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))


class EventFile:
    """Starts a file after all others of `folder`. Retries a failing disk for `retry_s`, then raises
    StorageError."""

    def __init__(self, folder: Path, kept_until: int | None, retry_s: float) -> None:
        """Drops the steps after `kept_until` of earlier files; None: all steps."""
        self.folder = folder
        self._step = kept_until or 0
        self._retry_s = retry_s
        self._failing_since: float | None = None
        # Events that are not in the file yet: one, or more while the disk is full.
        self._held = io.BytesIO()
        self._records = RecordWriter(self._held)
        try:
            folder.mkdir(exist_ok=True)
            self._file = OpenFile(folder / _next_name(folder), _AREA)
            fsync_dir(folder, _AREA)
            fsync_dir(folder.parent, _AREA)
        except OSError as error:
            raise storage_error(error, str(folder)) from error
        self._add(file_version="brain.Event:2")
        first = 0 if kept_until is None else kept_until + 1
        self._add(session_log=SessionLog(status=SessionLog.START), step=first)

    def numbers(self, step: int, values: Mapping[str, float]) -> None:
        """Adds one point at this step to several curves."""
        self._step = step
        points = [Summary.Value(tag=tag, simple_value=value) for tag, value in values.items()]
        self._add(summary=Summary(value=points), step=step)

    def text(self, tag: str, markdown: str) -> None:
        """Adds a text at the current step."""
        tensor = TensorProto(dtype=DT_STRING, string_val=[markdown.encode(errors="replace")])
        value = Summary.Value(tag=tag, metadata=_AS_TEXT, tensor=tensor)
        self._add(summary=Summary(value=[value]), step=self._step)

    def sync(self) -> None:
        """Makes added events durable, except while the disk fails."""
        if self._failing_since is None:
            self.make_durable()

    def make_durable(self) -> None:
        """Raises StorageError if the disk does not take everything now."""
        try:
            if self._held.tell():
                self._file.write(self._held.getvalue())
            self._file.sync()
        except OSError as error:
            raise storage_error(error, str(self._file.path)) from error

    def close(self) -> None:
        """Loses the events that the disk did not take."""
        self._file.close()

    def _add(self, **what: Any) -> None:
        self._records.write(Event(wall_time=time.time(), **what).SerializeToString())
        try:
            self._file.write(self._held.getvalue())
        except OSError as error:
            self._raise_if_too_long(storage_error(error, str(self._file.path)))
        else:
            self._failing_since = None
            self._held.seek(0)
            self._held.truncate()

    def _raise_if_too_long(self, error: StorageError) -> None:
        now = time.monotonic()
        if self._failing_since is None:
            self._failing_since = now
        if now - self._failing_since >= self._retry_s or self._held.tell() > _MOST_BYTES:
            raise error


def _next_name(folder: Path) -> str:
    # The time, as usual, but later than all existing files: two processes may start within a
    # second, or the clock may go back. Contains no host or user name.
    found = (re.match(rf"{re.escape(_PREFIX)}(\d+)", path.name) for path in folder.iterdir())
    last = max((int(match[1]) for match in found if match), default=0)
    return f"{_PREFIX}{max(int(time.time()), last + 1):010d}.ttf"
