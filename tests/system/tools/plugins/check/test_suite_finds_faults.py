"""A suite that nothing fails is worth nothing: each planted fault is found by the test meant for it."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import FakeDistribution
from tests.kit import planted_plugins as planted

from ttf.testing import DeviceTests, MinerTests, PluginTests, StoreTests, TowerTests

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
    ("cheap", "test_the_estimate_of_the_disk_is_what_it_saves"),
    ("swallows", "test_a_disk_that_takes_only_half_of_the_index_is_noticed"),
    ("bare", "test_a_disk_that_takes_only_half_of_the_index_is_noticed"),
    ("elsewhere", "test_kill_9_in_mid_save_leaves_nothing_that_a_run_would_take_for_an_index"),
]


@pytest.fixture
def plant(fake_plugins: FakeDistribution) -> FakeDistribution:
    fake_plugins.add("ttf-planted", {"miner.planted": "ttf_planted_miner"})
    fake_plugins.module("ttf_planted_miner", planted.miner())
    return fake_plugins


def asked(fault: str, test: str, tmp_path: Path) -> None:
    """The test of the suite, on the planted miner with that fault."""
    from ttf.host import plugins
    from ttf.host.options import checked

    suite = type("Planted", (MinerTests,), {"name": "planted", "options": {"fault": fault}})()
    suite._scratch = tmp_path
    factory: Any = plugins.load("miner", "planted")
    chosen = checked(factory.options_type, suite.options, "miner.planted")
    known = {
        "factory": factory,
        "chosen": chosen,
        "traits": factory.traits(chosen, suite.context()),
        "tmp_path": tmp_path,
    }
    method = getattr(suite, test)
    method(**{name: known[name] for name in inspect.signature(method).parameters})


PROCESSES = {
    "test_kill_9_in_mid_save_leaves_nothing_that_a_run_would_take_for_an_index",
    "test_memory_stays_within_the_budget_and_what_was_estimated",
    "test_one_thread_is_one_thread",
}
"""They start processes, and every built-in miner passes them in tests/system/testing."""
_again = pytest.mark.skipif(
    not os.environ.get("TTF_CHAOS"), reason="as the built-in miners: TTF_CHAOS=1 runs it"
)


@pytest.mark.parametrize(
    "test",
    [
        pytest.param(test, marks=_again if test in PROCESSES else ())
        for test in sorted({test for _, test in FAULTS})
    ],
)
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
        ({"frozen": "False"}, "test_its_options_have_help_and_defaults_that_are_valid"),
        ({"type": "list[int] | None"}, "test_its_options_have_help_and_defaults_that_are_valid"),
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


# --- the other kinds -------------------------------------------------------------------------

Case = tuple[type[PluginTests], str, str, dict[str, Any]]
OTHERS: list[Case] = [
    (TowerTests, "lies", "test_it_meets_the_contract", {"sequence": True}),
    (TowerTests, "vectors", "test_a_vector_counts_as_a_sequence_of_one_step", {}),
    (TowerTests, "batch", "test_in_eval_mode_a_row_does_not_depend_on_its_batch", {}),
    (
        TowerTests,
        "padding",
        "test_what_lies_in_the_padding_does_not_matter",
        {"lengths": (5, 4, 3, 2, 1, 5), "filler": 1e6},
    ),
    (
        TowerTests,
        "multiplies",
        "test_what_lies_in_the_padding_does_not_matter",
        {"lengths": (5, 4, 3, 2, 1, 5), "filler": float("nan")},
    ),
    (
        TowerTests,
        "multiplies",
        "test_gradients_reach_the_weights_are_finite_and_ignore_padding",
        {"trainable": None},
    ),
    (TowerTests, "float32", "test_autocast_and_double_precision_work", {}),
    (
        TowerTests,
        "unseeded",
        "test_the_seed_decides_weights_outputs_and_gradients_bit_for_bit",
        {},
    ),
    (
        TowerTests,
        "asleep",
        "test_one_optimizer_step_from_the_start_moves_the_output",
        {"trainable": None},
    ),
    (TowerTests, "miscounts", "test_the_estimate_is_what_training_needs", {"sequence": True}),
    (TowerTests, "boasts", "test_the_estimate_is_what_training_needs", {"sequence": True}),
    (StoreTests, "shifted", "test_rows_come_back_as_numpy_gives_them", {"tail": (6,)}),
    (StoreTests, "own out", "test_rows_come_back_as_numpy_gives_them", {"tail": (3, 5)}),
    (StoreTests, "clipped", "test_ids_out_of_range_are_refused_before_anything_is_read", {}),
    (StoreTests, "constant", "test_a_fingerprint_is_that_of_the_content", {}),
    (StoreTests, "restless", "test_a_fingerprint_is_that_of_the_content", {}),
    (StoreTests, "unaware", "test_a_file_that_was_rewritten_or_cut_is_noticed", {}),
    (StoreTests, "forgetful", "test_several_arrays_lie_in_one_container", {}),
    (StoreTests, "hasty", "test_nothing_is_visible_before_commit_nor_after_abort", {}),
    (StoreTests, "messy", "test_nothing_is_visible_before_commit_nor_after_abort", {}),
    (DeviceTests, "threads", "test_the_environment_fixes_the_host_threads", {}),
    (
        DeviceTests,
        "halves",
        "test_a_plan_is_what_was_asked_or_says_what_it_became",
        {"batch": 32, "accumulate": 4},
    ),
    (
        DeviceTests,
        "unsettled",
        "test_its_options_on_auto_come_to_something_with_a_reason",
        {},
    ),
    (DeviceTests, "careless", "test_the_random_state_comes_back_whole", {}),
    (DeviceTests, "careless", "test_a_random_state_of_another_device_is_refused", {}),
    (DeviceTests, "double", "test_fp32_is_computed_in_float32", {}),
]
SOURCES = {"tower": planted.TOWER, "storage": planted.STORAGE, "device": planted.DEVICE}


def asked_of(case: Case, fault: str, site: FakeDistribution, tmp_path: Path) -> None:
    from ttf.host import plugins
    from ttf.host.options import checked

    suite_type, _, test, given = case
    kind = suite_type.kind
    site.add("ttf-planted", {f"{kind}.planted": "ttf_planted_plugin"})
    source = SOURCES[kind]
    site.module("ttf_planted_plugin", source if kind == "tower" else source.format(fault=fault))
    options = {} if kind == "storage" else {"fault": fault}
    suite: Any = type("Planted", (suite_type,), {"name": "planted", "options": options})()
    factory: Any = plugins.load(kind, "planted")
    chosen = checked(factory.options_type, options, "planted")
    known = {"factory": factory, "chosen": chosen, "tmp_path": tmp_path, **given}
    if kind == "device":
        known["policy"] = factory.create(chosen, 1)
    method = getattr(suite, test)
    method(**{name: known[name] for name in inspect.signature(method).parameters})


@pytest.mark.parametrize("case", OTHERS, ids=[f"{c[1]}-{c[2][5:40]}" for c in OTHERS])
def test_faults_of_other_kinds_are_found_and_nothing_else(
    fake_plugins: FakeDistribution, case: Case, tmp_path: Path
) -> None:
    faulty, right = tmp_path / "faulty", tmp_path / "right"
    for folder in (faulty, right):
        folder.mkdir()
    with pytest.raises((Exception, pytest.fail.Exception)):
        asked_of(case, case[1], fake_plugins, faulty)
    fresh = FakeDistribution(folder=fake_plugins.folder / "right")
    fresh.folder.mkdir()
    with swapped(fake_plugins, fresh):
        asked_of(case, "none", fresh, right)


@contextlib.contextmanager
def swapped(old: FakeDistribution, new: FakeDistribution) -> Iterator[None]:
    """The distributions of `new` in the place of those of `old`."""
    from ttf.host import plugins

    sys.path.remove(str(old.folder))
    sys.path.insert(0, str(new.folder))
    sys.modules.pop("ttf_planted_plugin", None)
    importlib.invalidate_caches()
    for cached in (plugins.installed, plugins.load):
        cached.cache_clear()
    try:
        yield
    finally:
        sys.path.remove(str(new.folder))
        sys.path.insert(0, str(old.folder))
        sys.modules.pop("ttf_planted_plugin", None)
        for cached in (plugins.installed, plugins.load):
            cached.cache_clear()
