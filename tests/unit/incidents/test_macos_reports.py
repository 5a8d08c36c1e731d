"""Evidence of macOS, on constructed reports: see recorded/README.md."""

from __future__ import annotations

import json
import os
from pathlib import Path

from tests.conftest import ROOT

from ttf.incidents._darwin import find_report, read_report
from ttf.incidents.death import CrashReport

RECORDED = ROOT / "tests/recorded/incidents/macos"
SEGFAULT = RECORDED / "python3.11-2026-11-18-091244.ips"
ABORT = RECORDED / "python3.11-2026-11-18-091510.ips"
JETSAM = RECORDED / "JetsamEvent-2026-11-18-092001.ips"


def test_a_crash_names_its_library_and_both_openmp_runtimes() -> None:
    report = read_report(SEGFAULT, 4242)
    assert report is not None
    assert (report.signal, report.native) == ("SIGSEGV", "libomp.dylib")
    assert [path.split("site-packages/")[1] for path in report.openmp] == [
        "torch/lib/libomp.dylib",
        "faiss/.dylibs/libomp.dylib",
    ]
    assert "KERN_INVALID_ADDRESS" in report.words
    assert "namespace SIGNAL, code 11, Segmentation fault: 11" in report.words


def test_an_abort_is_blamed_on_who_called_it_not_on_the_system() -> None:
    report = read_report(ABORT, 4243)
    assert report is not None
    assert (report.signal, report.native) == ("SIGABRT", "libomp.dylib")
    assert "libsystem_c.dylib: abort() called" in report.words


def test_a_memory_kill_is_that_of_the_process_with_a_reason() -> None:
    report = read_report(JETSAM, 4244)
    assert report is not None and report.killed_for_memory == "per-process-limit"
    assert "it used 16,910,155,776 bytes" in report.words
    assert read_report(JETSAM, 4245) is None, "listed, but alive"


def test_reports_about_others_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    assert read_report(SEGFAULT, 1) is None
    whole = SEGFAULT.read_text()
    for number, text in enumerate(
        ["", "{}", whole[: len(whole) // 2], "[]\n[]", '{"bug_type": "309"}\n{"pid": 4242}', "\xff"]
    ):
        path = tmp_path / f"{number}.ips"
        path.write_text(text)
        report = read_report(path, 4242)
        assert report is None or report == CrashReport(path=path, pid=4242)


def test_only_reports_of_the_time_in_question_are_read(tmp_path: Path) -> None:
    path = tmp_path / SEGFAULT.name
    path.write_text(SEGFAULT.read_text())
    os.utime(path, (1, 1))
    assert find_report(4242, since=2, folders=[tmp_path, tmp_path / "none"], wait_s=0) is None
    assert find_report(4242, since=1, folders=[tmp_path], wait_s=0) is not None


def test_the_recorded_reports_are_two_documents_each() -> None:
    for path in (SEGFAULT, ABORT, JETSAM):
        first, _, rest = path.read_text().partition("\n")
        assert json.loads(first)["bug_type"] in ("309", "298") and json.loads(rest)
