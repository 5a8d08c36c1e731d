"""`ttf.compare`: the command `ttf ab` for Python."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.errors import ConfigError

if TYPE_CHECKING:
    from ttf.tools.ab.analysis import Analysis
    from ttf.tools.ab.sample import Sample
    from ttf.tools.ab.setup import Cell
    from ttf.tools.ab.study import ABLimits, ABStudy

__all__ = ["Compared", "compare"]


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A study: its folder, its results, and every repeat."""

    path: Path
    analysis: Analysis
    samples: Sequence[Sample]

    @property
    def verdict(self) -> str:
        """One or a few sentences."""
        return self.analysis.verdict

    def __repr__(self) -> str:
        return f"Compared({str(self.path)!r}: {self.verdict})"

    def _repr_html_(self) -> str:
        from ttf.text.html import preformatted
        from ttf.tools.ab.output._terminal import table_lines

        return preformatted(table_lines(self.analysis))


def compare(
    *configs: Path | str,
    vary: Mapping[str, Sequence[Any]] | None = None,
    sets: Mapping[str, Any] | None = None,
    repeats: int | None = None,
    steps: int | None = None,
    seed: int = 0,
    parallel: int = 1,
    budget_s: float | None = None,
    sequential: bool = False,
    alpha: float = 0.05,
    power: float = 0.8,
    margins: Mapping[str, float] | None = None,
    hang_timeout_s: float | None = None,
    keep_runs: bool = False,
    out: Path | str | None = None,
    resume: Path | str | None = None,
    progress: bool = False,
) -> Compared:
    """Repeats two or more configurations and tells whether they differ by more than luck.

    `configs` are TOML files or folders of runs. `vary` makes an arm of every value (of every
    combination, with several keys); `sets` is for all arms. `resume` continues a study, with more
    `repeats` if given (a new study has 10). Outputs are written into the study's folder.
    """
    from ttf.tools.ab.study import ABLimits, ABStudy, begin

    if (resume is None) == (not configs):
        raise ConfigError("It is not clear what to compare. Give configurations, or resume.")
    limits = ABLimits(parallel=parallel, budget_s=budget_s, keep_runs=keep_runs)
    if resume is not None:
        return _carried_out(ABStudy.reopened(Path(resume), repeats), limits, progress)
    study = begin(
        [Path(config) for config in configs],
        vary=[f"{key}={','.join(map(_text, values))}" for key, values in (vary or {}).items()],
        sets=[f"{key}={_text(value)}" for key, value in (sets or {}).items()],
        repeats=repeats or 10,
        steps=steps,
        seed=seed,
        sequential=sequential,
        alpha=alpha,
        power=power,
        margins=dict(margins or {}),
        hang_timeout_s=hang_timeout_s,
        out=None if out is None else Path(out),
        command="ttf.compare",
    )
    return _carried_out(study, limits, progress)


def _text(value: Any) -> str:
    from ttf.config.toml import render
    from ttf.config.values import plain

    return "none" if value is None else render(plain(value))


def _carried_out(study: ABStudy, limits: ABLimits, progress: bool) -> Compared:
    from ttf.tools.ab import finish
    from ttf.tools.ab.progress import RepeatLines
    from ttf.tools.ab.study import carry_on
    from ttf.tools.studies.carry_out import Watcher

    watcher: Watcher[Cell, Sample] = Watcher()
    if progress:
        watcher = RepeatLines(study, limits.parallel)
    try:
        reason = carry_on(study, limits, watcher, finish.is_settled)
        analysis = finish.conclude(study, reason)
    finally:
        study.close()
    return Compared(path=study.folder, analysis=analysis, samples=tuple(study.runs))
