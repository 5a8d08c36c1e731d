"""The order of sums does not depend on the number of ranks, and neither does anything of a step."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, strategies as st

from ttf.world.tree import Fold, Node, nodes_of, parts, shards_of
from ttf.world.word import Save, Word, agreed
from ttf.world.world import World, plus


def tree(values: list[float]) -> float:
    if len(values) == 1:
        return values[0]
    half = len(values) // 2
    return tree(values[:half]) + tree(values[half:])


@given(st.integers(0, 6), st.data())
def test_any_number_of_ranks_adds_the_same_tree(power: int, data: st.DataObject) -> None:
    shards = 1 << power
    ranks = data.draw(st.integers(1, shards))
    values = data.draw(st.lists(st.floats(-1e6, 1e6, width=32), min_size=shards, max_size=shards))
    upper = Fold[float](lambda a, b: a + b)
    for rank in range(ranks):
        fold = Fold[float](lambda a, b: a + b)
        own = shards_of(rank, ranks, shards)
        for shard in own:
            fold.add(Node(shard, 1), values[shard])
        assert [node for node, _ in fold.nodes()] == nodes_of(own)
        for node, value in fold.nodes():
            upper.add(node, value)
    assert upper.root(shards) == tree(values)


@given(st.integers(1, 64), st.integers(1, 64))
def test_every_shard_belongs_to_one_rank(shards: int, ranks: int) -> None:
    found = [shard for rank in range(ranks) for shard in shards_of(rank, ranks, shards)]
    assert found == list(range(shards))


@given(st.integers(0, 300), st.integers(1, 9), st.integers(1, 50))
def test_parts_are_contiguous_and_cut_at_blocks(count: int, size: int, block: int) -> None:
    class Several(World):
        def __init__(self) -> None:
            super().__init__()
            self.size = size

    found = [Several().part_of(rank, count, block) for rank in range(size)]
    assert [one for part in found for one in part] == list(range(count))
    assert all(part.start % block == 0 for part in found if len(part))
    assert [part for part in parts(count, 4)][-1][1] == count


def test_a_sum_with_a_missing_shard_is_refused() -> None:
    fold = Fold[torch.Tensor](plus)
    fold.add(Node(0, 1), torch.ones(2))
    with pytest.raises(ValueError, match="not all of 2 shards"):
        fold.root(2)


def test_rank_0_decides_about_saving_and_anybody_about_an_end() -> None:
    words = [Word(step=3), Word(step=3, save=Save.WAIT, stop=15), Word(step=3, leave=True)]
    found = agreed([Word.unpacked(word.packed()) for word in words])
    assert (found.save, found.stop, found.leave) == (Save.NOTHING, 15, True)
    assert list(found.words) == words
