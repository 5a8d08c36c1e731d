"""Failed mining attempts: a `Death`, the same in a sentence, and the error for the caller."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ttf.errors import BadAnswer, MinerDied, MinerFailed, MinerTimedOut, TtfError
from ttf.incidents.death import Death, KilledByUs, ProcessEnd
from ttf.incidents.facts import signal_name
from ttf.incidents.gather import free_disk
from ttf.mining.choose import EXACT
from ttf.mining.job import Isolation, MinerChoice, MiningJob
from ttf.process.error_document import from_document, to_document
from ttf.rundir.confined import write_inside

if TYPE_CHECKING:
    from ttf.mining.worker_client import Worker

_TAIL: Final = 2000
_STACKS: Final = 1000
_RAISED: Final = 1


class AttemptFailed(Exception):
    """A failed attempt of which the miner is the cause."""

    def __init__(self, error: MinerFailed, death: Death) -> None:
        super().__init__(str(error))
        self.error = error
        self.death = death


class MinerRaised(MinerFailed):
    """The miner's own code raised an exception; its process survived."""

    def __init__(self, miner: str, document: Mapping[str, Any]) -> None:
        super().__init__(
            miner, f"The miner {miner!r} raised {document['class']}: {document['message']}"
        )
        self.document = document


def error_in(job: MiningJob, document: Mapping[str, Any]) -> TtfError:
    # What the worker raised; an error that is not a TtfError is the miner's fault.
    try:
        error = from_document(document) if document["known"] else None
        if isinstance(error, TtfError):
            return error
        return MinerRaised(job.miner, document)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        return BadAnswer(
            job.miner,
            f"The process of the miner {job.miner!r} sent an invalid error report: {problem!r}.",
        )


def told(error: MinerFailed) -> Mapping[str, Any]:
    """The error with its traceback, as reported by the process that raised it."""
    return error.document if isinstance(error, MinerRaised) else to_document(error)


def with_words(error: MinerFailed | None, words: str) -> MinerFailed | None:
    """Adds the worker's standard error to an exception of the miner's own code."""
    if not isinstance(error, MinerRaised):
        return error
    text = str(error).rstrip(".")
    return MinerFailed(error.miner, f"{text}. {words}")


def no_answer(miner: str, death: Death, words: str) -> MinerFailed:
    """The error for a worker that gave no answer."""
    if death.killed_by_us == "hang":
        return MinerTimedOut(
            miner,
            f"The miner {miner!r} {death.reason}, and ttf stopped it. {words}",
            hint="Allow more time (miner.deadline_s), or choose another miner.",
        )
    if death.killed_by_us == "garbage":
        return BadAnswer(
            miner,
            (f"The process of the miner {miner!r} {death.reason}, and ttf stopped it. {words}"),
        )
    return MinerDied(
        miner,
        f"The process of the miner {miner!r} {how_it_ended(death)} without an answer. {words}",
        hint="The trainer is not affected. To use another miner: --miner exact.",
    )


def death_of(
    worker: Worker,
    *,
    settings: Mapping[str, Any],
    out: str | None = None,
    why: KilledByUs = "",
    reason: str = "",
    error: Mapping[str, Any] | None = None,
) -> Death:
    """Ends the worker if it still runs, and collects what it left."""
    died = not worker.alive()
    code = worker.end()
    end = ProcessEnd(
        returncode=code,
        killed=("" if died else why, reason),
        error=error,
        folders=() if out is None else (Path(out),),
        settings=settings,
    )
    death = worker.witness.death(end)
    worker.close()
    death = replace(death, stderr=worker.stderr.text(), raw_stderr=worker.stderr.data())
    # It raised and we killed the rest of it: report the exit code Python would have given.
    raised = error is not None and not died and not why
    return replace(death, signal=None, exit_code=_RAISED) if raised else death


def failed_here(
    job: MiningJob, error: Exception, settings: Mapping[str, Any], text: str = ""
) -> AttemptFailed:
    """For an attempt in this process, which can only raise. `text`: the caller's message if the
    error is not a miner's."""
    death = Death(
        process="miner",
        pid=os.getpid(),
        time=time.time(),
        exit_code=_RAISED,
        error=to_document(error),
        free_disk=free_disk([Path(job.out)]),
        settings=settings,
    )
    failed = error if isinstance(error, MinerFailed) else MinerFailed(job.miner, text)
    return AttemptFailed(failed, death)


def settings_of(job: MiningJob, isolation: Isolation, fallback: Sequence[str]) -> dict[str, Any]:
    """The configuration that remedies for a miner edit, by dotted keys."""
    return {
        "miner.name": job.miner,
        "miner.isolation": isolation,
        "miner.fallback": tuple(fallback),
        "miner.threads": job.context.threads,
        "miner.deterministic": job.context.deterministic,
        "memory.budget": job.context.budget_bytes,
    }


def how_it_ended(death: Death) -> str:
    if death.signal is not None:
        return f"died of {signal_name(death.signal)}"
    return f"ended with exit code {death.exit_code}"


def last_words(death: Death) -> str:
    """The end of its standard error, and its Python stack."""
    told = death.stderr.strip()[-_TAIL:]
    stacks = _whole_lines(death.faulthandler.strip(), _STACKS)
    if told:
        words = f"The end of its standard error:\n{told}"
    else:
        words = "Its Python stacks:" if stacks else "It wrote nothing to standard error."
    return f"{words}\n{stacks}" if stacks else words


def _whole_lines(text: str, most: int) -> str:
    return text if len(text) <= most else text[:most].rpartition("\n")[0]


def keep_stderr(death: Death, logs: Path) -> str:
    """Writes it to `miner-<n>.stderr.txt`; returns a sentence: the path, or why there is none."""
    if not death.raw_stderr:
        return ""
    try:
        logs.mkdir(parents=True, exist_ok=True)
        paths = (logs / f"miner-{number}.stderr.txt" for number in itertools.count(1))
        path = next(path for path in paths if not path.exists())
        with write_inside(path, logs) as file:
            file.write(death.raw_stderr)
    except OSError as error:
        return f" ttf could not save its standard error in {logs}: {error.strerror}."
    return f" Its whole standard error: {path}."


def remedy(again: bool, isolation: Isolation, next_ones: Sequence[MinerChoice]) -> str:
    """What is done about a failed attempt."""
    if again and isolation == "none":
        return "ttf repeats the search in this process."
    if again:
        return "ttf repeats the search in a new process."
    if next_ones:
        return f"The miner {next_ones[0].name!r} takes over."
    return "No miner is left."


def as_sentence(text: str) -> str:
    """Ends one line of text like a sentence; several lines end with a newline."""
    text = text.rstrip()
    if "\n" in text:
        return f"{text}\n"
    return text if text.endswith((".", "!", "?")) else f"{text}."


def hint_without(tried: Sequence[MinerChoice]) -> str:
    if any(choice.name == EXACT for choice in tried):
        return "The exact scan failed too. Look for a common cause in the failures above."
    return (
        "Use the exact scan: --miner exact. To use it only after a failure, add it to "
        "miner.fallback."
    )
