"""A node of a run that is not node 0: comes, does what node 0 says, and comes again when it was lost."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import ConfigError, PeerLost, Stopped, Told
from ttf.host.version import __version__
from ttf.process.conversation import wait
from ttf.process.signals import Signals
from ttf.rundir.rank_folders import add_documents, documents_of
from ttf.rundir.request import History, TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.supervise.attempts import Attempt, Running, Waiting
from ttf.supervise.decide import decide
from ttf.supervise.events import Died, Event, Spawn, Stop, now
from ttf.supervise.nodes.addresses import parsed, resolved
from ttf.supervise.nodes.line import Line
from ttf.supervise.nodes.places import as_error, attempt_of, standing
from ttf.supervise.nodes.running_nodes import RunningNodes
from ttf.supervise.nodes.said import PROTOCOL, Go, Hello, NotUnderstood, Report, heard, said
from ttf.supervise.nodes.scale import Scale
from ttf.supervise.nodes.verdict import LostNode, Verdict, on_this_clock, verdict
from ttf.supervise.restart_rules import Decision, over
from ttf.supervise.state import State
from ttf.text.numbers import duration

if TYPE_CHECKING:
    from _typeshed import HasFileno

    from ttf.supervise.running_ranks import RunningRanks

_CONNECT_S: Final = 2.0
_TRY_EVERY_S: Final = 0.5
_LOOK_EVERY_S: Final = 0.25


class Follower:
    def __init__(self, scale: Scale, run_id: str = "") -> None:
        """`run_id`: of the run in its folder, if there is one. Raises ConfigError."""
        self._scale = scale
        self._host, self._port = parsed(scale.rendezvous)
        resolved(self._host, self._port)  # a name that means nothing is refused at once
        self.run_id = run_id
        self.node = -1 if scale.node is None else scale.node
        self.mark = ""
        self._who = secrets.token_hex(8)
        self._later = ""  # Why node 0 has no place for it now.
        self._line: Line | None = None
        self._greeted = False
        self._try_at = 0.0
        self._alone_since = now()  # Since when there is no line.
        self._patience_s = scale.join_s
        self._folder: RunFolder | None = None
        self._signals: Signals | None = None
        self._show: Waiting = lambda text, seconds=0.0: None
        self._ready = False
        self._go: Go | None = None
        self._ending: bool | None = None
        self._report: Report | None = None
        self._verdict: Verdict | None = None  # Of node 0.
        self._because = ""  # What it does next.
        self._lost: dict[int, LostNode] = {}
        self._attempts = 0
        self._failure: Told | None = None  # What ends the run, outside of an attempt.

    def meet(self, show: Waiting) -> None:
        """Waits until node 0 has said which node this is. Raises PeerLost and ConfigError."""
        self._show = show
        while not self._greeted:
            self.step()
            if self._failure is not None:
                raise self._failure
            self._look_at_the_clock()
            if not self._greeted:
                time.sleep(_LOOK_EVERY_S)
        self._show("")

    # --- a team -----------------------------------------------------------------------------

    def show(self, waiting: Waiting, note: Callable[[str], None]) -> None:
        self._show = waiting

    def begins(self, folder: RunFolder, request: TrainRequest, run_id: str) -> None:
        self._folder = folder

    def wait(self, signals: Signals, seconds: float) -> None:
        self._signals = signals
        wait([], min(_LOOK_EVERY_S, max(0.0, seconds) or _LOOK_EVERY_S), signals, *self.sockets())
        self.step()

    def events(self) -> Iterator[Event]:
        yield from ()

    def attempt(self, spawn: Spawn, history: History) -> Attempt | None:
        assert self._folder is not None
        if self._failure is not None:
            raise self._failure
        if self._greeted and not self._ready and self._line is not None:
            self._ready = True
            self._line.send(said("ready", standing(self._folder, self._scale.ranks)))
        go, self._go = self._go, None
        if go is None:
            self._look_at_the_clock()
            return None
        add_documents(self._folder, go.documents)
        self._ready = False
        self._attempts = go.attempt
        return attempt_of(go, self._scale)

    def _look_at_the_clock(self) -> None:
        where = f"node 0 at {self._scale.rendezvous}"
        if self._line is not None and self._greeted:
            self._show(f"This is node {self.node}. It waits until all nodes are ready.")
            return
        waited = now() - self._alone_since
        self._show(f"Waiting for {where}.{self._later}", waited)
        if waited > self._patience_s:
            raise PeerLost(
                f"There was no answer of {where} for {duration(waited)}.{self._later}",
                hint="Start the same command on node 0, and look at what it says. Can this machine "
                "reach the address? How long it tries: scale.join_s at the start, scale.patience_s "
                "later. The checkpoints here are kept: ttf resume.",
            )

    def among(self, running: RunningRanks) -> Running:
        assert self._folder is not None
        assert self._signals is not None
        return RunningNodes(running, self, self._folder, self._signals, self._attempts)

    def decided(self, state: State, event: Event) -> Decision:
        if not isinstance(event, Died):
            return decide(state, event)
        lost = f"Incident {event.incident}, {event.name}: this node tries to reach node 0 again."
        return following(state, event, self._because or lost)

    def ended(self, error: Told | None) -> None:
        if isinstance(error, Stopped) and self._line is not None:
            signum = int(error.exit_code) - 128
            self._line.send(said("stopping", signum))

    def close(self) -> None:
        if self._line is not None:
            self._line.close()

    # --- what comes ---------------------------------------------------------------------------

    def sockets(self) -> Sequence[HasFileno]:
        return [] if self._line is None or self._line.lost else [self._line]

    def step(self) -> None:
        if self._line is None:
            self._connect()
        line = self._line
        if line is None:
            return
        for message in line.take():
            try:
                self._hear(*heard(message))
            except NotUnderstood as error:
                line.garbage, line.lost = str(error), "gone"
        if line.lost:
            self._lose(line)

    def _connect(self) -> None:
        if now() < self._try_at:
            return
        self._try_at = now() + _TRY_EVERY_S
        try:
            family, address = resolved(self._host, self._port)
        except ConfigError:
            return  # the name server is perhaps behind the same cable
        connection = socket.socket(family, socket.SOCK_STREAM)
        connection.settimeout(_CONNECT_S)
        try:
            connection.connect(address)
        except OSError:
            connection.close()
            return
        self._line = Line(connection, self._scale.exchange_timeout_s)
        hello = Hello(
            protocol=PROTOCOL,
            ttf=__version__,
            host=socket.gethostname(),
            nodes=self._scale.nodes,
            node=self.node,
            who=self._who,
            run_id=self.run_id,
            time=time.time(),
        )
        self._line.send(said("hello", hello))

    def _hear(self, kind: str, content: Any) -> None:
        match kind:
            case "welcome":
                self.node, self.run_id, self.mark = content.node, content.run_id, content.mark
                self._greeted, self._ready, self._later = True, False, ""
                self._patience_s = self._scale.patience_s
            case "refused":
                self._failure = ConfigError(
                    f"Node 0 at {self._scale.rendezvous} refused this node. {content}",
                    hint="All nodes need the same command: the same version, --nodes and run.",
                )
            case "want" if self._folder is not None and self._line is not None:
                self._line.send(said("documents", documents_of(self._folder)))
            case "later":
                self._later = f" {content}"
            case "go":
                self._go = content
                self._report = self._verdict = self._ending = None
                self._because, self._lost = "", {}
            case "end":
                self._ending = content
            case "again":
                self._because = content.because
                self._verdict = Verdict(account=content.account, others=content.others)
            case "over":
                self._conclude(content)
            case _:
                pass

    def _conclude(self, document: Any) -> None:
        """The run is over: in order, or with this error."""
        self._failure = as_error(document)
        self._ending = False
        self._verdict = Verdict() if document is None else Verdict(error=document)

    def _lose(self, line: Line) -> None:
        line.close()
        self._line, self._greeted, self._ready, self._go = None, False, False, None
        self._alone_since, self._try_at = now(), 0.0
        lost = LostNode(node=0, host=self._host, how=line.lost, silent_s=line.silent_s)
        self._lost = {0: lost}
        self._ending = False

    # --- an attempt ------------------------------------------------------------------------------

    def report(self, report: Report) -> None:
        self._report = on_this_clock(report, now())
        if self._line is not None:
            self._line.send(said("report", report))

    def ending(self) -> bool | None:
        late, self._ending = self._ending, None
        return late

    @property
    def verdict(self) -> Verdict | None:
        if self._verdict is None and self._report is not None and self._lost:
            # Nobody else will say it. Where all ranks of this node have finished, all others have.
            well = self._report.well
            self._verdict = Verdict() if well else verdict({self.node: self._report}, self._lost)
        return self._verdict


def following(state: State, died: Died, because: str) -> Decision:
    """Another attempt, as node 0 said; or the end that a signal here asked for."""
    if state.stopping is not None:
        return over(state), (Stop(signum=state.stopping.signum),)
    history = replace(
        state.history,
        restarts=state.history.restarts + 1,
        incidents=(*state.history.incidents, died.incident),
    )
    state = replace(state, stage="spawning", trainer=None, history=history)
    return state, (Spawn(overlay=state.overlay, because=because),)
