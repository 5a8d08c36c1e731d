"""What the processes of a run tell one another about a mining round, and what its table depends on."""

from __future__ import annotations

import hashlib
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ttf.errors import RanksDisagree
from ttf.mining.job import MiningReport
from ttf.training.auto_candidates import nearest
from ttf.training.session import Session


@dataclass(kw_only=True)
class Round:
    """How a mining round went, for metrics.jsonl."""

    seconds: float = 0.0
    encode_s: float = 0.0
    build_s: float = 0.0
    search_s: float = 0.0
    # Exact miners only: the share of answers that the first pass certified.
    certificate_rate: float | None = None
    reused: bool = False
    passing: bool = False  # Candidates are the best below the margins.
    # Queries whose vectors training had computed.
    from_training: int = 0
    deaths: list[str] = field(default_factory=list)

    def take(self, told: Sequence[Mapping[str, Any]]) -> None:
        """`told`: by those whose miners answered."""
        self.deaths += chain.from_iterable(facts["deaths"] for facts in told)
        self.build_s = max(float(facts["build_s"]) for facts in told)
        self.search_s = max(float(facts["search_s"]) for facts in told)
        self.certificate_rate = _rate(told)


def facts_of(report: MiningReport | None) -> Mapping[str, Any]:
    """Of this process's miner; empty if another one answers."""
    if report is None:
        return {}
    return {
        "miner": report.miner,
        "k": report.k,
        "below": report.below,
        "deaths": list(report.deaths),
        "build_s": report.build_s,
        "search_s": report.search_s,
        "rate": report.certificate_rate,
        "searched": report.queries - report.continued_from,
    }


def _rate(told: Sequence[Mapping[str, Any]]) -> float | None:
    """Of all queries, from those of the parts."""
    if len(told) == 1:
        rate: float | None = told[0]["rate"]
        return rate
    rates = [(facts["rate"], facts["searched"]) for facts in told if facts["rate"] is not None]
    searched = sum(count for _, count in rates)
    return sum(rate * count for rate, count in rates) / searched if searched else None


def identity_of(folder: Path) -> str:
    """The same text for the same folder of the same host."""
    found = folder.stat()
    return f"{socket.gethostname()}:{found.st_dev}:{found.st_ino}"


def refuse_other_tables(told: Sequence[Mapping[str, Any]]) -> None:
    names = sorted({str(other["name"]) for other in told})
    if len(names) > 1:
        raise RanksDisagree(
            f"The processes of this run would mine different candidate tables ({', '.join(names)}): "
            "their weights, data or settings differ.",
            hint="Continue with: ttf resume. If it happens again, test the memory of the hosts.",
        )


def table_name(session: Session, miner: str, rows: NDArray[np.int64], kept: bytes) -> str:
    """A hash of everything the table depends on; `kept`: of query vectors that are used again."""
    digest = hashlib.sha256()
    for name, tensor in session.parts.model.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    digest.update(rows.tobytes())
    digest.update(kept)
    settings = session.config.miner
    facts: tuple[object, ...] = (
        session.data.fingerprint,
        miner,
        sorted(settings.options_of(miner).items()),
        settings.num_candidates,
        settings.deterministic,
        session.config.train.seed,
    )
    if settings.candidates != "nearest":
        negatives, depth = session.config.negatives, nearest(session.config)
        margins = negatives.relative_margin, negatives.absolute_margin
        facts += (settings.candidates, depth, margins)
    digest.update(repr(facts).encode())
    return digest.hexdigest()[:24]
