"""Mining for a run: one warm worker process, a new one after a death, then the next miner.

Use: `with MinerWorkers(...) as workers: workers.mine(...)`. Call it from one thread that lives as
long as it does (the trainer's main thread): on Linux the worker is tied to the thread that first
needed it.
"""

from __future__ import annotations

import contextlib
import time
import traceback
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ttf.contracts import Progress
from ttf.errors import BadAnswer, GaveUp, MinerFailed, PluginUnavailable, TtfError
from ttf.incidents.death import Death, KilledByUs
from ttf.incidents.gather import Witness
from ttf.incidents.inputs import look_at
from ttf.machine.thread_variables import thread_environment
from ttf.mining import failures
from ttf.mining.failures import AttemptFailed
from ttf.mining.job import Isolation, MinerChoice, MiningJob, MiningReport
from ttf.mining.miner_results import Journal, checked_report, num_queries
from ttf.process import serve
from ttf.process.child import WORKER, Child
from ttf.process.conversation import Conversation, NoAnswer
from ttf.rundir.confined import write_inside
from ttf.rundir.removing import remove_if_there

if TYPE_CHECKING:
    from ttf.mining.worker_main import Searcher

Say = Callable[[str], None]
# Gets every failed attempt, and a sentence: what is done about it.
OnDeath = Callable[[Death, str], None]
ATTEMPTS: Final = 2  # Deaths in a row on one request, until the next miner takes over.
LAST_ATTEMPTS: Final = 4  # The same if no other miner is left: giving up would end the run.
_STACKS: Final = "miner-faulthandler.txt"
_GRACE_S: Final = 5.0
_LOOK_EVERY_S: Final = 1.0


class Worker:
    """One process that answers requests for one miner; its side is `ttf.mining.worker_main`.

    Make it in a thread that lives long enough: the process ends with that thread.
    """

    def __init__(self, miner: str, threads: int, stacks: Path | None) -> None:
        """`stacks` is a file that exists; None: stacks go to standard error."""
        self.miner = miner
        self.threads = threads
        self._stacks = stacks
        self._inputs: tuple[str, ...] = ()
        self._looked_at = 0.0
        self._child = Child(
            serve.warm("ttf.mining.worker_main", stacks),
            variable=WORKER,
            # Fixed before a library loads: OpenMP reads them once.
            environment=thread_environment(threads),
        )
        self.pid = self._child.pid
        self.alive = self._child.alive
        self.gone_within = self._child.gone_within
        self._conversation = Conversation(self._child)
        self.stderr = self._conversation.stderr
        self.witness = Witness("miner", self.pid, stacks=stacks)
        weakref.finalize(self, self.witness.close)

    def watch(self, inputs: Sequence[str]) -> None:
        """Notes the state of these files, to recognise a death from their change."""
        if tuple(inputs) != self._inputs:
            self._inputs = tuple(inputs)
            self.witness.inputs = ()
            with contextlib.suppress(OSError):  # opening an unreadable file raises later
                self.witness.inputs = look_at(inputs)

    def look(self) -> None:
        # For a report after a death; cheap enough to be called often.
        if time.monotonic() - self._looked_at > _LOOK_EVERY_S:
            self.witness.look()
            self._looked_at = time.monotonic()

    def ask(
        self,
        job: MiningJob,
        deadline_s: float,
        hear: Callable[[Mapping[str, Any]], bool],
        wake: Callable[[], None],
    ) -> None:
        """See `Conversation.ask`."""
        message = serve.task("mine", asdict(job))
        self._conversation.ask(message, deadline_s, hear, wake, stacks=self._stacks)

    def end(self) -> int:
        """Kills it and its child processes; returns its return code. Its output stays readable."""
        code = self._child.end(0.0)
        self._conversation.take()
        return code

    def close(self) -> None:
        """Ends it, if it still runs, and frees it. May be called again."""
        self._child.close()
        self.witness.close()


class MinerWorkers:
    """Keeps at most one worker, from its first job until `release` or `close`. With isolation
    "none" mining runs in this process, and a native crash ends it."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        say: Say,
        logs: Path | None = None,
        beat: Callable[[], None] = lambda: None,
        on_death: OnDeath | None = None,
    ) -> None:
        """`logs`: folder for the worker's stacks, and for its standard error after a death unless
        `on_death` keeps it. `beat` is called several times a second while waiting for a worker."""
        self._isolation = isolation
        self._say = say
        self._logs = logs
        self._beat = beat
        self._on_death = on_death
        self._worker: Worker | None = None
        self._settings: Mapping[str, Any] = {}
        self._fallback: Sequence[str] = ()
        self._searcher: Searcher | None = None

    @property
    def pid(self) -> int | None:
        """Process id of the warm worker."""
        return None if self._worker is None else self._worker.pid

    def mine(
        self,
        job: MiningJob,
        fallback: Sequence[MinerChoice],
        *,
        deadline_s: Callable[[MiningJob], float],
        progress: Progress,
    ) -> MiningReport:
        """Tries the job's miner, a second time in a new process, then each of `fallback` the same way.

        Reports every death. Raises GaveUp when no miner is left, a TtfError that is not the miner's
        fault, and what `progress` raises.
        """
        deaths: list[str] = []
        self._fallback = [choice.name for choice in fallback]
        miners = [MinerChoice(name=job.miner, options=job.options)]
        miners += [choice for choice in fallback if choice.name != job.miner]
        for place, choice in enumerate(miners):
            if place:
                self._say(
                    f"MINER REPLACED: {choice.name!r} takes over from {miners[place - 1].name!r}."
                )
            now = job.with_miner(choice)
            attempts = ATTEMPTS if place + 1 < len(miners) else LAST_ATTEMPTS
            for attempt in range(1, attempts + 1):
                try:
                    report = self._attempt(now, deadline_s(now), progress)
                except AttemptFailed as failed:
                    deaths.append(str(failed.error))
                    again = attempt < attempts
                    text = failures.as_sentence(str(failed.error))
                    text += " ttf tries once more." if again else ""
                    self._say(f"MINER FAILED ({choice.name}, attempt {attempt}): {text}")
                    next_ones = miners[place + 1 :]
                    self._tell(failed.death, failures.remedy(again, self._isolation, next_ones))
                except PluginUnavailable as error:
                    if not place:
                        raise
                    self._say(f"{error} {error.hint}")
                    break
                else:
                    return replace(report, deaths=tuple(deaths))
        tried = ", ".join(choice.name for choice in miners)
        last = deaths[-1] if deaths else "none of them works on this machine"
        raise GaveUp(
            f"All miners failed ({tried}). The last failure: {last}",
            hint=failures.hint_without(miners),
        )

    def run(self, job: MiningJob, deadline_s: float, progress: Progress) -> MiningReport:
        """One attempt. Raises MinerFailed if the miner is the cause, another TtfError if not.

        What `progress` raises ends the attempt: at once if the miner has a process, else after a
        chunk of queries. The deadline holds for isolation = "process" only: nothing can stop native
        code in this process.
        """
        try:
            return self._attempt(job, deadline_s, progress)
        except AttemptFailed as failed:
            self._tell(failed.death, "")
            raise failed.error from None

    def release(self) -> None:
        """Frees the memory of an idle worker, or of the index kept in this process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.close()
        searcher, self._searcher = self._searcher, None
        if searcher is not None:
            searcher.release()

    def close(self) -> None:
        """Ends and frees everything; may be called again, and a later job starts a new worker."""
        self.release()
        _remove_if_empty(self._logs)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- one attempt ----------------------------------------------------------------------

    def _attempt(self, job: MiningJob, deadline_s: float, progress: Progress) -> MiningReport:
        self._settings = failures.settings_of(job, self._isolation, self._fallback)
        if self._isolation == "none":
            return self._in_process(job, progress)
        return self._in_worker(job, deadline_s, progress)

    def _in_process(self, job: MiningJob, progress: Progress) -> MiningReport:
        from ttf.mining.worker_main import Searcher

        def advance(done: int, total: int) -> None:
            try:
                self._beat()
                progress(done, total)
            except Exception as error:
                raise _ProgressRaised(error) from error

        self._searcher = self._searcher or Searcher()
        try:
            return self._searcher.do(job, self._say, advance)
        except _ProgressRaised as passed:
            raise passed.error from None
        except MinerFailed as error:
            raise failures.failed_here(job, error, self._settings) from error
        except TtfError:
            raise
        except Exception as error:
            traceback.print_exc()  # who has it in this process looks for its line
            text = f"The miner {job.miner!r} raised {type(error).__name__}: {error}"
            raise failures.failed_here(job, error, self._settings, text) from error

    def _in_worker(self, job: MiningJob, deadline_s: float, progress: Progress) -> MiningReport:
        last = (0, num_queries(job))
        answer: Mapping[str, Any] = {}
        worker = self._worker_for(job)
        worker.watch([job.bank.uri])

        def hear(message: Mapping[str, Any]) -> bool:
            nonlocal last, answer
            match message:
                case {"say": str(text)}:
                    self._say(text)
                case {"progress": [int(done), int(total)]} if 0 <= done <= total:
                    last = (done, total)
                    wake()
                case {"answer": dict()} | {"error": dict()}:
                    answer = message
                case _:
                    raise NoAnswer("garbage", f"sent an unknown message: {str(message)[:200]}")
            return bool(answer)

        def wake() -> None:
            # Called also without news: repeats the last progress, so that a stop request is
            # noticed.
            self._beat()
            worker.look()
            progress(*last)

        try:
            worker.ask(job, deadline_s, hear, wake)
            if "answer" in answer:
                return _checked_answer(job, answer["answer"])
            raise failures.error_in(job, answer["error"])
        except NoAnswer as none:
            raise self._failed(worker, job, none.why, str(none)) from none
        except BadAnswer as error:
            raise self._failed(worker, job, "garbage", str(error), error) from error
        except MinerFailed as error:
            raise self._failed(worker, job, "", "", error) from error
        except BaseException:  # the worker is still busy, or the error is not its fault
            self.release()
            raise

    def _worker_for(self, job: MiningJob) -> Worker:
        # The warm worker if it fits the job: threads are fixed before a library loads.
        worker = self._worker
        if worker is not None and not worker.alive():
            self._worker = None
            death = failures.death_of(
                worker, settings={**self._settings, "miner.name": worker.miner}
            )
            self._say(
                f"MINER WORKER LOST ({worker.miner}): the idle process "
                f"{failures.how_it_ended(death)}. ttf starts a new process. "
                f"{failures.last_words(death)}"
            )
            self._tell(death, "ttf starts a new process.")
        elif worker is not None and (worker.miner, worker.threads) != _worker_key(job):
            self.release()
        if self._worker is None:
            try:
                self._worker = Worker(*_worker_key(job), _stacks_file(self._logs, self._say))
            except OSError as error:  # no memory, no processes, no descriptors left
                text = f"ttf could not start a process for the miner {job.miner!r}: {error}"
                raise failures.failed_here(job, error, self._settings, text) from error
        return self._worker

    def _failed(
        self,
        worker: Worker,
        job: MiningJob,
        why: KilledByUs,
        reason: str,
        error: MinerFailed | None = None,
    ) -> AttemptFailed:
        """Ends the worker; returns the error to raise, with the worker's output."""
        self._worker = None
        if error is None and not why and not worker.gone_within(_GRACE_S):
            why, reason = "garbage", "closed its pipe but did not end"
        death = failures.death_of(
            worker,
            settings=self._settings,
            out=job.out,
            why=why,
            reason=reason,
            error=None if error is None else failures.told(error),
        )
        words = failures.last_words(death)
        if self._on_death is None and self._logs is not None:
            words = f"{failures.keep_stderr(death, self._logs)} {words}".strip()
        return AttemptFailed(
            failures.with_words(error, words) or failures.no_answer(job.miner, death, words), death
        )

    def _tell(self, death: Death, remedy: str) -> None:
        if self._on_death is not None:
            self._on_death(death, remedy)


def _stacks_file(logs: Path | None, say: Callable[[str], None]) -> Path | None:
    """An empty file; None if the folder takes no file."""
    if logs is None:
        return None
    path = logs / _STACKS
    try:
        logs.mkdir(parents=True, exist_ok=True)
        write_inside(path, logs, anew=True).close()
    except OSError as error:
        say(f"ttf cannot save the stacks of the miner in {path}: {error.strerror}.")
        return None
    return path


def _remove_if_empty(logs: Path | None) -> None:
    """Removes the file of stacks."""
    with contextlib.suppress(OSError):  # an empty file may stay
        if logs is not None and not (logs / _STACKS).stat().st_size:
            remove_if_there(logs / _STACKS, logs)


class _ProgressRaised(Exception):
    """Carries what the caller's `progress` raised past the handling of miner faults."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _worker_key(job: MiningJob) -> tuple[str, int]:
    return job.miner, job.context.threads


def _checked_answer(job: MiningJob, report: Any) -> MiningReport:
    try:
        return checked_report(job, report)
    except BadAnswer:
        Journal.forget(Path(job.out))
        raise
