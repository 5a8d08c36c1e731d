"""Predicts the run of every configuration; in a child process, because it loads torch and the user's
plugins."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.errors import TtfError
from ttf.process.error_document import to_document

if TYPE_CHECKING:
    from ttf.process.serve import Tell


def plan_all(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """For each file `error`, or the values as `flat` and the number of `gates`."""
    return {"found": [_planned(Path(file), request) for file in request["files"]]}


def _planned(file: Path, request: Mapping[str, Any]) -> dict[str, Any]:
    from ttf.config.resolve import flat, resolve
    from ttf.host import plugins
    from ttf.training.launch import plan_resolved

    try:
        resolved = resolve(file, request["sets"], request["flags"], safe=request["safe"])
        data = resolved.config.data
        if not request["remote"]:
            plugins.refuse_remote((data.pairs, data.bank, data.context), str(file))
        plan_resolved(resolved)
    except TtfError as error:
        return {"error": to_document(error)}
    return {"flat": flat(resolved.config), "gates": len(resolved.config.gates)}
