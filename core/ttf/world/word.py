"""What every rank says to all others between two steps: 64 bytes each.

All ranks decide from the same words, so what one process sees (its clock, a signal, its memory)
becomes the decision of all. What looks at a clock is decided by rank 0 alone.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Final

_FORMAT: Final = struct.Struct("<qBBBxxxxxdQ32x")
WORD_BYTES: Final = _FORMAT.size
assert WORD_BYTES == 64


class Save(IntEnum):
    """What to do about a checkpoint at this step."""

    NOTHING = 0
    SYNC_METRICS = 1
    BESIDE = 2  # It is written beside the next steps.
    WAIT = 3  # The next step waits until it is durable.


@dataclass(frozen=True, kw_only=True)
class Word:
    step: int
    save: Save = Save.NOTHING
    stop: int = 0  # The signal that asks for an end; 0: none.
    leave: bool = False  # Its memory is used up: it wants to save and start again.
    # Of the weights, at some steps; 0: not looked at in this step.
    weights: int = 0
    compute_s: float = 0.0  # How long it computed in the last step, without waiting for others.

    def packed(self) -> bytes:
        return _FORMAT.pack(
            self.step,
            self.save,
            self.stop,
            self.leave,
            self.compute_s,
            self.weights,
        )

    @staticmethod
    def unpacked(data: bytes) -> Word:
        step, save, stop, leave, compute_s, weights = _FORMAT.unpack(data)
        return Word(
            step=step,
            save=Save(save),
            stop=stop,
            leave=bool(leave),
            compute_s=compute_s,
            weights=weights,
        )


@dataclass(frozen=True, kw_only=True)
class Agreed:
    """What all ranks do now."""

    save: Save
    stop: int
    leave: bool
    words: tuple[Word, ...] = ()


def agreed(words: Sequence[Word]) -> Agreed:
    """Rank 0 decides about saving; a stop or a leave of anybody is everybody's."""
    return Agreed(
        save=words[0].save,
        stop=max(word.stop for word in words),
        leave=any(word.leave for word in words),
        words=tuple(words),
    )
