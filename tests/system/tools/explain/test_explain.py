"""`ttf explain` as a person uses it: by class, by ending, by incident; on a terminal and in a pipe."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import termios
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.conftest import Invoke
from tests.unit.tools.explain.test_explain import ANSI

from ttf.incidents.classes import CLASSES
from ttf.incidents.classify import classify
from ttf.incidents.death import Death
from ttf.incidents.writing import write_incident
from ttf.tools.explain import pages


@pytest.fixture
def incident(tmp_path: Path) -> Path:
    """Of a process that really died of SIGSEGV, in a run's folder."""
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", "import ctypes; ctypes.string_at(0)"],
        capture_output=True,
        check=False,
    )
    assert done.returncode == -signal.SIGSEGV
    death = Death(
        process="command",
        pid=7,
        time=1.8e9,
        signal=-done.returncode,
        stderr=done.stderr.decode(),
        raw_stderr=done.stderr,
    )
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.toml").touch()
    number = write_incident(
        run / "incidents",
        death,
        classify(death),
        applied=None,
        lost_steps=None,
        checkpoint_step=None,
    )
    return run / "incidents" / number


@pytest.mark.parametrize("part", ["", "incident.json", "incident.md", "stderr.txt", "../.."])
def test_an_incident_says_what_happened_and_then_what_that_means(
    invoke: Invoke, incident: Path, part: str
) -> None:
    done = invoke(["explain", str(incident / part)])
    assert done.code == 0, done.err
    assert done.out.startswith(
        "# Incident 001: segfault\n\nThe command used an invalid memory address"
    )
    assert "ended by SIGSEGV" in done.out and "- **faulthandler**: Python was at" in done.out
    assert done.out.endswith(pages.page("segfault").markdown)
    assert "stderr.txt" in done.err
    found = invoke(["explain", str(incident / part), "--json"]).json()
    assert found["incident"] == json.loads((incident / "incident.json").read_text())
    assert found["class"] == "segfault"


def test_an_incidents_own_page_names_the_command(incident: Path) -> None:
    assert (incident / "incident.md").read_text().endswith("\n\nMore: `ttf explain segfault`\n")


def test_what_holds_no_incident_says_so(invoke: Invoke, tmp_path: Path, incident: Path) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    assert "is not the folder of an incident" in invoke(["explain", str(empty)]).err
    (empty / "run.toml").touch()
    assert "none of its processes crashed" in invoke(["explain", str(empty)]).err
    (incident / "incident.json").write_text("{")
    damaged = invoke(["explain", str(incident)])
    assert damaged.code == 3 and "cannot be read" in damaged.err and "incident.md" in damaged.err
    (incident / "incident.json").write_text('{"class": "made-by-a-later-version"}')
    later = invoke(["explain", str(incident)])
    assert later.code == 0 and later.out.endswith(pages.page("unknown").markdown)


def _in_terminal(words: list[str], env: Mapping[str, str]) -> str:
    master, slave = pty.openpty()
    try:
        termios.tcsetwinsize(slave, (24, 60))
        done = subprocess.Popen(
            [sys.executable, "-m", "ttf", *words], stdout=slave, env={**os.environ, **env}
        )
        os.close(slave)
        seen = bytearray()
        while True:
            try:
                data = os.read(master, 1 << 16)
            except OSError:  # the other side is closed
                break
            if not data:
                break
            seen += data
        assert done.wait(30) == 0
    finally:
        os.close(master)
    return seen.decode()


def test_the_list_is_wrapped_between_words_on_a_terminal() -> None:
    seen = _in_terminal(["explain"], {"NO_COLOR": "1", "COLUMNS": "", "LINES": ""})
    lines = seen.replace("\r", "").splitlines()
    assert max(map(len, lines)) <= 59
    assert [line.split()[0] for line in lines[:-1] if line[0] != " "] == list(CLASSES)


@pytest.mark.parametrize("no_color", ["", "1"])
def test_a_terminal_gets_it_wrapped_and_coloured_unless_told_otherwise(no_color: str) -> None:
    seen = _in_terminal(["explain", "killed"], {"NO_COLOR": no_color, "COLUMNS": "", "LINES": ""})
    assert ("\x1b[1mSymptom\x1b[0m" in seen) != bool(no_color)
    assert "## Symptom" not in seen and ("\x1b" in seen) != bool(no_color)
    lines = ANSI.sub("", seen).replace("\r", "").splitlines()
    assert max(len(line) for line in lines if not line.startswith("    ")) <= 59
