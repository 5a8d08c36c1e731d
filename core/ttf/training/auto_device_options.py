"""Device options left at "auto": written out with the reason, and kept by a resumed run."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from ttf.config.resolve import Resolved
from ttf.contracts import DevicePolicy, Settled
from ttf.rundir.documents import ChosenSetting

AUTO: Final = "auto"
SETTLED: Final = f"{AUTO}: "  # Prefix of the origin of a value that was decided here, not given.


def with_device(resolved: Resolved, policy: DevicePolicy) -> tuple[Resolved, tuple[str, ...]]:
    """The configuration without an "auto" among the device's options, and messages about it.

    A resumed run keeps its original values, even if this machine would choose others: its numbers
    must not change because it moved.
    """
    section = resolved.config.device
    table = _table(resolved, policy)
    options = dict(section.options_of(table))
    origins = dict(resolved.origins)
    notes: list[str] = []
    for name, here in policy.settled().items():
        key = f"device.{table}.{name}"
        if options.get(name, AUTO) == AUTO:
            options[name] = here.value
            origins[key] = f"{SETTLED}{here.reason}"
            notes += [here.note] if here.note else []
        elif origins.get(key, "").startswith(SETTLED) and options.get(name) != here.value:
            notes.append(_kept(key, options.get(name), origins[key], here))
    if not options:
        return resolved, tuple(notes)
    device = section.model_copy(update={table: options})
    config = resolved.config.model_copy(update={"device": device})
    return replace(resolved, config=config, origins=origins), tuple(notes)


def _table(resolved: Resolved, policy: DevicePolicy) -> str:
    # Options are in the table of the name as it was chosen, perhaps `distribution:name`.
    asked = resolved.config.device.name
    return policy.name if asked == AUTO else asked


def _kept(key: str, value: Any, origin: str, here: Settled) -> str:
    return (
        f"{key} stays {value!r}, as at the start of the run ({origin.removeprefix(SETTLED)}). A "
        f"new run on this machine would use {here.value!r} ({here.reason})."
    )


def recorded(resolved: Resolved, policy: DevicePolicy) -> dict[str, ChosenSetting]:
    """For the manifest: each option of the device and its precision, with its origin."""
    section, table = resolved.config.device, _table(resolved, policy)
    chosen = {"device.precision": section.precision} | {
        f"device.{table}.{name}": value for name, value in section.options_of(table).items()
    }
    return {
        key: {"value": value, "origin": resolved.origins.get(key, "default")}
        for key, value in chosen.items()
    }
