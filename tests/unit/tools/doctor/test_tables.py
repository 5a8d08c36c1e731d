"""What is data: known-bad versions, OpenMP runtimes among installed files, and exit codes."""

from __future__ import annotations

import re
import shutil
from datetime import date
from importlib import metadata
from itertools import product
from pathlib import Path
from typing import TypedDict

import pytest
from tests.conftest import FakeDistribution
from tests.kit.fixtures.doctor import Ask

from ttf.hookspecs import Cause, Verdict
from ttf.tools.doctor import known_bad, openmp, packages
from ttf.tools.doctor.known_bad import ROWS, Row, fired, fits
from ttf.tools.doctor.registry import OURS_ALL
from ttf.tools.doctor.report import Result, exit_code


class Where(TypedDict):
    python: str
    system: str
    machine: str


LINUX: Where = {"python": "3.11.7", "system": "Linux", "machine": "x86_64"}
MAC: Where = {"python": "3.11.7", "system": "Darwin", "machine": "arm64"}


def _inside(spec: str) -> str:
    """A version that lies in a specifier."""
    parts = [part for part in spec.split(",") if part]
    bounds = [re.sub(r"[<>=]", "", part) for part in parts]
    tried = [*bounds, "0.0.1", *(f"{bound}.1" for bound in bounds)]
    return next(version for version in tried if fits(version, spec))


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{'+'.join(row.versions)} {row.issue}")
def test_each_row_has_its_form_and_fires(row: Row) -> None:
    assert date(2025, 1, 1) < date.fromisoformat(row.date) <= date(2026, 12, 31)
    assert row.issue and row.what and row.versions
    assert not row.what.endswith(".")
    assert bool(row.remedy) == (row.severity != "guarded")
    assert row.system in ("", "Linux", "Darwin")
    here = {name: _inside(spec) for name, spec in row.versions.items()}
    where: Where = {
        "python": _inside(row.python) if row.python else "3.11",
        "system": row.system or "Linux",
        "machine": row.machine or "arm64",
    }
    assert row in fired(here, **where)
    verdict = packages.judged([row], here, [])
    assert verdict.status == {"fail": "fail", "warn": "warn", "guarded": "ok"}[row.severity]
    assert any(row.issue in line for line in verdict.evidence)
    assert row not in fired({}, **where)
    for name in here:
        assert row not in fired({n: v for n, v in here.items() if n != name}, **where)


def test_rows_of_other_systems_do_not_fire() -> None:
    here = {"torch": "2.13.0+cpu", "faiss-cpu": "1.15.1", "lightgbm": "4.7.0"}
    assert list(fired(here, **LINUX)) == []
    issues = [r.issue for r in fired(here, **MAC)]
    assert "pytorch#191933" in issues and "pytorch#149201, faiss-wheels#73" in issues


@pytest.mark.parametrize(
    ("version", "spec", "inside"),
    [
        ("1.14.2", "<1.14.2", False),
        ("1.13.2", "<1.14.2", True),
        ("1.8.0.post1", ">=1.8,<1.11", True),
        ("2.10.0", "<2.10", False),
        ("2.9.1+cu128", "<2.10", True),
        ("0.8", "==0.8.0", True),
        ("3.14.0rc1", ">=3.14", True),
        ("10.0", ">9.5", True),
        ("1.0", "~=2.0", True),
    ],
)
def test_versions_are_compared_by_their_numbers(version: str, spec: str, inside: bool) -> None:
    assert fits(version, spec) is inside


def test_a_known_bad_version_that_is_installed_is_named(
    ask: Ask, fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake_plugins.add("faiss-cpu", {}, version="1.12.0")  # comes first on the path
    found = ask(check="versions")
    assert (found["status"], found["exit_code"]) == ("fail", 6)  # and below what we require
    assert "faiss-cpu 1.12.0 is installed, but twotower needs >=1.14.2" in found["detail"]
    assert any("faiss PR#4811" in line for line in found["evidence"])
    monkeypatch.undo()
    assert ask(check="versions")["status"] == "ok"


def test_what_twotower_requires_is_held_against_what_is_here() -> None:
    assert list(packages.too_old(packages.installed_versions())) == []
    (told, *_) = packages.too_old({})
    assert "is not installed, but twotower needs it" in told


# --- runtimes among installed files ------------------------------------------------------------------


def _package(root: Path, name: str, *files: str) -> None:
    """A distribution that lists these files; each has content of its own."""
    info = root / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).write_text(f"{name} {file}")
    (info / "RECORD").write_text("".join(f"{file},sha256=x,1\n" for file in files))


def _judged(root: Path, platform: str = "linux") -> Verdict:
    found = openmp.find(metadata.distributions(path=[str(root)]), root)
    return openmp.judged(found, platform)


def test_copies_of_libgomp_live_side_by_side(tmp_path: Path) -> None:
    assert "no package" in _judged(tmp_path).detail
    _package(tmp_path, "one", "one/lib/libgomp.so.1", "one/libomptarget.so", "one/romp.so")
    _package(tmp_path, "two", "two.libs/libgomp-e985bcbb.so.1.0.0")
    verdict = _judged(tmp_path)
    assert verdict.status == "ok" and "2 copies of libgomp" in verdict.detail
    assert len(verdict.evidence) == 2


@pytest.mark.parametrize(
    ("first", "second", "status"),
    [
        ("a/libomp.dylib", "b/.dylibs/libomp.dylib", "warn"),
        ("a/libiomp5.so", "b.libs/libiomp5-0123abcd.so", "warn"),
        ("a/libomp.so.5", "b/libiomp5.so", "fail"),
        ("a/libomp140.x86_64.dll", "b/libiomp5md.dll", "fail"),
    ],
)
def test_two_runtimes_that_check_for_each_other_are_named(
    tmp_path: Path, first: str, second: str, status: str
) -> None:
    _package(tmp_path, "one", first)
    assert _judged(tmp_path).status == "ok"
    _package(tmp_path, "two", second)
    verdict = _judged(tmp_path)
    assert verdict.status == status
    assert "one" in verdict.detail and "two" in verdict.detail
    assert "coload" in verdict.remedy
    assert "wheels for macOS" not in verdict.detail
    if status == "warn":
        assert "wheels for macOS" in _judged(tmp_path, "darwin").detail


def test_one_file_under_two_names_is_one_runtime(tmp_path: Path) -> None:
    _package(tmp_path, "one", "lib/libomp.so.5")
    (tmp_path / "lib/libomp.so").symlink_to("libomp.so.5")
    _package(tmp_path, "two")
    (tmp_path / "two-1.0.dist-info/RECORD").write_text("lib/libomp.so.5,,\nlib/gone-libomp.so,,\n")
    assert _judged(tmp_path).status == "ok"
    shutil.copyfile(tmp_path / "lib/libomp.so.5", tmp_path / "lib/libomp.so.6")
    verdict = _judged(tmp_path)  # found in the environment's own lib folder, as conda has it
    assert verdict.status == "warn" and "the environment itself" in verdict.detail


# --- exit codes ------------------------------------------------------------------------------------------


def test_the_first_of_configuration_environment_and_data_decides() -> None:
    order: tuple[Cause, ...] = ("configuration", "environment", "data")
    codes = {"configuration": 2, "environment": 6, "data": 3}
    for chosen in product([True, False], repeat=3):
        causes = [cause for cause, is_in in zip(order, chosen, strict=True) if is_in]
        verdicts = [Verdict(status="fail", detail="", cause=cause) for cause in reversed(causes)]
        verdicts += [Verdict(status="warn", detail="", cause="data")]
        results = [Result(check=OURS_ALL[0], verdict=v, seconds=0) for v in verdicts]
        assert exit_code(results) == (codes[causes[0]] if causes else 0)


def test_a_verdict_has_a_status_that_is_known() -> None:
    with pytest.raises(ValueError, match="a verdict must be one of"):
        Verdict(status="fine", detail="")  # type: ignore[arg-type]
    verdict = Verdict(status="fail", detail="d", evidence=("a", "b"), remedy="r", cause="data")
    assert Verdict.from_json(verdict.to_json()) == verdict
    assert known_bad.release("") == ()
