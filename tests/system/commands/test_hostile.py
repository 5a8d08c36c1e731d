"""Runs, studies, stores and caches of somebody who means harm: nothing outside is read, written or
removed, nothing hangs, and no fault of ours is met.

Here each is given to the commands that meet it at once; the whole set is given to every command in
processes of their own, with their memory and time measured, where TTF_CHAOS=1.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.kit.forked_commands import ForkedCommands
from tests.kit.hostile import SECRET, TABLE_OF_ALL, Hostile, look, prepare, written_texts

from ttf.errors import ExitCode

if TYPE_CHECKING:
    from tests.conftest import Invoke

WHOLE = bool(os.environ.get("TTF_CHAOS"))
SAID_NOTHING = (ExitCode.OUR_FAULT, ExitCode.GAVE_UP)


@pytest.mark.timeout(300 if WHOLE else 60)  # larger files there
@pytest.mark.parametrize("hostile", [h for h in TABLE_OF_ALL if h.quick], ids=str)
def test_nothing_outside_is_touched_and_no_command_fails(
    hostile: Hostile, place: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    if hostile.root_only and os.geteuid():
        pytest.skip("only root makes devices and gives files to others")
    there = prepare(place)
    monkeypatch.setenv("TTF_HOME", str(there.home))
    hostile.make(there)
    before = look(there.outside)
    for words in hostile.quick:
        done = invoke(words.split())
        assert done.code not in SAID_NOTHING, f"{words}: {done.err}"
        assert "Traceback" not in done.err, f"{words}: {done.err}"
        assert SECRET not in done.out + done.err, words
        assert look(there.outside) == before, words
    shown = [
        str(path) for path, text in written_texts(place, there.outside) if SECRET.encode() in text
    ]
    assert shown == []


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkedCommands]:
    with ForkedCommands() as forked:
        yield forked


@pytest.mark.skipif(not WHOLE, reason="takes minutes: TTF_CHAOS=1 runs it")
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("hostile", TABLE_OF_ALL, ids=str)
def test_no_command_at_all_is_led_out_hangs_or_takes_all_memory(
    hostile: Hostile, trained: Path, tmp_path: Path, commands: ForkedCommands,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    problems = []
    for number, words in enumerate(hostile.every):
        root = tmp_path / str(number) / "place"
        shutil.copytree(trained, root)
        monkeypatch.chdir(root)
        there = prepare(root)
        monkeypatch.setenv("TTF_HOME", str(there.home))
        hostile.make(there)
        before = look(there.outside)
        own = {"TTF_HOME": str(there.home), "TMPDIR": str(root.parent)}
        did = commands.run(words.split(), root, own)
        found = [did.problem] * bool(did.problem)
        found += ["it changed what is outside"] * (look(there.outside) != before)
        shown = [
            path for path, text in written_texts(root, there.outside) if SECRET.encode() in text
        ]
        shown += [Path("its output")] * (SECRET in did.out + did.err)
        found += [f"it shows what is outside: {path}" for path in shown]
        problems += [f"{words}: {problem}" for problem in found]
        shutil.rmtree(root.parent)
    assert problems == []
