"""One run of a study: the configuration with some ingredients taken out, as a short `ttf train`.

Every run has a seed of its own, the study's plus its number: a fault that follows the random state
must not look cured by chance, nor one that is cured look flaky.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import shutil
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, Final, Self

from ttf.errors import TtfError
from ttf.rundir.durable import read_json
from ttf.rundir.incident_files import list_incidents
from ttf.tools.bisect.factors import Factor, edits_of
from ttf.tools.studies.child import ask
from ttf.tools.studies.training import Result, Training, error_of, result_of, tidy

_MATTERS: Final = frozenset(
    {
        "train.batch_size",
        "loss.memory_bank",
        "loss.memory_bank_start",
        "miner.name",
        "miner.start",
        "miner.refresh",
        "gates",
    }
)
"""Of what a run is told besides its edits, the settings that are part of what it does."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """What all runs of a study share; written to study.json and never changed."""

    toml: str
    toml_sha256: str
    sets: tuple[str, ...]
    """As the user gave them."""
    steps: int
    seed: int
    pins: Mapping[str, Any]
    """What "auto" was settled to: an edit must not change anything else."""
    short: Mapping[str, Any]
    """What makes a run short, and leaves every ingredient in it."""
    data: Mapping[str, Any]
    factors: tuple[Factor, ...]
    passed: Mapping[str, str]
    """Ingredients that do not apply, and why."""
    confidence: float
    rarest: float

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        factors = tuple(Factor.from_json(f) for f in values["factors"])
        return cls(**{**values, "sets": tuple(values["sets"]), "factors": factors})

    def chosen(self, names: Sequence[str] | frozenset[str]) -> list[Factor]:
        return [factor for factor in self.factors if factor.name in names]


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """A finished run; a line of bisect.jsonl."""

    run: int
    ablated: tuple[str, ...]
    seed: int
    result: Result
    classes: tuple[str, ...] = ()
    """Of its incidents."""
    where: str = ""
    reason: str = ""
    exit_code: int = 0
    seconds: float = 0.0
    error: Mapping[str, Any] | None = None

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        lists = {k: tuple(values[k]) for k in ("ablated", "classes")}
        return cls(**{**values, **lists})


def edits_for(setup: Setup, names: Sequence[str], folder: Path) -> dict[str, Any]:
    """Of these ingredients together; data is written anew where one of them asks for it."""
    chosen = setup.chosen(names)
    change: dict[str, Any] = {}
    for factor in chosen:
        change |= factor.rewrite
    edits = edits_of(chosen)
    if not change:
        return edits
    label = "+".join(factor.name for factor in chosen if factor.rewrite)
    place = str((folder / "data" / label).absolute())
    request = {"do": "rewrite", "data": setup.data, "change": change, "folder": place}
    return edits | _asked(json.dumps(request))


@cache
def _asked(request: str) -> dict[str, Any]:
    """A child costs half a second, and files that are there need none."""
    return ask(json.loads(request))


def words(setup: Setup, edits: Mapping[str, Any], seed: int) -> list[str]:
    """The command of a run, without --out and --json."""
    out = ["train", setup.toml, "--steps", str(setup.steps), "--seed", str(seed), "--no-remedies"]
    texts = [*setup.sets, *(f"{k}={_toml(v)}" for k, v in {**setup.pins, **setup.short}.items())]
    for text in (*texts, *(f"{key}={_toml(value)}" for key, value in edits.items())):
        out += ["--set", text]
    return out


def command_line(setup: Setup, edits: Mapping[str, Any], seed: int) -> str:
    """The shortest command that is the same run: values said once, nothing that only spared time,
    nothing about what is not used."""
    edits = {**edits}
    if edits.get("miner.negatives") == 0:
        edits = {k: v for k, v in edits.items() if k not in ("miner.isolation", "miner.name")}
    said = {text.partition("=")[0].strip() for text in setup.sets} | set(edits)
    kept = {k: v for k, v in {**setup.pins, **setup.short}.items() if k in _MATTERS}
    mines = edits.get("miner.negatives") != 0
    extra = {k: v for k, v in kept.items()
             if k not in said and (mines or not k.startswith("miner."))}  # fmt: skip
    out = ["ttf", "train", setup.toml, "--steps", str(setup.steps), "--seed", str(seed)]
    out += ["--no-remedies", "--set", "supervise.max_restarts=0"]
    for text in (*setup.sets, *(f"{k}={_toml(v)}" for k, v in {**extra, **edits}.items())):
        out += ["--set", text]
    return shlex.join(out)


def _toml(value: Any) -> str:
    return "none" if value is None else json.dumps(value)


def carry_out(setup: Setup, names: Sequence[str], number: int, folder: Path) -> Outcome:
    """Runs it to its end, and leaves of it only what tells of a crash."""
    began, seed = time.monotonic(), setup.seed + number
    common: dict[str, Any] = {"run": number, "ablated": tuple(names), "seed": seed}
    try:
        edits = edits_for(setup, names, folder)
    except TtfError as error:
        reason = str(error)
        return Outcome(**common, result="invalid", reason=reason, exit_code=int(error.exit_code))
    run = folder / "runs" / f"{number:03d}"
    shutil.rmtree(run, ignore_errors=True)  # of a study that was killed
    run.parent.mkdir(exist_ok=True)
    with Training([*words(setup, edits, seed), "--out", str(run), "--json"], run) as training:
        code = training.process.wait()
        document = training.document()
    outcome = _read(common, code, document, run)
    tidy(run, keep=outcome.result == "crash")
    return replace(outcome, seconds=round(time.monotonic() - began, 3))


def _read(common: Mapping[str, Any], code: int, document: Mapping[str, Any], run: Path) -> Outcome:
    incidents = list_incidents(run / "incidents")
    classes = tuple(dict.fromkeys(str(i["class"]) for i in incidents))
    error = document.get("error")
    reason = str((error or {}).get("message", "")).strip()
    result = result_of(code, classes)
    if result == "crash":
        classes = classes or ("unknown",)
    return Outcome(
        **common,
        result=result,
        classes=classes,
        where=_where(run) if result == "crash" else "",
        reason=reason if result != "crash" else "",
        exit_code=code,
        error=error if result in ("invalid", "void") else None,
    )


def _where(run: Path) -> str:
    """The first incident's process, phase and step."""
    for path in sorted((run / "incidents").glob("[0-9]*/incident.json")):
        with contextlib.suppress(OSError, ValueError, AttributeError):
            found = read_json(path)
            return f"{found.get('process')}, {found.get('phase')} at step {found.get('step')}"
    return ""


def raised(outcome: Outcome) -> TtfError:
    """The error that a run ended with, for a study that cannot go on without it."""
    return error_of(outcome.error, outcome.exit_code)
