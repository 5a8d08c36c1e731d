"""What a run needs to go on where it stopped: whether it may, and everything that is restored."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ttf.data.dataset import Dataset
from ttf.data.unchanged import refuse_changed
from ttf.errors import ArtifactDamaged, DataChanged
from ttf.rundir.checkpoint_files import newest_first
from ttf.rundir.durable import read_json
from ttf.rundir.flight_record import FlightRecorder
from ttf.rundir.folder import RunFolder
from ttf.rundir.request import History
from ttf.rundir.supervision import Journal
from ttf.training import checkpoint
from ttf.training.best_weights import Selection
from ttf.training.manifest import differences, numeric_fingerprint
from ttf.training.session import Parts, Session

if TYPE_CHECKING:
    from ttf.training.refresh import Refresher

Say = Callable[[str], None]


def has_begun(folder: RunFolder, say: Say) -> bool:
    """Whether there is, or was, something to continue from: a run that ended before its first
    checkpoint starts anew, one whose checkpoints are gone must not."""
    if newest_first(folder.checkpoints):
        return True
    # A run that nobody supervised has no journal; its summary tells of an end that saved.
    noted = folder.supervision.exists()
    if Journal.read(folder.supervision).checkpointed >= 0 or (
        not noted and folder.summary.exists()
    ):
        return True
    say("No checkpoint was made before: the run starts from the beginning.")
    return False


def load_state(session: Session) -> tuple[checkpoint.Snapshot, list[str]]:
    """The newest intact checkpoint of this very run, and in what this process differs from the one
    that began it. Raises NoCheckpoint, ArtifactDamaged, DataChanged."""
    folder = session.folder
    say = session.reporter.note
    snapshot = checkpoint.load_newest(folder.checkpoints, say)
    before = manifest_of(folder)
    refuse_other_data(before["data"], session.data, folder, session.link.flight, say)
    now = numeric_fingerprint(session.config, session.policy)
    return snapshot, differences(before["numeric"], now)


def manifest_of(folder: RunFolder) -> Mapping[str, Any]:
    """What the run began with. Raises ArtifactDamaged."""
    try:
        manifest: Mapping[str, Any] = read_json(folder.manifest)
        manifest["data"]["fingerprint"], manifest["numeric"]["plugins"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ArtifactDamaged(
            f"{folder.manifest} is missing or damaged ({type(error).__name__}: {error}): what the "
            "run began with is not known any more.",
            hint="Put it back, or start a new run from the folder's run.toml.",
        ) from error
    return manifest


def refuse_other_data(
    before: Mapping[str, Any], data: Dataset, folder: RunFolder, flight: FlightRecorder, say: Say
) -> None:
    """Raises DataChanged. `before` is the manifest's part about the data."""
    if before["fingerprint"] != data.fingerprint:
        raise DataChanged(
            f"The data is not what the run in {folder.path} was started with "
            f"(pairs {before.get('pairs')}, bank {before.get('bank')}).",
            hint="Put the files back as they were, or start a new run with ttf train.",
        )
    with _heartbeats(flight):
        refuse_changed(before.get("files", {}), data.stores, say)


def incidents_of_before(folder: RunFolder, history: History | None) -> list[dict[str, Any]]:
    """What this run's observers have not heard of, because its process had died."""
    ids = history.incidents if history is not None else ()
    paths = [folder.incidents / number / "incident.json" for number in ids]
    return [read_json(path) for path in paths if path.is_file()]


@contextlib.contextmanager
def _heartbeats(flight: FlightRecorder) -> Iterator[None]:
    """Signs of life during what takes long and cannot give any itself."""
    over = threading.Event()

    def beat() -> None:
        while not over.wait(1.0):
            flight.beat()

    thread = threading.Thread(target=beat, name="ttf-beat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@dataclass(kw_only=True)
class Totals:
    """Sums over all processes of a run."""

    wall_s: float = 0.0
    train_s: float = 0.0
    peak_bytes: int = 0
    miner: str = ""
    """The one that mined last; empty while nothing was mined."""
    deviations: list[str] = field(default_factory=list)
    """What made the numbers differ from those of an undisturbed run."""

    def restore(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self, name, value)


class RunState:
    """The mutable state of a run beside the data: it follows from the configuration and this."""

    def __init__(
        self, parts: Parts, refresher: Refresher, selection: Selection, totals: Totals
    ) -> None:
        self._parts = parts
        self._refresher = refresher
        self.selection = selection
        self.totals = totals
        self._clock = time.monotonic()

    def continue_clock(self, history: History | None) -> None:
        """The wall clock of a supervised run counts its dead processes as well; whoever continues
        alone knows only those that saved."""
        if history is not None:
            self.totals.wall_s = history.wall_s
            self._clock = history.started_at

    def tick(self) -> float:
        """Brings the wall clock of the totals up to now, and returns it."""
        now = time.monotonic()
        self.totals.wall_s += now - self._clock
        self._clock = now
        return self.totals.wall_s

    def snapshot(self, step: int) -> checkpoint.Snapshot:
        """Refers to the run's own tensors: save it before the next step, or `copied`."""
        self.tick()
        bank = self._parts.bank
        tensors = {"ids": torch.from_numpy(bank.ids[: bank.filled].copy())}
        if not self._parts.documents.fixed:
            tensors["vectors"] = bank.vectors()
        return checkpoint.Snapshot(
            step=step,
            model=self._parts.model.state_dict(),
            optimizer=checkpoint.optimizer_tensors(self._parts.stepper.optimizer),
            bank=tensors,
            best=self.selection.weights,
            progress={
                "table": self._refresher.table_for(step),
                "bank_position": bank.position,
                "selection": self.selection.to_json(),
                "totals": asdict(self.totals),
            },
        )

    def restore(self, snapshot: checkpoint.Snapshot) -> None:
        parts = self._parts
        progress = snapshot.progress
        parts.model.load_state_dict(snapshot.model)
        checkpoint.restore_optimizer(parts.stepper.optimizer, snapshot.optimizer)
        ids = snapshot.bank["ids"].numpy().astype(np.int64)
        vectors = snapshot.bank.get("vectors")
        if vectors is None:  # fixed documents: the vectors follow from the ids
            vectors = torch.from_numpy(parts.documents.read(ids))
        parts.bank.restore(ids, progress["bank_position"], vectors)
        self._refresher.resume(progress["table"])
        self.selection.restore(progress["selection"], snapshot.best)
        self.totals.restore(progress["totals"])
