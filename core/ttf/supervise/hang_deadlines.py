"""How long the supervisor waits for a sign of life, and what it does after that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from ttf.supervise.events import Beat, Suspended
from ttf.supervise.state import Pace, Saving, State, Trainer

# For a phase without known pauses: reading an uncached 11 GB file takes minutes.
UNKNOWN_S: Final = 600.0
# Minimum for the start, whatever is configured: loading torch from an uncached disk or on a busy
# machine gives no sign of life, and this delay tells nothing about the run.
START_S: Final = 600.0
LEAST_S: Final = 60.0
SAVE_LEAST_S: Final = 300.0
FACTOR: Final = 10.0
KNOWN_AFTER: Final = 3  # a phase must end this often before its pauses are used
DUMP_GRACE_S: Final = 2.0
LEAVE_GRACE_S: Final = 20.0
EXCHANGE_GRACE_S: Final = 30.0
KILL_GRACE_S: Final = 30.0


@dataclass(frozen=True, kw_only=True)
class Deadline:
    """A time limit, its kind, and the text if it is missed."""

    at: float
    missed: Literal["hang", "dumped", "leave", "kill"]
    text: str = ""


def next_deadline(state: State) -> Deadline | None:
    """Returns the earliest deadline, or None."""
    if state.stage != "running" or state.trainer is None:
        return None
    return min(_deadlines(state, state.trainer), key=lambda d: d.at, default=None)


def _deadlines(state: State, trainer: Trainer) -> Iterator[Deadline]:
    if trainer.killed_at is not None:
        if not trainer.survives_said:
            text = (
                f"ttf killed the trainer {_seconds(KILL_GRACE_S)} ago, but its process still "
                "exists: the kernel is waiting for a disk or a device, a debugger holds it, or its "
                "control group is frozen. ttf can restart the trainer only after the process has "
                "ended. Another signal ends the supervisor."
            )
            yield Deadline(at=trainer.killed_at + KILL_GRACE_S, missed="kill", text=text)
        return
    if trainer.leave_at is not None:
        text = (
            f"{_seconds(LEAVE_GRACE_S)} ago, memory was almost used up and ttf asked it to "
            "end, but it did not end"
        )
        yield Deadline(at=trainer.leave_at + LEAVE_GRACE_S, missed="leave", text=text)
    if trainer.hang is not None:
        at = trainer.hang.noticed_at + DUMP_GRACE_S
        yield Deadline(at=at, missed="dumped", text=trainer.hang.text)
        return
    limit = silence_limit_s(state, trainer)
    where = f"in {trainer.phase} at step {trainer.step}"
    if trainer.plugin is not None:
        where = f"{where}, {trainer.plugin}"
    text = f"no sign of life for {_seconds(limit)} {where}"
    yield Deadline(at=trainer.beat_at + limit, missed="hang", text=text)
    if trainer.saving is not None:
        limit = save_limit_s(state)
        text = f"the checkpoint that was started {_seconds(limit)} ago is not complete, {where}"
        yield Deadline(at=trainer.saving.since + limit, missed="hang", text=text)
    if state.stopping is not None:
        limit = stop_limit_s(state)
        text = f"it did not stop within {_seconds(limit)} after a stop request, {where}"
        yield Deadline(at=state.stopping.at + limit, missed="hang", text=text)


def silence_limit_s(state: State, trainer: Trainer) -> float:
    """Returns how long the trainer may go without a sign of life."""
    limit, phase = state.settings.hang_timeout_s, trainer.phase
    if limit is None:
        pace = state.paces.get(phase, Pace())
        known = pace.left >= KNOWN_AFTER
        limit = max(LEAST_S, FACTOR * pace.longest_gap_s) if known else UNKNOWN_S
        if phase == "exchange":
            # A process that waits for others in vain ends by itself, and says so.
            limit = max(limit, state.flat.get("scale.exchange_timeout_s", 0.0) + EXCHANGE_GRACE_S)
    if phase == "start" and not (trainer.plugin is not None and trainer.plugin.brief):
        return max(limit, START_S)
    if phase == "mining" and state.flat.get("miner.isolation") == "none":
        # The trainer waits for a worker in a loop that beats; a miner within it beats never.
        return max(limit, UNKNOWN_S)
    return limit


def save_limit_s(state: State) -> float:
    """Returns how long the write of one checkpoint may take."""
    if state.settings.hang_timeout_s is not None:
        return state.settings.hang_timeout_s
    return max(SAVE_LEAST_S, FACTOR * state.longest_save_s)


def stop_limit_s(state: State) -> float:
    # A mining round or an evaluation may come before the step boundary; the length of their pauses
    # does not tell their duration.
    hang = state.settings.hang_timeout_s
    return UNKNOWN_S if hang is None else hang


def after_beat(state: State, trainer: Trainer, beat: Beat) -> State:
    """Handles a sign of life: restarts the clocks and updates the known pauses of the phase."""
    # A record that was torn by its writer's death may claim any time.
    at = max(trainer.beat_at, min(beat.at, beat.now))
    saving = _saving(trainer.saving, beat)
    longest = state.longest_save_s
    if trainer.saving is not None and saving is not trainer.saving:
        longest = max(longest, at - trainer.saving.since)
    return replace(
        state,
        paces=_updated_paces(state.paces, trainer, at, beat.phase),
        longest_save_s=longest,
        trainer=replace(
            trainer,
            beat_at=at,
            step=beat.step,
            phase=beat.phase,
            plugin=beat.plugin,
            saving=saving,
        ),
    )


def _saving(before: Saving | None, beat: Beat) -> Saving | None:
    if beat.saving_since is None:
        return None
    if before is not None and before.reported == beat.saving_since:
        return before
    return Saving(reported=beat.saving_since, since=min(beat.saving_since, beat.now))


def _updated_paces(
    paces: Mapping[str, Pace], trainer: Trainer, at: float, phase: str
) -> Mapping[str, Pace]:
    pace = paces.get(trainer.phase, Pace())
    now = Pace(
        left=min(KNOWN_AFTER, pace.left + (phase != trainer.phase)),
        longest_gap_s=max(pace.longest_gap_s, at - trainer.beat_at),
    )
    return paces if now == pace else {**paces, trainer.phase: now}


def suspended(state: State, event: Suspended) -> State:
    """Moves all times by the length of the suspension: no sign of life was possible."""

    def later(at: float) -> float:
        return min(at + event.seconds, max(at, event.now))

    stopping, trainer = state.stopping, state.trainer
    if stopping is not None:
        stopping = replace(stopping, at=later(stopping.at))
    if trainer is not None:
        saving, hang = trainer.saving, trainer.hang
        killed, leave = trainer.killed_at, trainer.leave_at
        trainer = replace(
            trainer,
            started_at=later(trainer.started_at),
            beat_at=later(trainer.beat_at),
            saving=saving and replace(saving, since=later(saving.since)),
            hang=hang and replace(hang, noticed_at=later(hang.noticed_at)),
            killed_at=None if killed is None else later(killed),
            leave_at=None if leave is None else later(leave),
        )
    return replace(state, stopping=stopping, trainer=trainer)


def _seconds(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds >= 10 else f"{seconds:g} s"
