"""What went wrong in an attempt to mine, as the error that the caller meets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ttf.errors import BadAnswer, MinerDied, MinerFailed, MinerTimedOut, TtfError
from ttf.incidents.death import Death
from ttf.mining.failure_evidence import how_it_ended
from ttf.mining.job import MiningJob
from ttf.process.error_document import from_document, to_document


class AttemptFailed(Exception):
    """An attempt the miner is to blame for, and what is known about it."""

    def __init__(self, error: MinerFailed, death: Death) -> None:
        super().__init__(str(error))
        self.error, self.death = error, death


class MinerRaised(MinerFailed):
    """An exception of the miner's own code, which its process survived."""

    def __init__(self, miner: str, document: Mapping[str, Any]) -> None:
        super().__init__(
            miner, f"The miner {miner!r} raised {document['class']}: {document['message']}"
        )
        self.document = document


def error_in(job: MiningJob, document: Mapping[str, Any]) -> TtfError:
    """What the worker raised; what is no error of ours is the miner's fault."""
    try:
        if document["known"]:
            return from_document(document)
        return MinerRaised(job.miner, document)
    except (KeyError, TypeError, ValueError, AttributeError) as problem:
        return BadAnswer(
            job.miner,
            f"The process of the miner {job.miner!r} sent an error that is none: {problem!r}.",
        )


def told(error: MinerFailed) -> Mapping[str, Any]:
    """The error as the process that met it told it, with its traceback."""
    return error.document if isinstance(error, MinerRaised) else to_document(error)


def with_words(error: MinerFailed | None, words: str) -> MinerFailed | None:
    """What a miner's own code raised is read beside what it wrote."""
    if not isinstance(error, MinerRaised):
        return error
    text = str(error).rstrip(".")
    return MinerFailed(error.miner, f"{text}. {words}")


def no_answer(miner: str, death: Death, words: str) -> MinerFailed:
    """For a worker that gave no answer."""
    if death.killed_by_us == "hang":
        return MinerTimedOut(
            miner,
            f"The miner {miner!r} {death.reason} and was stopped. {words}",
            hint="Give it longer (miner.deadline_s), or choose another miner.",
        )
    if death.killed_by_us == "garbage":
        return BadAnswer(
            miner, f"The process of the miner {miner!r} {death.reason}, and was stopped. {words}"
        )
    return MinerDied(
        miner,
        f"The process of the miner {miner!r} {how_it_ended(death)} without an answer. {words}",
        hint="The trainer is not affected. To leave this miner out: --miner exact.",
    )
