"""Node 0 and another node over a real connection, without trainers: who may come, what each is told."""

from __future__ import annotations

import contextlib
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ttf.errors import ConfigError, EntryRefused, PeerLost, RanksDisagree, Stopped
from ttf.host import version
from ttf.process import messages
from ttf.process.signals import Signals
from ttf.rundir.rank_folders import inner_folder
from ttf.rundir.request import History, TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.supervise.attempts import Attempt
from ttf.supervise.events import Signalled, Spawn
from ttf.supervise.nodes import follower as following, line
from ttf.supervise.nodes.follower import Follower
from ttf.supervise.nodes.leader import Leader
from ttf.supervise.nodes.said import Report
from ttf.supervise.nodes.same_folder import own_path
from ttf.supervise.nodes.scale import Scale
from ttf.supervise.rank_ends import RankEnd

LONGEST_S = 30.0


class Two:
    """Both ends, moved by hand."""

    def __init__(self, root: Path, *, run_id: str = "", **scale: float) -> None:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        self.root = root
        self.scale = Scale(nodes=2, rendezvous=f"127.0.0.1:{port}", **scale)  # type: ignore[arg-type]
        self.leader = Leader(self.scale)
        self.folders = [inner_folder(root / "a"), inner_folder(root / "b")]
        self.request = TrainRequest(run_dir=str(root / "a"))
        self.leader.begins(self.folders[0], self.request, run_id)
        self.signals = Signals()
        self.attempts: list[Attempt | None] = [None, None]
        self.follower: Follower | None = None

    def come(self, *, run_id: str = "", ranks: int = 1) -> Follower:
        self.follower = Follower(replace(self.scale, ranks=ranks, node=1), run_id)
        self.follower.begins(self.folders[1], self.request, run_id)
        return self.follower

    def turn(self) -> None:
        for number, node in enumerate((self.leader, self.follower)):
            if node is None:
                continue
            node.wait(self.signals, 0.01)
            if self.attempts[number] is None:
                self.attempts[number] = node.attempt(Spawn(), History())

    def until(self, seen: Callable[[], object]) -> None:
        ends_at = time.monotonic() + LONGEST_S
        while not seen():
            assert time.monotonic() < ends_at
            self.turn()

    def start(self) -> None:
        self.attempts = [None, None]
        self.until(lambda: None not in self.attempts)

    def close(self) -> None:
        if self.follower is not None:
            self.follower.close()
        self.leader.close()
        self.signals.__exit__()


@pytest.fixture
def two(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Two]]:
    # Both ends are one thread here: neither reads while the other waits for its last words.
    monkeypatch.setattr(line, "_LAST_WORDS_S", 0.05)
    made: list[Two] = []

    def make(**more: object) -> Two:
        made.append(Two(tmp_path, **more))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_both_get_their_places_in_one_world(two: Callable[..., Two]) -> None:
    pair = two()
    pair.come(ranks=2)
    pair.start()
    here, there = pair.attempts
    assert here is not None and there is not None
    assert [place.rank for place in (*here.places, *there.places)] == [0, 1, 2]
    assert {place.size for place in (*here.places, *there.places)} == {3}
    assert len({place.store for place in (*here.places, *there.places)}) == 1
    assert [place.local_rank for place in there.places] == [0, 1]
    assert here.places[0].host == socket.gethostname()


def test_the_run_has_one_id_on_both(two: Callable[..., Two]) -> None:
    pair = two()
    other = pair.come()
    pair.start()
    assert other.run_id == pair.leader.run_id != ""


def test_a_node_of_another_run_is_refused(two: Callable[..., Two]) -> None:
    pair = two(run_id="1111")
    pair.come(run_id="2222")
    with pytest.raises(ConfigError, match="refused this node. Here is another run"):
        pair.start()


def test_a_node_with_another_version_is_refused(
    two: Callable[..., Two], monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = two()
    pair.come()
    monkeypatch.setattr(following, "__version__", "0.0.1")
    with pytest.raises(ConfigError, match=rf"has ttf {version.__version__}, .* has ttf 0.0.1"):
        pair.start()


def test_a_run_without_an_id_takes_that_of_the_node_that_has_the_run(
    two: Callable[..., Two],
) -> None:
    pair = two()
    other = pair.come(run_id="2222")
    pair.start()
    assert pair.leader.run_id == other.run_id == "2222"


@pytest.mark.parametrize("having", [0, 1])
def test_who_has_no_run_gets_its_two_documents(two: Callable[..., Two], having: int) -> None:
    pair = two()
    folder = pair.folders[having]
    (folder.path / "manifest.json").write_text('{"format": 1}')
    (folder.path / "run.toml").write_text("[train]\nsteps = 3\n")
    pair.come()
    pair.start()
    for each in pair.folders:
        assert RunFolder(each.path).is_run()
        assert (each.path / "run.toml").read_text() == "[train]\nsteps = 3\n"


def test_strangers_do_not_disturb(two: Callable[..., Two]) -> None:
    pair = two()
    port = int(pair.scale.rendezvous.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port)) as stranger:
        stranger.sendall(b"GET / HTTP/1.0\r\n\r\n" * 100)
        with socket.create_connection(("127.0.0.1", port)):  # says nothing
            pair.come()
            pair.start()


def test_who_stays_and_says_nothing_of_use_is_not_waited_for(
    two: Callable[..., Two], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Node 0 waited a second for each: sixty-four of them stopped it for a minute."""
    pair = two()
    monkeypatch.setattr(line, "_LAST_WORDS_S", 5.0)
    address = "127.0.0.1", int(pair.scale.rendezvous.rpartition(":")[2])
    with contextlib.ExitStack() as stay:
        nonsense: tuple[dict[str, Any], ...] = ({"hello": {}}, {"report": 1})
        for said in nonsense * 20:
            stranger = stay.enter_context(socket.create_connection(address))
            stranger.sendall(messages.encode(said))
        # Before any of them is waited for, all have been sent away.
        pair.until(lambda: len(pair.leader._leaving) == 40)
    pair.until(lambda: not pair.leader._leaving)


def test_a_stranger_has_no_room_for_more_than_a_hello(two: Callable[..., Two]) -> None:
    pair = two()
    with socket.create_connection(
        ("127.0.0.1", int(pair.scale.rendezvous.rpartition(":")[2]))
    ) as stranger:
        stranger.sendall(struct.pack("<II", 1 << 20, 0))
        pair.until(lambda: pair.leader._leaving)


def died(rank: int) -> Report:
    from ttf.incidents.classify import classify
    from ttf.incidents.death import Death
    from ttf.supervise.nodes.said import Account

    death = Death(process="trainer", pid=1, time=1.0, signal=9, rank=rank, host="b")
    end = RankEnd(rank=rank, host="b", kind="died", step=4, at=0.0, name="killed")
    return Report(attempt=1, ends=(end,), account=Account(death=death, finding=classify(death)))


def test_a_death_there_ends_the_attempt_here_and_its_cause_is_known_on_both(
    two: Callable[..., Two],
) -> None:
    from ttf.incidents.death import Death

    pair = two()
    other = pair.come()
    pair.start()
    other.report(died(1))
    ending: list[bool] = []

    def told() -> bool:
        late = pair.leader.ending()
        ending.extend([] if late is None else [late])
        return bool(ending)

    pair.until(told)
    assert ending == [False] and pair.leader.verdict is None
    lost = died(1)
    assert lost.account is not None
    own = RankEnd(rank=0, host="a", kind="lost", step=4, at=0.0, name="peer-lost")
    death: Death = lost.account.death
    pair.leader.report(Report(attempt=1, ends=(own,), account=lost.account))
    assert pair.leader.verdict is not None and pair.leader.verdict.account is not None
    assert pair.leader.verdict.account.death == death


def test_an_error_that_ends_the_run_is_raised_on_both(two: Callable[..., Two]) -> None:
    pair = two()
    pair.come()
    pair.start()
    pair.leader.ended(RanksDisagree("host-b has other data.", hint="Compare them."))
    pair.attempts = [pair.attempts[0], None]
    with pytest.raises(RanksDisagree, match="host-b has other data"):
        pair.until(lambda: False)


def test_a_signal_on_the_other_node_reaches_node_0(two: Callable[..., Two]) -> None:
    pair = two()
    other = pair.come()
    pair.start()
    other.ended(Stopped(signal.SIGINT, "stopped"))
    found: list[object] = []

    def told() -> bool:
        found.extend(pair.leader.events())
        return bool(found)

    pair.until(told)
    assert isinstance(found[0], Signalled) and found[0].signum == signal.SIGINT


def test_a_node_that_went_comes_back_for_the_next_attempt(two: Callable[..., Two]) -> None:
    pair = two()
    first = pair.come()
    pair.start()
    first.close()
    pair.until(lambda: pair.leader.ending() is not None)
    own = RankEnd(rank=0, host="a", kind="lost", step=4, at=0.0, name="peer-lost")
    account = died(0).account
    pair.leader.report(Report(attempt=1, ends=(own,), account=account))
    verdict = pair.leader.verdict
    assert verdict is not None and verdict.account is not None
    assert verdict.account.finding.name == "peer-lost"
    pair.come(run_id=pair.leader.run_id)
    pair.start()
    assert pair.attempts[1] is not None and pair.attempts[1].places[0].attempt == 2


def test_a_node_that_lost_node_0_takes_its_place_again_though_node_0_did_not_notice(
    two: Callable[..., Two],
) -> None:
    pair = two()
    other = pair.come()
    pair.start()
    assert other._line is not None
    other._line.lost = "silent"  # of one direction: the other end still hears it
    other.step()
    pair.until(lambda: pair.leader.ending() is not None)
    own = RankEnd(rank=0, host="a", kind="lost", step=4, at=0.0, name="peer-lost")
    pair.leader.report(Report(attempt=1, ends=(own,), account=died(0).account))
    pair.start()
    assert pair.attempts[1] is not None and pair.attempts[1].places[0].attempt == 2


def test_a_node_too_many_waits_and_is_told_why(two: Callable[..., Two]) -> None:
    pair = two()
    pair.come()
    pair.start()
    third = Follower(replace(pair.scale, node=1, join_s=0.5))

    def tries() -> bool:
        third.step()
        with contextlib.suppress(PeerLost):
            third._look_at_the_clock()
        return "The places of this run are taken now: node 1" in third._later

    pair.until(tries)
    third.close()


def test_a_missing_node_is_named_after_the_patience(two: Callable[..., Two]) -> None:
    pair = two(join_s=0.2)
    with pytest.raises(PeerLost, match="did not come within .*: node 1"):
        pair.until(lambda: False)


def test_a_node_that_finds_no_node_0_says_where_it_looked(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    scale = Scale(nodes=2, rendezvous=f"127.0.0.1:{port}", node=1, join_s=0.3)
    said: list[str] = []

    def show(text: str, seconds: float = 0.0) -> None:
        said.append(text)

    with pytest.raises(PeerLost, match=f"no answer of node 0 at 127.0.0.1:{port}"):
        Follower(scale).meet(show)
    assert any("Waiting for node 0" in text for text in said)


def test_on_one_disk_only_node_0_has_the_folder(two: Callable[..., Two]) -> None:
    pair = two()
    other = pair.come()
    pair.start()
    path = pair.folders[0].path
    assert own_path(path, 1, other.mark) == path / "nodes" / "1"
    assert own_path(pair.folders[1].path, 1, other.mark) == pair.folders[1].path
    (path / "nodes").symlink_to(pair.root)
    with pytest.raises(EntryRefused, match="is a symbolic link"):
        own_path(path, 1, other.mark)
