"""What cannot fit is refused by arithmetic, before anything is allocated."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from tests.kit.small_training import open_small

from ttf.config.resolve import resolve
from ttf.data.dataset import Dataset
from ttf.errors import ConfigError, ExitCode
from ttf.machine.devices import choose
from ttf.machine.memory.limits import Limit
from ttf.training.auto_settings import decide
from ttf.training.must_fit import refuse_what_cannot_fit


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    with open_small(tmp_path_factory.mktemp("fit")) as opened:
        yield opened


def check(data: Dataset, flags: dict[str, Any], **limits: Any) -> None:
    resolved = resolve(flags={"tower": "linear", "batch_size": 8, **flags})
    decided = decide(resolved, data, choose("cpu", {}, 1))
    refuse_what_cannot_fit(decided, data, **limits)


MEMORY = {"memory": Limit(5 * 10**7, "physical memory"), "disk": Limit(10**12, "free in /")}


def refused(data: Dataset, flags: dict[str, Any], **limits: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        check(data, flags, **(limits or MEMORY))
    assert caught.value.exit_code == ExitCode.USAGE
    assert "--plan" in caught.value.hint
    return str(caught.value)


@pytest.mark.parametrize(
    "flags", [{}, {"memory_bank": 1000}, {"tower": "mlp"}, {"tower": "gru", "doc_tower": "mlp"}]
)
def test_ordinary_runs_fit(data: Dataset, flags: dict[str, Any]) -> None:
    check(data, flags, **MEMORY)


@pytest.mark.parametrize(
    ("flags", "named", "lower"),
    [
        ({"memory_bank": 2**31 - 1}, "the memory bank:", "Lower loss.memory_bank;"),
        ({"miner.negatives": 100_000, "miner.k": 100_000, "batch_size": 40},
         "the documents of a step:", "Lower miner.negatives,"),
        ({"tower": "mlp", "tower.query.hidden": 65_536, "tower.query.layers": 64},
         "the query tower mlp and its optimizer:", "Lower the sizes in tower.query:"),
        ({"doc_tower": "transformer", "tower.doc.feedforward": 262_144, "tower.doc.layers": 64},
         "the doc tower transformer and its optimizer:", "Lower the sizes in tower.doc:"),
    ],
    ids=["memory bank", "negatives", "query tower", "document tower"],
)  # fmt: skip
def test_what_needs_more_than_the_machine_has_is_refused_and_named(
    data: Dataset, flags: dict[str, Any], named: str, lower: str
) -> None:
    text = refused(data, flags)
    assert "cannot fit: it needs at least" in text
    assert "of memory, but there are only 50 MB (physical memory)" in text
    assert named in text and lower in text


def test_a_table_of_candidates_that_the_disk_cannot_hold_is_refused(data: Dataset) -> None:
    text = refused(
        data,
        {"miner.k": 100, "miner.negatives": 4},
        memory=MEMORY["memory"],
        disk=Limit(1000, "free in /"),
    )
    assert "of disk space" in text and "Lower miner.k" in text
    check(data, {"miner.negatives": 0}, memory=MEMORY["memory"], disk=Limit(1000, "free in /"))


def test_a_step_of_more_samples_than_pairs_is_refused_before_it_is_cut(data: Dataset) -> None:
    with pytest.raises(ConfigError, match="One optimizer step needs 8,388,608 samples"):
        check(data, {"accum": 2**20}, **MEMORY)
