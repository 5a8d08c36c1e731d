"""One small data set, and two runs that several tests look at: one undisturbed, one killed."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.observers.harness import WAITS, Place, install_waiting

HAS_TENSORBOARD = importlib.util.find_spec("tensorboard") is not None
BOTH = ("tensorboard", "jsonl") if HAS_TENSORBOARD else ("jsonl",)


@pytest.fixture
def _needs_tensorboard() -> None:
    if not HAS_TENSORBOARD:
        pytest.skip('tensorboard is not installed: pip install "twotower[tensorboard]"')


@pytest.fixture
def _closed_after() -> Iterator[None]:
    """What a test that calls hooks by hand left open."""
    from ttf_observers import jsonl_sink, tensorboard_sink

    yield
    jsonl_sink._close()
    tensorboard_sink._close()


@pytest.fixture(scope="session")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    from ttf.data.synth import SynthShape, write_synth

    root = tmp_path_factory.mktemp("observers")
    install_waiting(root / "site")
    paths = write_synth(root, SynthShape(pairs=400, val=60, seq_len=2, dim=16, bank=300, seed=3))
    return Place(root=root, data={"pairs": paths["pairs"], "bank": paths["bank"]})


@pytest.fixture(scope="session")
def undisturbed(place: Place) -> Path:
    """A run that nothing happens to."""
    run = place.root / "undisturbed"
    place.train(BOTH, out=run)
    return run


@pytest.fixture(scope="session")
def killed(place: Place) -> Path:
    """A run whose trainer met SIGKILL with half of step 117's event written, and that went on."""
    run = place.root / "killed"
    area, before = ("tensorboard", 6) if HAS_TENSORBOARD else ("events", 4)
    err = place.train([*BOTH, WAITS], out=run, failpoint=f"{area}.write:{before + 117}:kill")
    assert "Incident 001, killed" in err
    return run
