"""Products of matrices have few shapes: oneDNN keeps memory for each that it has met."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tests.kit.small_training import IDENTITY, LINEAR, MLP, World, open_small
from torch.utils._python_dispatch import TorchDispatchMode

from ttf.data.dataset import Dataset
from ttf.machine.gemm import padded, padded_rows
from ttf.mining.scan.error_bounds import asked
from ttf.training.evaluation import TIE, ranks_in_blocks

_PRODUCTS = ("mm", "addmm", "bmm", "addmv", "mv")
Shapes = tuple[tuple[int, ...], ...]


class Products(TorchDispatchMode):  # type: ignore[no-untyped-call, unused-ignore]
    """Collects the shapes of the products in its block."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.shapes: set[Shapes] = set()

    def __torch_dispatch__(  # type: ignore[no-untyped-def]
        self, func, types, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ):
        if func.__name__.partition(".")[0] in _PRODUCTS:
            self.shapes.add(tuple(tuple(a.shape) for a in args if isinstance(a, torch.Tensor)))
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Dataset]:
    folder: Path = tmp_path_factory.mktemp("world")
    with open_small(folder) as opened:
        yield opened


@pytest.mark.parametrize(
    "towers",
    [{"query": MLP, "doc": IDENTITY}, {"query": LINEAR, "doc": MLP}],
    ids=["fixed documents", "trainable documents"],
)
def test_steps_with_different_numbers_of_documents_have_the_same_products(
    data: Dataset, towers: dict[str, Any]
) -> None:
    world = World(data, **towers)
    numbers, found = set(), []
    for step in range(6):
        numbers.add(len(world.head(step).doc_ids) + world.bank.filled)
        with Products() as products:
            world.step(step)
        found.append(products.shapes)
    assert len(numbers) > 2
    assert all(shapes == found[0] for shapes in found)


@pytest.mark.parametrize("rows", [300, 311, 320])
def test_an_evaluation_has_the_same_products_whatever_is_near(rows: int) -> None:
    """How many queries bfloat16 can decide differs from one evaluation to the next."""
    rng = np.random.default_rng(rows)
    docs = torch.from_numpy(rng.standard_normal((500, 16)).astype(np.float32))
    docs[:60] = docs[0]  # too near for bfloat16 where they are the positive
    queries = torch.from_numpy(rng.standard_normal((rows, 16)).astype(np.float32))
    positives = rng.integers(0, 500, (rows, 1))
    own = docs[torch.from_numpy(positives[:, 0])]
    scores = (queries * own).sum(-1)[:, None]
    ties = TIE * (queries.norm(dim=1) * own.norm(dim=1))[:, None]
    with Products() as products:
        ranks_in_blocks(queries, scores, ties, positives, [(0, docs)] * 3, first="bf16")
    heights = {shape[0][0] for shape in products.shapes}
    assert len(heights) > 1, "some queries were counted in float32"
    assert heights == {padded_rows(height) for height in heights}


@pytest.mark.parametrize(("rows", "expected"), [(1, 1), (3, 4), (33, 64), (64, 64), (65, 128)])
def test_rows_of_zeros_are_added(rows: int, expected: int) -> None:
    given = torch.ones(rows, 3)
    found = padded(given)
    assert found.shape == (expected, 3)
    assert torch.equal(found[:rows], given) and not found[rows:].any()


def test_padded_queries_have_the_scores_of_the_queries() -> None:
    rng = np.random.default_rng(0)
    queries = rng.standard_normal((70, 16)).astype(np.float32)
    rows = torch.from_numpy(rng.standard_normal((64, 16)).astype(np.float32))
    prepared = asked(queries, half=False)
    scratch = torch.full((128 * 64,), torch.nan)
    assert torch.equal(prepared.vectors, torch.from_numpy(queries))
    for found in (prepared.scores(rows), prepared.scores(rows, scratch)):
        assert found.shape == (70, 64) and found.is_contiguous()
        assert torch.allclose(found, torch.from_numpy(queries) @ rows.T, atol=1e-5)
