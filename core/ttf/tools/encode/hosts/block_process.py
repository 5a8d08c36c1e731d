"""The parent's end of the encoder's process on this host: gives it blocks, never waits for them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping
from typing import Any, Final

from ttf.incidents.classify import classify
from ttf.incidents.death import ProcessEnd
from ttf.incidents.gather import Witness
from ttf.process import serve
from ttf.process.activity import bytes_moved, ticks
from ttf.process.child import Child
from ttf.process.conversation import GRACE_S, Conversation
from ttf.process.error_document import from_document
from ttf.supervise.isolated_tasks import Ended, Task
from ttf.tools.encode.encoder_process import IDLE_S, Chosen, died
from ttf.tools.encode.hosts.loose import Block, LooseBlocks

_MODULE: Final = "ttf.tools.encode.hosts.worker"


class BlockProcess:
    def __init__(self, chosen: Chosen, request: Mapping[str, Any], loose: LooseBlocks) -> None:
        """Call it in the main thread. `request` as for `ttf.tools.encode.work.encode`."""
        self.given: list[Block] = []
        self._chosen = chosen
        self._scratch = tempfile.TemporaryDirectory(prefix="ttf-encode-")
        self._child = Child(serve.warm(_MODULE, None), environment={"TMPDIR": self._scratch.name})
        asked = serve.task("open_all", {**request, "loose": str(loose.folder)})
        self._conversation = Conversation(self._child, asked)
        self._witness = Witness("command", self._child.pid)
        self._did: tuple[int | None, int | None] = (None, None)
        self._did_at = time.monotonic()

    def give(self, block: Block) -> None:
        self.given.append(block)
        self._conversation.send(serve.task("encode_block", {"block": list(block)}))

    def look(self) -> list[tuple[Block, str]]:
        """The blocks that are files now, with their names. Raises what the encoder raised, and GaveUp if it died."""
        alive = self._child.alive()  # looked at first: it may answer and die at any moment
        done = []
        for message in self._conversation.take():
            if isinstance(message.get("error"), dict):
                raise from_document(message["error"])
            answer = message.get("answer")
            if isinstance(answer, dict) and "block" in answer:
                block = Block(*answer["block"])
                self.given.remove(block)
                done.append((block, str(answer["name"])))
        self._witness.look()
        if not alive or self._conversation.garbage or self._hangs():
            raise died(self._chosen, self._ended(), kept=True)
        return done

    def _hangs(self) -> bool:
        """It neither computes nor reads, and has something to do."""
        did = ticks(self._child.pid), bytes_moved(self._child.pid)
        if did != self._did or did == (None, None) or not self.given:
            self._did, self._did_at = did, time.monotonic()
        return time.monotonic() - self._did_at > IDLE_S

    def _ended(self) -> Ended:
        hung = self._child.alive()
        if hung:
            self._child.kill()
        code = self._child.end(GRACE_S)
        self._conversation.take()
        raw = self._conversation.stderr.data()
        killed = ("hang", f"it did nothing for {IDLE_S:.0f} s") if hung else ("", "")
        end = ProcessEnd(returncode=code, killed=killed, stderr=raw, finished=False)  # type: ignore[arg-type]
        death = self._witness.death(end)
        return Ended(
            task=Task(work=_MODULE),
            seconds=0.0,
            death=death,
            finding=classify(death),
            stderr=raw.decode(errors="replace"),
        )

    def close(self) -> None:
        self._child.close()
        self._witness.close()
        self._scratch.cleanup()
