"""Real crashes in native code, and two real OpenMP runtimes: gathered and classified."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import signal
import sys
import textwrap
from pathlib import Path

import pytest
from tests.kit.dying_process import die, finding_of, told

from ttf.incidents._linux import openmp_runtimes
from ttf.incidents.classify import classify

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the deaths are made for Linux")

SEGV = "import ctypes; ctypes.string_at(0)"
UD2 = {"x86_64": b"\x0f\x0b", "aarch64": b"\x00\x00\x00\x00"}


def test_a_read_of_address_zero_is_a_segfault_with_the_python_line(tmp_path: Path) -> None:
    found = finding_of(SEGV, tmp_path)
    assert (found.name, found.certain, found.ends_with) == ("segfault", False, None)
    assert "SIGSEGV (11)" in told(found) and "in string_at" in told(found)
    assert "Native code" in found.explanation


def test_without_a_stack_a_segfault_says_what_that_hints_at(tmp_path: Path) -> None:
    found = finding_of(SEGV, tmp_path, stacks=False)
    assert found.name == "segfault"
    assert "There are no Python stacks" in found.explanation


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
    assert (found.name, found.at_once) == ("alloc-failure", True)


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
    assert "this is how a shell reports SIGSEGV (11)" in told(found)


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
    assert (found.name, found.at_once, death.signal) == ("omp-duplicate", True, signal.SIGABRT)
    assert "libiomp5.so was running when libiomp5.so started" in found.explanation
    assert "Do not set KMP_DUPLICATE_LIB_OK" in found.explanation
    assert ": OMP: Error #15: Initializing libiomp5.so" in told(found)
    assert {*seen[0]} == {*map(str, copies)}
