"""The fixtures of this room: data that all runs share, and the same run undisturbed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.kit import hosts as kit
from tests.kit.fixtures.frozen import frozen
from tests.kit.hosts import Hosts
from tests.kit.ranks import small_data
from tests.kit.several import Several, results
from tests.kit.workers import made_once, shared_folder


@pytest.fixture(scope="session")
def _several(tmp_path_factory: pytest.TempPathFactory) -> Several:
    root = tmp_path_factory.mktemp("several")
    small_data(root)
    return Several(root=root)


@pytest.fixture
def several(_several: Several) -> Iterator[Several]:
    yield _several
    left = _several.end_all()
    assert not left, f"left behind: {left}"


@pytest.fixture(scope="session")
def undisturbed(_several: Several, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Weights and results of the run in one process that nobody touched."""

    def make() -> dict[str, Any]:
        run = _several.root / "undisturbed"
        with _several.start(run, _several.train(run)) as live:
            ended = live.wait()
        assert ended.code == 0, ended.err
        return {"weights": ended.digest, **results(run)}

    found: dict[str, Any] = made_once(shared_folder(tmp_path_factory), "undisturbed-several", make)
    return found


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return tmp_path / "run"


@pytest.fixture
def hosts() -> Iterator[Hosts]:
    """Two of them, with a cable."""
    why = kit.missing()
    if why:
        pytest.skip(why)
    with Hosts() as made:
        yield made


@pytest.fixture
def far_hosts() -> Iterator[Hosts]:
    """Two of them, whose cable is slow and loses packets."""
    why = kit.missing() or ("" if Path("/dev/net/tun").exists() else "there is no /dev/net/tun")
    if why:
        pytest.skip(why)
    with Hosts(slow=True) as made:
        yield made
