"""What a supervisor waits for: one line that renews itself on a terminal, one note in a pipe."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable

import pytest

from ttf.supervise.screen import Screen

END = (b"2.0 s)\r\x1b[K", b"\n")


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Callable[[int, int], str]:
    """What is written to the second descriptor arrives at the first."""

    def show(reads: int, writes: int) -> str:
        with os.fdopen(writes, "w") as stream:
            monkeypatch.setattr(sys, "stderr", stream)
            screen = Screen(True)
            for seconds in (1.0, 2.0):
                screen.waiting("Waiting for node 0.", seconds)
            screen.waiting("")
            screen.close()
            text = b""
            while not text.endswith(END):  # a terminal passes on what it gets in pieces
                text += os.read(reads, 1 << 16)
        os.close(reads)
        return text.decode()

    return show


def test_on_a_terminal_the_line_renews_itself_and_goes(
    shown: Callable[[int, int], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    text = shown(*os.openpty())
    assert text.count("\r\x1b[KWaiting for node 0.") == 2 and "2.0 s" in text
    assert text.endswith("\r\x1b[K") and "\n" not in text


def test_in_a_pipe_it_is_said_once(shown: Callable[[int, int], str]) -> None:
    assert shown(*os.pipe()) == "note: Waiting for node 0.\n"
