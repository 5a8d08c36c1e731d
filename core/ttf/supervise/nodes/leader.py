"""Node 0 of a run: listens, knows who is there, and tells all what follows an attempt."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import DataMissing, PeerLost, Told, TtfError
from ttf.host.version import __version__
from ttf.process.conversation import wait
from ttf.process.error_document import to_document
from ttf.process.signals import SIGNALS, Signals
from ttf.rundir.rank_folders import add_documents, documents_of
from ttf.rundir.request import History, TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.supervise.attempts import Attempt, Running, Waiting
from ttf.supervise.decide import decide
from ttf.supervise.events import Died, Event, Signalled, Spawn, now
from ttf.supervise.nodes import gathering
from ttf.supervise.nodes.addresses import free_port, joined, listening, parsed
from ttf.supervise.nodes.gathering import BecameReady, Came, Gathering, Reported, Waited, WasLost
from ttf.supervise.nodes.line import Line
from ttf.supervise.nodes.places import attempt_of, standing
from ttf.supervise.nodes.running_nodes import RunningNodes
from ttf.supervise.nodes.said import (
    PROTOCOL,
    Again,
    Go,
    Hello,
    NotUnderstood,
    Report,
    Welcome,
    heard,
    said,
)
from ttf.supervise.nodes.same_folder import mark_folder, unmark_folder
from ttf.supervise.nodes.scale import MOST_RANKS, Scale
from ttf.supervise.nodes.verdict import LostNode, Verdict, on_this_clock, verdict
from ttf.supervise.restart_rules import Decision
from ttf.supervise.state import State
from ttf.text.numbers import duration

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from ttf.supervise.running_ranks import RunningRanks

_MOST_STRANGERS: Final = 64  # Connections that have not said who they are.
_HELLO_S: Final = 10.0
_HELLO_BYTES: Final = 16 << 10
_LOOK_EVERY_S: Final = 0.25
_SKEW_S: Final = 30.0


class Leader:
    def __init__(self, scale: Scale) -> None:
        """Listens at once. Raises ConfigError."""
        self._scale = scale
        self._host, self._port = parsed(scale.rendezvous)
        self._listener = listening(self._host, self._port)
        self._strangers: list[Line] = []
        self._leaving: list[Line] = []  # Those that were sent away.
        self._lines: dict[int, Line] = {}
        self._hosts: dict[int, str] = {0: socket.gethostname()}
        self._who: dict[int, str] = {}
        self._state = Gathering(nodes=scale.nodes, since=now(), patience_s=0.0, later_s=0.0)
        self._mark = secrets.token_hex(16)
        self.run_id = ""
        self._id_is_new = False
        self._folder: RunFolder | None = None
        self._resume = False
        self._signals: Signals | None = None
        self._show: Waiting = lambda text, seconds=0.0: None
        self._note: Callable[[str], None] = lambda _: None
        self._started: Attempt | None = None
        self._go_on: tuple[Spawn, History] | None = None
        self._reports: dict[int, Report] = {}
        self._lost: dict[int, LostNode] = {}
        self._ending: bool | None = None
        self.verdict: Verdict | None = None
        self._asked: list[int] = []  # Signals that ended other nodes.
        self._said_over = False
        self._failure: TtfError | None = None  # Found while something else was done.

    # --- a team -----------------------------------------------------------------------------

    def show(self, waiting: Waiting, note: Callable[[str], None]) -> None:
        self._show, self._note = waiting, note

    def begins(self, folder: RunFolder, request: TrainRequest, run_id: str) -> None:
        scale = self._scale
        self._folder, self._resume = folder, request.resume
        self._id_is_new = not run_id
        self.run_id = run_id or secrets.token_hex(8)
        self._state = replace(
            self._state, since=now(), patience_s=scale.join_s, later_s=scale.patience_s
        )
        mark_folder(folder, self._mark)

    def wait(self, signals: Signals, seconds: float) -> None:
        self._signals = signals
        wait([], min(_LOOK_EVERY_S, max(0.0, seconds) or _LOOK_EVERY_S), signals, *self.sockets())
        self.step()

    def events(self) -> Iterator[Event]:
        asked, self._asked = self._asked, []
        for signum in asked:
            yield Signalled(now=now(), signum=signum)

    def attempt(self, spawn: Spawn, history: History) -> Attempt | None:
        self._go_on = spawn, history
        me = self._state.members.get(0)
        if me is None:
            self._do(Came(now=now(), node=0, host=self._hosts[0]))
        if me is None or not me.ready:
            self._do(self._own_ready())
        self._do(Waited(now=now()))
        if self._failure is not None:
            raise self._failure
        if self._started is None:
            self._tell_who_is_missing()
        started, self._started = self._started, None
        return started

    def _own_ready(self) -> BecameReady:
        assert self._folder is not None
        found = standing(self._folder, self._scale.ranks)
        return BecameReady(now=now(), node=0, **vars(found))

    def _tell_who_is_missing(self) -> None:
        missing = [node for node in self._state.missing if node]
        if not missing:
            return
        names = ", ".join(self._name(node) for node in missing)
        self._show(
            f"Node 0 waits at {self._scale.rendezvous} for {names}.", now() - self._state.since
        )

    def _name(self, node: int) -> str:
        host = self._hosts.get(node)
        return f"node {node} ({host})" if host else f"node {node}"

    def among(self, running: RunningRanks) -> Running:
        assert self._folder is not None
        assert self._signals is not None
        return RunningNodes(running, self, self._folder, self._signals, self._state.attempt)

    def decided(self, state: State, event: Event) -> Decision:
        state, actions = decide(state, event)
        if isinstance(event, Died):
            spawn = next((action for action in actions if isinstance(action, Spawn)), None)
            if spawn is not None:
                found = self.verdict or Verdict()
                again = Again(because=spawn.because, account=found.account, others=found.others)
                self._tell_all("again", again)
        return state, actions

    def ended(self, error: Told | None) -> None:
        if not self._said_over:
            self._said_over = True
            document = None if error is None else dict(to_document(error))
            self._tell_all("over", document)

    def close(self) -> None:
        for line in (*self._strangers, *self._leaving):
            line.lost = line.lost or "gone"  # nothing is said to them
        for line in (*self._lines.values(), *self._strangers, *self._leaving):
            line.close()
        self._listener.close()
        if self._folder is not None:
            unmark_folder(self._folder)

    # --- what comes ---------------------------------------------------------------------------

    def sockets(self) -> Sequence[HasFileno]:
        lines = [line for line in (*self._lines.values(), *self._strangers) if not line.lost]
        return [self._listener, *lines]

    def step(self) -> None:
        self._leaving = [line for line in self._leaving if not line.has_left()]
        self._accept()
        for line in list(self._strangers):
            self._meet(line)
        for node, line in list(self._lines.items()):
            for message in line.take():
                self._hear(node, line, message)
            if line.lost and self._lines.get(node) is line:
                self._lose(node, line)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while len(self._strangers) + len(self._leaving) < _MOST_STRANGERS:
                connection, _ = self._listener.accept()
                limit_s = self._scale.exchange_timeout_s
                self._strangers.append(Line(connection, limit_s, _HELLO_BYTES))

    def _meet(self, line: Line) -> None:
        """Reads the hello of a connection."""
        found = line.take()
        if not found:
            if line.lost or now() - line.since > _HELLO_S:
                self._dismiss(line)
            return
        try:
            kind, hello = heard(found[0])
        except NotUnderstood:
            kind, hello = "", None
        if kind != "hello" or self._folder is None:
            self._dismiss(line)
            return
        node, refusal = self._place_for(hello)
        if refusal:
            # A place may become free: who has it is perhaps gone, and nobody knows it yet.
            line.send(said("refused" if node < 0 else "later", refusal))
            self._dismiss(line)
            return
        self._strangers.remove(line)
        if node in self._lines:
            self._lines[node].lost = "gone"
            self._lose(node, self._lines[node])
        self._welcome(node, hello, line)

    def _dismiss(self, line: Line) -> None:
        # Never waited for: whoever connects and stays would stop this supervisor.
        line.leave()
        self._strangers.remove(line)
        self._leaving.append(line)

    def _place_for(self, hello: Hello) -> tuple[int, str]:
        """The number of a node that says hello, and why it cannot have it; -1: it never can."""
        here = self._hosts[0]
        if hello.protocol != PROTOCOL or hello.ttf != __version__:
            return -1, f"{here} has ttf {__version__}, {hello.host} has ttf {hello.ttf}."
        if hello.nodes != self._scale.nodes:
            return -1, f"{here} was started with --nodes {self._scale.nodes}, not {hello.nodes}."
        if hello.run_id and hello.run_id != self.run_id and not self._may_adopt():
            return (
                -1,
                f"Here is another run ({self.run_id}), not that of its folder ({hello.run_id}).",
            )
        for node, who in self._who.items():
            if who == hello.who:
                return node, ""
        free = [n for n in range(1, self._scale.nodes) if n not in self._lines]
        wanted = [hello.node] if hello.node >= 0 else free
        if not wanted or wanted[0] not in free:
            taken = ", ".join(self._name(node) for node in self._lines)
            return 0, f"The places of this run are taken now: {taken}."
        # Who comes back gets its number again.
        again = [n for n in wanted if self._hosts.get(n) == hello.host]
        new = [n for n in wanted if n not in self._hosts]
        return (*again, *new, *wanted)[0], ""

    def _may_adopt(self) -> bool:
        """Node 0 may have lost its disk: then the run is that of the others."""
        return self._id_is_new and not self._lines

    def _welcome(self, node: int, hello: Hello, line: Line) -> None:
        if hello.run_id and self._may_adopt():
            self.run_id, self._id_is_new = hello.run_id, False
        line.known()
        self._lines[node], self._who[node] = line, hello.who
        self._hosts[node] = hello.host[:255]
        off = hello.time - time.time()
        if abs(off) > _SKEW_S:
            self._note(
                f"The clock of {hello.host} is {abs(off):,.0f} s {'ahead' if off > 0 else 'behind'}. "
                "The training does not depend on it, but times in logs and incidents differ."
            )
        line.send(said("welcome", Welcome(node=node, run_id=self.run_id, mark=self._mark)))
        self._do(Came(now=now(), node=node, host=self._hosts[node]))

    def _hear(self, node: int, line: Line, message: dict[str, Any]) -> None:
        try:
            kind, content = heard(message)
        except NotUnderstood as error:
            line.garbage, line.lost = str(error), "gone"
            return
        match kind:
            case "ready":
                ranks = min(MOST_RANKS, max(1, content.ranks))
                found = replace(content, ranks=ranks)
                self._do(BecameReady(now=now(), node=node, **vars(found)))
            case "report" if content.attempt == self._state.attempt:
                self._reports[node] = on_this_clock(content, now())
                self._do(Reported(now=now(), node=node, well=content.well, late=content.late))
            case "documents":
                self._take_documents(content)
            case "stopping" if content in SIGNALS:
                self._asked.append(content)
            case _:
                pass

    def _take_documents(self, found: dict[str, Any]) -> None:
        assert self._folder is not None
        try:
            add_documents(self._folder, found)
        except TtfError as error:
            self._failure = error
        self._do(self._own_ready())

    def _lose(self, node: int, line: Line) -> None:
        line.close()
        del self._lines[node]
        self._lost[node] = LostNode(
            node=node, host=self._hosts[node], how=line.lost, silent_s=line.silent_s
        )
        self._do(WasLost(now=now(), node=node, how=line.lost))

    # --- what is done about it -----------------------------------------------------------------

    def report(self, report: Report) -> None:
        self._reports[0] = on_this_clock(report, now())
        self._do(Reported(now=now(), node=0, well=report.well, late=report.late))

    def ending(self) -> bool | None:
        late, self._ending = self._ending, None
        return late

    def _do(self, event: gathering.Event) -> None:
        self._state, actions = gathering.gather(self._state, event)
        for action in actions:
            match action:
                case gathering.Fetch():
                    self._lines[action.node].send(said("want", "documents"))
                case gathering.StartAttempt():
                    self._start(action)
                case gathering.EndAttempt():
                    self._end_on(action)
                case gathering.Conclude():
                    self.verdict = verdict(self._reports, self._lost)
                case gathering.Missing():
                    self._give_up(action.nodes)

    def _end_on(self, action: gathering.EndAttempt) -> None:
        for node in action.nodes:
            if node == 0:
                self._ending = action.late
            elif node in self._lines:
                self._lines[node].send(said("end", action.late))

    def _give_up(self, nodes: Iterable[int]) -> None:
        names = ", ".join(self._name(node) for node in nodes)
        waited = duration(now() - self._state.since)
        self._failure = PeerLost(
            f"These nodes of the run did not come within {waited}: {names}.",
            hint="Start the same command there, and look at what it says. Is the address "
            f"{self._scale.rendezvous} the same on all nodes, and can they reach it? How long node 0 "
            "waits: scale.join_s at the start, scale.patience_s later.",
        )

    def _start(self, action: gathering.StartAttempt) -> None:
        assert self._folder is not None
        assert self._go_on is not None
        if self._resume and action.source is None:
            problem = "There is no run to continue: none of the nodes has its run.toml."
            self._failure = DataMissing(problem)
            return
        spawn, history = self._go_on
        members = self._state.members
        counts = [members[node].ranks for node in range(self._state.nodes)]
        hosts = tuple(self._hosts[n] for n, count in enumerate(counts) for _ in range(count))
        go = Go(
            attempt=action.attempt,
            first=0,
            store=joined(self._host, free_port(self._host)),
            hosts=hosts,
            overlay=spawn.overlay,
            save_every=spawn.save_every,
            history=history,
        )
        documents = documents_of(self._folder)
        for node, line in self._lines.items():
            missing = {} if members[node].has_run else documents
            first = sum(counts[:node])
            line.send(said("go", replace(go, first=first, documents=missing)))
        self._reports, self._lost, self._ending, self.verdict = {}, {}, None, None
        self._started = attempt_of(go, self._scale)

    def _tell_all(self, kind: str, content: Any) -> None:
        for line in self._lines.values():
            line.send(said(kind, content))
