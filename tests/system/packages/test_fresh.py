"""The environment that other tests install into is what a user would have."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.conftest import ROOT
from tests.system.packages.conftest import MakeEnvironment
from tests.system.packages.fresh import CONSTRAINTS, FreshEnvironment, PipFailed, pip


def test_the_project_is_there_as_its_wheel_and_nothing_of_the_checkout(
    fresh_environment: FreshEnvironment,
) -> None:
    asked = fresh_environment.run(
        "-c", "import sys, ttf; print(ttf.__file__, *sys.path, sep='\\n')"
    )
    assert asked.code == 0, asked.err
    assert str(ROOT) not in asked.out
    shown = fresh_environment.run("-m", "ttf", "--version")
    assert shown.code == 0 and "0." in shown.out


def test_what_one_environment_installs_the_next_does_not_have(
    environments: MakeEnvironment, tmp_path: Path
) -> None:
    package = tmp_path / "ttf-nothing"
    (package / "src" / "ttf_nothing").mkdir(parents=True)
    (package / "src" / "ttf_nothing" / "__init__.py").touch()
    (package / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["hatchling"]\nbuild-backend = "hatchling.build"\n'
        '[project]\nname = "ttf-nothing"\nversion = "1"\ndependencies = ["twotower>=0.1"]\n'
        '[tool.hatch.build.targets.wheel]\npackages = ["src/ttf_nothing"]\n'
    )
    first, second = environments(tmp_path / "first"), environments(tmp_path / "second")
    first.install(package)
    assert first.run("-c", "import ttf_nothing").code == 0
    assert second.run("-c", "import ttf_nothing").code == 1
    assert {p.name for p in package.iterdir()} == {"src", "pyproject.toml"}


def test_a_package_that_cannot_be_had_is_a_failure_and_no_skip(
    fresh_environment: FreshEnvironment,
) -> None:
    with pytest.raises(PipFailed, match="99"):
        fresh_environment.install("click==99")


@pytest.mark.parametrize("constraint", [[], ["--constraint", CONSTRAINTS]], ids=["any", "pinned"])
def test_an_index_that_does_not_answer_skips_with_the_reason(
    constraint: list[str | Path], tmp_path: Path
) -> None:
    nobody = "http://127.0.0.1:9/simple"  # the discard port
    argv = ("download", "--no-deps", "--retries", "1", "--index-url", nobody)
    with pytest.raises(pytest.skip.Exception, match="cannot be reached: NewConnectionError"):
        pip("--isolated", *argv, "--dest", tmp_path, *constraint, "click>=8")
