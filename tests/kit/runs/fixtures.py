"""A small data set in both containers, made once for all tests of whole runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def small_sets(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, Mapping[str, str]]:
    """`--pairs` and `--bank` by container: 400 queries of 5 steps x 16, 300 documents."""
    from ttf.data.synth import SynthShape, write_synth

    sets = {}
    for container in ("npz", "zarr"):
        folder: Path = tmp_path_factory.mktemp(container)
        paths = write_synth(
            folder,
            SynthShape(pairs=400, val=60, seq_len=5, dim=16, bank=300, seed=3),
            container=container,
        )
        sets[container] = {"pairs": str(paths["pairs"]), "bank": str(paths["bank"])}
    return sets
