"""Memory that is too small, by real limits; other limits and places; a run that does not fit."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.kit.fixtures.doctor import Ask, WriteToml, shell
from tests.kit.widely import wide

from ttf.tools.doctor import run_checks
from ttf.tools.doctor.context import Examination
from ttf.tools.doctor.disk_and_limits import look_at_disk, look_at_shm
from ttf.tools.doctor.memory import look_at_cgroup, look_at_memory


def _checks(text: str) -> dict[str, Any]:
    return {check["id"]: check for check in json.loads(text)["checks"]}


def test_too_few_addresses_fail_and_torch_itself_proves_it(tmp_path: Path) -> None:
    words = ["--check", "memory", "--check", "torch", "--check", "coload", "--json"]
    done = shell("ulimit -v 600000", *words, cwd=tmp_path)
    checks = _checks(done.out)
    assert done.code == 6, done.err
    assert checks["memory"]["status"] == "fail"
    assert "The memory limit of RLIMIT_AS is 614 MB" in checks["memory"]["detail"]
    assert "ulimit -v unlimited" in checks["memory"]["remedy"]
    assert checks["torch"]["status"] == "fail"
    assert checks["coload"]["status"] == "skip"


def test_a_group_that_is_too_small_fails_and_the_kernel_proves_it(
    small_group: Callable[[int], str], tmp_path: Path
) -> None:
    words = ["--check", "memory", "--check", "cgroup", "--check", "torch", "--json"]
    done = shell(small_group(130), *words, cwd=tmp_path)
    checks = _checks(done.out)
    assert done.code == 6, done.err
    assert {checks[name]["status"] for name in ("memory", "cgroup", "torch")} == {"fail"}
    assert "memory.limit_in_bytes" in checks["memory"]["detail"]
    assert "--memory" in checks["memory"]["remedy"]
    assert "oom-kill" in checks["torch"]["detail"]


@wide
def test_too_little_private_memory_fails(tmp_path: Path) -> None:
    done = shell("ulimit -d 200000", "--check", "memory", "--json", cwd=tmp_path)
    found = _checks(done.out)["memory"]
    assert (done.code, found["status"]) == (6, "fail")
    assert "RLIMIT_DATA" in found["detail"]


@wide
def test_a_limit_that_is_tight_is_a_warning(tmp_path: Path) -> None:
    done = shell("ulimit -d 1000000", "--check", "memory", "--json", cwd=tmp_path)
    found = _checks(done.out)["memory"]
    assert (done.code, found["status"]) == (0, "warn")


# --- groups of version 2, as their files are ---------------------------------------------------------


@pytest.fixture
def group_v2(tmp_path: Path) -> Callable[..., Path]:
    """A file system with one limited group, of which this process is told to be a member."""

    def make(limit: int, held: int = 0, kills: int = 0) -> Path:
        root = tmp_path / "root"
        folder = root / "sys/fs/cgroup/job"
        folder.mkdir(parents=True)
        (root / "proc/self").mkdir(parents=True)
        for pid in ("self", str(os.getpid())):
            (root / "proc" / pid).mkdir(exist_ok=True)
            (root / "proc" / pid / "cgroup").write_text("0::/job\n")
        (root / "proc/meminfo").write_text(Path("/proc/meminfo").read_text())
        (folder / "memory.max").write_text(f"{limit}\n")
        (folder / "memory.stat").write_text(f"anon {held}\nfile 7\nshmem 0\n")
        (folder / "memory.events").write_text(f"low 0\noom 0\noom_kill {kills}\n")
        return root

    return make


def test_a_group_of_version_2_is_read(group_v2: Callable[..., Path]) -> None:
    exam = Examination(root=group_v2(200 << 20))
    for look in (look_at_memory, look_at_cgroup):
        verdict = look(exam)
        assert verdict.status == "fail"
        assert "cgroup /job (memory.max)" in verdict.detail


@pytest.mark.parametrize(
    ("state", "status", "said"),
    [
        ({"held": 1 << 20}, "ok", "the limit of cgroup /job (memory.max) is 2.1 GB"),
        ({"held": 2040 << 20}, "warn", "almost used up"),
        ({"kills": 3}, "warn", "has killed 3 process"),
    ],
    ids=["room", "almost used up", "has killed"],
)
def test_what_a_group_tells_of_itself(
    group_v2: Callable[..., Path], state: dict[str, int], status: str, said: str
) -> None:
    verdict = look_at_cgroup(Examination(root=group_v2(2 << 30, **state)))
    assert (verdict.status, verdict.cause) == (status, "environment")
    assert said in verdict.detail


# --- the run -------------------------------------------------------------------------------------------


def test_a_run_that_does_not_fit_is_told_what_to_lower(ask: Ask, run_toml: WriteToml) -> None:
    config = run_toml(tower__query='name = "gru"\nhidden = 8192\nlayers = 8')
    found = ask(config, check="plan")
    assert (found["status"], found["exit_code"]) == ("fail", 6), found
    assert "not enough for the run" in found["detail"] and "the limit is" in found["detail"]


@wide
def test_a_run_that_fits_the_machine_is_held_against_the_limit_of_its_group(
    small_group: Callable[[int], str], run_toml: WriteToml, tmp_path: Path
) -> None:
    config = run_toml(tower__query='name = "gru"\nhidden = 1536')
    words = [str(config), "--check", "plan", "--json"]
    assert shell("true", *words, cwd=tmp_path).code == 0
    done = shell(small_group(330), *words, cwd=tmp_path)
    found = _checks(done.out)["plan"]
    assert (done.code, found["status"]) == (6, "fail"), found
    assert "memory.limit_in_bytes" in found["detail"]


PLAN: Mapping[str, Any] = {
    "limit": {"bytes": 2_000_000_000, "source": "cgroup /job (memory.max)"},
    "peak_anon_bytes": 1_500_000_000,
    "peak_phase": "training",
    "anon_bytes": {"training": 1_500_000_000, "mining": 0, "evaluation": 0},
    "budget": 1 << 30,
    "disk_bytes": 10,
    "seconds": 60.0,
    "notes": [],
    "fits": True,
    "lowerable": [("--batch-size (now 512)", 900_000_000, ["activations"])],
    "fixed_bytes": 600_000_000,
    "above_budget": "",
}


@pytest.mark.parametrize(
    ("change", "status", "said"),
    [
        ({}, "ok", "1.5 GB predicted during training, the limit is 2.0 GB"),
        ({"fits": False}, "fail", "The memory is not enough for the run"),
        ({"fits": False, "fixed_bytes": 3 * 10**9}, "fail", "The memory is not enough for the run"),
        ({"above_budget": "The miner needs more."}, "fail", "The miner needs more."),
        ({"disk_bytes": 10**12}, "warn", "may write 1.0 TB"),
    ],
    ids=["fits", "does not fit", "cannot fit", "above the budget", "disk"],
)
def test_a_prediction_is_held_against_every_limit(
    change: dict[str, Any], status: str, said: str
) -> None:
    verdict = run_checks.judged_plan({**PLAN, **change}, free_disk=10**9)
    assert (verdict.status, said in verdict.detail) == (status, True), verdict
    if status == "fail" and "fixed_bytes" in change:
        assert "cannot be lowered by an option" in verdict.remedy
    if change == {"fits": False}:
        assert "--batch-size (now 512): 900 MB" in verdict.remedy


@wide
def test_a_miner_that_needs_more_than_the_budget_is_named(ask: Ask, run_toml: WriteToml) -> None:
    config = run_toml(miner='name = "hnswlib"\nnegatives = 2\nk = 20', memory='budget = "100KiB"')
    found = ask(config, check="plan")
    if "not installed" in found["detail"] or found["status"] == "skip":
        pytest.skip("hnswlib is not installed")
    assert (found["status"], found["exit_code"]) == ("fail", 6), found
    assert "memory.budget is 102 kB" in found["detail"]


# --- places and limits of a process -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("before", "status", "code", "said"),
    [
        ("ulimit -n 200", "warn", 0, "may open only 200 files"),
        ("ulimit -n 40", "fail", 6, "may open only 40 files"),
        ("ulimit -t 5000", "warn", 0, "SIGXCPU"),
        ("ulimit -f 100000", "warn", 0, "SIGXFSZ"),
    ],
)
def test_limits_of_a_process(
    before: str, status: str, code: int, said: str, tmp_path: Path
) -> None:
    done = shell(before, "--check", "ulimits", "--json", cwd=tmp_path)
    found = _checks(done.out)["ulimits"]
    assert (found["status"], done.code) == (status, code)
    assert said in found["detail"] and "ulimit" in found["remedy"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Callable[[str], Path]]:
    """Mounts a file system in memory with these options; gone with the test."""
    mounted: list[Path] = []

    def mount(options: str) -> Path:
        path = tmp_path / f"disk-{len(mounted)}"
        path.mkdir()
        words = ["mount", "-t", "tmpfs", "-o", options, "ttf-doctor", str(path)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"nothing can be mounted here ({done.stderr.strip()})")
        mounted.append(path)
        return path

    yield mount
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=True)


@pytest.mark.parametrize(
    ("options", "said"),
    [("size=8m", "are free"), ("size=100m,ro", "read-only"), ("size=100m,nr_inodes=1", "inodes")],
    ids=["small", "read-only", "no inodes"],
)
def test_a_disk_that_takes_nothing_fails(
    small_disk: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, options: str, said: str
) -> None:
    disk = small_disk(options)
    monkeypatch.chdir(disk)
    verdict = look_at_disk(Examination())
    assert verdict.status == "fail" and said in verdict.detail
    assert "--out" in verdict.remedy
    monkeypatch.undo()
    monkeypatch.setenv("TTF_HOME", str(disk / "home"))
    verdict = look_at_disk(Examination())
    assert verdict.status == "fail" and "TTF_HOME" in verdict.remedy


def test_shared_memory_of_a_container_is_a_warning(
    small_disk: Callable[[str], Path], tmp_path: Path
) -> None:
    root = tmp_path / "root"
    (root / "dev").mkdir(parents=True)
    assert "/dev/shm does not exist" in look_at_shm(Examination(root=root)).detail
    (root / "dev/shm").symlink_to(small_disk("size=64m"))
    verdict = look_at_shm(Examination(root=root))
    assert verdict.status == "warn" and "--shm-size" in verdict.remedy
    (root / "dev/shm").unlink()
    (root / "dev/shm").symlink_to(small_disk("size=2g"))
    assert look_at_shm(Examination(root=root)).status == "ok"
