"""Progress where standard error is no descriptor: in a notebook's cell, in a replaced stream."""

from __future__ import annotations

import io
import itertools
import os
import sys
import types
from typing import Any

import pytest
from hypothesis import given, strategies as st

from ttf.supervise.relay import Relay
from ttf.supervise.screen import Screen
from ttf.text.progress import ConsoleReporter, PlainReporter, make_reporter, notebook
from ttf.text.progress.notebook import Cell

LIVE = (
    "note: Run folder: runs/run-001\n"
    "\r\x1b[K\x1b[1m  train\x1b[0m ====---- 1/8\r\x1b[K  train ======-- 2/8"
    "\r\x1b[K  step 2      recall@10 0.43\n\r\x1b[K  train ======== 8/8\r\x1b[K  train  3.0 s\n"
)
SHOWN = "note: Run folder: runs/run-001\n  step 2      recall@10 0.43\n  train  3.0 s"


class Display:
    """Stands for IPython's: remembers what the output of a cell showed."""

    def __init__(self) -> None:
        self.pages: list[Any] = []
        self.outputs = 0

    def display(self, page: Any, *, display_id: bool) -> Display:
        assert display_id, "without an id it cannot be renewed"
        self.outputs += 1
        self.update(page)
        return self

    def update(self, page: Any) -> None:
        self.pages.append(page)


@pytest.fixture
def display(monkeypatch: pytest.MonkeyPatch) -> Display:
    """We are in a notebook: IPython is loaded, and its shell has a kernel."""
    made = Display()
    package: Any = types.ModuleType("IPython")
    package.get_ipython = lambda: types.SimpleNamespace(kernel=object())
    module: Any = types.ModuleType("IPython.display")
    module.display = made.display
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    return made


# --- one output that renews itself -----------------------------------------------------------------


def test_a_live_line_renews_itself_and_whole_lines_stay() -> None:
    shown: list[str] = []
    cell = Cell(shown.append)
    for part in LIVE.split("\r"):
        cell.write(("\r" if shown else "") + part)
        cell.flush()
    assert shown[-1] == SHOWN
    assert shown[1].endswith("\n  train ====---- 1/8")


@given(st.lists(st.integers(0, len(LIVE)), max_size=8))
def test_where_the_stream_is_cut_does_not_matter(cuts: list[int]) -> None:
    shown: list[str] = []
    cell = Cell(shown.append)
    places = [0, *sorted(cuts), len(LIVE)]
    for begin, end in itertools.pairwise(places):
        cell.write(LIVE[begin:end])
    cell.flush()
    assert shown == [SHOWN]


def test_a_long_run_shows_its_last_lines() -> None:
    shown: list[str] = []
    cell = Cell(shown.append)
    for number in range(1000):
        cell.write(f"line {number}\n")
    cell.flush()
    cell.flush()
    assert len(shown) == 1
    assert shown[0].splitlines()[-1] == "line 999" and len(shown[0].splitlines()) <= 41


def test_outside_a_notebook_there_is_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notebook.cell() is None
    package: Any = types.ModuleType("IPython")
    package.get_ipython = lambda: None  # loaded by some library
    monkeypatch.setitem(sys.modules, "IPython", package)
    assert notebook.cell() is None
    assert isinstance(make_reporter(json=False, stream=io.StringIO()), PlainReporter)


def test_a_reporter_of_this_process_draws_into_the_cell(display: Display) -> None:
    reporter = make_reporter(json=False)
    assert isinstance(reporter, ConsoleReporter)
    reporter.note("The bank is <small> & \x1b[2J.")
    reporter.stage("mine", 10)
    reporter.close()
    assert display.outputs == 1
    assert "mine" in repr(display.pages[1])
    assert repr(display.pages[-1]).startswith("  note The bank is <small> & \\x1b[2J.")
    assert "&lt;small&gt; &amp; \\x1b[2J." in display.pages[-1]._repr_html_()


# --- what a trainer shows --------------------------------------------------------------------------


def test_a_relay_passes_on_all_before_it_closes() -> None:
    sink = io.StringIO()
    relay = Relay(sink)
    text = "a line with \u2501\n" * 20_000
    data = memoryview(text.encode())
    while data:
        data = data[os.write(relay.fd, data[:1001]) :]
    relay.close()
    relay.close()
    assert sink.getvalue() == text


def test_a_relay_reads_on_where_its_stream_fails() -> None:
    sink = io.StringIO()
    sink.close()
    relay = Relay(sink)
    for _ in range(64):
        os.write(relay.fd, b"x" * 65536)
    relay.close()


def test_a_screen_in_a_notebook_renews_its_cell(
    display: Display, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", io.StringIO())
    screen = Screen(True)
    assert screen.live_width == notebook.WIDTH and screen.fd is not None
    os.write(screen.fd, b"  train 1/8")
    screen.interject("The run saves.")
    os.write(screen.fd, b"  train 2/8")
    screen.take_back()
    screen.close()
    assert repr(display.pages[-1]) == "note: The run saves."
    assert display.outputs == 1


def test_a_screen_writes_to_whatever_replaced_standard_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    screen = Screen(True)
    screen.note("Started.")
    screen.close()
    assert (stream.getvalue(), screen.live_width) == ("note: Started.\n", 0)
    quiet = Screen(False)
    quiet.note("Not wanted.")
    assert quiet.fd is None and stream.getvalue() == "note: Started.\n"
