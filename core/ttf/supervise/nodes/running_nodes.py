"""The trainers of this node in a run on several: over when all nodes know why."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

from ttf.incidents.death import Finding, KilledByUs, Remedy
from ttf.machine.memory.watch import Reading
from ttf.process.conversation import wait
from ttf.process.signals import Signals
from ttf.rundir.request import TrainerEnd
from ttf.rundir.run_folder import RunFolder
from ttf.supervise.events import Beat, Died, Event, now
from ttf.supervise.nodes.said import Account, Report, error_of
from ttf.supervise.nodes.verdict import Verdict
from ttf.supervise.running_ranks import RunningRanks, with_others
from ttf.supervise.running_trainer import MISTRUSTED
from ttf.supervise.written import written

if TYPE_CHECKING:
    from _typeshed import HasFileno

_LOOK_EVERY_S: Final = 0.25


class Talk(Protocol):
    """What node 0 and the others have in common."""

    def sockets(self) -> Sequence[HasFileno]: ...
    def step(self) -> None:
        """Reads and answers what has come."""

    def ending(self) -> bool | None:
        """Once: the attempt ends elsewhere. True: somebody was waited for in vain."""

    def report(self, report: Report) -> None: ...
    @property
    def verdict(self) -> Verdict | None: ...


class RunningNodes:
    def __init__(
        self, ranks: RunningRanks, talk: Talk, folder: RunFolder, signals: Signals, attempt: int
    ) -> None:
        self._ranks, self._talk = ranks, talk
        self._folder, self._signals, self._attempt = folder, signals, attempt
        self._reported = False

    def wait(self, until: float | None) -> list[Event]:
        events: list[Event] = []
        if self._reported:
            wait([], _LOOK_EVERY_S, self._signals, *self._talk.sockets())
        else:
            events = self._ranks.wait(until, self._talk.sockets())
        self._talk.step()
        late = self._talk.ending()
        if late is not None:
            self._ranks.end_soon(late=late)
        if self._ranks.over and not self._reported:
            self._ranks.finish()
            self._talk.report(self._report())
            self._reported = True
        return [*events, *self._still_waits()]

    def _still_waits(self) -> Iterator[Event]:
        # Trainers that are gone give no sign of life; they do not hang.
        if self._reported:
            last = self._ranks.ends[0]
            yield Beat(now=now(), at=now(), step=last.step, phase=last.phase or "end")

    def _report(self) -> Report:
        at = now()
        ends = tuple(replace(end, at=max(0.0, at - end.at)) for end in self._ranks.ends)
        account = None
        if self._ranks.failed:
            death, finding = self._ranks.told()
            record = self._ranks.end or {}
            account = Account(
                death=death,
                finding=finding,
                error=dict(record["error"]) if "error" in record else None,
                told=self._ranks.conclusive,
            )
        return Report(attempt=self._attempt, ends=ends, late=self._ranks.late, account=account)

    # --- the face of a trainer ----------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self._reported and self._talk.verdict is not None

    @property
    def pids(self) -> tuple[int, ...]:
        return self._ranks.pids

    @property
    def held(self) -> tuple[subprocess.Popen[bytes], ...]:
        return self._ranks.held

    @property
    def garbage(self) -> str:
        return self._ranks.garbage

    @property
    def tightest(self) -> Reading | None:
        return self._ranks.tightest

    @property
    def killed(self) -> tuple[KilledByUs, str]:
        return self._ranks.killed

    @killed.setter
    def killed(self, why: tuple[KilledByUs, str]) -> None:
        self._ranks.killed = why

    def send(self, message: Mapping[str, Any]) -> bool:
        return self._ranks.send(message) if not self._reported else False

    def dump_stacks(self) -> None:
        self._ranks.dump_stacks()

    def kill(self, why: KilledByUs, text: str) -> None:
        self._ranks.kill(why, text)

    def stop_tree(self) -> None:
        self._ranks.stop_tree()

    def continue_tree(self) -> None:
        self._ranks.continue_tree()

    def finish(self) -> int:
        return self._ranks.finish()

    @property
    def _verdict(self) -> Verdict:
        return self._talk.verdict or Verdict()

    @property
    def end(self) -> TrainerEnd | None:
        found = self._verdict
        if found.error is not None:
            return {"error": found.error}
        if found.account is None:
            return self._ranks.end
        error = error_of(found.account)
        return None if error is None else {"error": error}

    @property
    def conclusive(self) -> bool:
        found = self._verdict
        return found.error is not None or (found.account is not None and found.account.told)

    def death(self, code: int, say: Callable[[str], None]) -> tuple[Finding, Died]:
        account = self._verdict.account
        if account is None:  # all have left because of memory
            return self._ranks.death(code, say)
        finding = self._with_own_remedies(account)
        finding = with_others(finding, account.death, self._verdict.others)
        return finding, written(self._folder, account.death, finding, say)

    def _with_own_remedies(self, account: Account) -> Finding:
        """What changes the configuration is worked out here: another node only names the class."""
        from ttf.incidents.remedies import remedies_for, without_device

        death, finding = account.death, account.finding
        if account.error is not None and account.error.get("class") == MISTRUSTED:
            remedies: tuple[Remedy, ...] = (without_device(),)
        else:
            remedies = remedies_for(
                finding.name, self._ranks.flat, process=death.process, phase=death.phase or ""
            )
        return replace(finding, remedies=remedies if finding.ends_with is None else ())

    def close(self) -> None:
        self._ranks.close()
