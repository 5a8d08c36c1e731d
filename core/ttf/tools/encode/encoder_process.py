"""The parent's end: starts the encoder's process, shows its progress, and says why it died."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

from ttf.errors import GaveUp
from ttf.host import plugins
from ttf.process.error_document import from_document
from ttf.supervise.isolated_tasks import Ended, Task
from ttf.supervise.kept_process import KeptProcess
from ttf.tools.encode.collection import Collected

_WORK: Final = "ttf.tools.encode.work"
# A process that neither computes nor reads for so long waits for something that does not come.
_IDLE_S: Final = 300.0
_WAKE_S: Final = 0.1


@dataclass(frozen=True, kw_only=True)
class Chosen:
    """An encoder by name, with its options and threads."""

    name: str
    options: Mapping[str, Any]
    threads: int

    @property
    def request(self) -> dict[str, Any]:
        return {"encoder": self.name, "options": dict(self.options), "threads": self.threads}


class EncoderProcess:
    """The process of one encoder; its model is loaded once, for the facts and for all texts."""

    def __init__(self, chosen: Chosen) -> None:
        self.chosen = chosen
        self._process = KeptProcess()

    def facts(self) -> Mapping[str, Any]:
        """dim, about and fingerprint."""
        return self._answer("facts", self.chosen.request)

    def encode_texts(self, texts: Sequence[str], role: str) -> Mapping[str, Any]:
        """`rows`, and the facts of the encoder that made them."""
        request = self.chosen.request | {"texts": list(texts), "role": role}
        return self._answer("texts_now", request)

    def encode_kinds(
        self,
        facts: Mapping[str, Any],
        kinds: Sequence[tuple[Collected, str]],
        folder: Path,
        dtype: str,
        progress: Callable[[int, int], None],
        note: Callable[[str], None],
    ) -> None:
        """All vectors of all kinds, into `folder/<kind>`."""
        done = {kind.name: 0 for kind, _ in kinds}
        total = sum(kind.count for kind, _ in kinds)

        def heard(news: Mapping[str, Any]) -> None:
            if "kind" not in news:
                return
            done[news["kind"]] = int(news.get("done", news.get("kept", 0)))
            if news.get("kept"):
                note(f"{news['kept']:,} {news['kind']} are already encoded.")
            progress(sum(done.values()), total)

        request = request_for(self.chosen, facts, kinds, folder, dtype)
        self._answer("encode", request, heard, kept=True)

    def _answer(
        self,
        task: str,
        request: Mapping[str, Any],
        heard: Callable[[Mapping[str, Any]], None] | None = None,
        *,
        kept: bool = False,
    ) -> Mapping[str, Any]:
        self._process.begin(_task(task, request, heard))
        while True:
            self._process.wait(_WAKE_S)
            if (answer := self._look(kept=kept)) is not None:
                return answer

    def begin_block(self, request: Mapping[str, Any]) -> None:
        """One block of vectors, see `ttf.tools.encode.work.block`; `block_done` says when it is there."""
        self._process.begin(_task("block", request, None))

    def block_done(self) -> Mapping[str, Any] | None:
        return self._look(kept=True)

    def _look(self, *, kept: bool) -> Mapping[str, Any] | None:
        """None: there is no answer yet. Raises what the encoder raised, and GaveUp if it died."""
        ended = self._process.look()
        if ended is None:
            return None
        if ended.answer is not None and ended.death is None:
            return ended.answer
        if ended.error is not None:
            raise from_document(ended.error)
        raise _died(self.chosen, ended, kept=kept)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.close()


def _task(
    name: str, request: Mapping[str, Any], heard: Callable[[Mapping[str, Any]], None] | None
) -> Task:
    return Task(
        work=f"{_WORK}:{name}",
        request=request,
        deadline_s=math.inf,
        idle_s=_IDLE_S,
        heard=heard,
    )


def request_for(
    chosen: Chosen,
    facts: Mapping[str, Any],
    kinds: Sequence[tuple[Collected, str]],
    folder: Path,
    dtype: str,
) -> dict[str, Any]:
    """Of the task `encode`."""
    return chosen.request | {
        "facts": dict(facts),
        "dtype": dtype,
        "kinds": [
            {
                "name": kind.name,
                "stem": str(kind.folder / kind.name),
                "folder": str(folder / kind.name),
                "digest": kind.digest,
                "role": role,
            }
            for kind, role in kinds
        ],
    }


def _died(chosen: Chosen, ended: Ended, *, kept: bool) -> GaveUp:
    from ttf.tools.doctor.task_failures import in_a_word

    info = plugins.find("encoder", chosen.name)
    explained = ended.finding.explanation if ended.finding is not None else ""
    lines = [line for line in ended.stderr.splitlines() if line.strip()][-3:]
    shown = f" The end of its output: {' | '.join(lines)[:300]}" if lines else ""
    again = "What is encoded is kept: run the same command again to continue. " if kept else ""
    return GaveUp(
        f"The process of the encoder {info.reference} ({info.distribution} {info.version}) died: "
        f"{in_a_word(ended)}. {explained}{shown}",
        hint=f"{again}If it dies again: ttf plugins check {info.reference}",
    )
