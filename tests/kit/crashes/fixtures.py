"""A small run that all tests of this room disturb, and the same run undisturbed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.kit.crashes import sabotage
from tests.kit.crashes.harness import Ended, Live, World, assert_undisturbed, summary_of

pytestmark = pytest.mark.slow
Start = Callable[..., Live]
wide = pytest.mark.skipif(
    os.environ.get("TTF_CHAOS", "0") in ("", "0"), reason="one of many: TTF_CHAOS=1 runs it"
)


@pytest.fixture(scope="session")
def _shared(tmp_path_factory: pytest.TempPathFactory) -> World:
    from ttf.data.synth import SynthShape, write_synth

    root = tmp_path_factory.mktemp("crashes")
    write_synth(
        root, SynthShape(pairs=2000, val=300, seq_len=2, dim=32, bank=1000, seed=1, noise=1.0)
    )
    sabotage.install(root / "plugins")
    return World(root=root, plugins=root / "plugins")


@pytest.fixture
def world(_shared: World) -> Iterator[World]:
    """Ends whatever a failing test left; a test that does not fail leaves nothing."""
    yield _shared
    left = _shared.end_all()
    litter = [p.name for p in (_shared.root / "tmp").glob("*")]
    assert not left, f"left behind: {left}"
    assert not litter, f"left in the folder for temporary files: {litter}"


@pytest.fixture(scope="session")
def undisturbed(_shared: World) -> str:
    """The weights of the run that nobody touched."""
    run = _shared.root / "undisturbed"
    live = Live(_shared, _shared.config(run), run)
    try:
        ended = live.wait()
    finally:
        live.close()
    assert ended.code == 0, ended.err
    weights = str(summary_of(run)["weights_sha256"])
    assert_undisturbed(run, weights, restarts=0)
    return weights


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Where the run of a test goes."""
    return tmp_path / "run"


@pytest.fixture
def train(world: World, run: Path) -> Iterator[Start]:
    """Starts `ttf train` with the run that all share, `sets` added."""
    started: list[Live] = []

    def start(*sets: str, env: dict[str, str] | None = None, **options: Any) -> Live:
        started.append(Live(world, world.config(run, *sets, **options), run, env=env))
        return started[-1]

    yield start
    for live in started:
        live.close()


@pytest.fixture
def command(world: World, run: Path) -> Iterator[Start]:
    """Starts any other command on the run, `resume` above all."""
    started: list[Live] = []

    def start(words: Sequence[str | Path], env: dict[str, str] | None = None) -> Live:
        started.append(Live(world, [str(word) for word in words], run, env=env))
        return started[-1]

    yield start
    for live in started:
        live.close()


@pytest.fixture
def resume(command: Start, run: Path) -> Callable[[], Ended]:
    """`ttf resume` to its end."""
    return lambda: command(["resume", run, "--json"]).wait()
