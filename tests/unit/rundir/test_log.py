"""log.txt: what a run said, with the time."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ttf.errors import Stopped
from ttf.rundir.run_folder import RunFolder, RunLog

LINE = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  (.*)")


def said(folder: RunFolder) -> list[str]:
    lines = folder.log.read_text().splitlines()
    return [found[1] for line in lines if (found := LINE.fullmatch(line))]


def test_a_resumed_run_goes_on_in_the_same_file_and_its_error_has_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("STORE_TOKEN", "abcdef-123456")
    folder = RunFolder(tmp_path)
    with pytest.raises(Stopped), RunLog(folder, resume=False):
        raise Stopped(2, "SIGINT ended the run, its store was s3://abcdef-123456/x")
    with RunLog(folder, resume=True) as log:
        log.write("note: two\nlines")
    started, ended, resumed, note, finished = said(folder)
    assert started.startswith("--- started by process") and resumed.startswith("--- resumed by")
    assert ended == "--- ended: SIGINT ended the run, its store was s3://<secret-STORE_TOKEN>/x"
    assert (note, finished) == ("note: two", "--- ended: finished")
    assert folder.log.read_text().splitlines()[4].strip() == "lines"


def test_what_the_trainer_repeats_of_its_supervisor_is_there_once(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    with RunLog(folder, resume=False) as log:
        log.write("note: it hangs", said_again=True)
        log.write("note: it hangs")
        log.write("note: it hangs")
    assert said(folder).count("note: it hangs") == 2


def test_a_long_log_keeps_its_newer_half_in_whole_lines(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path)
    folder.log.write_text("".join(f"2026-01-01 00:00:00  line {n:07}\n" for n in range(300_000)))
    before = folder.log.stat().st_size
    with RunLog(folder, resume=True) as log:
        log.write("new")
    lines = said(folder)
    assert folder.log.stat().st_size < 0.6 * before
    assert len(lines) == len(folder.log.read_text().splitlines())
    assert lines[-3].startswith("--- resumed by process ")
    assert lines[-4] == "line 0299999" and lines[-2] == "new"
