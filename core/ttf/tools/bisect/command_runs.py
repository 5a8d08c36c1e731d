"""The other kind of experiment: anybody's command under guard, with edits of its environment, its
flags and its interpreter."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError
from ttf.text.shell import quoted
from ttf.tools.bisect.experiment import BisectRun, Experiment, Trial
from ttf.tools.bisect.factors import Factor, edits_of
from ttf.tools.bisect.vary import HOW_TO_VARY, edited, proposed, varied
from ttf.tools.studies.guarded_run import (
    SEED,
    end_of_command,
    not_comparable,
    pinned,
    scripts_of,
    since_then,
    start_guarded,
    with_environment,
)
from ttf.tools.studies.one_run import FinishedRun, StartedRun, tidy
from ttf.tools.studies.started_here import WouldRun

# More than for our own runs: their ingredients are few, and a wrong one is dear.
CONFIDENCE: Final = 0.99


@dataclass(frozen=True, kw_only=True)
class CommandExperiment(Experiment):
    words: tuple[str, ...]
    cwd: str
    vary: tuple[str, ...]  # as the user gave it
    pins: Mapping[str, str]  # variables of native libraries when the study began
    scripts: Mapping[str, str]  # SHA-256 of the files that the command names, by path
    run_limit_s: float | None
    hang_timeout_s: float | None
    factors: tuple[Factor, ...]
    passed: Mapping[str, str]
    seed: int
    confidence: float
    rarest: float

    @property
    def identity(self) -> object:
        return self.words, self.cwd, self.vary, self.seed

    @property
    def configs(self) -> Mapping[str, str]:
        return self.scripts

    @property
    def would_run(self) -> WouldRun:
        return WouldRun(
            commands=(self.words,),
            cwd=self.cwd,
            pins=self.pins,
            edits=tuple(factor.edits for factor in self.factors),
        )

    def given_again(self) -> str:
        """The options and words that ask for the same study."""
        chosen = [word for text in self.vary for word in ("--vary", quoted(text))]
        return " ".join(["--command", *chosen, "--", *map(quoted, self.words)])

    # --- a run --------------------------------------------------------------------------------

    def start(
        self, trial: Trial, study: Path, *, allow_remote: bool
    ) -> StartedRun | FinishedRun[BisectRun]:
        words, environment = edited(self.words, self.edits(trial.ablated, study))
        return start_guarded(
            words,
            {**since_then(self.pins), SEED: str(trial.seed), **environment},
            study / "runs" / f"{trial.run:03d}",
            cwd=self.cwd,
            limit_s=self.run_limit_s,
            hang_timeout_s=self.hang_timeout_s,
        )

    def finish(
        self, trial: Trial, run: StartedRun, before: Sequence[BisectRun]
    ) -> FinishedRun[BisectRun]:
        end = end_of_command(run)
        unchanged = [one.where for one in before if not one.ablated and one.result == "crash"]
        broken = not_comparable(end, unchanged) if trial.ablated else ""
        result = "invalid" if broken else end.result
        crashed = result == "crash"
        error = {"class": "TtfError", "message": end.how}
        if result == "invalid":
            error = {"class": "ConfigError", "message": self._refused(end.how)}
        finished = BisectRun(
            **trial._asdict(),
            result=result,
            classes=end.classes if crashed or result == "void" else (),
            where=end.how if crashed else "",
            reason="" if crashed else broken or end.how,
            exit_code=end.exit_code,
            seconds=round(run.wall_s, 3),
        )
        tidy(run.folder, keep=crashed)
        return FinishedRun(
            run=finished,
            result=result,
            classes=finished.classes,
            exit_code=2 if result == "invalid" else end.exit_code,
            error=error,
            needed=not trial.ablated,
        )

    def _refused(self, how: str) -> str:
        return (
            f"The command does not start ({how}), so there is no crash to look for: "
            f"{shlex.join(self.words)}"
        )

    # --- words ----------------------------------------------------------------------------------

    @property
    def about(self) -> str:
        if self.run_limit_s is None:
            return "runs of the whole command"
        return f"runs of at most {self.run_limit_s:g} s"

    def edits(self, names: Sequence[str], study: Path) -> dict[str, Any]:
        return edits_of(self.chosen(names))

    def again(self, edits: Mapping[str, Any], seed: int) -> str:
        return self._line({**edits, f"env:{SEED}": str(seed)})

    def avoiding(self, advice: Mapping[str, Any]) -> str:
        return self._line(advice)

    def _line(self, edits: Mapping[str, Any]) -> str:
        words, environment = edited(self.words, edits)
        return " ".join(map(quoted, with_environment(words, environment)))

    def unexplained(self) -> str:
        return (
            "the script and its data, the machine, or a library. Try other ingredients (--vary), "
            "also another interpreter (--vary python:PATH), and read the incident of a run"
        )

    def if_later(self) -> str:
        if self.run_limit_s is not None:
            return f"let the runs work longer: --run-limit {10 * self.run_limit_s:g}s"
        return "let the command work longer, or look for a rarer crash: --rarest 0.05"


def prepare_command(
    words: Sequence[str],
    *,
    vary: Sequence[str],
    run_limit_s: float | None,
    hang_timeout_s: float | None,
    seed: int,
    confidence: float,
    rarest: float,
) -> CommandExperiment:
    """Raises ConfigError."""
    factors = varied(vary, words) if vary else proposed(words, os.environ)
    if not factors:
        raise ConfigError(
            "Nothing in this command or its environment suggests itself as an ingredient.",
            hint=f"Say what to vary. {HOW_TO_VARY}",
        )
    experiment = CommandExperiment(
        words=tuple(words),
        cwd=str(Path.cwd()),
        vary=tuple(vary),
        pins=pinned(os.environ),
        scripts=scripts_of(words, Path.cwd()),
        run_limit_s=run_limit_s,
        hang_timeout_s=hang_timeout_s,
        factors=factors,
        passed={},
        seed=seed,
        confidence=confidence,
        rarest=rarest,
    )
    if experiment.problem:
        raise ConfigError(experiment.problem)
    return experiment
