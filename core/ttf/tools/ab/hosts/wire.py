"""Repeats and tickets as the nodes tell them: plain JSON, and nothing in it is believed unchecked."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Any, Final, cast, get_args

from ttf.rundir.durable import finite
from ttf.rundir.typed_json import dataclass_from, is_number
from ttf.text.limited_json import parsed_json
from ttf.tools.ab.sample import Sample
from ttf.tools.ab.setup import ABSetup, Cell
from ttf.tools.studies.one_run import FinishedRun, Result

_LONGEST_PATH: Final = 4096
_LONGEST_TEXT: Final = 10_000
_MOST_CLASSES: Final = 1000
_LONGEST_LINE: Final = 512 << 10  # Of the journal, which is read in lines of at most twice as much.


def cells_message(cells: Sequence[Cell]) -> list[list[Any]]:
    return [list(cell) for cell in cells]


def cells_from(found: object, setup: ABSetup) -> list[Cell]:
    """Raises ValueError or TypeError for what is no repeat of this study."""
    if not isinstance(found, list):
        raise TypeError("a ticket without repeats")
    cells = []
    for values in found:
        if not isinstance(values, list) or len(values) != len(Cell._fields):
            raise ValueError("a repeat that is none")
        block, position, arm, seed = values
        numbers = all(isinstance(x, int) and x >= 0 for x in (block, position, seed))
        if not numbers or arm not in setup.names:
            raise ValueError(f"a repeat of no arm: {str(arm)[:80]!r}")
        cells.append(Cell(block, position, arm, seed))
    return cells


def finished_message(finished: FinishedRun[Sample]) -> dict[str, Any]:
    return {
        "sample": finite(asdict(finished.run)),
        "result": finished.result,
        "classes": list(finished.classes),
        "exit_code": finished.exit_code,
        "error": _error_message(finished.error),
        "evaluating_s": finished.evaluating_s,
    }


def _error_message(error: Mapping[str, Any] | None) -> dict[str, str] | None:
    if error is None:
        return None
    return {key: str(error.get(key, ""))[:_LONGEST_TEXT] for key in ("class", "message", "hint")}


def finished_from(found: object, setup: ABSetup, *, host: str, attempt: int) -> FinishedRun[Sample]:
    """What another host measured, with the host. Raises ValueError, TypeError or LookupError."""
    if not isinstance(found, Mapping):
        raise TypeError("a result that is none")
    sample = dataclass_from(Sample, found["sample"])
    cell = next((c for c in setup.cells if (c.block, c.arm) == (sample.block, sample.arm)), None)
    if cell is None or (cell.position, cell.seed) != (sample.position, sample.seed):
        raise ValueError(f"there is no repeat {sample.block} of {sample.arm!r} with this seed")
    if problem := setup.problem_with(sample):
        raise ValueError(problem)
    if found["result"] not in get_args(Result):
        raise ValueError("a result of no kind")
    exit_code, evaluating_s = found["exit_code"], found["evaluating_s"]
    if type(exit_code) is not int or not is_number(evaluating_s):
        raise TypeError("an exit code or a time that is no number")
    error = found.get("error")
    run = replace(
        sample,
        host=host,
        attempt=attempt,
        folder=sample.folder[:_LONGEST_PATH],
        reason=sample.reason[:_LONGEST_TEXT],
    )
    _check_kept(run)
    return FinishedRun(
        run=run,
        result=cast("Result", found["result"]),
        classes=[str(name)[:100] for name in found["classes"][:_MOST_CLASSES]],
        exit_code=exit_code,
        error=_told_by(host, error) if isinstance(error, Mapping) else None,
        error_details={"repeat": {"arm": sample.arm, "block": sample.block, "host": host}},
        evaluating_s=float(evaluating_s),
    )


def _check_kept(sample: Sample) -> None:
    """It is a line of the journal from here on: one that cannot be read back would cost the whole
    study. Raises ValueError or TypeError."""
    line = json.dumps(asdict(sample)).encode()
    if len(line) > _LONGEST_LINE:
        raise ValueError(f"a result of {len(line):,} bytes")
    dataclass_from(Sample, parsed_json(line))


def _told_by(host: str, error: Mapping[str, Any]) -> dict[str, str]:
    told = _error_message(error) or {}
    return {**told, "message": f"On {host}: {told['message']}"}
