"""Names and words of others, in every place a command prints them from: no terminal obeys them."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import FakeDistribution, Invoke

from ttf.text.terminal import visible

TITLE = "\x1b]0;owned\x07"
BAD = f"x{TITLE}\x9b2J\u202e\nerror: forged"


def _array_names(folder: Path) -> list[str]:
    arrays: Mapping[str, Any] = {BAD: np.zeros((3, 2), np.float32)}
    np.savez(folder / "bad.npz", **arrays)
    return ["data", "inspect", str(folder / "bad.npz")]


def _incident(folder: Path) -> list[str]:
    document = {
        "class": BAD,
        "process": BAD,
        "signal": None,
        "exit_code": 1,
        "phase": BAD,
        "step": 1,
        "explanation": BAD,
        "evidence": [{"source": BAD, "text": BAD}],
        "remedies": [{"text": BAD, "set": {BAD: BAD}}],
        "lost_steps": 0,
        "time": 1e9,
    }
    folder.joinpath("incident.json").write_text(json.dumps(document))
    return ["explain", str(folder)]


def _run(folder: Path, command: str, status: str = BAD) -> list[str]:
    summary = {
        "status": status,
        "exit_code": 0,
        "error": {"message": BAD, "hint": BAD},
        "metrics": {BAD: 0.5},
        "incidents": [{"id": "001", "class": BAD, "process": BAD, "remedy": BAD}],
        "deviations": [BAD],
        "exact": False,
        "miner": BAD,
    }
    folder.joinpath("run.toml").write_text("")
    folder.joinpath("summary.json").write_text(json.dumps(summary))
    folder.joinpath("supervision.json").write_text(json.dumps({"restarts": 1}))
    return [*command.split(), str(folder)]


def _name_of_the_folder(folder: Path) -> list[str]:
    return ["monitor", str(folder / BAD.replace("/", "_"))]


SOURCES: Mapping[str, Callable[[Path], list[str]]] = {
    "the names of arrays": _array_names,
    "an incident": _incident,
    "a summary, monitored": lambda folder: _run(folder, "monitor --once"),
    "a summary, resumed": lambda folder: _run(folder, "resume", "finished"),
    "a summary, evaluated": lambda folder: _run(folder, "eval"),
    "a path": _name_of_the_folder,
    "an option": lambda _: ["train", f"--{BAD}"],
    "a command": lambda _: [BAD],
    "a name of a plugin": lambda _: ["plugins", "show", BAD],
}


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("as_json", [False, True])
def test_what_others_wrote_is_shown_and_not_obeyed(
    invoke: Invoke, tmp_path: Path, source: str, as_json: bool
) -> None:
    words = SOURCES[source](tmp_path)
    done = invoke([*words, "--json"] if as_json else words)
    assert done.code != 70, done.err
    for text in (done.out, done.err):
        assert visible(text) == text
    if as_json and done.out:
        json.loads(done.out)


def test_names_in_a_packages_metadata_are_shown_and_not_obeyed(
    invoke: Invoke, fake_plugins: FakeDistribution
) -> None:
    fake_plugins.add("ttf-ok", {f"miner.x{TITLE}": "ttf_hostile"}, version=f"1{TITLE}")
    for words in (["plugins", "list"], ["config", "show", "--miner", "nothing"]):
        done = invoke(words)
        assert "owned" in done.out + done.err
        assert visible(done.out + done.err) == done.out + done.err
