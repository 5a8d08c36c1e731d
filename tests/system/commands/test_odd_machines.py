"""Machines that lack what others have: it works, or one line says what is missing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.conftest import Invoke
from tests.kit.fixtures.trained import TRAINS
from tests.kit.widely import wide

from ttf.errors import ExitCode

Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def ttf(place: Path) -> Run:
    """`ttf` beside the finished run; `before`: a line of shell that its process begins with."""

    def run(
        words: Sequence[str], before: str = "", prefix: Sequence[str] = ()
    ) -> subprocess.CompletedProcess[str]:
        script = f'{before}\nexec "$@"'
        command = [*prefix, "sh", "-c", script, "sh", sys.executable, "-m", "ttf", *words]
        return subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=120, cwd=place
        )

    return run


@pytest.fixture
def without_proc(ttf: Run) -> Run:
    prefix = ["unshare", "--mount", "--map-root-user"]
    hide = "mount -t tmpfs none /proc || exit 99"
    try:
        probe = subprocess.run([*prefix, "sh", "-c", hide], check=False, capture_output=True)
    except FileNotFoundError:
        pytest.skip("this system has no unshare")
    if probe.returncode:
        pytest.skip(f"no mount namespace of our own here: {probe.stderr.decode().strip()}")
    return lambda words, before="": ttf(words, f"{hide}\n{before}", prefix)


def test_a_run_without_proc_survives_a_death_and_says_what_is_missing(
    without_proc: Run, place: Path
) -> None:
    words = [*TRAINS, "new", "--set", "checkpoint.every_steps=1"]
    done = without_proc(words, "export TTF_FAILPOINT=checkpoint.write:1:kill")
    assert done.returncode == 0, done.stderr
    assert "This system has no /proc" in done.stderr
    assert "Incident 001, killed" in done.stderr
    assert (place / "new" / "summary.json").exists()


@pytest.mark.parametrize(
    "words",
    [
        ["monitor", "run", "--once"],
        ["guard", "--out", "guarded", "--", "true"],
        ["doctor", "--check", "memory", "--check", "ulimits"],
    ],
    ids=lambda words: words[0],
)
def test_commands_work_without_proc(without_proc: Run, words: list[str]) -> None:
    done = without_proc(words)
    assert done.returncode == 0, done.stderr
    if words[0] != "monitor":
        assert "This system has no /proc" in done.stderr + done.stdout


@pytest.mark.parametrize(
    "date", ["1969-06-01 00:00:00", pytest.param("2040-01-01 00:00:00", marks=wide)]
)
def test_a_run_survives_a_death_whatever_the_clock_says(ttf: Run, place: Path, date: str) -> None:
    if shutil.which("faketime") is None:
        pytest.skip("faketime is not installed")
    words = [*TRAINS, "new", "--set", "checkpoint.every_steps=1"]
    strange = ["faketime", date]
    done = ttf(words, "export TTF_FAILPOINT=checkpoint.write:1:kill", strange)
    assert done.returncode == 0, done.stderr
    assert "Incident 001, killed" in done.stderr
    assert (place / "new" / "report.html").exists()
    for words in (["explain", "new"], ["monitor", "new", "--once"]):
        done = ttf(words, prefix=strange)
        assert done.returncode == 0, done.stderr
        assert date[:10] in done.stdout or words[0] == "monitor"


@pytest.mark.parametrize(
    ("before", "said"),
    [
        ("ulimit -n 20", "ttf needs 64 open files, and a process may have 20 here (ulimit -n)."),
        ("ulimit -n 8", "ttf needs 64 open files, and a process may have 8 here (ulimit -n)."),
    ],
)
def test_too_few_open_files_are_one_line_and_leave_no_folder(
    ttf: Run, place: Path, before: str, said: str
) -> None:
    done = ttf([*TRAINS, "new"], before)
    assert (done.returncode, done.stderr.splitlines()[-2:]) == (
        ExitCode.UNSAFE,
        [f"error: {said}", "hint: Raise the limit: ulimit -n 4096"],
    )
    assert not (place / "new").exists()


def test_a_low_limit_of_open_files_is_raised_where_that_is_allowed(ttf: Run) -> None:
    done = ttf([*TRAINS, "new"], "ulimit -S -n 20")
    assert done.returncode == 0, done.stderr


def test_a_command_that_cannot_be_started_for_want_of_files_is_told_so(ttf: Run) -> None:
    done = ttf(["guard", "--out", "guarded", "--", "true"], "ulimit -n 8")
    assert done.returncode == 126
    assert "a process may have 8 here" in done.stderr


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["train", "--out", "new"], "processes and threads, and this user may start"),
        (["plugins", "check", "miner.exact"], "refused to start another process"),
        (["guard", "--out", "guarded", "--", "true"], "refused to start another process"),
    ],
    ids=["train", "plugins check", "guard"],
)
def test_too_few_processes_are_one_line(ttf: Run, words: list[str], said: str) -> None:
    if any(shutil.which(word) is None for word in ("prlimit", "setpriv")):
        pytest.skip("this system has no prlimit or setpriv")
    prefix = ["prlimit", "--nproc=1:1"]
    if os.geteuid() == 0:  # whom the limit does not bind
        rights = "-all,+dac_override,+dac_read_search"
        prefix += ["setpriv", "--reuid=54321", "--regid=54321", "--clear-groups"]
        prefix += [f"--inh-caps={rights}", f"--ambient-caps={rights}"]
    done = ttf(words, prefix=prefix)
    assert done.returncode == (126 if words[0] == "guard" else ExitCode.UNSAFE), done.stderr
    assert said in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "kilobytes", "limit"),
    [(["eval", "run"], 150_000, "154 MB"), (["train", "--plan"], 660_000, "676 MB")],
)
def test_too_few_addresses_for_torch_are_one_line(
    ttf: Run, words: list[str], kilobytes: int, limit: str, tmp_path: Path
) -> None:
    done = ttf(words, f"export TMPDIR={tmp_path}; ulimit -v {kilobytes}")
    assert done.returncode == ExitCode.UNSAFE, done.stderr
    assert f"not enough address space to load torch: the limit is {limit}" in done.stderr
    assert "(RLIMIT_AS)" in done.stderr and "ulimit -v unlimited" in done.stderr
    assert list(tmp_path.glob("ttf-fault-*")) == []
    assert ttf([words[0], "--help"], f"ulimit -v {kilobytes}").returncode == 0


# Whoever reports it has no memory left either, until the reserve is given back.
_FULL = """
import resource, sys, ttf.cli as cli
def hoard(*_):
    pages = int(open("/proc/self/statm").read().split()[0])
    limit = pages * resource.getpagesize() + (30 << 20)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    held, size = [], 1 << 20
    while True:
        try:
            held.append(bytearray(size))
        except MemoryError:
            size //= 2
            if size < 512:
                raise
cli._invoke = hoard
cli.main(sys.argv[1:])
"""


def test_a_command_that_uses_up_its_limit_is_told_so_without_any_memory_left(
    tmp_path: Path,
) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", _FULL, "--json"]
    done = subprocess.run(command, check=False, capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == ExitCode.UNSAFE, done.stderr
    assert "There is not enough address space for this command: the limit is" in done.stderr
    assert json.loads(done.stdout)["error"]["class"] == "LimitTooLow"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "closed", "code"),
    [
        (["guard", "--out", "guarded", "--", "true"], ">&-", 0),
        (["monitor", "run", "--once"], ">&-", ExitCode.STORAGE),
        (["monitor", "run", "--once"], "<&- 2>&-", 0),
        ([*TRAINS, "new"], "<&- >&- 2>&-", ExitCode.STORAGE),
    ],
    ids=["guard without output", "monitor without output", "monitor", "train without any"],
)
def test_closed_streams_are_no_fault(ttf: Run, words: list[str], closed: str, code: int) -> None:
    done = ttf(words, f"exec {closed}")
    assert done.returncode == code, done.stderr
    if code and "2>" not in closed:
        assert "Standard output is closed" in done.stderr


def test_a_file_never_gets_the_number_of_a_closed_stream(ttf: Run, place: Path) -> None:
    ttf(
        ["guard", "--out", "guarded", "--", "sh", "-c", "readlink /proc/$PPID/fd/0 >seen"],
        "exec <&-",
    )
    assert (place / "seen").read_text() == "/dev/null\n"


@pytest.mark.parametrize("words", [["train", "--out"], ["report"]], ids=lambda words: words[0])
def test_a_name_that_is_too_long_is_one_line(invoke: Invoke, words: list[str]) -> None:
    done = invoke([*words, "x" * 300])
    assert done.code == ExitCode.USAGE
    assert "is too long: 300 bytes." in done.err and "255 bytes" in done.err


@wide
def test_a_run_may_have_a_name_that_is_no_utf_8_and_its_next_line_can_be_pasted(
    ttf: Run, place: Path
) -> None:
    name = os.fsdecode(b"b\xffd\n'q")
    done = ttf([*TRAINS, name])
    assert done.returncode == 0, done.stderr
    (line,) = [x for x in done.stderr.splitlines() if x.startswith("Next: ttf eval ")]
    pasted = ["bash", "-c", f"printf %s {line.removeprefix('Next: ttf eval ')}"]
    assert subprocess.run(pasted, check=True, capture_output=True).stdout == os.fsencode(name)
    assert ttf(["eval", name]).returncode == 0
