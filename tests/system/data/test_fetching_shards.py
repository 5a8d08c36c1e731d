"""Shards come to this machine once, whole and verified, whatever server and processes do meanwhile."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.conftest import ROOT, Invoke, wait_until
from tests.kit.fetch_shards import shards_of
from tests.kit.object_server import ObjectServer, PlainRemote, serving

from ttf import BadData, DataMissing, Fetching, NodeCache, Shard, StorageError
from ttf.data.shards.cache_folder import CacheFolder
from ttf.data.shards.fetched import Patience

SIZE = 60_000
FAST = Fetching(patience=Patience(first_s=0.001, most_s=0.01, attempts=5))


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectServer]:
    monkeypatch.setenv("TTF_HOME", str(tmp_path / "home"))
    folder = tmp_path / "served"
    folder.mkdir()
    for number in range(4):
        content = np.random.default_rng(number).integers(0, 256, SIZE, dtype=np.uint8)
        (folder / f"{number}.bin").write_bytes(content.tobytes())
    with serving(folder) as running:
        yield running


@pytest.fixture
def shards(server: ObjectServer) -> list[Shard]:
    return shards_of(server.url, server.folder)


def bring(server: ObjectServer, shards: list[Shard], how: Fetching = FAST) -> NodeCache:
    cache = NodeCache()
    try:
        cache.bring(shards, lambda: PlainRemote(server.url), how)
    except BaseException:
        cache.close()
        raise
    return cache


def same(cache: NodeCache, server: ObjectServer, shards: list[Shard]) -> bool:
    return all(cache.path(s).read_bytes() == (server.folder / s.key).read_bytes() for s in shards)


def test_what_is_here_is_not_asked_for_again(server: ObjectServer, shards: list[Shard]) -> None:
    cache = bring(server, shards)
    assert same(cache, server, shards) and len(server.asked) == 4
    cache.close()

    def no_remote() -> PlainRemote:
        raise AssertionError("nothing is missing")

    again = NodeCache()
    again.bring(shards, no_remote, FAST)
    again.close()
    assert len(server.asked) == 4


@pytest.mark.parametrize("fault", ["503", "short", "cut"])
def test_a_failure_that_passes_costs_only_time(
    server: ObjectServer, shards: list[Shard], fault: str
) -> None:
    server.fail("1.bin", fault, times=3)
    said: list[str] = []
    cache = bring(server, shards, Fetching(patience=FAST.patience, say=said.append))
    assert same(cache, server, shards)
    assert Counter(server.names()) == {"0.bin": 1, "1.bin": 4, "2.bin": 1, "3.bin": 1}
    assert len(said) == 1 and "1.bin" in said[0] and "tries again" in said[0]
    cache.close()


def test_a_failure_that_stays_ends_the_fetch_and_keeps_the_others(
    server: ObjectServer, shards: list[Shard]
) -> None:
    server.fail("3.bin", "503")
    with pytest.raises(StorageError, match=r"3\.bin could not be fetched in 5 attempts"):
        bring(server, shards)
    server.plans.clear()
    server.asked.clear()
    cache = bring(server, shards)
    assert same(cache, server, shards) and "3.bin" in server.names()
    cache.close()


def test_an_object_that_is_not_there_is_not_asked_for_twice(
    server: ObjectServer, shards: list[Shard]
) -> None:
    (server.folder / "2.bin").unlink()
    with pytest.raises(DataMissing, match=r"2\.bin"):
        bring(server, shards[2:3])
    assert server.names() == ["2.bin"]


def test_a_changed_object_is_refused_by_its_name(server: ObjectServer, shards: list[Shard]) -> None:
    server.fail("2.bin", "changed")
    with pytest.raises(BadData, match=r"/2\.bin is not the object that the manifest names"):
        bring(server, shards)
    cache = NodeCache()
    assert shards[2] in cache.missing(shards)


def test_a_damaged_beginning_is_fetched_again(server: ObjectServer, shards: list[Shard]) -> None:
    folder = CacheFolder().folder(shards[0].sha256)
    folder.mkdir(0o700, parents=True)
    (folder / "part").write_bytes(b"left by a power failure")
    cache = bring(server, shards[:1])
    assert same(cache, server, shards[:1])
    assert [asked.start for asked in server.asked] == [23, 0]
    cache.close()


def test_a_stop_ends_the_fetch(server: ObjectServer, shards: list[Shard]) -> None:
    server.fail("*", "503")

    def check() -> None:
        if len(server.asked) > 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        bring(server, shards, Fetching(check=check))


def test_a_long_fetch_says_how_much_is_left(
    server: ObjectServer, shards: list[Shard], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttf.data.shards.bring._SAY_EVERY_S", 0.0)
    server.fail("3.bin", "slow")
    server.slow_s = 0.4
    said: list[str] = []
    bring(server, shards, Fetching(say=said.append)).close()
    assert any("180 kB of 240 kB, " in line and "left." in line for line in said), said
    assert said[-1].startswith("Fetching 4 shards: 240 kB of 240 kB in ")


# --- several processes ----------------------------------------------------------------------------


def fetching(server: ObjectServer, *more: str, failpoint: str = "") -> subprocess.Popen[str]:
    environment = os.environ | ({"TTF_FAILPOINT": failpoint} if failpoint else {})
    return subprocess.Popen(
        [sys.executable, "-m", "tests.kit.fetch_shards", server.url, str(server.folder), *more],
        cwd=ROOT,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_a_killed_fetch_goes_on_behind_what_it_left(
    server: ObjectServer, shards: list[Shard]
) -> None:
    with fetching(server, failpoint="objects.write:3:kill") as killed:
        assert killed.wait(60) == -signal.SIGKILL
    left = CacheFolder()
    whole = [s for s in shards if left.has(s)]
    begun = {
        s.key: part.stat().st_size
        for s in shards
        if (part := left.folder(s.sha256) / "part").is_file()
    }
    assert SIZE // 2 in begun.values()  # half of the write in which it was killed
    server.asked.clear()
    cache = bring(server, shards)
    assert same(cache, server, shards)
    again = {asked.name: asked.start for asked in server.asked}
    assert not again.keys() & {s.key for s in whole}
    assert all(again[key] == size for key, size in begun.items() if 0 < size < SIZE)
    cache.close()


def test_two_processes_fetch_each_shard_once(server: ObjectServer, shards: list[Shard]) -> None:
    server.fail("*", "slow")
    with fetching(server) as one, fetching(server) as other:
        assert one.wait(60) == other.wait(60) == 0
    assert Counter(server.names()) == {f"{n}.bin": 1 for n in range(4)}
    assert not NodeCache().missing(shards)


def test_only_what_no_living_process_uses_is_evicted(
    server: ObjectServer, shards: list[Shard], invoke: Invoke
) -> None:
    bring(server, shards).close()
    tight = Fetching(patience=FAST.patience, limit=4 * SIZE + 1000)
    with fetching(server, "hold") as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "here\n"
        (server.folder / "9.bin").write_bytes(b"9" * SIZE)
        coming = [shard for shard in shards_of(server.url, server.folder) if shard.key == "9.bin"]
        with pytest.raises(StorageError, match=r"data\.cache_limit allows"):
            bring(server, coming, tight)
        kept = invoke(["cache", "clear", "objects", "--json"]).json()["kept"]
        assert {entry["reason"] for entry in kept} == {"a process is using it"} and len(kept) == 4
        holder.kill()
    cache = bring(server, coming, tight)
    assert len(cache.missing(shards)) == 1  # the least recently used, and no other
    cache.close()
    assert invoke(["cache", "clear", "objects"]).out.startswith("4 entries")


def test_what_can_never_fit_evicts_nothing(server: ObjectServer, shards: list[Shard]) -> None:
    bring(server, shards).close()
    huge = Shard(key="0.bin", address="https://example.org/0", size=1 << 60, sha256="0" * 64)
    with pytest.raises(StorageError, match="the disk has room for"):
        bring(server, [huge], FAST)
    assert not NodeCache().missing(shards)


def test_a_shard_of_somebody_else_is_not_used(server: ObjectServer, shards: list[Shard]) -> None:
    bring(server, shards).close()
    CacheFolder().folder(shards[0].sha256).chmod(0o777)
    with pytest.raises(BadData, match="can be changed by other users"):
        bring(server, shards)


def test_a_lease_ends_with_its_process(server: ObjectServer, shards: list[Shard]) -> None:
    with fetching(server, "hold") as holder:
        assert holder.stdout is not None and holder.stdout.readline() == "here\n"
        cache = CacheFolder()
        with cache.locked():
            assert cache.leased() == {s.sha256: s.size for s in shards}
        holder.kill()
    wait_until(lambda: not _leased(cache))
    assert not list((cache.home / "leases").iterdir())


def _leased(cache: CacheFolder) -> dict[str, int]:
    with cache.locked():
        return cache.leased()
