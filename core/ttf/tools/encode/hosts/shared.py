"""Node 0 of an encoding: gives blocks out, encodes some itself, and puts all of them in their order."""

from __future__ import annotations

import contextlib
import heapq
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ttf.mining.growing_arrays import GrowingArrays
from ttf.rundir.removing import remove_if_there
from ttf.tools.encode.collection import Collected
from ttf.tools.encode.encoder_process import Chosen, EncoderProcess, request_for
from ttf.tools.encode.hosts.block_process import BlockProcess
from ttf.tools.encode.hosts.loose import Block, Form, LooseBlocks
from ttf.tools.encode.work import BLOCK_BYTES, BLOCK_TEXTS, arrays_of, key_of
from ttf.tools.tickets.desk import Brought, Came, Desk, Event, Left, Node, Said
from ttf.tools.tickets.names import free_name
from ttf.tools.tickets.own import Own

AHEAD: Final = 2  # Blocks that a host holds: one is encoded while the one before it is sent.
_LOOK_EVERY_S: Final = 0.02
_HERE: Final = "here"


def own_of(
    chosen: Chosen, facts: Mapping[str, Any], kinds: Sequence[tuple[Collected, str]], dtype: str
) -> Own:
    """What the hosts of an encoding compare."""
    data = {f"texts of the {kind.name}": kind.digest[:16] for kind, _ in kinds}
    data["the model"] = f"{facts['fingerprint'][:16]}, {facts['dim']} numbers"
    settings = {
        "--encoder": chosen.name,
        "the options of the encoder": dict(chosen.options),
        "facts about the model": dict(facts["about"]),
        "--dtype": dtype,
    }
    return Own(settings=settings, data=data)


def blocks_of(kind: Collected, first: int = 0) -> list[Block]:
    """They depend on the texts alone."""
    texts, found = kind.texts, list[Block]()
    while first < texts.count:
        stop = texts.block_end(first, BLOCK_TEXTS, BLOCK_BYTES)
        found.append(Block(kind.name, first, stop))
        first = stop
    return found


def encode_with_hosts(
    encoder: EncoderProcess,
    facts: Mapping[str, Any],
    kinds: Sequence[tuple[Collected, str]],
    work: Path,
    dtype: str,
    progress: Callable[[int, int], None],
    note: Callable[[str], None],
    desk: Desk,
) -> None:
    """As `EncoderProcess.encode_kinds`, into `work/vectors`."""
    request = request_for(encoder.chosen, facts, kinds, work / "vectors", dtype)
    loose = loose_blocks(work, request)
    shared = _Shared(
        desk=desk,
        process=BlockProcess(encoder, request, loose),
        own=own_of(encoder.chosen, facts, kinds, dtype),
        loose=loose,
        form=Form(dim=facts["dim"], dtype=dtype),
        note=note,
    )
    for (kind, _), told in zip(kinds, request["kinds"], strict=True):
        shared.add(kind, arrays_of(told, request, kind.count))
    desk.greet, desk.expected = shared.greet, shared.expected
    total = sum(kind.count for kind, _ in kinds)
    while shared.done < total:
        shared.look()
        progress(shared.done, total)
    remove_if_there(loose.folder, work)


def loose_blocks(work: Path, request: Mapping[str, Any]) -> LooseBlocks:
    """Of these texts and this encoder: others are of no use."""
    keys = [
        key_of(request["facts"], kind["digest"], kind["role"], request["dtype"])
        for kind in request["kinds"]
    ]
    folder = work / "blocks" / "-".join(key[:12] for key in keys)
    folder.mkdir(parents=True, exist_ok=True)
    return LooseBlocks(folder=folder, inside=work)


@dataclass
class _Shared:
    desk: Desk
    process: BlockProcess
    own: Own
    loose: LooseBlocks
    form: Form
    note: Callable[[str], None]
    arrays: dict[str, GrowingArrays] = field(default_factory=dict)
    blocks: dict[tuple[str, int], Block] = field(default_factory=dict)
    free: list[tuple[int, Block]] = field(default_factory=list)  # a heap; by place
    places: dict[Block, int] = field(default_factory=dict)
    held: dict[Block, object] = field(default_factory=dict)  # by whom: here, or a Node
    wanting: dict[Node, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.there = self.loose.names()

    @property
    def done(self) -> int:
        return sum(arrays.done for arrays in self.arrays.values())

    def add(self, kind: Collected, arrays: GrowingArrays) -> None:
        if arrays.done:
            self.note(f"{arrays.done:,} {kind.name} are already encoded.")
        self.arrays[kind.name] = arrays
        for block in blocks_of(kind, arrays.done):
            self.blocks[block.kind, block.first] = block
            self.places[block] = len(self.places)
            if (block.kind, block.first) not in self.there:
                self._free(block)
        self._append(kind.name)

    def _free(self, block: Block) -> None:
        heapq.heappush(self.free, (self.places[block], block))

    # --- what happens ----------------------------------------------------------------------------

    def look(self) -> None:
        while len(self.process.given) < AHEAD and (block := self._next(_HERE)) is not None:
            self.process.give(block)
        for node, most in list(self.wanting.items()):
            self._give(node, most)
        for event in self.desk.look(_LOOK_EVERY_S):
            self._happened(event)
        for block, name in self.process.look():
            del self.held[block]
            self._arrived(block, name)

    def _next(self, holder: object) -> Block | None:
        if not self.free:
            return None
        _, block = heapq.heappop(self.free)
        self.held[block] = holder
        return block

    def _give(self, node: Node, most: int) -> None:
        while most and (block := self._next(node)) is not None:
            self.desk.tell(node, {"ticket": list(block)})
            most -= 1
        self.wanting[node] = most
        if not most:
            del self.wanting[node]

    def _happened(self, event: Event) -> None:
        node = event.node
        if isinstance(event, Came):
            self.note(f"{node.name} joined.")
        elif isinstance(event, Left):
            self.wanting.pop(node, None)
            again = [block for block, holder in self.held.items() if holder is node]
            self._given_back(again)
            more = f"; {len(again)} of its blocks are given out again" if again else ""
            self.note(f"{node.name} is lost ({event.why}){more}.")
        elif isinstance(event, Brought):
            block = self._held_by(node, event.header)
            if block is not None:
                name = self.loose.write(block, bytes(event.data))
                del self.held[block]
                self._arrived(block, name)
        elif isinstance(event, Said):
            self._said(node, event.message)

    def _said(self, node: Node, message: Mapping[str, Any]) -> None:
        wanted = message.get("want")
        if isinstance(wanted, int) and 0 < wanted <= AHEAD:
            self.wanting[node] = wanted
        if "gave_up" in message:
            block = self._held_by(node, {"numbers": message["gave_up"]})
            self._given_back([] if block is None else [block])

    def _given_back(self, blocks: Sequence[Block]) -> None:
        for block in blocks:
            del self.held[block]
            self._free(block)

    # --- files -----------------------------------------------------------------------------------

    def _held_by(self, node: Node, header: Mapping[str, Any]) -> Block | None:
        with contextlib.suppress(TypeError, ValueError):
            kind, first = header["numbers"]
            block = self.blocks.get((kind, first))
            return block if block is not None and self.held.get(block) is node else None
        return None

    def expected(self, node: Node, header: Mapping[str, Any]) -> int | None:
        block = self._held_by(node, header)
        return None if block is None else self.form.size(block)

    def greet(self, hello: Mapping[str, Any]) -> dict[str, Any]:
        """Raises ConfigError and BadData for a host with something else."""
        host, stated = self.own.compare(hello)
        if stated:
            self.note(f"{host} has another {stated}: its vectors may differ by rounding.")
        taken = [self.own.facts["host"], *(node.name for node in self.desk.nodes)]
        return {"name": free_name(host, hello.get("name", ""), taken)}

    def _arrived(self, block: Block, name: str) -> None:
        self.there[block.kind, block.first] = name
        self._append(block.kind)

    def _append(self, kind: str) -> None:
        """What is next in its order, and what follows it."""
        arrays = self.arrays[kind]
        while (name := self.there.pop((kind, arrays.done), None)) is not None:
            block = self.blocks[kind, arrays.done]
            data = self.loose.read(name, self.form.size(block))
            if data is not None:
                arrays.append(*self.form.unpacked(data))
            self.loose.remove(name)
            if data is None:  # after a power cut
                self._free(block)
                return
