"""Another node of an encoding: its process makes blocks, and a thread sends them."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ttf.errors import ConfigError
from ttf.process.line import LineLost
from ttf.tools.encode.collection import Collected
from ttf.tools.encode.encoder_process import EncoderProcess, request_for
from ttf.tools.encode.hosts.block_process import BlockProcess
from ttf.tools.encode.hosts.loose import Block, Form, LooseBlocks
from ttf.tools.encode.hosts.shared import AHEAD, blocks_of, loose_blocks, own_of
from ttf.tools.tickets.own import Own
from ttf.tools.tickets.pieces import send_bytes
from ttf.tools.tickets.place import Place


def hand_of(
    encoder: EncoderProcess,
    facts: Mapping[str, Any],
    kinds: Sequence[tuple[Collected, str]],
    work: Path,
    dtype: str,
    place: Place,
) -> EncodingHand:
    request = request_for(encoder.chosen, facts, kinds, work / "vectors", dtype)
    loose = loose_blocks(work, request)
    blocks = [block for kind, _ in kinds for block in blocks_of(kind)]
    return EncodingHand(
        place=place,
        own=own_of(encoder.chosen, facts, kinds, dtype),
        process=BlockProcess(encoder, request, loose),
        loose=loose,
        form=Form(dim=facts["dim"], dtype=dtype),
        blocks={(block.kind, block.first): block for block in blocks},
    )


@dataclass
class EncodingHand:
    """What `ttf.tools.tickets.follower` needs."""

    place: Place
    own: Own
    process: BlockProcess
    loose: LooseBlocks
    form: Form
    blocks: Mapping[tuple[str, int], Block]  # by kind and first row
    name: str = ""
    encoded: int = 0  # texts that arrived at node 0
    _sending: int = 0
    _asked: int = 0
    _gave_up: list[Block] = field(default_factory=list)
    _to_send: queue.SimpleQueue[tuple[str, Block, str] | None] = field(
        default_factory=queue.SimpleQueue
    )
    _sent: queue.SimpleQueue[tuple[Block, bool]] = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        self._key = ""
        self._thread = threading.Thread(target=self._send_all, name="ttf-blocks", daemon=True)
        self._thread.start()

    def hello(self) -> Mapping[str, Any]:
        return {**self.own.message, "name": self.name}

    def welcomed(self, welcome: Mapping[str, Any]) -> None:
        self.name, self._key = str(welcome["welcome"]), str(welcome["key"])
        self._asked = 0
        self._gave_up.clear()

    def heard(self, message: Mapping[str, Any]) -> None:
        if "ticket" not in message:
            return
        self._asked = max(0, self._asked - 1)
        kind, first, stop = message["ticket"]
        block = self.blocks.get((kind, first))
        if block is None or block.stop != stop:
            raise ConfigError(
                "Node 0 gave a block of texts that does not exist here.",
                hint="Is it the same version of ttf, and were the same files given?",
            )
        self.process.give(block)

    def look(self) -> None:
        for block, name in self.process.look():
            self._sending += 1
            self._to_send.put((self._key, block, name))
        while not self._sent.empty():
            block, arrived = self._sent.get()
            self._sending -= 1
            if arrived:
                self.encoded += block.stop - block.first
            else:
                self._gave_up.append(block)

    def to_say(self) -> Iterator[Mapping[str, Any]]:
        while self._gave_up:
            block = self._gave_up.pop()
            yield {"gave_up": [block.kind, block.first]}
        wanted = AHEAD - len(self.process.given) - self._sending
        if wanted > self._asked:
            self._asked = wanted
            yield {"want": wanted}

    def _send_all(self) -> None:
        address = self.place.host, self.place.port
        while (found := self._to_send.get()) is not None:
            key, block, name = found
            data = self.loose.read(name, self.form.size(block))
            try:
                if data is None:
                    raise LineLost("the block does not read back")
                header = {"numbers": [block.kind, block.first], "key": key}
                send_bytes(address, header, data, lambda: None)
                self._sent.put((block, True))
            except LineLost:
                self._sent.put((block, False))
            self.loose.remove(name)

    def close(self) -> None:
        self._to_send.put(None)
        self._thread.join()
