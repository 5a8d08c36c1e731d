"""A suite that nothing fails is worth nothing: each planted fault is found by the test meant for it."""

from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FakeDistribution
from tests.plugincheck import planted

from ttf.testing import MinerTests

FAULTS = [
    ("int32", "test_ids_and_scores_have_their_shapes_and_types"),
    ("worst first", "test_scores_are_dot_products_best_first"),
    ("distances", "test_scores_are_dot_products_best_first"),
    ("half found", "test_it_finds_the_best"),
    ("paddings", "test_a_large_k_is_answered_in_full_without_paddings"),
    ("random", "test_two_builds_answer_bit_for_bit_alike_where_that_is_promised"),
    ("zombie", "test_a_closed_miner_says_that_it_is_closed"),
    ("careless", "test_a_row_that_is_not_finite_is_named"),
    ("careless", "test_half_precision_banks_are_searched_as_what_they_hold"),
    ("greedy", "test_an_index_that_cannot_fit_the_budget_is_refused_with_the_figure"),
    ("free", "test_the_cost_grows_with_rows_and_queries"),
    ("two threads", "test_one_thread_is_one_thread"),
    ("hungry", "test_memory_stays_within_the_budget_and_what_was_estimated"),
    ("forgets", "test_a_saved_index_answers_like_the_one_it_was"),
    ("elsewhere", "test_kill_9_in_mid_save_leaves_nothing_that_a_run_would_take_for_an_index"),
]


@pytest.fixture
def plant(fake_plugins: FakeDistribution) -> FakeDistribution:
    fake_plugins.add("ttf-planted", {"miner.planted": "ttf_planted_miner"})
    fake_plugins.module("ttf_planted_miner", planted.miner())
    return fake_plugins


def asked(fault: str, test: str, tmp_path: Path) -> None:
    """The test of the suite, on the planted miner with that fault."""
    from ttf import host
    from ttf.options import checked

    suite = type("Planted", (MinerTests,), {"name": "planted", "options": {"fault": fault}})()
    suite._scratch = tmp_path
    factory: Any = host.load("miner", "planted")
    chosen = checked(factory.options_type, suite.options, "miner.planted")
    known = {
        "factory": factory,
        "chosen": chosen,
        "traits": factory.traits(chosen, suite.context()),
        "tmp_path": tmp_path,
    }
    method = getattr(suite, test)
    method(**{name: known[name] for name in inspect.signature(method).parameters})


@pytest.mark.parametrize("test", sorted({test for _, test in FAULTS}))
def test_the_plugin_without_a_fault_passes(
    plant: FakeDistribution, test: str, tmp_path: Path
) -> None:
    asked("none", test, tmp_path)


@pytest.mark.parametrize(("fault", "test"), FAULTS, ids=[f"{f}-{t[5:40]}" for f, t in FAULTS])
def test_the_fault_is_found(plant: FakeDistribution, fault: str, test: str, tmp_path: Path) -> None:
    with pytest.raises((Exception, pytest.fail.Exception)):
        asked(fault, test, tmp_path)


@pytest.mark.parametrize(
    ("changed", "test"),
    [
        (
            {"at_import": "import numpy"},
            "test_listing_it_imports_the_standard_library_and_ttf_alone",
        ),
        ({"asked": "import zarr"}, "test_listing_it_imports_the_standard_library_and_ttf_alone"),
        ({"help": ""}, "test_its_options_have_help_and_defaults_that_are_valid"),
        (
            {"asked": "return Availability(ok=False, reason='no luck')"},
            "test_where_it_cannot_run_it_says_why_and_what_to_type",
        ),
    ],
)
def test_faults_of_the_module_are_found(
    fake_plugins: FakeDistribution, changed: dict[str, str], test: str, tmp_path: Path
) -> None:
    fake_plugins.add("ttf-planted", {"miner.planted": "ttf_planted_miner"})
    fake_plugins.module("ttf_planted_miner", planted.miner(**changed))
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        asked("none", test, tmp_path)
