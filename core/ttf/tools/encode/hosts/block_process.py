"""The encoder's process of this host, one block after another: nobody waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ttf.tools.encode.encoder_process import EncoderProcess
from ttf.tools.encode.hosts.loose import Block, LooseBlocks


@dataclass
class BlockProcess:
    encoder: EncoderProcess
    request: Mapping[str, Any]  # as for `ttf.tools.encode.work.encode`
    loose: LooseBlocks
    given: list[Block] = field(default_factory=list)
    _begun: bool = False  # the first of them

    def give(self, block: Block) -> None:
        self.given.append(block)
        self._begin()

    def _begin(self) -> None:
        if self._begun or not self.given:
            return
        block = self.given[0]
        kind = next(kind for kind in self.request["kinds"] if kind["name"] == block.kind)
        asked = {**self.request, "kind": kind, "block": list(block)}
        self.encoder.begin_block({**asked, "loose": str(self.loose.folder)})
        self._begun = True

    def look(self) -> list[tuple[Block, str]]:
        """The blocks that are files now, with their names. Raises what the encoder raised, and GaveUp
        if it died."""
        if not self._begun or (answer := self.encoder.block_done()) is None:
            return []
        self._begun = False
        block = self.given.pop(0)
        self._begin()
        return [(block, str(answer["name"]))]
