"""A study as its outputs tell it: without the secrets of its commands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from ttf.text.secrets import Secrets

if TYPE_CHECKING:
    from ttf.tools.ab.study import ABStudy


def told(study: ABStudy) -> ABStudy:
    """A copy to read, not to write: whoever continues the study needs the commands as they are."""
    setup = study.setup
    secrets = Secrets(command=[word for arm in setup.arms for word in arm.words])
    names = dict(zip(setup.names, _different(map(secrets.text, setup.names)), strict=True))
    arms = tuple(
        replace(
            arm,
            name=names[arm.name],
            words=tuple(secrets.words(arm.words)),
            sets=tuple(map(secrets.text, arm.sets)),
        )
        for arm in setup.arms
    )
    runs = [
        replace(run, arm=names[run.arm], reason=run.reason and secrets.text(run.reason))
        for run in study.runs
    ]
    return replace(
        study,
        setup=replace(setup, arms=arms, sets=tuple(map(secrets.text, setup.sets))),
        record=replace(study.record, command=secrets.text(study.record.command)),
        runs=runs,
    )


def _different(names: Iterable[str]) -> list[str]:
    # Two commands may differ in nothing but a secret.
    found: list[str] = []
    for name in names:
        number = 1 + sum(other == name or other.startswith(f"{name} (") for other in found)
        found.append(name if number == 1 else f"{name} ({number})")
    return found
