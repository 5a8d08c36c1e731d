"""Real signals from outside, hangs, exits and errors."""

from __future__ import annotations

import signal
import sys
import textwrap
from pathlib import Path

import pytest
from tests.kit.dying_process import finding_of, hang_and_kill, kill, told

from ttf.process.lifeline import ORPHANED, PARENT_STOPPED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the deaths are made for Linux")


@pytest.mark.parametrize(
    ("signum", "words"),
    [
        (signal.SIGTERM, "SIGTERM ended the trainer: a program or a person sent it"),
        (signal.SIGINT, "sent SIGINT"),
        (signal.SIGQUIT, "SIGQUIT ended the trainer"),
        (signal.SIGHUP, "terminal was closed"),
        (signal.SIGSYS, "sandbox"),
        (signal.SIGXFSZ, "ulimit -f"),
        (signal.SIGUSR2, "SIGUSR2 ended the trainer"),
        (signal.SIGALRM, "SIGALRM ended the trainer"),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_a_signal_from_outside_is_killed(tmp_path: Path, signum: int, words: str) -> None:
    code = f"import os, signal; signal.signal({int(signum)}, signal.SIG_DFL)\n"
    found = finding_of(f"{code}os.kill(os.getpid(), {int(signum)})", tmp_path, stacks=False)
    assert found.name == "killed"
    assert words in found.explanation


def test_a_writer_whose_reader_is_gone_is_killed_by_the_pipe(tmp_path: Path) -> None:
    code = """
        import os, signal
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        reader, writer = os.pipe()
        os.close(reader)
        os.write(writer, b'x')
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert (found.name, "a pipe without a reader" in found.explanation) == ("killed", True)


def test_used_up_processor_time_is_named(tmp_path: Path) -> None:
    code = """
        import resource
        used = int(sum(resource.getrusage(resource.RUSAGE_SELF)[:2]))
        resource.setrlimit(resource.RLIMIT_CPU, (used + 1, used + {more}))
        print('ready', flush=True)
        while True: pass
    """
    for more, ended_by in ((5, "SIGXCPU"), (1, "SIGKILL")):
        found = finding_of(textwrap.dedent(code.format(more=more)), tmp_path)
        assert (found.name, "ulimit" in found.explanation) == ("cpu-limit", True)
        assert ended_by in told(found) and "processor time: " in told(found)


def test_a_trap_is_an_abort(tmp_path: Path) -> None:
    found = finding_of("import os, signal; os.kill(os.getpid(), signal.SIGTRAP)", tmp_path)
    assert found.name == "abort"


def test_a_hang_keeps_the_line_it_hung_at_even_while_the_lock_is_held(tmp_path: Path) -> None:
    code = """
        import ctypes, signal
        faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], 'ab'), all_threads=True)
        print('ready', flush=True)
        def searching(): ctypes.PyDLL(None).sleep(60)
        searching()
    """
    found = finding_of(
        textwrap.dedent(code),
        tmp_path,
        during=hang_and_kill(tmp_path / "faulthandler.txt", "in searching"),
        killed_by_us="hang",
        reason="no sign of life for 60 s in mining",
    )
    assert (found.name, found.certain) == ("hang", False)
    assert "no sign of life for 60 s in mining" in found.explanation
    assert "in searching" in told(found)


def test_a_hang_that_waits_in_python_says_so(tmp_path: Path) -> None:
    code = """
        import signal, threading
        faulthandler.register(signal.SIGUSR1, file=open(sys.argv[1], 'ab'), all_threads=True)
        print('ready', flush=True)
        threading.Event().wait()
    """
    found = finding_of(
        textwrap.dedent(code),
        tmp_path,
        during=hang_and_kill(tmp_path / "faulthandler.txt", "in wait"),
        killed_by_us="hang",
        reason="60 s",
    )
    assert "waiting for another thread or process" in found.explanation


def test_exit_code_zero_without_a_final_record_is_no_success(tmp_path: Path) -> None:
    found = finding_of("import os; os._exit(0)", tmp_path)
    assert found.name == "vanished"
    assert "The run did not succeed" in found.explanation


def test_an_uncaught_error_is_a_python_error_with_its_own_exit_code(tmp_path: Path) -> None:
    found = finding_of("{}['rows']", tmp_path)
    assert (found.name, found.ends_with) == ("python-error", None)
    assert "KeyError: 'rows'" in found.explanation
    error = {"class": "ConfigError", "message": "No such key.", "exit_code": 2}
    found = finding_of("sys.exit(2)", tmp_path, error=error, finished=True)
    assert (found.name, found.ends_with) == ("python-error", 2)


@pytest.mark.parametrize(
    ("name", "class_", "code"),
    [("data-changed", "DataChanged", 3), ("non-finite", "NumericFailure", 4)],
)
def test_what_a_process_found_out_itself_is_believed(
    tmp_path: Path, name: str, class_: str, code: int
) -> None:
    error = {"class": class_, "message": "It is not what it was.", "exit_code": code}
    found = finding_of(f"sys.exit({code})", tmp_path, error=error, finished=True)
    assert (found.name, found.certain, found.ends_with) == (name, True, code)
    assert "It is not what it was." in found.explanation


def test_an_exit_code_without_a_word_stays_unknown(tmp_path: Path) -> None:
    found = finding_of("sys.exit(7)", tmp_path)
    assert (found.name, found.certain) == ("unknown", False)
    assert "exit code 7" in found.explanation


@pytest.mark.parametrize("code", [ORPHANED, PARENT_STOPPED])
def test_a_child_that_left_because_of_us_is_not_a_crash(tmp_path: Path, code: int) -> None:
    found = finding_of(f"sys.exit({code})", tmp_path)
    assert (found.name, found.certain) == ("killed", False)
    assert finding_of(f"sys.exit({code})", tmp_path, process="command").name == "unknown"


def test_a_process_that_was_ended_on_request_or_for_garbage(tmp_path: Path) -> None:
    for killed_by_us, name in (("stop", "killed"), ("garbage", "unknown")):
        found = finding_of(
            "",
            tmp_path,
            during=kill(signal.SIGKILL),
            killed_by_us=killed_by_us,
            reason="a message does not match its checksum",
        )
        assert found.name == name
        assert "does not match its checksum" in found.explanation
        assert "OOM" not in found.explanation
