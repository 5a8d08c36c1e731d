"""What the nodes of a study compare before the first ticket: the arms, the data, the versions."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from ttf.tools.ab.setup import ABSetup
from ttf.tools.studies.child import ask
from ttf.tools.studies.same_data import KEYS
from ttf.tools.tickets import facts
from ttf.tools.tickets.own import Own

_RESOLVE: Final = "ttf.tools.ab.resolve_task:resolve_arms"


def own(setup: ABSetup) -> Own:
    """Reads the configurations in a child process."""
    return Own(settings=settings_of(setup), data=_data(setup))


def settings_of(setup: ABSetup) -> dict[str, Any]:
    """What must be equal on all hosts, without paths. The number of repeats, and how the results are
    judged, is for node 0 to say."""
    told: dict[str, Any] = {
        "the steps": setup.steps,
        "--set": list(setup.sets),
        "--hang-timeout": setup.hang_timeout_s,
    }
    for arm in setup.arms:
        told[f"the arm {arm.name}"] = [
            arm.toml_sha256,
            list(arm.sets),
            arm.evaluate_every,
            list(arm.words),
        ]
    if setup.commands is not None:
        terms = setup.commands
        told["--metric"] = [terms.metric, terms.better]
        told["--run-limit"] = terms.run_limit_s
        told["the scripts"] = sorted(terms.scripts.values())
    return told


def _data(setup: ABSetup) -> dict[str, str]:
    """Fingerprints of the files that the arms read, without their paths."""
    if setup.commands is not None:
        return {}
    request = [{"toml": arm.toml, "sets": [*setup.sets, *arm.sets]} for arm in setup.arms]
    resolved = ask(_RESOLVE, {"arms": request}, to="read the configurations")["arms"]
    found: dict[str, str] = {}
    for arm, values in zip(setup.arms, resolved, strict=True):
        for key in KEYS:
            uri = values.get("flat", {}).get(key)
            if uri:
                path = str(uri) if "://" in str(uri) else str(Path(setup.cwd, str(uri)))
                found[f"{key} of {arm.name}"] = facts.fingerprint(path)
    return found
