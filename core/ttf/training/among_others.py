"""A trainer that is one of several: it joins the others, and all start from the same state."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ttf.config.resolve import with_value
from ttf.errors import GateNotMet, Stopped
from ttf.rundir.world_place import WorldPlace
from ttf.world.tree import shards_for

if TYPE_CHECKING:
    from ttf.config.resolve import Resolved
    from ttf.training.session import Session
    from ttf.training.supervisor_link import Link
    from ttf.world.world import World


@dataclass(frozen=True, kw_only=True)
class Joined:
    place: WorldPlace
    world: World
    # Because of how the run is cut now: what makes it differ from an undisturbed one.
    deviations: tuple[str, ...] = ()


def with_shards(
    resolved: Resolved, place: WorldPlace | None, *, resume: bool
) -> tuple[Resolved, tuple[str, ...]]:
    """A run of several processes needs shards; once it has them, it keeps them."""
    if place is None or place.size == 1 or resolved.config.train.shards > 1:
        return resolved, ()
    shards = shards_for(place.size)
    reason = f"the run was started with {place.size} processes"
    if resume:
        reason = f"the run was resumed with {place.size} processes"
    origin = f"{reason}; E1: bitwise with any number of processes up to {shards}"
    changed = with_value(resolved, "train.shards", shards, origin)
    deviation = (
        f"{reason}: from then on, the gradients of a step are added in {shards} shards "
        "(train.shards), which rounds differently"
    )
    return changed, (deviation,) if resume else ()


def join_others(place: WorldPlace, shards: int, link: Link, deviations: tuple[str, ...]) -> Joined:
    """Raises PeerLost, ConfigError."""
    from ttf.world.gloo import join

    link.together = True
    return Joined(place=place, world=join(place, shards), deviations=deviations)


@contextlib.contextmanager
def leaving(joined: Joined | None) -> Iterator[None]:
    """Leaves the others in order where all of them end: at the end of the run, or at a stop. After
    anything else this process ends at once, and the closed connections tell the others."""
    try:
        yield
    except (Stopped, GateNotMet):
        if joined is not None:
            joined.world.close()
        raise
    if joined is not None:
        joined.world.close()


def among_others(session: Session, joined: Joined) -> tuple[list[str], bool]:
    """Compares what the ranks are about to train, and gives everybody the newest checkpoint; returns
    deviations, and whether there is a checkpoint. Raises RanksDisagree, PeerLost."""
    from ttf.training.same_everywhere import compare_ranks
    from ttf.world.copies import share_newest

    beat = session.link.flight.beat
    found = compare_ranks(session, joined.place, beat)
    newest = share_newest(session.world, session.folder, session.reporter.note)
    return [*joined.deviations, *found], newest >= 0
