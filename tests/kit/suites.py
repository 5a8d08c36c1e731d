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
    """The same plugin with other options, or another one whose process would die the same death as
    that of the tower gru and the miner faiss; all are trained in tests/system/training/runs."""

    @_again
    def test_a_run_uses_it_and_survives_a_segfault_inside_it(
        self, data: Any, tmp_path: Any
    ) -> None:
        super().test_a_run_uses_it_and_survives_a_segfault_inside_it(  # type: ignore[misc]
            data, tmp_path
        )


class SavedAlike(Variant):
    """An index that the same lines save as another variant's."""

    @_again
    def test_kill_9_in_mid_save_leaves_nothing_that_a_run_would_take_for_an_index(
        self, factory: Any, traits: Any, tmp_path: Any
    ) -> None:
        super().test_kill_9_in_mid_save_leaves_nothing_that_a_run_would_take_for_an_index(  # type: ignore[misc]
            factory, traits, tmp_path
        )


class OptionsAlone:
    """Before a tower's suite in a class's bases: what other options cannot change is not asked, and
    no process is started."""

    test_listing_it_imports_the_standard_library_and_ttf_alone = None
    test_where_it_cannot_run_it_says_why_and_what_to_type = None
    test_its_factory_has_the_name_it_was_asked_for = None
    test_it_uses_nothing_that_is_going_out_of_use = None
    test_its_options_have_help_and_defaults_that_are_valid = None
    test_a_misspelt_option_is_told_the_closest = None
    test_it_lives_in_one_process_with_torch_whichever_comes_first = None
    test_a_run_uses_it_and_survives_a_segfault_inside_it = None
