"""Tasks about a run, done in a throw-away process: its configuration, data and plan."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import ConfigError, TtfError
from ttf.machine.memory.limits import budget_bytes as memory_budget

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved
    from ttf.config.schema import DataConfig
    from ttf.process.serve import Tell

# Larger containers are sampled; up to this size reading takes a second or two.
READ_ALL_BYTES: Final = 1 << 30


def _resolved(request: Mapping[str, Any]) -> Resolved:
    from ttf.config.resolve import resolve

    return resolve(Path(request["run_toml"]))


def config(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.config.resolve import as_json, flat
    from ttf.data.demo import wants_demo

    tell({"at": "reading the configuration and loading its plugins"})
    resolved = _resolved(request)
    import json

    config = resolved.config
    device, miner = dict(config.device.model_extra or {}), dict(config.miner.model_extra or {})
    return {
        "flat": flat(config),
        "notes": list(resolved.notes),
        "demo": wants_demo(resolved),
        "devices": json.loads(as_json(device)),
        "miners": json.loads(as_json(miner)),
    }


def data(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    """What `ttf train` would refuse, and what `ttf data verify` finds in each file."""
    from ttf.data.first_look import look
    from ttf.data.open_dataset import open_dataset

    whole = _resolved(request).config
    config = whole.data
    found: list[dict[str, str]] = []
    read: list[str] = []
    for uri in dict.fromkeys(u for u in (config.pairs, config.bank, config.context) if u):
        tell({"at": f"reading {uri}"})
        try:
            read.append(_verified(uri, config, found))
        except (TtfError, OSError) as error:
            found.append(_problem(error))
    tell({"at": "opening the data as ttf train does"})
    notes: list[str] = []
    try:
        with open_dataset(config, seed=whole.train.seed, teacher=whole.loss.teacher > 0) as opened:
            notes += [*opened.notes, *look(opened)]
            train, val = len(opened.train), len(opened.val)
            read.append(f"{train:,} training and {val:,} validation pairs, {opened.bank.shape[0]:,} "
                        f"documents of width {opened.bank.shape[1]:,}")  # fmt: skip
    except (TtfError, OSError) as error:
        found.insert(0, _problem(error))
    return {"problems": _unique(found), "read": read, "notes": notes}


def _verified(uri: str, config: DataConfig, found: list[dict[str, str]]) -> str:
    """Adds the problems of the file to `found`; returns a summary."""
    from ttf.data.inspect import inspect, verify

    size = sum(file.stat().st_size for file in _files(Path(uri)))
    whole = size <= READ_ALL_BYTES and "://" not in uri
    check = verify if whole else inspect
    seen = check(uri, storage=config.storage, missing=config.missing)
    elsewhere = _about_standard_names(uri, config)
    hint = " ".join(seen.hints)
    found += [{"text": p, "hint": hint} for p in seen.problems if p not in elsewhere]
    arrays = ", ".join(array.name for array in seen.arrays)
    much = (
        "read in full"
        if whole
        else f"only a sample was read; to read the whole file: ttf data verify {uri}"
    )
    return f"{uri}: {arrays} ({much})"


def _files(path: Path) -> Iterator[Path]:
    if path.is_dir():
        yield from (file for file in path.rglob("*") if file.is_file())
    elif path.is_file():
        yield path


def _about_standard_names(uri: str, config: DataConfig) -> set[str]:
    """Complaints about arrays under standard names: not valid if names are mapped."""
    if not config.names:
        return set()
    from ttf.data.inspect import unfit
    from ttf.host.plugins import open_store

    store = open_store(uri, config.storage, config.missing)
    try:
        return {str(error) for error in unfit(store)}
    finally:
        store.close()


def _problem(error: TtfError | OSError) -> dict[str, str]:
    if isinstance(error, TtfError):
        return {"text": str(error), "hint": error.hint}
    where = f"{error.filename}: " if error.filename else ""
    return {"text": f"{where}{error.strerror or type(error).__name__}.", "hint": ""}


def _unique(problems: list[dict[str, str]]) -> list[dict[str, str]]:
    return list({problem["text"]: problem for problem in problems}.values())


def plan(request: Mapping[str, Any], tell: Tell) -> dict[str, Any]:
    from ttf.training.launch import plan_resolved

    resolved = _resolved(request)
    tell({"at": "predicting memory, disk and time"})
    try:
        predicted = plan_resolved(resolved)
    except ConfigError as error:
        return {"refused": str(error), "hint": error.hint}
    told = predicted.to_json()
    budget = memory_budget(resolved.config.memory.budget)
    return {
        **told,
        "peak_phase": predicted.peak_phase,
        "lowerable": predicted.lowerable[:3],
        "fixed_bytes": predicted.peak_anon_bytes - sum(held for _, held, _ in predicted.lowerable),
        "budget": budget,
        "above_budget": _above_budget(told, budget),
    }


def _above_budget(predicted: Mapping[str, Any], budget: int) -> str:
    """A sentence if the miner needs more than `memory.budget`; else empty."""
    from ttf.text.numbers import size

    name = predicted["miner"]
    wanted = [i for i in predicted["items"] if i["component"] == f"miner {name}, index and blocks"]
    needed = max((int(item["anon_bytes"]) for item in wanted), default=0)
    if needed <= budget:
        return ""
    return f"The miner {name!r} needs about {size(needed)}, but memory.budget is {size(budget)}."
