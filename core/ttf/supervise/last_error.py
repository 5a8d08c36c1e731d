"""The error that a run ends with, if its trainer could not say it."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from ttf.errors import (
    DataChanged,
    ExitCode,
    GaveUp,
    NumericFailure,
    PluginBroken,
    Told,
    TrainerFault,
)
from ttf.host.at_work import PluginWork
from ttf.host.installed import installed
from ttf.host.plugin_faults import mend
from ttf.incidents.death import Finding
from ttf.process.error_document import ErrorDocument, from_document

_LESS: Final = "A lower learning rate or clipped gradients often help; also check the data for NaN."


def last_error(
    document: ErrorDocument | None,
    finding: Finding,
    plugin: PluginWork | None,
    why: str,
    where: Path,
) -> Told:
    """What the trainer raised; else the meaning of its death. `why` there is no restart; `where`
    the incident's folder is. `plugin`: it died in this plugin's code."""
    evidence = f"The evidence is in {where}."
    if document is not None and document["known"]:
        error = from_document(document)
        if where.is_dir():  # the disk may not have taken it
            error.hint = f"{evidence} {error.hint}".rstrip()
        return error
    if document is not None and finding.ends_with == ExitCode.NUMERIC:
        return NumericFailure(
            f"{finding.explanation} {document['class']}: {document['message']}",
            hint=f"The traceback is in {where}. {_LESS}",
        )
    if document is not None:
        return TrainerFault(
            f"The trainer raised {document['class']}: {document['message'].rstrip('.')}. {why}",
            hint=(
                f"The traceback and the evidence are in {where}. If the error comes from a plugin of "
                "yours, mend it there; if not, please report them."
            ),
        )
    if finding.ends_with == ExitCode.BAD_DATA:
        return DataChanged(finding.explanation, hint=evidence)
    if plugin is not None:
        return PluginBroken(f"{finding.explanation} {why}", hint=f"{_mend(plugin)} {evidence}")
    return GaveUp(f"{finding.explanation} {why}", hint=evidence)


def _mend(plugin: PluginWork) -> str:
    for info in installed():
        if info.reference == plugin.plugin and info.owned_by(plugin.distribution):
            return mend(info)
    return ""
