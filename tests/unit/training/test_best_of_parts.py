"""The best of a bank that several processes have searched in parts: equal to one's, and little is moved."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from tests.kit.world_of_threads import WorldOfThreads, together

from ttf.mining.scan.merged_parts import best_of, keys_of, merged
from ttf.mining.scan.sort_keys import NOTHING
from ttf.training.best_of_parts import Keys, best_of_parts
from ttf.training.team import Team

QUERIES = 700


def keys(scores_QN: np.ndarray, part: range, width: int) -> Keys:
    """Of a part of the rows; some queries have few answers in it, as below a ceiling."""
    here = scores_QN[:, part.start : part.stop].astype(np.float32)
    ids = np.argsort(-here, axis=1, kind="stable")[:, :width]
    best = np.take_along_axis(here, ids, axis=1)
    ids[np.isneginf(best)] = -1
    return merged([keys_of((ids, np.where(ids < 0, 0, best)), part.start)], width)


@pytest.mark.parametrize("kind", ["any", "ties", "one part has all", "few"])
@pytest.mark.parametrize(("processes", "width"), [(1, 5), (2, 12), (3, 200), (5, 1)])
def test_all_processes_get_the_best_of_all(
    processes: int, width: int, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng = np.random.default_rng(0)
    scores = rng.standard_normal((QUERIES, 1000))
    if kind == "ties":
        scores = rng.integers(0, 3, scores.shape).astype(np.float64)
    if kind == "one part has all":
        scores[:, :300] += 100
    if kind == "few":
        scores[rng.random(scores.shape) < 0.995] = -np.inf
    wanted = keys(scores, range(1000), width)
    inner = sorted(rng.choice(np.arange(1, 1000), processes - 1, replace=False).tolist())
    if kind == "any":  # as a round is cut
        inner = [1000 * number // processes for number in range(1, processes)]
    parts = [range(a, b) for a, b in itertools.pairwise([0, *inner, 1000])]
    moved = [0] * processes
    joined = WorldOfThreads.joined

    def counted(self: WorldOfThreads, rows: torch.Tensor, counts: list[int]) -> torch.Tensor:
        moved[self.rank] += rows.nbytes
        return joined(self, rows, counts)

    monkeypatch.setattr(WorldOfThreads, "joined", counted)

    def work(team: Team) -> Keys:
        own = keys(scores, team.mine(parts), width)
        everything = [range(QUERIES)] * processes
        out = np.full((QUERIES, width), NOTHING)
        for start, best in best_of_parts(team, everything, lambda a, b: own[a:b], width):
            out[start : start + len(best)] = best
        return out

    for found in together(processes, work):
        assert np.array_equal(found, wanted)
        assert np.array_equal(best_of(found, width)[0], best_of(wanted, width)[0])
    if kind == "any" and processes > 1 and width > 1:
        # 12 bytes are an answer as it lies in the table.
        assert sum(moved) <= 1.2 * 12 * QUERIES * width


def test_processes_without_a_part_only_listen() -> None:
    rng = np.random.default_rng(1)
    scores = rng.standard_normal((QUERIES, 90))
    parts = [range(50), range(0), range(50, 90)]

    def work(team: Team) -> Keys:
        own = keys(scores, team.mine(parts), 8)
        queries = [range(QUERIES) if part else range(0) for part in parts]
        found = list(best_of_parts(team, queries, lambda a, b: own[a:b], 8))
        return np.concatenate([best for _, best in found])

    for found in together(3, work):
        assert np.array_equal(found, keys(scores, range(90), 8))
