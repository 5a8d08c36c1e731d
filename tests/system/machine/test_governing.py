"""A real limit: what is governed gives way to a program that takes memory; what is not, is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.kit.memory_group import memory_group

LIMIT_MB = 480
# A cache of 240 MB beside 180 MB that another program takes within a second.
PROGRAM = """
import json, sys, time
from ttf.machine.memory.watch import tree_reader
from ttf.training.memory.governor import Governed, Governor
from ttf.training.memory.levers import Lever
import os

MB, PIECE = 10**6, 8 * 10**6
cache = [bytearray(b"x") * PIECE for _ in range(30)]

def cut(size):
    del cache[size // PIECE:]

lever = Lever(name="cache", now=lambda: len(cache) * PIECE, least=PIECE, most=30 * PIECE, set=cut)
lines, tree = [], tree_reader(os.getpid())
governor = Governor(
    setting="100%", levers=[lever], held=lambda: tree().held, write=lines.append,
    say=lambda text: None, counts=Governed(),
)
if sys.argv[1] == "governed":
    governor.__enter__()
hog = []
for _ in range(30):
    hog.append(bytearray(b"x") * (9 * MB))
    time.sleep(0.06)
governor.settle(1)
print(json.dumps([len(cache), lines]))
"""


def run(folder: Path, how: str) -> tuple[int, int, Any]:
    """(exit code, kills by the kernel, what it printed)"""
    script = folder / "program.py"
    script.write_text(PROGRAM)
    with memory_group(LIMIT_MB) as group:
        words = f'{group.enter}; exec "$@"'
        done = subprocess.run(
            ["sh", "-c", words, "sh", sys.executable, str(script), how],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return done.returncode, group.kills(), json.loads(done.stdout or "null")


def test_a_governed_program_gives_way_and_lives(tmp_path: Path) -> None:
    code, kills, (pieces, lines) = run(tmp_path, "governed")
    assert (code, kills) == (0, 0)
    assert pieces < 30
    assert {line["what"] for line in lines} >= {"shrink"}
    assert all(line["limit"] <= LIMIT_MB << 20 for line in lines)


def test_the_same_program_without_a_governor_is_killed(tmp_path: Path) -> None:
    code, kills, _ = run(tmp_path, "free")
    if not kills and code == 0:
        pytest.skip("the kernel has swap to put it into")
    assert kills == 1
    assert code == -9
