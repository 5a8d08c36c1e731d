"""supervision.json while a run goes on."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from ttf.errors import StorageError
from ttf.rundir.durable import write_json
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.supervision import Journal, last_sign
from ttf.supervise.events import Checkpointed, Died, Ended, Event, Started
from ttf.supervise.state import State


class JournalKeeper:
    """Keeps supervision.json true: what the next supervisor of a run needs if this one is killed.

    A failing disk is said and does not end the run.
    """

    def __init__(self, folder: RunFolder, say: Callable[[str], None], *, resume: bool) -> None:
        self._folder, self._say = folder, say
        earlier = Journal.read(folder.supervision) if resume else Journal()
        self.journal = earlier.begun(time.time(), last_sign(folder.memory))

    def note(self, event: Event, state: State) -> None:
        """Writes what `state` has new after `event`."""
        before = self.journal
        if isinstance(event, Checkpointed):
            self.journal = replace(before, checkpointed=event.step)
        elif isinstance(event, Died | Ended):
            self.journal = before.with_history(state.history, state.overlay)
        if isinstance(event, Died):
            self._note_remedy(event.incident, state)
        if self.journal != before or isinstance(event, Started):
            self._write()

    def note_run(self, run_id: str) -> None:
        """The id of a run on several hosts."""
        if run_id != self.journal.run_id:
            self.journal = replace(self.journal, run_id=run_id)
            self._write()

    def note_end(self, status: str) -> None:
        """How this sitting ended, for the history of the run."""
        if self._folder.config.exists():  # else no run began
            self.journal = self.journal.with_end(status)
            self._write()

    def _write(self) -> None:
        try:
            write_json(self._folder.supervision, self.journal.document())
        except StorageError as error:
            self._say(str(error))

    def _note_remedy(self, incident: str, state: State) -> None:
        from ttf.incidents.writing import note_remedy

        edits = [
            f"{key}={change.value}"
            for key, change in state.overlay.items()
            if change.origin.startswith(f"remedy of incident {incident} ")
        ]
        if edits:
            try:
                note_remedy(self._folder.incidents, incident, ", ".join(edits))
            except StorageError as error:
                self._say(str(error))
