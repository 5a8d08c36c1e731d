"""Variants of one plugin, and towers of one library, need not start the same processes again."""

from __future__ import annotations

import os
from typing import Any

import pytest

_again = pytest.mark.skipif(
    not os.environ.get("TTF_CHAOS"), reason="one of many: TTF_CHAOS=1 runs it"
)


class OneOfMany:
    """Before the suite's class in a class's bases: the towers' gru, and the doctor's check of miners
    beside torch, start those processes."""

    @_again
    @pytest.mark.parametrize("first", ["plugin", "torch"])
    def test_it_lives_in_one_process_with_torch_whichever_comes_first(
        self, factory: Any, first: str
    ) -> None:
        super().test_it_lives_in_one_process_with_torch_whichever_comes_first(  # type: ignore[misc]
            factory, first
        )


class Variant(OneOfMany):
    """The same plugin with other options, or another one whose process would die the same death; all
    of them are trained in tests/system/training/runs."""

    @_again
    def test_a_run_uses_it_and_survives_a_segfault_inside_it(
        self, data: Any, tmp_path: Any
    ) -> None:
        super().test_a_run_uses_it_and_survives_a_segfault_inside_it(  # type: ignore[misc]
            data, tmp_path
        )
