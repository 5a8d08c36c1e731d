"""One run of a study: a short `ttf train` with some ingredients taken out.

The seed of a run is the study's seed plus the number of the run: a fault that depends on the random
state must not look cured by chance, and a cured fault must not look flaky.
"""

from __future__ import annotations

import contextlib
import json
import shlex
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from ttf.errors import TtfError
from ttf.host.plugins import refuse_remote
from ttf.rundir.confined import is_plain_name, names_in
from ttf.rundir.incident_files import incident_folders, list_incidents, read_incident
from ttf.text.shell import quoted
from ttf.tools.bisect.experiment import BisectRun, Experiment, Trial
from ttf.tools.bisect.factors import Factor, edits_of
from ttf.tools.studies.child import ask
from ttf.tools.studies.one_run import FinishedRun, StartedRun, result_of, tidy
from ttf.tools.studies.study import SETTINGS

LABEL_JOINT: Final = "+"  # between the ingredients in the name of a folder of changed data
_REWRITE: Final = "ttf.tools.bisect.rewrite_data:rewrite_task"
_REWRITES: Final = {"rows": int, "length": int, "storage": str}
# The settings of a run, besides its edits, that change what the run does.
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


@dataclass(frozen=True, kw_only=True)
class TrainExperiment(Experiment):
    """A training run, with some edits of its configuration."""

    toml: str
    toml_sha256: str
    sets: tuple[str, ...]  # as the user gave them
    steps: int
    seed: int
    pins: Mapping[str, Any]  # The values of "auto": an edit must not change anything else.
    short: Mapping[str, Any]  # makes a run short but keeps every ingredient
    data: Mapping[str, Any]
    factors: tuple[Factor, ...]
    passed: Mapping[str, str]  # ingredients that do not apply, and why
    confidence: float
    rarest: float

    @property
    def problem(self) -> str:
        # Ingredients become names of folders.
        names = [factor.name for factor in self.factors]
        if not all(is_plain_name(name) and LABEL_JOINT not in name for name in names):
            return "The name of an ingredient must be a valid name of a folder."
        changes = [change for factor in self.factors for change in factor.rewrite.items()]
        if not all(isinstance(value, _REWRITES.get(key, ())) for key, value in changes):
            return "An ingredient changes the data in a way that does not exist."
        return super().problem

    @property
    def identity(self) -> object:
        # A resumed study keeps the steps and the confidence of the first command.
        return self.toml, self.toml_sha256, self.sets, self.seed

    @property
    def configs(self) -> Mapping[str, str]:
        return {self.toml: self.toml_sha256}

    # --- an experiment ---------------------------------------------------------------------------

    def start(
        self, trial: Trial, study: Path, *, allow_remote: bool
    ) -> StartedRun | FinishedRun[BisectRun]:
        return start_trial(self, trial, study, allow_remote=allow_remote)

    def finish(
        self, trial: Trial, run: StartedRun, before: Sequence[BisectRun]
    ) -> FinishedRun[BisectRun]:
        return finish_trial(trial, run)

    @property
    def about(self) -> str:
        return f"runs of {self.steps} steps"

    def edits(self, names: Sequence[str], study: Path) -> dict[str, Any]:
        return edits_for(self, names, study)

    def again(self, edits: Mapping[str, Any], seed: int) -> str:
        return command_line(self, edits, seed)

    def avoiding(self, advice: Mapping[str, Any]) -> str:
        values = {k: v if isinstance(v, str) else json.dumps(v) for k, v in advice.items()}
        texts = [*self.sets, *(f"{key}={value}" for key, value in values.items())]
        return " ".join(["ttf train", quoted(self.toml), *(f"--set {quoted(t)}" for t in texts)])

    def unexplained(self) -> str:
        unseen = [name for name in ("storage", "data-subset") if name in self.passed]
        data = f"the data and its storage (not tried: {', '.join(unseen)}), " if unseen else ""
        return f"{data}the machine, the environment (check it with ttf doctor), or a library"

    def if_later(self) -> str:
        return f"use more steps: --steps {10 * self.steps}"


def edits_for(setup: TrainExperiment, names: Sequence[str], folder: Path) -> dict[str, Any]:
    """The merged edits of these ingredients; writes changed data if one of them needs it."""
    chosen = setup.chosen(names)
    change: dict[str, Any] = {}
    for factor in chosen:
        change |= factor.rewrite
    edits = edits_of(chosen)
    if not change:
        return edits
    label = LABEL_JOINT.join(factor.name for factor in chosen if factor.rewrite)
    with contextlib.suppress(FileNotFoundError):  # a link there is not followed
        names_in(folder / "data" / label, folder)
    place = str((folder / "data" / label).absolute())
    request = {"data": setup.data, "change": change, "folder": place}
    return edits | _rewritten(json.dumps(request))


@cache
def _rewritten(request: str) -> dict[str, Any]:
    # Cached: a child process costs half a second.
    return dict(ask(_REWRITE, json.loads(request), to="copy the data"))


def train_words(setup: TrainExperiment, edits: Mapping[str, Any], seed: int) -> list[str]:
    """The arguments of a run, without --out and --json."""
    out = ["train", setup.toml, "--steps", str(setup.steps), "--seed", str(seed), "--no-remedies"]
    texts = [*setup.sets, *(f"{k}={_toml(v)}" for k, v in {**setup.pins, **setup.short}.items())]
    for text in (*texts, *(f"{key}={_toml(value)}" for key, value in edits.items())):
        out += ["--set", text]
    return out


def command_line(setup: TrainExperiment, edits: Mapping[str, Any], seed: int) -> str:
    """The shortest command for the same run: no value twice, none without effect."""
    edits = {**edits}
    if edits.get("miner.negatives") == 0:
        edits = {k: v for k, v in edits.items() if k not in ("miner.isolation", "miner.name")}
    given = {text.partition("=")[0].strip() for text in setup.sets} | set(edits)
    kept = {k: v for k, v in {**setup.pins, **setup.short}.items() if k in _MATTERS}
    mines = edits.get("miner.negatives") != 0
    extra = {k: v for k, v in kept.items()
             if k not in given and (mines or not k.startswith("miner."))}  # fmt: skip
    out = ["ttf", "train", setup.toml, "--steps", str(setup.steps), "--seed", str(seed)]
    out += ["--no-remedies", "--set", "supervise.max_restarts=0"]
    for text in (*setup.sets, *(f"{k}={_toml(v)}" for k, v in {**extra, **edits}.items())):
        out += ["--set", text]
    return shlex.join(out)


def _toml(value: Any) -> str:
    return "none" if value is None else json.dumps(value)


def start_trial(
    setup: TrainExperiment, trial: Trial, study: Path, *, allow_remote: bool = True
) -> StartedRun | FinishedRun[BisectRun]:
    """A finished run if its data cannot be written."""
    began = time.monotonic()
    if not allow_remote:
        refuse_remote((str(uri or "") for uri in setup.data.values()), str(study / SETTINGS))
    try:
        edits = edits_for(setup, trial.ablated, study)
    except TtfError as error:
        code = int(error.exit_code)
        run = BisectRun(**trial._asdict(), result="invalid", reason=str(error), exit_code=code)
        return _finished(run)
    words = [*train_words(setup, edits, trial.seed), *([] if allow_remote else ["--no-remote"])]
    return StartedRun(words, study / "runs" / f"{trial.run:03d}", began=began)


def finish_trial(trial: Trial, run: StartedRun) -> FinishedRun[BisectRun]:
    """Deletes the run's folder, except for the evidence of a crash."""
    incidents = list_incidents(run.folder / "incidents")
    classes = tuple(dict.fromkeys(str(i["class"]) for i in incidents))
    result = result_of(run.exit_code, classes)
    crashed = result == "crash"
    finished = BisectRun(
        **trial._asdict(),
        result=result,
        classes=classes or (("unknown",) if crashed else ()),
        where=_where(run.folder) if crashed else "",
        reason="" if crashed else str((run.error or {}).get("message", "")).strip(),
        exit_code=run.exit_code,
        seconds=round(run.wall_s, 3),
        error=run.error if result in ("invalid", "void") else None,
    )
    tidy(run.folder, keep=crashed)
    return _finished(finished)


def _finished(run: BisectRun) -> FinishedRun[BisectRun]:
    return FinishedRun(
        run=run,
        result=run.result,
        classes=run.classes,
        exit_code=run.exit_code,
        error=run.error,
        needed=not run.ablated,
    )


def _where(run: Path) -> str:
    """The process, phase and step of the first incident."""
    for folder in incident_folders(run / "incidents"):
        incident = read_incident(folder)
        if "phase" in incident:  # else its file cannot be read
            return f"{incident['process']}, {incident.get('phase')} at step {incident.get('step')}"
    return ""
