"""Blocks of vectors that came before their turn: whole, or not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from ttf.tools.encode.hosts.loose import Block, Form, LooseBlocks

FORM = Form(dim=3, dtype="<f2")
BLOCK = Block("queries", 4, 6)


@pytest.fixture
def loose(tmp_path: Path) -> LooseBlocks:
    return LooseBlocks(folder=tmp_path, inside=tmp_path)


def written(loose: LooseBlocks) -> tuple[str, bytes]:
    rows, cut = np.arange(6, dtype=np.float32).reshape(2, 3), np.array([True, False])
    data = FORM.packed(rows, cut)
    return loose.write(BLOCK, data), data


def test_a_block_reads_back_as_it_was_packed(loose: LooseBlocks) -> None:
    name, data = written(loose)
    assert loose.names() == {("queries", 4): name}
    assert len(data) == FORM.size(BLOCK) == 2 * (3 * 2 + 1)
    assert loose.read(name, FORM.size(BLOCK)) == data
    rows, cut = FORM.unpacked(data)
    assert rows.dtype == np.float16 and rows.tolist() == [[0, 1, 2], [3, 4, 5]]
    assert cut.tolist() == [True, False]
    loose.remove(name)
    assert loose.names() == {}


@pytest.mark.parametrize("damage", ["flipped", "short", "long", "gone"])
def test_a_block_that_is_not_what_was_written_is_none(loose: LooseBlocks, damage: str) -> None:
    name, data = written(loose)
    path = loose.folder / name
    if damage == "gone":
        path.unlink()
    else:
        changed = bytes([data[0] ^ 1]) + data[1:]
        changed = {"flipped": changed, "short": data[:-1], "long": data + b"x"}[damage]
        path.write_bytes(changed)
    assert loose.read(name, FORM.size(BLOCK)) is None


def test_other_files_are_no_blocks(loose: LooseBlocks) -> None:
    for name in ("queries-4-zz.block", "others-4-00000000.block", "queries-4-00000000.block.part"):
        (loose.folder / name).touch()
    assert loose.names() == {}
