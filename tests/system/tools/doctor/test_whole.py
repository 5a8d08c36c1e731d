"""The whole visit: a healthy machine and run, in JSON and in text."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import RunTtf
from tests.kit.fixtures.doctor import WriteToml
from tests.kit.widely import wide

IDS = ["config", "python", "impostor", "versions", "environment", "memory", "cgroup", "shm", "disk",
       "ulimits", "openmp-duplicates", "plugins", "torch", "device", "coload", "data", "plan",
       "steps"]  # fmt: skip
KEYS = {"id", "title", "status", "detail", "evidence", "remedy", "cause", "docs", "distribution",
        "seconds"}  # fmt: skip


@wide
def test_a_healthy_run_in_a_healthy_environment_passes(
    run_ttf: RunTtf, run_toml: WriteToml, tmp_path: Path
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    config = run_toml()
    before = sorted(p.name for p in tmp_path.iterdir())
    env = {"TMPDIR": str(temporary)}
    done = run_ttf("doctor", config, "--json", env=env)
    assert done.code == 0, done.out
    document = done.json()
    assert document["ok"] is True
    checks = {check["id"]: check for check in document["checks"]}
    assert {c["status"] for c in checks.values()} <= {"ok", "warn", "skip"}
    sure = ("config", "python", "impostor", "versions", "plugins", "torch", "device", "coload",
            "data", "plan", "steps")  # fmt: skip
    assert {checks[name]["status"] for name in sure} == {"ok"}
    assert all(check["remedy"] for check in checks.values() if check["status"] == "warn")
    assert "3 steps done" in checks["steps"]["detail"]
    assert "600 training and 60 validation pairs" in checks["data"]["detail"]
    assert "exact" in checks["coload"]["detail"]
    assert "... coload: torch with each of" in done.err
    assert list(temporary.iterdir()) == []
    after = sorted(p.name for p in tmp_path.iterdir() if p.name != "home")
    assert after == before  # no runs/, nothing else


@wide  # each check has tests of its own
def test_a_healthy_environment_passes_without_a_run(run_ttf: RunTtf) -> None:
    done = run_ttf("doctor", "--json")
    assert done.code == 0, done.out
    document = done.json()
    assert document["ok"] is True
    checks = {check["id"]: check for check in document["checks"]}
    assert list(checks) == IDS
    assert all(set(check) == KEYS for check in checks.values())
    failed = [check for check in checks.values() if check["status"] == "fail"]
    assert failed == []
    sure = ("python", "impostor", "versions", "plugins", "torch", "device", "coload")
    assert {checks[name]["status"] for name in sure} == {"ok"}
    assert {checks[name]["status"] for name in ("config", "data", "plan", "steps")} == {"skip"}
    assert "... coload: torch with each of" in done.err


@wide
def test_the_text_of_a_healthy_environment_ends_happily(run_ttf: RunTtf) -> None:
    done = run_ttf("doctor")
    assert done.code == 0, done.out
    assert "[ok] python" in done.out
    assert "all well. Ready to train." in done.out or "nothing failed" in done.out
    assert "coload" in done.out and "[-]  data" not in done.out
    assert "Next: ttf doctor RUN.toml" in done.err


def test_every_check_has_its_section_in_the_document() -> None:
    from ttf.tools.doctor.registry import OURS_ALL

    page = Path(__file__).parents[4].joinpath("docs/doctor.md").read_text()
    headings = [line.removeprefix("## ") for line in page.splitlines() if line.startswith("## ")]
    assert {check.id for check in OURS_ALL} <= set(headings)
    assert [check.id for check in OURS_ALL] == IDS
