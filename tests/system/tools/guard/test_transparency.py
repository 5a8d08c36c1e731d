"""A command does not notice that it is guarded."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import wait_until
from tests.kit.fixtures.guard import Start
from tests.kit.guarded_command import PYTHON, alive, incident, ours, summary, theirs
from tests.kit.widely import wide

OTHER_CODES = (1, 2, 120, 126, 127, 128, 139, 143, 200, 255)


def test_input_and_output_pass_byte_for_byte(start: Start) -> None:
    data = os.urandom(3 << 20)
    guarded = start(["cat"], stdin=data)
    assert guarded.wait() == 0
    assert guarded.out == data and guarded.err == b""


def test_an_end_in_order_leaves_nothing(start: Start, tmp_path: Path) -> None:
    assert start([PYTHON, "-c", "print('done')"]).wait() == 0
    assert [p.name for p in tmp_path.iterdir()] == ["tmp"]
    assert not list((tmp_path / "tmp").iterdir())


@pytest.mark.parametrize("code", [0, 42, *(pytest.param(code, marks=wide) for code in OTHER_CODES)])
def test_every_exit_code_is_passed_on(start: Start, code: int) -> None:
    assert start(["sh", "-c", f"exit {code}"]).wait() == code


def test_odd_names_among_the_incidents_of_an_earlier_guard_cost_no_exit_code(
    start: Start, tmp_path: Path
) -> None:
    for name in ("²", "٣", "9" * 200, "007"):
        (tmp_path / "watch" / "incidents" / name).mkdir(parents=True)
    assert start(["sh", "-c", "exit 3"], "--out", "watch").wait() == 3
    assert (tmp_path / "watch" / "incidents" / "008").is_dir()


def test_an_interrupt_that_nobody_catches_ends_by_sigint_as_without_us(start: Start) -> None:
    guarded = start([PYTHON, "-c", "raise KeyboardInterrupt"])
    assert guarded.wait() == 130
    assert "killed" in ours(guarded.err)


def test_a_flood_of_standard_error_is_passed_on_whole_and_kept_within_bounds(
    start: Start, tmp_path: Path
) -> None:
    lines = 500_000
    code = (
        "import sys\nfor i in range(50):\n"
        f"    sys.stderr.write(('%097d\\n' % i) * {lines // 50} + '\\xb7')\nsys.exit(9)"
    )
    with (tmp_path / "err").open("wb") as file:
        guarded = start([PYTHON, "-X", "utf8", "-c", code], "--out", "watch", stderr=file)
        assert guarded.wait() == 9
    got = theirs((tmp_path / "err").read_bytes())
    wanted = b"".join((b"%097d\n" % i) * (lines // 50) + "\xb7".encode() for i in range(50))
    # Our own line begins on a line of its own: the last one of theirs was not ended.
    assert hashlib.sha256(got.removesuffix(b"\n")).digest() == hashlib.sha256(wanted).digest()
    assert (tmp_path / "watch/stderr.txt").stat().st_size < 500_000
    assert b"bytes left out" in (tmp_path / "watch/stderr.txt").read_bytes()


def test_what_is_written_is_passed_on_at_once(start: Start) -> None:
    code = "import sys; sys.stderr.write('now'); sys.stderr.flush(); sys.stdin.read()"
    guarded = start([PYTHON, "-c", code], stdin=b"")
    assert guarded.process.stderr is not None
    assert os.read(guarded.process.stderr.fileno(), 10) == b"now"
    assert guarded.wait() == 0


@pytest.mark.parametrize(
    "signum",
    [
        signal.SIGINT,
        *(
            pytest.param(signum, marks=wide)
            for signum in (signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
        ),
    ],
)
def test_signals_are_passed_on_once(start: Start, tmp_path: Path, signum: signal.Signals) -> None:
    code = (
        f"trap 'echo got; exit 7' {signum.name.removeprefix('SIG')}; echo $$ > ready; "
        "while :; do sleep 0.05; done"
    )
    guarded = start(["sh", "-c", code])
    wait_until(lambda: (tmp_path / "ready").exists() and bool((tmp_path / "ready").read_text()))
    guarded.process.send_signal(signum)
    assert guarded.wait() == 7
    assert guarded.out == b"got\n"


def test_a_command_that_was_asked_to_end_is_not_a_riddle(start: Start, tmp_path: Path) -> None:
    guarded = start(["sleep", "60"], "--out", "watch", "--restarts", "3")
    assert alive(guarded.child)
    guarded.process.terminate()
    assert guarded.wait() == 143
    found = incident(tmp_path / "watch")
    assert found["class"] == "killed" and "ttf guard received SIGTERM" in found["explanation"]
    assert summary(tmp_path / "watch")["status"] == "stopped"
    assert "restarting the command" not in ours(guarded.err)


def test_signals_that_were_ignored_stay_ignored(start: Start, tmp_path: Path) -> None:
    code = "echo $$ > ready; while [ ! -e go ]; do sleep 0.05; done; echo survived"
    inner = f"trap '' HUP; exec {PYTHON} -m ttf guard -- sh -c '{code}'"
    done = subprocess.Popen(
        ["sh", "-c", inner], cwd=tmp_path, stdout=subprocess.PIPE, start_new_session=True
    )
    try:
        wait_until((tmp_path / "ready").exists)
        os.killpg(done.pid, signal.SIGHUP)
        (tmp_path / "go").touch()
        assert done.communicate(timeout=60)[0] == b"survived\n"
    finally:
        if done.poll() is None:
            os.killpg(done.pid, signal.SIGKILL)
            done.wait()


def test_a_guard_that_is_killed_takes_the_command_along(start: Start) -> None:
    guarded = start([PYTHON, "-c", "import time; print('up', flush=True); time.sleep(60)"])
    assert guarded.process.stdout is not None
    assert guarded.process.stdout.readline() == b"up\n"
    child = guarded.child
    guarded.process.kill()
    wait_until(lambda: not alive(child))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["no-such-command-here"], 127, "there is no such command on PATH"),
        (["./plain"], 126, "this file is not executable"),
        pytest.param(["./missing"], 127, "there is no such file", marks=wide),
        pytest.param(["./headless"], 126, "must name its interpreter", marks=wide),
        (["."], 126, "this is a folder"),
        ([""], 126, "The name of the command is empty"),
    ],
)
def test_what_cannot_be_started_ends_as_in_a_shell(
    start: Start, tmp_path: Path, words: list[str], code: int, said: str
) -> None:
    (tmp_path / "plain").write_text("x")
    (tmp_path / "headless").write_text("x")
    (tmp_path / "headless").chmod(0o755)
    guarded = start(words)
    assert guarded.wait() == code
    assert said in ours(guarded.err)
    assert not (tmp_path / "runs").exists()


@wide
def test_descriptors_that_were_opened_for_the_command_reach_it(start: Start) -> None:
    reader, writer = os.pipe()
    try:
        guarded = start(
            [PYTHON, "-c", f"import os; os.write({writer}, b'here')"], pass_fds=[writer]
        )
        assert guarded.wait() == 0
        assert os.read(reader, 10) == b"here"
    finally:
        os.close(reader)
        os.close(writer)


def test_a_reader_that_left_ends_the_command_as_without_us(start: Start) -> None:
    reader, writer = os.pipe()
    guarded = start(["sh", "-c", "while echo x >&2; do :; done"], stderr=writer)
    os.close(writer)
    os.read(reader, 1)
    os.close(reader)
    assert guarded.wait() == 141


@wide
def test_children_that_outlive_the_command_are_left_alone(start: Start, tmp_path: Path) -> None:
    guarded = start(["sh", "-c", "sleep 5 >/dev/null 2>&1 & echo $! > ready"])
    assert guarded.wait() == 0
    child = int((tmp_path / "ready").read_text())
    assert alive(child)
    os.kill(child, signal.SIGKILL)


def test_the_command_is_told_which_start_it_is(start: Start) -> None:
    code = "import os, sys; print(os.environ['TTF_GUARD_ATTEMPT']); sys.exit(1 - int(os.environ['TTF_GUARD_ATTEMPT']))"
    guarded = start([PYTHON, "-c", code], "--until-success")
    assert guarded.wait() == 0
    assert guarded.out == b"0\n1\n"


# --- Python processes -------------------------------------------------------------------------


def test_the_users_own_sitecustomize_still_runs(start: Start, tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/sitecustomize.py").write_text("import builtins; builtins.mine = __name__\n")
    code = (
        "import faulthandler, sitecustomize, sys; print(mine, sitecustomize.__file__, "
        "faulthandler.is_enabled(), [p for p in sys.path if 'guard' in p])"
    )
    for words in (
        [PYTHON, "-c", code],
        [PYTHON, "-c", f"import subprocess, sys; subprocess.run([sys.executable, '-c', {code!r}])"],
    ):
        guarded = start(words, env={"PYTHONPATH": str(tmp_path / "mine")})
        assert guarded.wait() == 0, guarded.err
        assert guarded.out.decode() == f"sitecustomize {tmp_path}/mine/sitecustomize.py True []\n"


@wide
def test_an_error_in_the_users_own_sitecustomize_is_reported_as_ever(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text("1 / 0\n")
    code = "print('up')"
    env = {"PYTHONPATH": str(tmp_path)}
    plain = subprocess.run(
        [PYTHON, "-c", code], env=os.environ | env, capture_output=True, check=False
    )
    guarded = start([PYTHON, "-c", code], env=env)
    assert guarded.wait() == plain.returncode
    assert guarded.out == plain.stdout
    assert guarded.err == 2 * plain.stderr, "once of ttf itself, once of the command"


@pytest.mark.parametrize(
    "flags",
    [
        ["-I"],
        ["-X", "dev"],
        *(pytest.param(f.split(), marks=wide) for f in ("-E", "-S", "-s -B", "-W error")),
    ],
)
def test_no_way_to_start_python_is_disturbed(start: Start, flags: list[str]) -> None:
    guarded = start([PYTHON, *flags, "-c", "print('up')"])
    assert (guarded.wait(), guarded.out, guarded.err) == (0, b"up\n", b"")


@wide
def test_a_folder_that_takes_nothing_disturbs_nobody(start: Start) -> None:
    code = (
        "import os, subprocess, sys; os.environ['TTF_GUARD_STACKS'] = '/proc/nowhere'; "
        "sys.exit(subprocess.run([sys.executable, '-c', 'print(7)']).returncode)"
    )
    guarded = start([PYTHON, "-c", code])
    assert (guarded.wait(), guarded.out, guarded.err) == (0, b"7\n", b"")


def test_processes_that_close_all_files_and_fork_are_not_disturbed(
    start: Start, tmp_path: Path
) -> None:
    code = """
import os, sys
os.closerange(3, 4096)
files = [open(f"file-{i}", "wb") for i in range(600)]
child = os.fork()
if child == 0:
    sys.exit(0)
os.waitpid(child, 0)
"""
    guarded = start([PYTHON, "-c", code])
    assert guarded.wait() == 0, guarded.err
    assert guarded.err == b""
    assert not any((tmp_path / f"file-{i}").stat().st_size for i in range(600))


def test_a_python_that_becomes_another_program_has_not_vanished(start: Start) -> None:
    guarded = start([PYTHON, "-c", "import os; os.execvp('sleep', ['sleep', '0.1'])"])
    assert (guarded.wait(), guarded.err) == (0, b"")


@wide
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_python_that_dumps_to_standard_error_by_itself_still_does(start: Start) -> None:
    code = "import ctypes; ctypes.string_at(0)"
    guarded = start([PYTHON, "-X", "faulthandler", "-c", code], "--out", "watch")
    assert guarded.wait() == 139
    assert b"Fatal Python error: Segmentation fault" in theirs(guarded.err)
    assert incident(guarded.folder / "watch")["class"] == "segfault"
