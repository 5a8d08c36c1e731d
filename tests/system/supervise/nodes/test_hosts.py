"""Two hosts train one run: each is started by one command, and either may die."""

from __future__ import annotations

import shutil
import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.kit.hosts import Hosts
from tests.kit.live_run import Ended, LiveRun
from tests.kit.several import PORT, Several, orphans, reaches, results, strikes, until
from tests.kit.struck_run import incidents_of
from tests.kit.widely import wide

from ttf.rundir.flight_record import read_flight

BACK_S = 15.0
"""Within so long all train again."""


@dataclass(kw_only=True)
class Pair:
    """The same run on both hosts, each with a disk of its own."""

    several: Several
    hosts: Hosts
    root: Path
    stack: ExitStack
    a: LiveRun
    b: LiveRun

    @property
    def run_a(self) -> Path:
        return self.root / "a"

    @property
    def run_b(self) -> Path:
        return self.root / "b"

    def resume(self, letter: str) -> LiveRun:
        run = self.root / letter
        words = ["resume", str(run), "--json", *joined(self.hosts)]
        host = self.hosts.a if letter == "a" else self.hosts.b
        live = self.stack.enter_context(self.several.start(run, words, host))
        setattr(self, letter, live)
        return live

    def train_again(self, since: int) -> None:
        """Both have done steps after `since`, in processes that began since."""
        for live, run in ((self.a, self.run_a), (self.b, self.run_b)):
            reaches(live, run, since)

    def ends(self) -> tuple[Ended, Ended]:
        return self.a.wait(), self.b.wait()


def joined(hosts: Hosts) -> list[str]:
    return ["--nodes", "2", "--rendezvous", f"{hosts.a.name}:{PORT}"]


@contextmanager
def started(several: Several, hosts: Hosts, root: Path, *more: str, **sets: Any) -> Iterator[Pair]:
    with ExitStack() as stack:
        lives = []
        for letter, host in (("b", hosts.b), ("a", hosts.a)):  # in any order
            words = several.train(root / letter, *joined(hosts), *more, **sets)
            lives.append(stack.enter_context(several.start(root / letter, words, host)))
        yield Pair(several=several, hosts=hosts, root=root, stack=stack, b=lives[0], a=lives[1])


def assert_equal(pair: Pair, undisturbed: dict[str, Any]) -> None:
    for ended in pair.ends():
        assert ended.code == 0, ended.err
        ended.assert_clean()
        assert ended.digest == undisturbed["weights"]
        assert ended.summary["exact"] is True and ended.summary["world_size"] == 2
        assert results(ended.run) == {k: undisturbed[k] for k in ("tables", "metrics")}
    assert list(orphans(pair.several)) == []


@wide
def test_a_trainer_dies_on_the_other_host_and_both_name_it(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    with started(several, hosts, tmp_path) as pair:
        strikes(reaches(pair.b, pair.run_b, 12), signal.SIGKILL)
        assert_equal(pair, undisturbed)
        for run in (pair.run_a, pair.run_b):
            (incident,) = incidents_of(run)
            assert (incident["class"], incident["host"]) == ("killed", "host-b")


@wide
@pytest.mark.parametrize("letter", ["a", "b"])
def test_a_host_loses_its_power_and_comes_back(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any], letter: str
) -> None:
    """Also that of node 0, where the store is."""
    with started(several, hosts, tmp_path) as pair:
        reaches(pair.a, pair.run_a, 12)
        host = hosts.a if letter == "a" else hosts.b
        host.power_cut()
        dead, other = (pair.a, pair.b) if letter == "a" else (pair.b, pair.a)
        until(lambda: dead.over, "the host is dead")
        pair.resume(letter)
        took = until(lambda: both_train(pair, 12), "both train again", 60)
        assert took <= BACK_S, took
        assert_equal(pair, undisturbed)
        assert not other.err.count("Traceback")
        (incident,) = incidents_of(tmp_path / ("b" if letter == "a" else "a"))
        assert incident["class"] == "peer-lost" and host.name in incident["explanation"]


def both_train(pair: Pair, since: int) -> bool:
    flights = [read_flight(run / "flight.bin") for run in (pair.run_a, pair.run_b)]
    return all(f is not None and f.began_s is not None and f.step > since for f in flights)


@wide
@pytest.mark.parametrize("letter", ["a", "b"])
def test_a_killed_supervisor_leaves_no_trainer_and_resume_brings_it_back(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any], letter: str
) -> None:
    with started(several, hosts, tmp_path) as pair:
        reaches(pair.b, pair.run_b, 12)
        live = pair.a if letter == "a" else pair.b
        live.kill().gone_after()
        pair.resume(letter)
        assert_equal(pair, undisturbed)


@wide
def test_a_host_without_the_run_gets_it_from_the_other(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    """Both ways: node 0 loses its disk, then the other one."""
    with started(several, hosts, tmp_path) as pair:
        for letter, step in (("a", 12), ("b", 27)):
            live = pair.a if letter == "a" else pair.b
            reaches(live, tmp_path / letter, step)
            live.kill()
            until(partial(_removed, tmp_path / letter), "its disk is empty")
            pair.resume(letter)
        assert_equal(pair, undisturbed)


def _removed(folder: Path) -> bool:
    shutil.rmtree(folder, ignore_errors=True)  # a keeper of its processes may still be about to go
    return not folder.exists()


@wide
def test_two_hosts_with_one_disk_have_folders_of_their_own(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any]
) -> None:
    run = tmp_path / "run"
    words = several.train(run, *joined(hosts))
    with several.start(run, words, hosts.a) as a:
        until(lambda: (run / ".node0").exists(), "node 0 has its folder")
        with several.start(run, words, hosts.b) as b:
            for ended in (a.wait(), b.wait()):
                assert ended.code == 0, ended.err
    assert results(run / "nodes" / "1") == results(run)


@wide
@pytest.mark.parametrize("letter", ["a", "b"])
def test_an_interrupt_on_one_host_ends_both_with_a_checkpoint(
    several: Several, hosts: Hosts, tmp_path: Path, undisturbed: dict[str, Any], letter: str
) -> None:
    with started(several, hosts, tmp_path) as pair:
        reaches(pair.a, pair.run_a, 12)
        (pair.a if letter == "a" else pair.b).send(signal.SIGINT)
        for ended in pair.ends():
            assert ended.code == 130, ended.err
            assert incidents_of(ended.run) == []
        pair.resume("a")
        pair.resume("b")
        assert_equal(pair, undisturbed)


@wide
def test_a_node_that_never_comes_is_named(several: Several, hosts: Hosts, tmp_path: Path) -> None:
    run = tmp_path / "a"
    words = several.train(run, *joined(hosts), scale__join_s=2)
    with several.start(run, words, hosts.a) as live:
        ended = live.wait()
    assert ended.code == 5 and "node 1" in ended.err and "did not come within" in ended.err
    run = tmp_path / "b"
    words = several.train(run, *joined(hosts), scale__join_s=2)
    with several.start(run, words, hosts.b) as live:
        ended = live.wait()
    assert ended.code == 5 and f"{hosts.a.name}:{PORT}" in ended.err
    assert not run.exists()


@wide
def test_hosts_with_other_options_are_refused_with_the_difference(
    several: Several, hosts: Hosts, tmp_path: Path
) -> None:
    a = several.train(tmp_path / "a", *joined(hosts))
    b = several.train(tmp_path / "b", *joined(hosts), train__seed=7)
    with (
        several.start(tmp_path / "a", a, hosts.a) as one,
        several.start(tmp_path / "b", b, hosts.b) as other,
    ):
        for ended in (one.wait(), other.wait()):
            assert ended.code == 2, ended.err
            assert "train.seed" in ended.err and "host-b" in ended.err
