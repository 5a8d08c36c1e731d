"""What is done about a run that has ended, however it did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ttf.errors import ExitCode, GateNotMet, Told
from ttf.rundir.documents import MODEL_CONFIG
from ttf.rundir.run_folder import RunFolder
from ttf.text.shell import quoted

if TYPE_CHECKING:
    from ttf.rundir.documents import Summary


def finished(folder: RunFolder) -> Summary | None:
    """The summary of a run that has nothing left to do. Raises GateNotMet if it ended so."""
    summary = folder.read_summary()
    if summary.get("status") != "finished":
        return None
    if summary.get("exit_code") == ExitCode.GATE:
        error = GateNotMet(summary.get("problem", ""), hint=summary.get("hint", ""))
        error.details = {"run_dir": str(folder.path), "summary": summary}
        raise error
    return {**summary, "run_dir": str(folder.path)}


def point_to_model(folder: RunFolder, error: Told) -> None:
    """Adds to the hint that a run which did not finish has a model."""
    if (folder.model / MODEL_CONFIG).is_file():
        look = f"To evaluate the best model so far: ttf eval {quoted(folder.path)}"
        error.hint = f"{look}. {error.hint}" if error.hint else look


def write_report(folder: RunFolder) -> None:
    """Writes report.html if there is a summary; a failure here does not fail the run."""
    if not folder.summary.exists():
        return
    from ttf.host import notices
    from ttf.tools.report.page import write_page

    try:
        write_page(folder.path)
    except Exception as error:  # noqa: BLE001 - everything it shows is in the folder
        notices.say(f"ttf could not write the report: {error} (to try again: ttf report)")
