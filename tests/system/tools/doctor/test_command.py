"""The command line: choosing checks, wrong input, colours, pipes and being stopped."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest
from tests.conftest import FakeDistribution, Invoke, wait_until
from tests.kit.fixtures.doctor import HANG, Ask, OddMiner, WriteToml

QUICK = ["--check", "python", "--check", "environment"]


def test_one_check_can_be_made_alone_and_a_misspelt_one_gets_the_closest(invoke: Invoke) -> None:
    done = invoke(["doctor", "--check", "python", "-v"])
    assert done.code == 0
    assert done.out.startswith("[ok] python  CPython 3.")
    assert "- interpreter: " in done.out
    assert done.out.rstrip().endswith("1 check, all ok.")
    wrong = invoke(["doctor", "--check", "coloat"])
    assert wrong.code == 2
    assert "Did you mean 'coload'?" in wrong.err


def test_the_checks_are_listed_and_none_is_made(invoke: Invoke) -> None:
    done = invoke(["doctor", "--list-checks"])
    assert done.code == 0
    assert "coload" in done.out and "RUN.toml" in done.out
    listed = invoke(["doctor", "--list-checks", "--json"]).json()
    assert {tuple(entry) for entry in listed} == {("id", "title", "of_run", "distribution")}


@pytest.mark.parametrize("value", ["TRUE", "1", "yes"])
def test_the_variable_that_hides_two_runtimes_is_a_failure(
    ask: Ask, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", value)
    found = ask(check="environment")
    assert (found["status"], found["exit_code"], found["ok"]) == ("fail", 6, False)
    assert f"KMP_DUPLICATE_LIB_OK={value}" in found["detail"]
    assert "unset KMP_DUPLICATE_LIB_OK" in found["remedy"]


def test_a_variable_that_switches_the_flag_off_is_none(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KMP_DUPLICATE_LIB_OK", "FALSE")
    assert ask(check="environment")["exit_code"] == 0


def test_more_threads_than_processors_are_a_warning(
    ask: Ask, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "4096")
    found = ask(check="environment")
    assert (found["status"], found["exit_code"], found["ok"]) == ("warn", 0, True)
    assert "OMP_NUM_THREADS=4096" in found["detail"] and "unset" in found["remedy"]


def test_the_doctor_itself_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom ttf import cli\n"
        "names = 'python impostor versions environment memory disk openmp-duplicates'.split()\n"
        "cli.run(['doctor', *(w for name in names for w in ('--check', name))])\n"
        "print('\\n' + ' '.join(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert "ttf.tools.doctor.coload" in loaded
    assert not loaded & {"torch", "numpy", "faiss", "hnswlib", "zarr", "pydantic", "rich"}


# --- a configuration that is wrong -------------------------------------------------------------------


def test_a_file_that_is_no_toml_or_not_there_ends_at_once_with_2(
    invoke: Invoke, tmp_path: Path
) -> None:
    broken = tmp_path / "broken.toml"
    broken.write_text("[train\nlr = ")
    done = invoke(["doctor", str(broken)])
    assert (done.code, done.out) == (2, "")
    assert "is not valid TOML" in done.err
    missing = invoke(["doctor", str(tmp_path / "brokn.toml"), "--json"])
    assert missing.code == 2
    assert "Did you mean 'broken.toml'?" in missing.json()["error"]["message"]


def test_a_wrong_key_is_a_failed_check_with_2(ask: Ask, run_toml: WriteToml) -> None:
    config = run_toml(train="batch_sze = 16\nlr = -1")
    found = ask(config, check="config")
    assert (found["status"], found["cause"], found["exit_code"]) == ("fail", "configuration", 2)
    told = "\n".join([found["detail"], *found["evidence"]])
    assert "run.toml:" in told and "Did you mean 'batch_size'?" in told and "train.lr" in told


def test_the_checks_of_a_run_are_not_made_for_a_configuration_that_is_wrong(
    invoke: Invoke, run_toml: WriteToml
) -> None:
    config = run_toml(train="lr = -1")
    words = [word for name in ("config", "data", "plan", "steps") for word in ("--check", name)]
    done = invoke(["doctor", str(config), *words])
    assert done.code == 2
    assert "[x]  config" in done.out
    assert done.out.count("[-]") == 3 and "see the check config" in done.out


def test_a_check_of_a_run_without_a_run_is_wrong_usage(invoke: Invoke) -> None:
    done = invoke(["doctor", "--check", "data"])
    assert done.code == 2
    assert "hint: ttf doctor RUN.toml --check data" in done.err


# --- where the output goes --------------------------------------------------------------------------


def test_a_pipe_gets_no_colours_and_whole_lines(invoke: Invoke) -> None:
    done = invoke(["doctor", *QUICK])
    assert "\x1b" not in done.out
    assert done.out.splitlines()[0].startswith("[ok] python")


@pytest.mark.parametrize("variables", [{}, {"NO_COLOR": "1"}], ids=["colours", "NO_COLOR"])
def test_a_terminal_gets_colours_unless_they_are_unwanted(variables: dict[str, str]) -> None:
    ours, theirs = pty.openpty()
    try:
        env = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | variables
        done = subprocess.run(
            [sys.executable, "-m", "ttf", "doctor", "--check", "python"],
            stdin=subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs,
            env=env | {"TERM": "xterm"},
            timeout=60,
            check=False,
        )
        shown = os.read(ours, 1 << 16).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert done.returncode == 0
    assert "[ok]" in shown  # the mark is there either way
    assert ("\x1b[1;32m" in shown) == (not variables)


def test_a_reader_that_leaves_is_no_fault() -> None:
    words = [sys.executable, "-m", "ttf", "doctor", *QUICK]
    done = subprocess.run(
        ["bash", "-c", 'set -o pipefail; "$@" | head -c 1 > /dev/null', "bash", *words],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode in (0, 141)
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("signum", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)],
    ids=["SIGINT", "SIGTERM", "SIGHUP"],
)
def test_being_stopped_leaves_no_process_and_no_folder(
    odd_miner: OddMiner,
    fake_plugins: FakeDistribution,
    temporary: Path,
    signum: signal.Signals,
    code: int,
) -> None:
    marker = fake_plugins.folder / "hangs"
    odd_miner(at_import=f"open({str(marker)!r}, 'w').close()\n[{HANG} for _ in range(9)]")
    doctor = subprocess.Popen(
        [sys.executable, "-m", "ttf", "doctor", "--check", "plugins", "--json"],
        env=os.environ | {"PYTHONPATH": str(fake_plugins.folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        wait_until(marker.exists, timeout_s=60)
        children = psutil.Process(doctor.pid).children(recursive=True)
        assert children
        doctor.send_signal(signum)
        out, err = doctor.communicate(timeout=60)
    finally:
        doctor.kill()
        doctor.wait()
    assert doctor.returncode == code, err.decode()
    assert b"Traceback" not in err
    _, alive = psutil.wait_procs(children, timeout=60)
    assert not alive
    if out:
        json.loads(out)
