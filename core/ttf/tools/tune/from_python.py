"""`ttf.tune`: the command `ttf tune` for Python."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Unpack

from ttf.config.overrides import Overrides
from ttf.data.array_arguments import FILES, refuse_arrays
from ttf.errors import ConfigError
from ttf.text.numbers import parse_duration

__all__ = ["Tuned", "tune"]


@dataclass(frozen=True, kw_only=True)
class Tuned:
    """A study of `ttf.tune`: its folder, the configuration that won, and the run of it."""

    path: Path
    result: Mapping[str, Any]  # as --json writes it

    @property
    def config(self) -> Path:
        """The finished configuration, a TOML file."""
        return Path(self.result["best"]["config"])

    @property
    def run(self) -> Path:
        """The folder of the full run: `ttf.load` takes it."""
        return Path(self.result["run"]["path"])

    @property
    def metrics(self) -> Mapping[str, float]:
        """Of the full run, on the validation pairs."""
        found: Mapping[str, float] = self.result["run"]["metrics"]
        return found

    def __repr__(self) -> str:
        best, metric = self.result["best"], self.result["metric"]
        return (
            f"Tuned({str(self.path)!r}: trial {best['trial']}, {metric} {best['score']:.4f} on the "
            "hold-out)"
        )


def tune(
    config: Path | str | None = None,
    *,
    budget: str | float | None = None,
    trials: int | None = None,
    search_seed: int = 0,
    sets: Mapping[str, Any] | None = None,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    progress: bool = False,
    **overrides: Unpack[Overrides],
) -> Tuned:
    """Looks for a better configuration within `budget` (seconds, or a text like the default "10m"),
    and trains it on all pairs; overrides are those of `ttf.train`, and are not varied.

    `resume` continues a study. The files are `best.toml`, `best/` and `report.html` in `out`.
    """
    from ttf.config.toml import render
    from ttf.config.values import plain, plain_values
    from ttf.text.terminal import say
    from ttf.tools.tune import search
    from ttf.tools.tune.carry_out import carry_through
    from ttf.tools.tune.progress import TrialLines
    from ttf.tools.tune.study import BUDGET_S, TuneRequest, TuneStudy, begin

    began = time.monotonic()
    files = {role: overrides.get(role) for role in FILES}
    refuse_arrays(
        files, "ttf.tune", "the study and its best.toml refer to it, also after this call"
    )
    told = say if progress else lambda _: None
    budget_s = parse_duration(budget) if isinstance(budget, str) else budget
    if resume is not None:
        if config is not None or overrides or sets:
            raise ConfigError("resume continues a study as it is; it goes with no configuration.")
        search.require()
        study = TuneStudy.open(Path(resume))
    else:
        request = TuneRequest(
            toml=None if config is None else Path(config),
            sets=tuple(f"{key}={render(plain(value))}" for key, value in (sets or {}).items()),
            flags=plain_values(overrides),
            seed=search_seed,
            budget_s=budget_s or BUDGET_S,
            trials=trials,
        )
        study = begin(request, None if out is None else Path(out), told)
    try:
        result = carry_through(
            study,
            began=began,
            budget_s=budget_s,
            trials=trials,
            lines=TrialLines(study) if progress else None,
            say=told,
        )
    finally:
        study.close()
    return Tuned(path=study.folder, result=result)
