"""What a node brings to an attempt, and what it gets: the places of its trainers."""

from __future__ import annotations

from typing import Any

from ttf.errors import PeerLost, Told, TtfError
from ttf.process.error_document import from_document
from ttf.rundir.rank_folders import documents_of
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.verified_folders import newest_first, step_of
from ttf.rundir.world_place import WorldPlace
from ttf.supervise.attempts import Attempt
from ttf.supervise.nodes.said import Go, Ready
from ttf.supervise.nodes.scale import Scale


def standing(folder: RunFolder, ranks: int) -> Ready:
    """What a node brings to the next attempt."""
    newest = next((step_of(path) for path in newest_first(folder.checkpoints)), -1)
    return Ready(ranks=ranks, has_run=bool(documents_of(folder)), newest=newest)


def attempt_of(go: Go, scale: Scale) -> Attempt:
    """The places of this node's trainers."""
    if not 0 <= go.first <= len(go.hosts) - scale.ranks:
        raise PeerLost(f"Node 0 gave this node the ranks from {go.first} of {len(go.hosts)}.")
    places = tuple(
        WorldPlace(
            rank=go.first + local,
            size=len(go.hosts),
            local_rank=local,
            local_size=scale.ranks,
            store=go.store,
            attempt=go.attempt,
            interface=scale.interface,
            exchange_timeout_s=scale.exchange_timeout_s,
            hosts=go.hosts,
        )
        for local in range(scale.ranks)
    )
    return Attempt(places=places, overlay=go.overlay, save_every=go.save_every, history=go.history)


def as_error(document: dict[str, Any] | None) -> Told:
    """What node 0 ended the run with."""
    if document is None:
        return PeerLost("Node 0 has ended the run.", hint="See what it said on its terminal.")
    try:
        return from_document(document)
    except (LookupError, TypeError, ValueError) as error:
        return TtfError(f"Node 0 ended the run with an error that cannot be read: {error}")
