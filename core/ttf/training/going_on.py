"""Going on with a run: whether there is something to resume, its newest state, and whether its data
is still the same."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from ttf.data.dataset import Dataset
from ttf.errors import ArtifactDamaged, DataChanged
from ttf.incidents.inputs import refuse_changed
from ttf.rundir.confined import names_in, read_json
from ttf.rundir.documents import DataFacts, Manifest
from ttf.rundir.flight_record import FlightRecorder
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.supervision import Journal
from ttf.rundir.verified_folders import newest_first
from ttf.text.shell import quoted
from ttf.training import manifest
from ttf.training.checkpoint import Snapshot, load_newest
from ttf.training.session import Session
from ttf.training.towers import Specs, refuse_larger

Say = Callable[[str], None]


def has_begun(folder: RunFolder, say: Say) -> bool:
    """True if there is, or was, something to resume. A run that ended before its first checkpoint
    starts again; a run whose checkpoints are gone must not."""
    if newest_first(folder.checkpoints):
        return True
    # An unsupervised run has no journal; its summary shows that it ended and saved.
    noted = folder.supervision.exists()
    if Journal.read(folder.supervision).checkpointed >= 0 or (
        not noted and folder.summary.exists()
    ):
        return True
    say("There was no checkpoint yet, so the run starts from the beginning.")
    return False


def refuse_larger_than_saved(folder: RunFolder, specs: Specs) -> None:
    """Before the towers are built: a run.toml that was changed after the last checkpoint may ask
    for more memory than the run ever had. Raises ArtifactDamaged, NoCheckpoint."""
    saved = newest_first(folder.checkpoints)
    if not saved:
        if has_begun(folder, lambda _: None):
            load_newest(folder.checkpoints, lambda _: None)
        return
    try:
        largest = max(_bytes_in(path, folder.path) for path in saved)
        refuse_larger(
            specs.query, specs.doc, largest, f"the largest checkpoint in {saved[0].parent}"
        )
    except ValueError as error:
        load_newest(
            folder.checkpoints, lambda _: None
        )  # if they are small because they are damaged
        raise ArtifactDamaged(
            f"{folder.config} is not the configuration that this run was trained with: {error}.",
            hint="Restore it, or start a new run with it: "
            f"ttf train {quoted(folder.config)} --out ANOTHER_DIR",
        ) from None


def _bytes_in(path: Path, run: Path) -> int:
    return sum((path / name).lstat().st_size for name in names_in(path, run))


def load_state(session: Session) -> tuple[Snapshot, list[str]]:
    """The newest intact checkpoint of this run, and the deviations from an undisturbed run: between
    this process and the one that started the run, and data whose content cannot be compared.
    Raises NoCheckpoint, ArtifactDamaged, DataChanged."""
    folder = session.folder
    say = session.reporter.note
    snapshot = load_newest(folder.checkpoints, say)
    before = _manifest_of(folder)
    unknown = _refuse_other_data(before["data"], session.data, folder, session.link.flight, say)
    now = manifest.numeric_fingerprint(session.config, session.policy)
    differences = manifest.differences(before["numeric"], now)
    return snapshot, [*unknown, *(f"resumed with a difference: {text}" for text in differences)]


def _manifest_of(folder: RunFolder) -> Manifest:
    """Raises ArtifactDamaged."""
    try:
        found: Manifest = read_json(folder.manifest, folder.path)
        found["data"]["fingerprint"], found["numeric"]["plugins"].items()
    except (OSError, ArtifactDamaged, LookupError, TypeError, AttributeError) as error:
        raise ArtifactDamaged(
            f"{folder.manifest} is missing or damaged ({type(error).__name__}: {error}). Without "
            "it, ttf does not know the data and the environment of the run.",
            hint="Restore the file, or start a new run with the run.toml of this folder.",
        ) from error
    return found


def _refuse_other_data(
    before: DataFacts, data: Dataset, folder: RunFolder, flight: FlightRecorder, say: Say
) -> list[str]:
    """Raises DataChanged. `before` is the manifest's part about the data. Returns what cannot be
    compared."""
    if before["fingerprint"] != data.fingerprint:
        raise DataChanged(
            f"The data has changed since the run in {folder.path} was started (pairs "
            f"{before.get('pairs')}, bank {before.get('bank')}).",
            hint="Restore the original files, or start a new run with ttf train.",
        )
    with _heartbeats(flight):
        return refuse_changed(before.get("files", {}), data.stores, say)


@contextlib.contextmanager
def _heartbeats(flight: FlightRecorder) -> Iterator[None]:
    """Beats during long work that cannot beat itself."""
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
