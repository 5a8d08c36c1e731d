"""One real death for each row of the table that a process can reach here: gathered, classified."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from tests.incidents.conftest import JoinGroup
from tests.incidents.dying import die, finding_of, hang_and_kill, kill, told

from ttf.incidents._linux import openmp_runtimes
from ttf.incidents.classify import classify
from ttf.incidents.inputs import InputFile
from ttf.lifeline import ORPHANED, PARENT_STOPPED

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the deaths are made for Linux")

SEGV = "import ctypes; ctypes.string_at(0)"
UD2 = {"x86_64": b"\x0f\x0b", "aarch64": b"\x00\x00\x00\x00"}


# --- native crashes --------------------------------------------------------------------------


def test_a_read_of_address_zero_is_a_segfault_with_the_python_line(tmp_path: Path) -> None:
    found = finding_of(SEGV, tmp_path)
    assert (found.name, found.certain, found.ends_with) == ("segfault", False, None)
    assert "SIGSEGV (11)" in told(found) and "in string_at" in told(found)
    assert "native code" in found.explanation


def test_without_a_stack_a_segfault_says_what_that_hints_at(tmp_path: Path) -> None:
    found = finding_of(SEGV, tmp_path, stacks=False)
    assert found.name == "segfault"
    assert "No stack was written" in found.explanation


def test_the_kernel_names_the_library_where_its_log_may_be_read(tmp_path: Path) -> None:
    death = die(SEGV, tmp_path, stacks=False)
    if not death.kernel:
        pytest.skip("the kernel's log says nothing here")
    assert f"[{death.pid}]" in death.kernel
    assert death.native.startswith("libc")
    assert f"in {death.native}" in classify(death).explanation


def test_an_abort_without_a_word_is_an_abort(tmp_path: Path) -> None:
    found = finding_of("import os; os.abort()", tmp_path)
    assert (found.name, found.certain) == ("abort", False)
    assert "faulthandler:1: Fatal Python error: Aborted" in told(found)


def test_a_failed_assertion_is_an_abort_with_its_reason(tmp_path: Path) -> None:
    code = "import ctypes; ctypes.CDLL(None).__assert_fail(b'rows > 0', b'index.cc', 12, b'add')"
    found = finding_of(code, tmp_path)
    assert found.name == "abort"
    assert "Assertion `rows > 0' failed" in found.explanation


def test_std_terminate_is_a_cxx_exception(tmp_path: Path) -> None:
    found = finding_of("import ctypes; ctypes.CDLL('libstdc++.so.6')._ZSt9terminatev()", tmp_path)
    assert found.name == "cxx-exception"
    assert "stderr:1: terminate called without an active exception" in told(found)


def test_an_uncaught_bad_alloc_is_a_failed_allocation_not_an_exception(tmp_path: Path) -> None:
    code = """
        import ctypes
        new = ctypes.CDLL('libstdc++.so.6')._Znwm
        new.argtypes = [ctypes.c_size_t]
        new(1 << 62)
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert (found.name, found.certain) == ("alloc-failure", True)


def test_a_double_free_is_heap_corruption(tmp_path: Path) -> None:
    code = """
        import ctypes
        libc = ctypes.CDLL(None)
        libc.malloc.restype = ctypes.c_void_p
        libc.free.argtypes = [ctypes.c_void_p]
        block = libc.malloc(40)
        libc.free(block)
        libc.free(block)
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert found.name == "heap-corruption"
    assert "double free" in told(found)


@pytest.mark.skipif(platform.machine() not in UD2, reason="machine code of another processor")
def test_an_unknown_instruction_is_an_illegal_instruction(tmp_path: Path) -> None:
    code = f"""
        import ctypes, mmap
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
        page.write({UD2[platform.machine()]!r})
        ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert found.name == "illegal-instruction"
    assert "HNSWLIB_NO_NATIVE" in found.explanation


def test_a_division_by_zero_in_native_code_is_told_from_floating_point(tmp_path: Path) -> None:
    found = finding_of("import faulthandler; faulthandler._sigfpe()", tmp_path)
    assert found.name == "illegal-instruction"
    assert "divided an integer by zero" in found.explanation


def test_a_shell_around_it_hides_no_signal(tmp_path: Path) -> None:
    line = f"{shlex.quote(sys.executable)} -c {shlex.quote(SEGV)}; exit $?"
    death = die(["sh", "-c", line], tmp_path, process="command")
    assert (death.signal, death.exit_code) == (11, 139)
    found = classify(death)
    assert found.name == "segfault"
    assert "a shell's way to say SIGSEGV (11)" in told(found)


# --- OpenMP ----------------------------------------------------------------------------------


def test_two_openmp_runtimes_are_named_and_the_miner_is_isolated(
    tmp_path: Path, intel_openmp: Path
) -> None:
    copies = []
    for name in "ab":
        copies.append(tmp_path / name / "libiomp5.so")
        copies[-1].parent.mkdir()
        shutil.copyfile(intel_openmp, copies[-1])
    code = f"""
        import ctypes, sys
        libraries = [ctypes.CDLL(p) for p in {[str(c) for c in copies]}]
        print('ready', flush=True)
        sys.stdin.readline()
        for library in libraries: library.omp_get_max_threads()
    """
    clean = {k: v for k, v in os.environ.items() if not k.startswith("KMP_")}
    seen: list[tuple[str, ...]] = []
    try:
        death = die(
            textwrap.dedent(code),
            tmp_path,
            env=clean,
            during=lambda child: seen.append(openmp_runtimes(child.pid)),
        )
    finally:
        for left in Path("/dev/shm").glob("__KMP_REGISTERED_LIB_*"):
            pid = left.name.split("_")[-2]
            if not Path(f"/proc/{pid}").exists():
                left.unlink()
    found = classify(death)
    assert (found.name, found.certain, death.signal) == ("omp-duplicate", True, signal.SIGABRT)
    assert "libiomp5.so was about to start where libiomp5.so already ran" in found.explanation
    assert "KMP_DUPLICATE_LIB_OK is not a way out" in found.explanation
    assert "stderr:1: OMP: Error #15: Initializing libiomp5.so" in told(found)
    assert {*seen[0]} == {*map(str, copies)}


# --- memory ----------------------------------------------------------------------------------


def test_a_kill_by_the_kernel_for_memory_is_an_oom_kill(tmp_path: Path, join: JoinGroup) -> None:
    death = die("bytearray(256 << 20)", tmp_path, during=join)
    found = classify(death)
    assert (found.name, found.certain) == ("oom-kill", True)
    assert (death.oom_kills, death.signal) == (1, signal.SIGKILL)
    assert "ttf-test-" in death.oom_source and "memory.oom_control" in death.oom_source
    assert "the count of memory kills rose by 1" in told(found)


def test_a_kill_by_a_person_is_never_called_oom(tmp_path: Path, join: JoinGroup) -> None:
    def move_and_kill(child: subprocess.Popen[bytes]) -> None:
        join(child)
        kill(signal.SIGKILL)(child)

    for during in (kill(signal.SIGKILL), move_and_kill):
        found = finding_of("", tmp_path, during=during)
        assert (found.name, found.remedies) == ("killed", ())
        assert "No memory counter of the kernel rose: this was not the OOM killer." in (
            found.explanation
        )
        assert "the count of memory kills did not rise" in told(found)


def test_an_oom_kill_of_a_child_explains_the_parent_that_gave_up(
    tmp_path: Path, join: JoinGroup
) -> None:
    code = """
        import subprocess, sys
        subprocess.run([sys.executable, "-c", "bytearray(256 << 20)"], check=True)
    """
    found = finding_of(textwrap.dedent(code), tmp_path, during=join)
    assert (found.name, found.certain) == ("oom-kill", True)
    assert "died with <Signals.SIGKILL: 9>" in told(found)


def test_a_refused_allocation_is_an_alloc_failure(tmp_path: Path) -> None:
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_DATA, (256 << 20, 256 << 20))
        bytearray(1 << 30)
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert (found.name, found.certain) == ("alloc-failure", True)
    assert "MemoryError" in told(found)


def test_a_memory_error_that_was_survived_does_not_explain_a_later_death(tmp_path: Path) -> None:
    code = """
        import traceback
        try: raise MemoryError
        except MemoryError: traceback.print_exc()
        for _ in range(40): print('going on', file=sys.stderr)
        raise KeyError('rows')
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert found.name == "python-error"
    assert "KeyError: 'rows'" in found.explanation


def test_openblas_that_leaves_without_a_python_error_is_an_alloc_failure(tmp_path: Path) -> None:
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_DATA, (40 << 20, 40 << 20))
        import numpy
    """
    death = die(textwrap.dedent(code), tmp_path)
    if "OpenBLAS" not in death.stderr:
        pytest.skip("numpy is not built with OpenBLAS, or fails otherwise")
    found = classify(death)
    assert (found.name, found.certain, death.exit_code) == ("alloc-failure", True, 1)
    assert "no Python error" in found.explanation


def test_our_own_limit_is_not_the_kernels(tmp_path: Path) -> None:
    found = finding_of(
        "",
        tmp_path,
        during=kill(signal.SIGKILL),
        killed_by_us="memory",
        reason="7.7 GB of 8.0 GB (cgroup /job)",
    )
    assert (found.name, found.certain) == ("memory-limit", True)
    assert "7.7 GB of 8.0 GB (cgroup /job)" in found.explanation


# --- files -----------------------------------------------------------------------------------

TOUCH = """
import mmap, sys
with open({path!r}, 'rb') as file:
    mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
print('ready', flush=True)
sys.stdin.readline()
mapped[-1]
"""


def test_a_mapped_input_that_was_cut_is_named_with_both_sizes(tmp_path: Path) -> None:
    path = tmp_path / "pairs.npz"
    path.write_bytes(bytes(40_960))
    found = finding_of(
        TOUCH.format(path=str(path)),
        tmp_path,
        inputs=[InputFile.look(path)],
        during=lambda _: os.truncate(path, 4096),
    )
    assert (found.name, found.certain, found.ends_with) == ("bus-error", True, 3)
    assert f"{path} was cut (40,960 bytes" in found.explanation
    assert f"{path}: was 40,960 bytes, fingerprint " in told(found)
    assert "; is 4,096 bytes, fingerprint " in told(found)


def test_a_mapped_input_that_was_rewritten_with_fewer_pages_for_a_moment(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    path.write_bytes(bytes(40_960))

    def rewrite(child: subprocess.Popen[bytes]) -> None:
        os.truncate(path, 0)
        assert child.stdin is not None
        child.stdin.write(b"go\n")
        child.stdin.flush()
        child.wait(60)
        path.write_bytes(b"x" * 40_960)

    found = finding_of(
        TOUCH.format(path=str(path)), tmp_path, inputs=[InputFile.look(path)], during=rewrite
    )
    assert (found.name, found.certain, found.ends_with) == ("bus-error", False, 3)
    assert "was written anew" in found.explanation


def test_a_bus_error_of_a_file_nobody_watches_blames_none_of_the_inputs(tmp_path: Path) -> None:
    path, other = tmp_path / "index", tmp_path / "pairs"
    path.write_bytes(bytes(40_960))
    other.write_bytes(b"pairs")
    found = finding_of(
        TOUCH.format(path=str(path)),
        tmp_path,
        inputs=[InputFile.look(other)],
        during=lambda _: os.truncate(path, 4096),
    )
    assert (found.name, found.ends_with) == ("bus-error", None)
    assert "None of its inputs that are known here has changed" in found.explanation


def test_a_map_on_a_full_disk_is_a_bus_error_that_says_so(tmp_path: Path, small_disk: Path) -> None:
    code = f"""
        import mmap, os
        fd = os.open({str(small_disk / "index")!r}, os.O_RDWR | os.O_CREAT)
        os.ftruncate(fd, 8 << 20)
        mapped = mmap.mmap(fd, 8 << 20)
        for at in range(0, 8 << 20, 4096): mapped[at] = 1
    """
    found = finding_of(textwrap.dedent(code), tmp_path, folders=[small_disk])
    assert found.name == "bus-error"
    assert f"({small_disk}: 0 bytes free)" in found.explanation


def test_a_full_disk_is_named(tmp_path: Path, small_disk: Path) -> None:
    code = f"open({str(small_disk / 'log')!r}, 'wb').write(bytes(4 << 20))"
    found = finding_of(code, tmp_path, folders=[small_disk])
    assert (found.name, found.certain, found.ends_with) == ("disk-full", True, 8)
    assert "No space left on device" in told(found)


def test_an_error_after_an_input_changed_points_at_the_input(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    path.write_bytes(bytes(100))
    found = finding_of(
        "raise ValueError('row 7 is not finite')",
        tmp_path,
        inputs=[InputFile.look(path)],
        during=lambda _: path.write_bytes(b"other"),
    )
    assert (found.name, found.certain, found.ends_with) == ("data-changed", False, 3)


# --- from outside, and the rest --------------------------------------------------------------


@pytest.mark.parametrize(
    ("signum", "words"),
    [
        (signal.SIGTERM, "Somebody asked the trainer to end"),
        (signal.SIGINT, "Somebody asked"),
        (signal.SIGQUIT, "Somebody asked"),
        (signal.SIGHUP, "terminal was closed"),
        (signal.SIGSYS, "sandbox"),
        (signal.SIGXFSZ, "ulimit -f"),
        (signal.SIGUSR2, "SIGUSR2, which somebody sent"),
        (signal.SIGALRM, "SIGALRM, which somebody sent"),
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
    assert (found.name, "nobody reads" in found.explanation) == ("killed", True)


def test_used_up_processor_time_is_named(tmp_path: Path) -> None:
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_CPU, (1, 5))
        while True: pass
    """
    found = finding_of(textwrap.dedent(code), tmp_path)
    assert (found.name, "ulimit -t" in found.explanation) == ("killed", True)


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
    assert "That is not success" in found.explanation


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
    assert (found.name, found.certain) == ("killed", True)
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
