"""What a process that goes on with a run must know before it does: has it begun, is it the same?"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator

from ttf.data.dataset import Dataset
from ttf.errors import ArtifactDamaged, DataChanged
from ttf.incidents.inputs import refuse_changed
from ttf.rundir.documents import DataFacts, Incident, Manifest
from ttf.rundir.durable import read_json
from ttf.rundir.flight_record import FlightRecorder
from ttf.rundir.request import History
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.supervision import Journal
from ttf.rundir.verified_folders import newest_first
from ttf.training.checkpoint import Snapshot, load_newest
from ttf.training.manifest import differences, numeric_fingerprint
from ttf.training.session import Session

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


def load_state(session: Session) -> tuple[Snapshot, list[str]]:
    """The newest intact checkpoint of this very run, and in what this process differs from the one
    that began it. Raises NoCheckpoint, ArtifactDamaged, DataChanged."""
    folder = session.folder
    say = session.reporter.note
    snapshot = load_newest(folder.checkpoints, say)
    before = manifest_of(folder)
    refuse_other_data(before["data"], session.data, folder, session.link.flight, say)
    now = numeric_fingerprint(session.config, session.policy)
    return snapshot, differences(before["numeric"], now)


def manifest_of(folder: RunFolder) -> Manifest:
    """What the run began with. Raises ArtifactDamaged."""
    try:
        manifest: Manifest = read_json(folder.manifest)
        manifest["data"]["fingerprint"], manifest["numeric"]["plugins"]
    except (OSError, ValueError, LookupError, TypeError) as error:
        raise ArtifactDamaged(
            f"{folder.manifest} is missing or damaged ({type(error).__name__}: {error}): what the "
            "run began with is not known any more.",
            hint="Put it back, or start a new run from the folder's run.toml.",
        ) from error
    return manifest


def refuse_other_data(
    before: DataFacts, data: Dataset, folder: RunFolder, flight: FlightRecorder, say: Say
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


def incidents_of_before(folder: RunFolder, history: History | None) -> list[Incident]:
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
