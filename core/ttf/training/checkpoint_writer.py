"""Writes checkpoints during training: one thread, one checkpoint at a time, retries on a bad disk.

    main thread                      checkpoint thread
    save(snapshot) -- copies ------> metrics durable; write, fsync, rename, fsync the folder;
      returns at once                read back; on_saved; remove older ones
    raise_if_failed() <-- notes, failures

Memory: until its checkpoint is written, a snapshot costs its content once more (weights, optimizer
state, memory bank; not the best weights), and twice `PART_BYTES` while a part is written. `flush`
copies nothing: the main thread waits.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final

from ttf.errors import StorageError
from ttf.rundir.disk_retry import LONGEST_PAUSE_S, Patience
from ttf.rundir.flight_record import FlightRecorder
from ttf.rundir.verified_folders import newest_step, prune
from ttf.text.shell import quoted
from ttf.training import checkpoint
from ttf.training.checkpoint import Snapshot

_LOOK_EVERY_S: Final = 0.2


class _Job:
    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot: Snapshot | None = snapshot
        self.step = snapshot.step
        self.table = snapshot.table
        self.done = threading.Event()
        self.path: Path | None = None  # None until it is durable.


class Saver:
    """Owns the checkpoint thread of a run. Call all methods from the main thread."""

    def __init__(
        self,
        folder: Path,
        *,
        keep: int,
        retry_s: float,
        flight: FlightRecorder,
        on_saved: Callable[[int, Path, float], None],
        say: Callable[[str], None],
        sync_first: Callable[[], None] | None = None,
        stop_asked: Callable[[], bool] = lambda: False,
    ) -> None:
        """`on_saved(step, path, seconds)` is called in the thread when a checkpoint is durable and
        was read back, before older ones are removed. `say` is called in the main thread only.
        `sync_first` is called in the thread and makes durable what must not be behind a checkpoint
        (metrics); if it raises StorageError, that checkpoint fails. `stop_asked`: somebody wants
        the run to end, so `flush` waits for the disk no longer."""
        self._folder = folder
        self._keep = keep
        self._flight = flight
        self._on_saved = on_saved
        self._say = say
        self._sync_first = sync_first
        self._stop_asked = stop_asked
        self._patience = Patience(retry_s)
        # Both threads use it: a deque's append and popleft are thread-safe.
        self._notes: deque[str] = deque()
        self._broken: BaseException | None = None
        self._job: _Job | None = None
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self.saved_step = -1  # The newest checkpoint that this process made durable.
        # A daemon: a hanging disk must not keep a run alive that has to end at once.
        self._thread = threading.Thread(target=self._run, name="ttf-checkpoints", daemon=True)
        self._thread.start()

    # --- the main thread ------------------------------------------------------------------

    @property
    def busy(self) -> bool:
        return self._job is not None and not self._job.done.is_set()

    @property
    def retry_due(self) -> bool:
        """True if the last checkpoint failed and it is time to try again."""
        return not self.busy and self._patience.retry_due

    def save(self, snapshot: Snapshot) -> bool:
        """Copies the state and returns at once. Returns False and copies nothing if the previous
        checkpoint is still being written: ask again at the next step."""
        self.raise_if_failed()
        if self.busy:
            return False
        self._submit(snapshot.copied())
        return True

    def raise_if_failed(self) -> None:
        """Call it each step, it is cheap. Raises StorageError if the disk has failed for longer
        than `retry_s`."""
        while self._notes:
            self._say(self._notes.popleft())
        if self._broken is not None:
            raise self._broken
        if self._patience.used_up:
            raise self._failure()

    def flush(self, snapshot: Snapshot) -> Path:
        """Returns when this state is durable; if the disk fails, retries for `retry_s`, or once after
        a stop was asked for, then raises StorageError. The snapshot is not copied."""
        job = self._job
        if job is not None:
            self._wait(job)
            if job.step == snapshot.step and job.path is not None:
                return job.path
        pause = 1.0
        while True:
            last = self._stop_asked()
            job = self._submit(snapshot)
            self._wait(job)
            self.raise_if_failed()
            if job.path is not None:
                return job.path
            if last or not self._patience.left_s:
                raise self._failure()
            pause = min(2 * pause, LONGEST_PAUSE_S, self._patience.left_s)
            self._say(
                f"ttf tries again in {pause:.0f} s, and gives up after another "
                f"{self._patience.left_s:.0f} s."
            )
            self._pause(pause)

    @property
    def table(self) -> str:
        """The candidate table of the newest checkpoint that is written, or was; empty if it has
        none. Ask for it before those on the disk: it may become one of them meanwhile."""
        return "" if self._job is None else self._job.table

    def close(self) -> None:
        """Waits for a checkpoint that is being written, and ends the thread."""
        self._jobs.put(None)
        while self._thread.is_alive():
            self._thread.join(_LOOK_EVERY_S)
            self._flight.beat()
        while self._notes:
            self._say(self._notes.popleft())

    def _submit(self, snapshot: Snapshot) -> _Job:
        self._job = job = _Job(snapshot)
        self._jobs.put(job)
        return job

    def _wait(self, job: _Job) -> None:
        # Beats meanwhile; a hang is visible through `saving_since`.
        while not job.done.wait(_LOOK_EVERY_S):
            self._flight.beat()

    def _pause(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while not self._stop_asked() and (left := until - time.monotonic()) > 0:
            self._flight.beat()
            time.sleep(min(left, _LOOK_EVERY_S))

    def _failure(self) -> StorageError:
        error = self._patience.error
        assert error is not None
        step = newest_step(self._folder)
        older = (
            f"The checkpoint of step {step} is intact."
            if step >= 0
            else "There is no older checkpoint."
        )
        go_on = f"Then continue the run: ttf resume {quoted(self._folder.parent)}"
        return StorageError(
            f"No checkpoint could be written {self._patience.since}: {error} {older}",
            hint=f"{error.hint} {go_on}".lstrip(),
        )

    # --- the checkpoint thread ------------------------------------------------------------

    def _run(self) -> None:
        while (job := self._jobs.get()) is not None:
            try:
                self._flight.saving(True)
                try:
                    self._write(job)
                finally:
                    self._flight.saving(False)
            except BaseException as error:  # noqa: BLE001 -- raised again in the main thread
                self._broken = error
            finally:
                job.snapshot = None
                job.done.set()

    def _require_folder(self) -> None:
        # If the folder was deleted, do not make a new one that holds only part of it.
        if not self._folder.is_dir():
            raise StorageError(
                f"The folder {self._folder} no longer exists.",
                hint=(
                    "It was deleted or moved, or its disk is no longer mounted. Restore the folder."
                ),
            )

    def _write(self, job: _Job) -> None:
        assert job.snapshot is not None
        began = time.monotonic()
        try:
            self._require_folder()
            if self._sync_first is not None:
                self._sync_first()
            path = checkpoint.save(self._folder, job.snapshot)
        except StorageError as error:
            self._patience.failed(error)
            self._notes.append(
                f"THE CHECKPOINT OF STEP {job.step} IS NOT WRITTEN: {error} {error.hint}".rstrip()
            )
            return
        if self._patience.succeeded():
            self._notes.append(f"Checkpoints can be written again: step {job.step} is saved.")
        self.saved_step = job.step
        # Report it before older ones are removed, so that nobody names a removed checkpoint as the
        # newest.
        self._on_saved(job.step, path, time.monotonic() - began)
        job.path = path
        try:
            prune(self._folder, self._keep, verified=path)
        except StorageError as error:
            self._notes.append(f"{error} ttf tries again with the next checkpoint.")
