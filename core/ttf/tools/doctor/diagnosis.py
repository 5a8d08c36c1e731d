"""`ttf.doctor`: the command `ttf doctor` for Python."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ttf.errors import ConfigError, ExitCode
from ttf.text.terminal import echo

if TYPE_CHECKING:
    from ttf.tools.doctor.check import Check
    from ttf.tools.doctor.report import Result

__all__ = ["Diagnosis", "doctor"]


@dataclass(frozen=True, kw_only=True)
class Diagnosis:
    """The checks of one examination; true if none failed."""

    results: Sequence[Result]

    @property
    def exit_code(self) -> ExitCode:
        """What `ttf doctor` would end with."""
        from ttf.tools.doctor.report import exit_code

        return exit_code(self.results)

    @property
    def ok(self) -> bool:
        return self.exit_code == ExitCode.DONE

    def __bool__(self) -> bool:
        return self.ok

    def to_json(self) -> dict[str, Any]:
        """The document of `ttf doctor --json`."""
        from ttf.tools.doctor.report import document

        return document(self.results)

    def by_status(self) -> Mapping[str, list[str]]:
        """The ids of the checks, by "ok", "warn", "fail" and "skip"."""
        found: dict[str, list[str]] = {}
        for result in self.results:
            found.setdefault(result.verdict.status, []).append(result.check.id)
        return found

    def __repr__(self) -> str:
        told = (f"{status}: {', '.join(ids)}" for status, ids in self.by_status().items())
        return f"Diagnosis({'; '.join(told)})"

    def _repr_html_(self) -> str:
        from ttf.text.html import columns_table

        rows = [
            (r.verdict.status, r.check.id, r.verdict.detail, r.verdict.remedy) for r in self.results
        ]
        return columns_table("ttf doctor", ("status", "check", "detail", "what to do"), rows)


def doctor(
    run_toml: str | os.PathLike[str] | None = None,
    *,
    checks: Sequence[str] = (),
    progress: bool = False,
) -> Diagnosis:
    """Is this machine, this environment and, with `run_toml`, this configuration safe?

    Slow checks really load torch and each miner, in processes that are thrown away. `checks` are
    ids, by default all. `progress` prints what a slow check does, on standard error.
    """
    from ttf.tools.doctor.context import Examination
    from ttf.tools.doctor.registry import chosen
    from ttf.tools.doctor.report import examined

    wanted = chosen(checks)
    file = None if run_toml is None else Path(run_toml)
    check_run_toml(wanted, checks, file)
    exam = Examination(file, say=_to_standard_error) if progress else Examination(file)
    return Diagnosis(results=[examined(check, exam) for check in wanted])


def _to_standard_error(text: str) -> None:
    echo(f"... {text}", err=True)


def check_run_toml(checks: Sequence[Check], wanted: Sequence[str], run_toml: Path | None) -> None:
    """Raises ConfigError before any check runs: the user should not wait for it."""
    if run_toml is not None:
        from ttf.config import files
        from ttf.host.distribution import require_full
        from ttf.tools.doctor.registry import OF_ANOTHER_PYTHON

        require_full("ttf doctor with a configuration", instead=OF_ANOTHER_PYTHON)
        files.read(run_toml)
    elif wanted:
        missing = [check.id for check in checks if check.of_run]
        if missing:
            raise ConfigError(
                f"The check{'s' * (len(missing) > 1)} {', '.join(map(repr, missing))} "
                f"need{'s' * (len(missing) == 1)} a configuration, but no RUN.toml was given.",
                hint=f"ttf doctor RUN.toml --check {missing[0]}",
            )
