"""The results of a study: judged once or at each look, and written in every form."""

from __future__ import annotations

import shlex
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ttf.rundir import durable
from ttf.rundir.outputs import refuse_to_replace, write_output
from ttf.tools.ab import judge as judge_module
from ttf.tools.ab.analysis import Analysis
from ttf.tools.ab.judge import JudgeSettings, judge
from ttf.tools.ab.measures import PAIRED
from ttf.tools.ab.output import CSV_MARK, MARKDOWN_MARK, csv_text, document, markdown
from ttf.tools.ab.page import write_page
from ttf.tools.ab.stats.sequential import when_to_look
from ttf.tools.ab.study import ABStudy, Reason
from ttf.tools.ab.told import told
from ttf.tools.report.render import PAGE_MARKS
from ttf.tools.studies.study import RESULT

_AREA: Final = "ab"


@dataclass(frozen=True, kw_only=True)
class Places:
    """Additional places for the outputs."""

    csv: Path | None = None
    markdown: Path | None = None
    html: Path | None = None

    def check(self, *, overwrite: bool) -> None:
        """Raises ConfigError for a file that is no earlier output; before the first repeat."""
        kinds = (
            ("--csv", self.csv, (CSV_MARK,)),
            ("--markdown", self.markdown, (MARKDOWN_MARK,)),
            ("--html", self.html, PAGE_MARKS),
        )
        for name, path, marks in kinds:
            if path is not None:
                refuse_to_replace(name, path, marks, overwrite=overwrite)


def is_settled(study: ABStudy) -> bool:
    """Whether a sequential study may end; judges only if a look is due."""
    looks, blocks = study.record.looks, study.blocks
    taken = max(looks, default=0)
    if not any(taken < look <= blocks for look in when_to_look(study.setup.repeats)):
        return False
    looks.append(blocks)
    study.write_settings()
    return judge_study(study).settled


def judge_study(study: ABStudy) -> Analysis:
    study = told(study)
    return judge(study.runs, study.setup.names, _settings(study, tuple(study.record.looks)))


def fewest_repeats(study: ABStudy) -> int:
    """Of every arm, before this study can find any difference that is not one of crashes."""
    setup = study.setup
    looks = when_to_look(setup.repeats) if setup.sequential else ()
    measures = len(PAIRED)
    if setup.commands is not None:  # time, memory and perhaps a metric
        measures = 2 + (setup.commands.metric is not None)
    return judge_module.fewest_repeats(len(setup.arms), _settings(study, looks), measures)


def _settings(study: ABStudy, looks: tuple[int, ...]) -> JudgeSettings:
    setup = study.setup
    return JudgeSettings(
        alpha=setup.alpha,
        power=setup.power,
        margins=setup.margins,
        planned=setup.repeats,
        looks=looks,
    )


def conclude(study: ABStudy, reason: Reason, places: Places | None = None) -> Analysis:
    """Ends a sitting: judges, and writes every output. Raises StorageError.

    If nothing is left to do, it writes `result.json`: the same command then begins a new study.
    """
    looks, blocks = study.record.looks, study.blocks
    if study.setup.sequential and blocks > max(looks, default=0):  # an end is a look as well
        looks.append(blocks)
        study.write_settings()
    analysis = judge_study(study)
    _write_outputs(study, analysis, places or Places())
    if reason != "budget":
        durable.write_json(study.folder / RESULT, result(study, analysis, reason), _AREA)
    return analysis


def _write_outputs(study: ABStudy, analysis: Analysis, places: Places) -> None:
    study = told(study)
    table = csv_text(study.runs)
    text = markdown(analysis, study.runs, facts(study))
    for path in filter(None, (study.folder / "samples.csv", places.csv)):
        write_output(path, table.encode(), _AREA)
    for path in filter(None, (study.folder / "report.md", places.markdown)):
        write_output(path, text.encode(), _AREA)
    _page(study, analysis, places.html)


def rewrite_page(folder: Path, out: Path | None) -> Path:
    """Only reads the study's folder: the study may be running."""
    study = told(ABStudy.read(folder))
    return _page(study, judge_study(study), out)


def _page(study: ABStudy, analysis: Analysis, out: Path | None) -> Path:
    page: Path = write_page(study.folder, analysis, study.runs, facts(study), out)
    return page


def result(study: ABStudy, analysis: Analysis, reason: str) -> dict[str, Any]:
    """The document of --json."""
    return {
        **document(analysis, told(study).runs),
        "ended": reason,
        "repeats": study.setup.repeats,
        "folder": str(study.folder),
    }


def _short_path(path: str) -> str:
    # Relative to the current folder: a report should not show where the user's files are.
    full = Path(path)
    return str(full.relative_to(Path.cwd())) if full.is_relative_to(Path.cwd()) else full.name


def facts(study: ABStudy) -> dict[str, str]:
    """Facts about the study for the report, in words."""
    setup, record = study.setup, study.record
    out = {"command": record.command, "machine": record.machine}
    for arm in setup.arms:
        sets = ", ".join((*setup.sets, *arm.sets))
        told = shlex.join(arm.words) or _short_path(arm.toml)
        out[arm.name] = f"{told}{f' with {sets}' if sets else ''}"
    if setup.commands is not None and setup.commands.metric is not None:
        out["metric"] = f"{setup.commands.metric} ({setup.commands.better} is better)"
    if record.parallel > 1:
        out["load"] = (
            f"up to {record.parallel} repeats ran at the same time, so the speeds are lower "
            "than alone"
        )
    if hosts := Counter(run.host for run in study.runs if run.host and run.counted):
        told = ", ".join(f"{host} ({count} repeats)" for host, count in sorted(hosts.items()))
        out["hosts"] = f"{told}; each block ran on one of them"
    return {key: value for key, value in out.items() if value != ""}
