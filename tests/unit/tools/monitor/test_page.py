"""The page: within its width and height whatever happens, the important things first."""

from __future__ import annotations

import dataclasses
import time

import pytest
from tests.kit.monitor_views import PROCESS, RUN, VIEW

from ttf.machine.memory.tree import Device, Machine
from ttf.text.terminal import painted
from ttf.tools.monitor.cells import Paint, columns, cut
from ttf.tools.monitor.lines import columns_of, heading, line
from ttf.tools.monitor.page import page
from ttf.tools.monitor.view import Ended, Governed, View, document, warnings

PLAIN = Paint()


def _plain(view: View, paint: Paint, width: int, height: int | None = None) -> list[str]:
    return [painted(shown, colour=False) for shown in page(view, paint, width, height)]


VIEWS = {
    "run": VIEW,
    "process": dataclasses.replace(VIEW, run=None, name="process 4242"),
    "many": dataclasses.replace(VIEW, processes=VIEW.processes * 30),
    "starting": dataclasses.replace(
        VIEW, run=dataclasses.replace(RUN, step=0, phase="start", loss=None, losses=()), limit=None
    ),
    "gone": dataclasses.replace(VIEW, pid=None, processes=(), memory=None, limit=None),
    "wide name": dataclasses.replace(VIEW, name="/data/\u6a21\u578b/" + "x" * 200),
    "device": dataclasses.replace(
        VIEW,
        machine=Machine(available=12 * 10**9, swap_used=10**9, swap_free=3 * 10**9),
        run=dataclasses.replace(RUN, device=Device(2 * 10**9, 5 * 10**9)),
    ),
    "governed": dataclasses.replace(
        VIEW,
        run=dataclasses.replace(
            RUN,
            governed=Governed(
                what="shrink",
                why="84% of cgroup /job (memory.max)",
                caches=("read ahead 1.3 GB -> 944 MB",),
                time=VIEW.time - 12,
            ),
        ),
    ),
    "unseen": dataclasses.replace(
        VIEW,
        processes=(dataclasses.replace(PROCESS, anon=None, shared=None, file=None),),
        remarks=("It belongs to alice: its own limits (ulimit) cannot be seen from here.",),
    ),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize(
    "size", [(80, 24), (79, 23), (40, 12), (39, 11), (20, 5), (200, 60), (20, 1)]
)
def test_a_page_fits_its_screen(name: str, size: tuple[int, int]) -> None:
    width, height = size
    for paint in (PLAIN, Paint(unicode=True)):
        lines = _plain(VIEWS[name], paint, width, height)
        assert 1 <= len(lines) <= height
        assert max(map(columns, lines)) <= width, lines
        assert "\x1b" not in "".join(lines)
    coloured = [painted(line, colour=True) for line in page(VIEWS[name], PLAIN, width, height)]
    assert all(text.count("\x1b[0m") == text.count("\x1b[") / 2 for text in coloured)


def test_at_80x24_everything_that_was_asked_for_is_there() -> None:
    lines = _plain(VIEW, PLAIN, 79, 23)
    text = "\n".join(lines)
    for words in (
        *(
            "runs/run-001",
            "running",
            "step     12,345 of 50,000 (25%)",
            "epoch 3",
            "mining for 12.5 s",
        ),
        *("1,234 samples/s", "loss     3.291 (smoothed 3.31)", "recall@10 0.442", "at step 12,000"),
        *("step 12,300, 42.0 s ago", "1.5 GB anonymous", "2.0 MB shared"),
        *("307 MB file-backed", "50% of 8.0 GB", "cgroup /job (memory.max)"),
        *(
            "full in 33:20  rising by 120 MB/min",
            "1 restart, 1 incident",
            "001 segfault, 3:10 ago",
        ),
        *("12.3 GB free", "supervisor", "trainer", "miner worker", "198%", "all 3"),
    ):
        assert words in text, words


def test_at_40x12_memory_step_and_the_biggest_process_stay() -> None:
    text = "\n".join(_plain(VIEW, PLAIN, 39, 11))
    for words in (
        "run-001",
        "12,345",
        "anonymous",
        "shared",
        "file-backed",
        "50%",
        "process",
        "all 3",
    ):
        assert words in text, words


def test_a_silence_is_said_first() -> None:
    silent = dataclasses.replace(VIEW, run=dataclasses.replace(RUN, silent_s=40.0))
    assert "no sign of life for 40.0 s in mining" in _plain(silent, PLAIN, 79, 23)[1]
    assert list(warnings(VIEW)) == []
    assert document(silent)["run"]["stale"] is True


def test_memory_that_is_soon_full_is_said_first() -> None:
    assert VIEW.limit is not None
    soon = dataclasses.replace(VIEW.limit, seconds_left=75.0)
    full = dataclasses.replace(VIEW.limit, seconds_left=None, share=0.95)
    (said,) = warnings(dataclasses.replace(VIEW, limit=soon))
    assert said == "memory will be full in 1:15 if it grows at this rate"
    (said,) = warnings(dataclasses.replace(VIEW, limit=full))
    assert said == "memory is almost full: 95% of 8.0 GB"
    disk = dataclasses.replace(RUN, free_disk=5_000_000)
    assert list(warnings(dataclasses.replace(VIEW, run=disk))) == [
        "the disk of the run has only 5.0 MB free"
    ]


def test_how_it_ended_is_shown_with_its_reason() -> None:
    ended = Ended(
        status="failed",
        exit_code=5,
        problem="It died five times in a row.",
        hint="Look at the incidents.",
        metrics={"recall@10": 0.44},
        peak_mb=1500.0,
        wall_s=75.0,
    )
    view = dataclasses.replace(VIEWS["gone"], run=dataclasses.replace(RUN, ended=ended, phase=None))
    text = "\n".join(_plain(view, PLAIN, 79, 23))
    assert "failed after 1:15, exit code 5" in text and "It died five times in a row." in text
    assert "Look at the incidents." in text and "recall@10 0.440" in text
    nobody = "\n".join(_plain(VIEWS["gone"], PLAIN, 79, 23))
    assert (
        "The processes of this run no longer exist" in nobody
        and "ttf resume runs/run-001" in nobody
    )


def test_slopes_are_never_more_than_is_known() -> None:
    assert VIEW.limit is not None
    for change, words in (
        ({"rising": None, "seconds_left": None}, "not yet known"),
        ({"rising": False, "slope_per_s": 0.0, "seconds_left": None}, "not rising"),
        ({"seconds_left": None}, "full in more than a day"),
    ):
        limit = dataclasses.replace(VIEW.limit, **change)
        text = "\n".join(_plain(dataclasses.replace(VIEW, limit=limit), PLAIN, 100))
        assert words in text


def test_lines_have_a_cell_without_spaces_for_every_column() -> None:
    for view in VIEWS.values():
        columns = columns_of(view)
        names = heading(columns).split()
        assert names == [name for name, _, _ in columns]
        assert len(line(view, columns).split()) == len(names)
        assert len(line(view, columns)) == len(heading(columns)) <= 101, "columns stay"
    columns = columns_of(VIEW)
    cells = dict(zip(heading(columns).split(), line(VIEW, columns).split(), strict=True))
    assert cells["time"] == time.strftime("%H:%M:%S", time.localtime(VIEW.time))
    assert (cells["step"], cells["of"], cells["anon_MB"]) == ("12345", "50000", "1500.0")
    assert (cells["limit_%"], cells["full_in_s"], cells["incidents"]) == ("50", "2000", "1")


def test_a_process_has_its_own_columns_and_the_machines_use_is_called_so() -> None:
    assert VIEW.limit is not None
    process = dataclasses.replace(VIEW, run=None)
    names = heading(columns_of(process)).split()
    assert "step" not in names and {"processes", "cpu_%", "limit_%"} <= {*names}
    machine = dataclasses.replace(VIEW.limit, source="physical memory")
    names = heading(columns_of(dataclasses.replace(process, limit=machine))).split()
    assert "machine_%" in names and "limit_%" not in names


def test_curves_keep_their_peaks_and_their_room() -> None:
    values = [0.0] * 500 + [9.0] + [1.0] * 500
    curve = PLAIN.curve(values, 40)
    assert len(curve) == 40 and curve.count("#") == 1
    assert PLAIN.curve([100.0, 101.0], 10, 0.1) == "*#", "noise is no mountain"
    assert PLAIN.curve([3.0, 3.0], 10) == "__" and PLAIN.curve([], 10) == ""
    assert set(Paint(unicode=True).curve([0, 1, 2], 9)) <= set(
        "\u2581\u2582\u2583\u2584\u2585\u2586\u2587\u2588"
    )


def test_names_that_would_disturb_a_terminal_are_cut_by_columns() -> None:
    assert (
        cut("\u6a21\u578b\u6a21", 4) == "\u6a21~"
        and cut("abc", 3) == "abc"
        and cut("abcd", 3) == "ab~"
    )
    assert columns("e\u0301") == 1


def test_the_document_is_the_whole_view_without_the_curves() -> None:
    found = document(VIEW)
    assert found["memory"] == {
        "anon": 1_500_000_000,
        "shared": 2_000_000,
        "file": 307_000_000,
        "processes": 3,
        "held": 1_502_000_000,
    }
    assert list(found["limit"])[:2] == ["bytes", "source"]
    assert found["limit"]["seconds_left"] == 2000.0 and "losses" not in found["run"]
    assert [p["role"] for p in found["processes"]] == ["supervisor", "trainer", "miner worker"]
    none = View(
        time=0.0,
        name="process 1",
        pid=None,
        processes=(),
        memory=None,
        limit=None,
        history=(),
        run=None,
        remarks=(),
    )
    assert document(none)["memory"] is None and document(none)["status"] == "ended"


def test_the_memory_of_the_device_and_of_the_machine_is_there() -> None:
    shown = "\n".join(_plain(VIEWS["device"], PLAIN, 100, 50))
    assert "12.0 GB available" in shown and "swap 1.0 GB of 4.0 GB used" in shown
    assert "2.0 GB allocated" in shown and "5.0 GB taken by torch" in shown
    found = document(VIEWS["device"])
    assert found["machine"]["swap_free"] == 3 * 10**9
    assert found["run"]["device"] == {"allocated": 2 * 10**9, "cached": 5 * 10**9}


def test_the_last_decision_of_the_governor_is_there_with_its_numbers() -> None:
    shown = "\n".join(_plain(VIEWS["governed"], PLAIN, 140, 50))
    assert "caches made smaller, 12.0 s ago" in shown
    assert "read ahead 1.3 GB -> 944 MB" in shown and "at 84% of cgroup /job" in shown
    assert document(VIEWS["governed"])["run"]["governed"]["what"] == "shrink"
