"""A mining round that is interrupted at one of its blocks goes on behind it, with the same table."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.kit.widely import wide

from ttf.contracts import MinerContext
from ttf.mining.choose import miner_context
from ttf.rundir.durable import Act, Operation, intercepted
from ttf.training import mined_table, mining_round

if TYPE_CHECKING:
    from tests.conftest import Invoke, Outcome

Sets = Mapping[str, Mapping[str, str]]
RUN = (
    *("--tower", "linear", "--batch-size", "32", "--steps", "12", "--threads", "1"),
    *("--isolation", "none", "--in-process", "--json", "--set", "miner.negatives=2"),
    *("--set", "calibrate.enabled=false", "--set", "evaluate.every='end'"),
    *("--set", "checkpoint.every_steps=3", "--set", "miner.k=10"),
)
TRAINED = ("--doc-tower", "linear")
BLOCK = 64


@pytest.fixture(autouse=True)
def _in_the_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(mining_round, "BLOCK_ROWS", BLOCK)
    monkeypatch.setattr(mining_round, "QUERIES_AT_ONCE", BLOCK)

    def in_small_chunks(*given: Any) -> MinerContext:
        return replace(miner_context(*given), queries_at_once=BLOCK)

    monkeypatch.setattr(mined_table, "miner_context", in_small_chunks)


def train(invoke: Invoke, sets: Sets, out: str, *more: str) -> Outcome:
    files = sets["npz"]
    words = ["train", "--pairs", files["pairs"], "--bank", files["bank"], "--out", out]
    return invoke([*words, *RUN, *more])


class Writes:
    """Counts the blocks that are noted, by their part of the round; asks for an end at one."""

    def __init__(self, part: str = "", number: int = 0) -> None:
        self._at = part, number
        self.noted: dict[str, int] = {}

    def __call__(self, operation: Operation, act: Act) -> int:
        done = act(memoryview(operation.data))
        path = operation.path
        if operation.verb == "write" and path.name == "blocks.bin" and operation.offset:
            part = path.parent.name
            self.noted[part] = self.noted.get(part, 0) + 1
            if (part, self.noted[part]) == self._at:
                os.kill(os.getpid(), signal.SIGTERM)
        return done


def arrays(run: str) -> dict[str, bytes]:
    (table,) = Path(run, "candidates").iterdir()  # nothing of the round is left beside it
    return {path.name: path.read_bytes() for path in table.glob("*.npy")}


@pytest.mark.parametrize(
    ("more", "part", "number"),
    [
        ((), "encoded", 3),
        pytest.param((), "encoded", 6, marks=wide),
        pytest.param((), "found", 1, marks=wide),
        pytest.param((), "found", 6, marks=wide),
        pytest.param((), "positives", 2, marks=wide),
        pytest.param((), "ceilings", 1, marks=wide),
        pytest.param(("--set", "miner.candidates='nearest'"), "found", 3, marks=wide),
        pytest.param(TRAINED, "documents", 1, marks=wide),
        (TRAINED, "found", 2),
        pytest.param(TRAINED, "positives", 2, marks=wide),
    ],
)
def test_a_round_goes_on_behind_its_last_block_and_ends_with_the_same_bytes(
    more: tuple[str, ...], part: str, number: int, small_sets: Sets, invoke: Invoke
) -> None:
    with intercepted(undisturbed := Writes()):
        whole = train(invoke, small_sets, "whole", *more).json()
    with intercepted(before := Writes(part, number)):
        assert train(invoke, small_sets, "cut", *more).code == 143
    (unfinished,) = Path("cut/candidates").glob("round-*")
    with intercepted(after := Writes()):
        resumed = invoke(["resume", "cut", "--in-process", "--json"]).json()
    assert before.noted[part] == number
    for each, blocks in undisturbed.noted.items():
        assert before.noted.get(each, 0) + after.noted.get(each, 0) == blocks, each
    assert resumed["weights_sha256"] == whole["weights_sha256"]
    assert resumed["exact"] and resumed["deviations"] == []
    assert arrays("cut") == arrays("whole") and not unfinished.exists()


def test_candidates_below_the_margins_lead_to_the_weights_of_the_nearest(
    small_sets: Sets, invoke: Invoke
) -> None:
    """The draws are the same, from a tenth of the candidates."""
    ranks = ("--set", "miner.k='auto'", "--set", "negatives.rank_to=30")
    nearest = train(
        invoke, small_sets, "nearest", *ranks, "--set", "miner.candidates='nearest'"
    ).json()
    passing = train(invoke, small_sets, "passing", *ranks).json()
    assert passing["weights_sha256"] == nearest["weights_sha256"]
    kept = [np.load(next(Path(run).glob("candidates/*/ids.npy"))) for run in ("nearest", "passing")]
    assert kept[0].shape[1] == 30 and kept[1].shape[1] == 11
    assert (kept[1] == -1).any() and (kept[1] >= 0).any()


def test_what_a_round_of_other_weights_left_is_removed(small_sets: Sets, invoke: Invoke) -> None:
    with intercepted(Writes("encoded", 2)):
        assert train(invoke, small_sets, "cut").code == 143
    (unfinished,) = Path("cut/candidates").glob("round-*")
    other = unfinished.with_name("round-" + "0" * 24)
    unfinished.rename(other)
    own = Path("cut/candidates/rounds.txt")  # of somebody else: not ours by its name
    own.write_text("mine")
    with intercepted(after := Writes()):
        assert invoke(["resume", "cut", "--in-process", "--json"]).code == 0
    assert after.noted["encoded"] == 6  # all: 384 rows, 64 at once
    assert not other.exists() and own.read_text() == "mine"


@wide
def test_a_block_that_was_damaged_meanwhile_is_encoded_again(
    small_sets: Sets, invoke: Invoke
) -> None:
    whole: dict[str, Any] = train(invoke, small_sets, "whole").json()
    with intercepted(Writes("encoded", 4)):
        assert train(invoke, small_sets, "cut").code == 143
    (vectors,) = Path("cut/candidates").glob("round-*/encoded/queries.npy")
    data = bytearray(vectors.read_bytes())
    data[-5] ^= 1  # in the fourth block: the file ends there
    vectors.write_bytes(data)
    with intercepted(after := Writes()):
        done = invoke(["resume", "cut", "--in-process", "--json"])
    assert after.noted["encoded"] == 3
    assert json.loads(done.out)["weights_sha256"] == whole["weights_sha256"]
    assert arrays("cut") == arrays("whole")
