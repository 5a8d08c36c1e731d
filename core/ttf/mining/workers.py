"""Mining for a run: one warm worker process, a fresh one after a death, then the next miner.

Owned by whoever mines more than once: `with MinerWorkers(...) as workers: workers.mine(...)`.
Call it from one thread that lives as long as it does (the trainer's main thread): on Linux the
worker is tied to the thread that first needed it.
"""

from __future__ import annotations

import contextlib
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from ttf.contracts import Progress
from ttf.errors import (
    BadAnswer,
    GaveUp,
    MinerFailed,
    PluginUnavailable,
    TtfError,
)
from ttf.incidents.death import Death, KilledByUs
from ttf.mining.check_answers import checked_report, num_queries
from ttf.mining.choose import EXACT
from ttf.mining.failure_errors import AttemptFailed, error_in, no_answer, told, with_words
from ttf.mining.failure_evidence import (
    death_in_process,
    death_of,
    how_it_ended,
    keep_stderr,
    last_words,
    settings_of,
)
from ttf.mining.isolated import NoAnswer, ask
from ttf.mining.job import Isolation, MinerChoice, MiningJob, MiningReport
from ttf.mining.journal import Journal
from ttf.mining.worker_process import WorkerProcess
from ttf.process.error_document import to_document

if TYPE_CHECKING:
    from ttf.mining.work import Searcher

Say = Callable[[str], None]
OnDeath = Callable[[Death, str], None]
"""Told of every failed attempt, and in a sentence what is done about it."""
ATTEMPTS: Final = 2
"""Deaths in a row on one request, until the next miner takes over."""
LAST_ATTEMPTS: Final = 4
"""The same where no other miner is left, and giving up would end the run."""
STACKS: Final = "miner-faulthandler.txt"
_GRACE_S: Final = 5.0
_LOOK_EVERY_S: Final = 1.0


def _nothing() -> None:
    """Nobody wants signs of life."""


class MinerWorkers:
    """Keeps at most one worker, from its first job until `release` or `close`; with isolation
    "none" the same is done in this process, where nothing can be outlived."""

    def __init__(
        self,
        *,
        isolation: Isolation,
        say: Say,
        logs: Path | None = None,
        beat: Callable[[], None] = _nothing,
        on_death: OnDeath | None = None,
    ) -> None:
        """`logs`: folder for the worker's stacks, and for its standard error after a death unless
        `on_death` keeps it; `beat` is called several times a second while a worker is waited for.
        """
        self._isolation, self._say, self._logs = isolation, say, logs
        self._beat, self._on_death = beat, on_death
        self._worker: WorkerProcess | None = None
        self._settings: Mapping[str, Any] = {}
        self._fallback: Sequence[str] = ()
        self._searcher: Searcher | None = None

    @property
    def pid(self) -> int | None:
        """The worker that is kept warm."""
        return None if self._worker is None else self._worker.pid

    def mine(
        self,
        job: MiningJob,
        fallback: Sequence[MinerChoice],
        *,
        deadline_s: Callable[[MiningJob], float],
        progress: Progress,
    ) -> MiningReport:
        """The job's miner, a second time in a fresh process, then each of `fallback` likewise.

        Every death is said. Raises GaveUp when none is left, a TtfError the miner is not to blame
        for, and what `progress` raises.
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
                    self._say(
                        f"MINER FAILED ({choice.name}, attempt {attempt}): "
                        f"{_closed(str(failed.error))}{' Trying once more.' if again else ''}"
                    )
                    self._tell(failed.death, self._remedy(again, miners[place + 1 :]))
                except PluginUnavailable as error:
                    if not place:
                        raise
                    self._say(f"{error} {error.hint}")
                    break
                else:
                    return replace(report, deaths=tuple(deaths))
        tried = ", ".join(choice.name for choice in miners)
        last = deaths[-1] if deaths else "none of them can run here"
        raise GaveUp(
            f"No miner could answer; tried: {tried}. The last failure: {last}",
            hint=_without_them(miners),
        )

    def run(self, job: MiningJob, deadline_s: float, progress: Progress) -> MiningReport:
        """One attempt. Raises MinerFailed when the miner is to blame, another TtfError when not.

        What `progress` raises ends the attempt: at once in a process, else after a chunk of
        queries. The deadline holds for isolation = "process" only: nothing can stop native code in
        our own.
        """
        try:
            return self._attempt(job, deadline_s, progress)
        except AttemptFailed as failed:
            self._tell(failed.death, "")
            raise failed.error from None

    def release(self) -> None:
        """Gives back the memory of an idle worker, or of the index kept in this process."""
        worker, self._worker = self._worker, None
        if worker is not None:
            worker.end()
        searcher, self._searcher = self._searcher, None
        if searcher is not None:
            searcher.release()

    def close(self) -> None:
        """Leaves nothing behind; may be called again, and another job starts anew."""
        self.release()
        if self._logs is not None:
            stacks = self._logs / STACKS
            with contextlib.suppress(OSError):  # an empty file that cannot be removed harms nobody
                if not stacks.stat().st_size:
                    stacks.unlink()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- one attempt ----------------------------------------------------------------------

    def _attempt(self, job: MiningJob, deadline_s: float, progress: Progress) -> MiningReport:
        self._settings = settings_of(job, self._isolation, self._fallback)
        if self._isolation == "none":
            return self._in_process(job, progress)
        return self._isolated(job, deadline_s, progress)

    def _in_process(self, job: MiningJob, progress: Progress) -> MiningReport:
        from ttf.mining.work import Searcher

        def advance(done: int, total: int) -> None:
            try:
                self._beat()
                progress(done, total)
            except Exception as error:
                raise _NotTheMiners(error) from error

        self._searcher = self._searcher or Searcher()
        try:
            return self._searcher.do(job, self._say, advance)
        except _NotTheMiners as passed:
            raise passed.error from None
        except MinerFailed as error:
            raise AttemptFailed(error, self._death_here(job, error)) from error
        except TtfError:
            raise
        except Exception as error:
            traceback.print_exc()  # who has it in this process looks for its line
            text = f"The miner {job.miner!r} raised {type(error).__name__}: {error}"
            failed = MinerFailed(job.miner, text)
            raise AttemptFailed(failed, self._death_here(job, error)) from error

    def _isolated(self, job: MiningJob, deadline_s: float, progress: Progress) -> MiningReport:
        wake = _Wake(progress, num_queries(job), self._beat)
        worker = self._worker_for(job)
        worker.watch([job.bank.uri])
        try:
            answer = ask(
                worker,
                job.to_json(),
                deadline_s,
                say=self._say,
                news=wake.news,
                wake=lambda: wake(worker),
            )
            if "report" in answer:
                return _believed(job, answer["report"])
            raise error_in(job, answer["error"])
        except NoAnswer as none:
            raise self._failed(worker, job, none.why, str(none)) from none
        except BadAnswer as error:
            raise self._failed(worker, job, "garbage", str(error), error) from error
        except MinerFailed as error:
            raise self._failed(worker, job, "", "", error) from error
        except BaseException:  # it is in the middle of something, or what it met is not its fault
            self.release()
            raise

    def _worker_for(self, job: MiningJob) -> WorkerProcess:
        """The warm worker if it fits the job: threads are fixed before a library loads."""
        worker = self._worker
        if worker is not None and not worker.alive():
            self._worker = None
            death = death_of(worker, settings={**self._settings, "miner.name": worker.miner})
            self._say(
                f"MINER WORKER LOST ({worker.miner}): the idle process {how_it_ended(death)}. "
                f"A fresh one takes its place. {last_words(death)}"
            )
            self._tell(death, "A fresh process takes its place.")
        elif worker is not None and (worker.miner, worker.threads) != _needs(job):
            self.release()
        if self._worker is None:
            try:
                self._worker = WorkerProcess(*_needs(job), self._stacks_file())
            except OSError as error:  # no memory, no processes, no descriptors left
                text = f"No process could be started for the miner {job.miner!r}: {error}"
                raise AttemptFailed(
                    MinerFailed(job.miner, text), self._death_here(job, error)
                ) from error
        return self._worker

    def _failed(
        self,
        worker: WorkerProcess,
        job: MiningJob,
        why: KilledByUs,
        reason: str,
        error: MinerFailed | None = None,
    ) -> AttemptFailed:
        """Ends the worker; the error to be raised, with what it left."""
        self._worker = None
        if error is None and not why and not worker.gone_within(_GRACE_S):
            why, reason = "garbage", "closed its pipe and hung"
        death = death_of(
            worker,
            settings=self._settings,
            out=job.out,
            why=why,
            reason=reason,
            error=None if error is None else told(error),
        )
        words = last_words(death)
        if self._on_death is None and self._logs is not None:
            words = f"{keep_stderr(death, self._logs)} {words}".strip()
        return AttemptFailed(with_words(error, words) or no_answer(job.miner, death, words), death)

    def _death_here(self, job: MiningJob, error: Exception) -> Death:
        return death_in_process(to_document(error), job.out, self._settings)

    def _remedy(self, again: bool, next_ones: Sequence[MinerChoice]) -> str:
        if again and self._isolation == "none":
            return "The same request is made once more, in this process."
        if again:
            return "The same request goes to a fresh process."
        if next_ones:
            return f"The miner {next_ones[0].name!r} takes over."
        return "No miner is left."

    def _stacks_file(self) -> Path | None:
        """An empty one; None where the folder takes no file."""
        if self._logs is None:
            return None
        path = self._logs / STACKS
        try:
            self._logs.mkdir(parents=True, exist_ok=True)
            path.write_bytes(b"")
        except OSError as error:
            self._say(f"The miner's stacks cannot be kept in {path}: {error.strerror}.")
            return None
        return path

    def _tell(self, death: Death, remedy: str) -> None:
        if self._on_death is not None:
            self._on_death(death, remedy)


class _NotTheMiners(Exception):
    """Carries what the caller's own `progress` raised past the miner's faults."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


class _Wake:
    """Signs of life while an answer is waited for; what is known is said again and again."""

    def __init__(self, progress: Progress, total: int, beat: Callable[[], None]) -> None:
        self._progress, self._beat = progress, beat
        self._last = (0, total)
        self._looked = 0.0

    def __call__(self, worker: WorkerProcess) -> None:
        self._beat()
        if time.monotonic() - self._looked > _LOOK_EVERY_S:
            worker.witness.look()
            self._looked = time.monotonic()
        self._progress(*self._last)

    def news(self, done: int, total: int) -> None:
        self._last = (done, total)
        self._beat()
        self._progress(done, total)


def _needs(job: MiningJob) -> tuple[str, int]:
    return job.miner, job.context.threads


def _believed(job: MiningJob, report: Any) -> MiningReport:
    try:
        return checked_report(job, report)
    except BadAnswer:
        Journal.forget(Path(job.out))
        raise


def _closed(text: str) -> str:
    """Ends as a sentence does; a stack on its own lines stays there."""
    text = text.rstrip()
    if "\n" in text:
        return f"{text}\n"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _without_them(tried: Sequence[MinerChoice]) -> str:
    if any(choice.name == EXACT for choice in tried):
        return "The exact scan failed too: look at the failures above for what they share."
    return "Search without them: --miner exact, or name it in miner.fallback to take over."
