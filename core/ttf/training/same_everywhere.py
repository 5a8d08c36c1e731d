"""Do the ranks of a run train the same? Compared before the first step of each attempt."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ttf.errors import RanksDisagree
from ttf.host.version import __version__
from ttf.rundir.world_place import WorldPlace
from ttf.training.configurations import compared
from ttf.training.manifest import differences, numeric_fingerprint
from ttf.training.session import Session
from ttf.training.summary_facts import DIFFERS


def compare_ranks(session: Session, place: WorldPlace, beat: Callable[[], None]) -> list[str]:
    """What makes results differ from those of equal processes, as deviations. Raises RanksDisagree
    where the ranks would not train the same run."""
    own = {
        "ttf": __version__,
        "config": compared(session.config),
        "steps": session.decided.total_steps,
        "data": session.data.fingerprint,
        "numeric": numeric_fingerprint(session.config, session.policy),
    }
    told = session.world.tell("what each rank trains", own, beat)
    first = told[0]
    for rank, other in enumerate(told):
        _refuse(first, other, place.host_of(0), place.host_of(rank))
    found = []
    for rank, other in enumerate(told):
        for text in differences(first["numeric"], other["numeric"]):
            found.append(f"{place.host_of(rank)} {DIFFERS} {place.host_of(0)}: {text}")
    return found


def _refuse(first: Mapping[str, Any], other: Mapping[str, Any], here: str, there: str) -> None:
    if first["ttf"] != other["ttf"]:
        raise RanksDisagree(
            f"{there} has ttf {other['ttf']}, {here} has {first['ttf']}.",
            hint="Install the same version on all hosts.",
        )
    then, now = first["config"], other["config"]
    keys = [key for key in sorted({*then, *now}) if then.get(key) != now.get(key)]
    if keys:
        shown = "; ".join(f"{key} is {now.get(key)}, not {then.get(key)}" for key in keys[:5])
        raise RanksDisagree(
            f"{there} would train another configuration than {here}: {shown}.",
            hint="Use the same run.toml and options on all hosts. Where ttf chose the value from "
            "the machine, write it into run.toml.",
        )
    if (first["data"], first["steps"]) != (other["data"], other["steps"]):
        raise RanksDisagree(
            f"{there} has other data than {here}.",
            hint="All hosts need the same pairs and the same bank; compare the files with "
            "sha256sum.",
        )
