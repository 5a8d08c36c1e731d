"""torch and a miner in one process: real aborts, segfaults and hangs, each named with its order."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.kit.fixtures.doctor import HANG, SEGFAULT, TORCH_IS_HERE, Ask, OddMiner
from tests.kit.widely import wide

from ttf.tools.doctor import coload


def test_two_openmp_runtimes_that_meet_are_named_and_fail_with_6(
    ask: Ask, odd_miner: OddMiner, intel_openmp: Path, tmp_path: Path, temporary: Path
) -> None:
    copies = [tmp_path / name / "libiomp5.so" for name in "ab"]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copyfile(intel_openmp, copy)
    starts = "; ".join(f"ctypes.CDLL({str(c)!r}).omp_get_max_threads()" for c in copies)
    odd_miner(search=f"if {TORCH_IS_HERE}: {starts}")
    marks = set(Path("/dev/shm").glob("__KMP_REGISTERED_LIB_*"))
    found = ask(check="coload")
    assert set(Path("/dev/shm").glob("__KMP_REGISTERED_LIB_*")) <= marks  # no litter of the dead
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert "omp-duplicate (SIGABRT)" in found["detail"] and "ttf-odd" in found["detail"]
    story = "\n".join(found["evidence"])
    assert "OMP: Error #15: Initializing libiomp5.so, but found libiomp5.so" in story
    assert "libgomp" in story  # torch's own was mapped as well
    assert 'miner.isolation = "process"' in found["remedy"]
    assert found["docs"] == "docs/doctor.md#coload"


@wide
def test_a_variable_that_hides_the_abort_is_kept_from_the_processes(
    ask: Ask,
    odd_miner: OddMiner,
    intel_openmp: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "TRUE")
    copies = [tmp_path / f"{name}-libiomp5.so" for name in "ab"]
    for copy in copies:
        shutil.copyfile(intel_openmp, copy)
    odd_miner(at_import="\n".join(f"ctypes.CDLL({str(c)!r}).omp_get_max_threads()" for c in copies))
    found = ask(check="coload")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert "alone in a process, before torch was loaded: omp-duplicate" in found["detail"]


@wide
def test_a_crash_in_one_order_only_is_told_with_the_order(
    ask: Ask, odd_miner: OddMiner, temporary: Path
) -> None:
    odd_miner(build=f"if {TORCH_IS_HERE} and not os.environ.get('SEEN'): {SEGFAULT}\n"
                    "        os.environ['SEEN'] = '1'")  # fmt: skip
    found = ask(check="coload")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert "torch first only: segfault (SIGSEGV)" in found["detail"]
    assert any("it was at: building and searching" in line for line in found["evidence"])
    assert any("Python was at" in line for line in found["evidence"])


@wide
def test_a_miner_that_hangs_at_its_import_is_ended_and_told_with_its_stacks(
    ask: Ask, odd_miner: OddMiner, monkeypatch: pytest.MonkeyPatch, temporary: Path
) -> None:
    monkeypatch.setattr(coload, "DEADLINE_S", 3.0)
    odd_miner(at_import=f"[{HANG} for _ in range(9)]")
    found = ask(check="coload")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert "alone in a process, before torch was loaded: hang" in found["detail"]
    assert any("ttf_odd_miner" in line for line in found["evidence"]), found["evidence"]


@wide
@pytest.mark.parametrize(
    ("fault", "said"),
    [
        ({"search": f"if {TORCH_IS_HERE}: {SEGFAULT}"}, "in both orders: segfault (SIGSEGV)"),
        ({"search": f"if {TORCH_IS_HERE}: os.abort()"}, "in both orders: abort (SIGABRT)"),
        ({"search": "os._exit(0)"}, "alone in a process, before torch was loaded: vanished"),
        (
            {"at_import": f"import atexit; atexit.register(lambda: {SEGFAULT})"},
            "in both orders: segfault (SIGSEGV)",
        ),
    ],
    ids=["segfault", "abort", "leaves", "crashes at its end"],
)
def test_other_deaths_are_told_as_what_they_are(
    ask: Ask, odd_miner: OddMiner, fault: dict[str, str], said: str
) -> None:
    odd_miner(**fault)  # type: ignore[arg-type]
    found = ask(check="coload")
    assert (found["status"], found["exit_code"]) == ("fail", 6)
    assert said in found["detail"]


@wide
def test_a_miner_that_answers_wrongly_is_a_warning(ask: Ask, odd_miner: OddMiner) -> None:
    odd_miner(search="return np.full((len(queries), k), 999), np.zeros((len(queries), k), 'f4')")
    found = ask(check="coload")
    assert (found["status"], found["exit_code"]) == ("warn", 0)
    assert "BadAnswer" in found["detail"] and "row 999" in found["detail"]


@wide
def test_a_miner_that_cannot_be_used_here_is_left_out(ask: Ask, odd_miner: OddMiner) -> None:
    odd_miner(usable=False)
    found = ask(check="coload")
    assert (found["status"], found["exit_code"]) == ("skip", 0)
    assert found["evidence"] == ["odd: not usable here (its library is missing)"]
