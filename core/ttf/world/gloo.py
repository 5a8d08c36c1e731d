"""The world of several processes: torch.distributed's gloo on a TCPStore of this attempt.

gloo only moves bits here; what is added, and in which order, is `ttf.world.tree`. Its own reductions
add in an order that depends on the number of ranks and on where an element lies in the buffer.
Collectives are for work that all ranks reach within a step's time; for anything longer they `meet` at
the store, where waiting has no limit and gives signs of life. No pickle anywhere: torch's
`*_object*` functions would unpickle what another host sends.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from typing import Any, Final, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed import PrefixStore, TCPStore  # type: ignore[attr-defined]

from ttf.errors import ConfigError, PeerLost
from ttf.machine.interfaces import interface_towards
from ttf.process import messages
from ttf.rundir.world_place import WorldPlace
from ttf.world.tree import Fold, Node, nodes_of, shards_of
from ttf.world.word import WORD_BYTES, Agreed, Word, agreed
from ttf.world.world import World, plus

_INTERFACE: Final = "GLOO_SOCKET_IFNAME"
_FIRST_LOOK_S: Final = 0.0005
_LOOK_EVERY_S: Final = 0.02
_LEAVES_WITHIN_S: Final = 5.0
# Of a whole start: the other hosts may load libraries from a cold disk.
_JOIN_S: Final = 300.0


def join(place: WorldPlace, shards: int) -> World:
    """Meets the other ranks of this attempt. Raises PeerLost, ConfigError."""
    if place.size > shards:
        raise ConfigError(
            f"{place.size} processes cannot share the {shards} shards of a step (train.shards).",
            hint=f"Use at most {shards} ranks, or start a new run with --set train.shards="
            f"{1 << (place.size - 1).bit_length()}.",
        )
    return GlooWorld(place, shards)


class GlooWorld(World):
    def __init__(self, place: WorldPlace, shards: int) -> None:
        super().__init__(shards)
        self.place = place
        self.rank, self.size = place.rank, place.size
        self._met = 0
        host, _, port = place.store.rpartition(":")
        os.environ[_INTERFACE] = place.interface or interface_towards(host, int(port))
        with self._peers("the start"):
            server = TCPStore(
                host,
                int(port),
                is_master=place.rank == 0 and not place.hosted,
                wait_for_workers=False,
                timeout=timedelta(seconds=_JOIN_S),
            )
            # A launcher's store outlives an attempt, and holds what was said in it.
            self._store = PrefixStore(f"ttf-{place.attempt}", server)
            dist.init_process_group(
                "gloo",
                store=PrefixStore("gloo", self._store),
                rank=place.rank,
                world_size=place.size,
                timeout=timedelta(seconds=place.exchange_timeout_s),
            )
        self._nodes = [nodes_of(shards_of(r, self.size, shards)) for r in range(self.size)]

    @contextlib.contextmanager
    def _peers(self, what: str) -> Iterator[None]:
        """torch raises RuntimeError, and subclasses of it, for a peer that is gone or late."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0][:300]
            raise PeerLost(
                f"Rank {self.rank} lost the others in {what}: {reason}",
                hint="See the incidents of the other processes of this run, on all hosts.",
            ) from error

    # --- sums -----------------------------------------------------------------------------

    def total(self, fold: Fold[Tensor]) -> Tensor:
        mine = fold.nodes()
        length = len(mine[0][1])
        width = -(-length // self.size)  # Of a slice; the last one is padded.
        padded = torch.zeros(len(mine), self.size * width)
        for row, (_, value) in zip(padded, mine, strict=True):
            row[:length] = value
        # By rank, then by subtree: a copy only where a rank has several subtrees.
        sent = padded.view(len(mine), self.size, width).transpose(0, 1).contiguous()
        counts = [len(nodes) for nodes in self._nodes]
        taken = self._swapped(sent, [count * width for count in counts]).view(-1, width)
        upper = Fold[Tensor](plus)
        for node, value in zip(self._all_nodes(), taken, strict=True):
            upper.add(node, value)
        return self._gathered(upper.root(self.shards))[:length]

    def _swapped(self, sent: Tensor, sizes: Sequence[int]) -> Tensor:
        """Part r of what is sent goes to rank r; what comes from all ranks, one behind the other.

        gloo sends bytes only to who has said that it is ready to receive. In its all-to-all a rank
        that comes later says so behind the bytes that it sends, and the two directions of a slow
        network take turns. Here every rank says it first.
        """
        taken = torch.empty(sum(sizes), dtype=sent.dtype)
        parts = torch.split(taken, list(sizes))
        others = [(self.rank + far) % self.size for far in range(1, self.size)]
        with self._peers("the exchange of gradients"):
            works = [dist.irecv(parts[other], other) for other in others]
            works += [dist.isend(sent[other].view(-1), other) for other in others]
            parts[self.rank].copy_(sent[self.rank].view(-1))
            for work in works:
                if work is not None:  # only of ranks outside of the group
                    work.wait()
        return taken

    def _all_nodes(self) -> list[Node]:
        return [node for nodes in self._nodes for node in nodes]

    def _gathered(self, part: Tensor) -> Tensor:
        """Equal parts of all ranks, one behind the other."""
        out = torch.empty(self.size * len(part), dtype=part.dtype)
        with self._peers("the exchange"):
            dist.all_gather(list(torch.split(out, len(part))), part.contiguous())
        return out

    def joined(self, rows: Tensor, counts: Sequence[int]) -> Tensor:
        most = max(counts)
        padded = rows.new_zeros(most, *rows.shape[1:])
        padded[: len(rows)] = rows
        found = self._gathered(padded.view(-1)).view(self.size, most, *rows.shape[1:])
        return torch.cat([found[r, :count] for r, count in enumerate(counts)])

    def broadcast(self, tensor: Tensor, source: int) -> None:
        with self._peers("a copy"):
            dist.broadcast(tensor, source)

    # --- decisions ------------------------------------------------------------------------

    def agree(self, word: Word) -> Agreed:
        own = torch.frombuffer(bytearray(word.packed()), dtype=torch.uint8)
        found = self._gathered(own).numpy().tobytes()
        words = [
            Word.unpacked(found[at : at + WORD_BYTES]) for at in range(0, len(found), WORD_BYTES)
        ]
        if any(other.step != word.step for other in words):
            steps = ", ".join(str(other.step) for other in words)
            raise PeerLost(f"The ranks are not at the same step: {steps}.")
        return agreed(words)

    def meet(self, beat: Callable[[], None]) -> None:
        self.tell("meet", {}, beat)

    def tell(
        self, name: str, document: Mapping[str, Any], beat: Callable[[], None] = lambda: None
    ) -> list[Mapping[str, Any]]:
        place = f"{self._met}/{name}"
        self._met += 1
        keys = [f"{place}/{rank}" for rank in range(self.size)]
        with self._peers(f"the wait for {name!r}"):
            self._store.set(keys[self.rank], cast("str", messages.encode(document)))
            pause_s = _FIRST_LOOK_S  # Most come nearly at once.
            while not self._store.check(keys):
                beat()
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LOOK_EVERY_S)
            found = [self._store.get(key) for key in keys]
        return [_document(data, rank) for rank, data in enumerate(found)]

    def close(self) -> None:
        # Rank 0 keeps the store: it must not go while others still look at the last meeting.
        with contextlib.suppress(RuntimeError):
            self._store.add("left", 1)
            ends_at = time.monotonic() + _LEAVES_WITHIN_S
            while self.rank == 0 and time.monotonic() < ends_at:
                if self._store.add("left", 0) >= self.size:
                    break
                time.sleep(_LOOK_EVERY_S)
        if dist.is_initialized():
            dist.destroy_process_group()


def _document(data: bytes, rank: int) -> Mapping[str, Any]:
    try:
        found = list(messages.Reader().feed(data))
    except messages.BrokenFrame as error:
        raise PeerLost(f"What rank {rank} said cannot be read: {error}.") from error
    if len(found) != 1:
        raise PeerLost(f"What rank {rank} said is not whole.")
    return found[0]
