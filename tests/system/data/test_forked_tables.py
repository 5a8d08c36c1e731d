"""An embedding table in a process that was forked from the one that opened it."""

from __future__ import annotations

import multiprocessing
from pathlib import Path

import pytest
import torch
from tests.kit.dense_table import DIM, open_table

from ttf.errors import TtfError

_SOME = torch.arange(5)


def test_a_forked_process_is_told_that_the_table_is_not_its_own(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    answers = context.SimpleQueue()
    with open_table(tmp_path) as table:
        table.update(_SOME, torch.full((5, DIM), 3.0))

        def use() -> None:
            for call in (lambda: table.get(_SOME), table.sync, table.close):
                try:
                    call()
                    answers.put("done")
                except TtfError as error:
                    answers.put(str(error))

        child = context.Process(target=use)
        child.start()
        child.join(60)
        assert child.exitcode == 0
        for _ in range(2):
            assert "was opened by another process" in answers.get()
        assert answers.get() == "done"
        # The lock and the rows are still those of this process.
        with pytest.raises(TtfError, match="in use"):
            open_table(tmp_path)
        assert torch.equal(table.get(_SOME), torch.full((5, DIM), 3.0))
