"""Several trainers that train one run together, started without a supervisor."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import socket
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ttf.process.child import Child
from ttf.process.conversation import Conversation, wait
from ttf.rundir.flight_record import FlightReader
from ttf.rundir.request import TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.world_place import WorldPlace

_TRAINER = ("-m", "ttf.training.launch", "-1")
# What a line of metrics.jsonl says about times and processes, and not about results.
_OF_A_PROCESS = {
    "time", "seconds", "samples_per_s", "data_s", "compute_s", "exchange_s", "encode_s",
    "build_s", "search_s", "cost_s", "reused", "certificate_rate",
}  # fmt: skip


@dataclass(frozen=True)
class Ended:
    """How one trainer ended: its final record, its exit code, the end of its stderr, all that it
    told its supervisor."""

    end: dict[str, Any]
    code: int
    stderr: str
    told: str

    @property
    def summary(self) -> dict[str, Any]:
        assert "summary" in self.end, (self.code, self.end, self.stderr)
        found: dict[str, Any] = self.end["summary"]
        return found


def small_data(
    folder: Path, *, pairs: int = 400, dim: int = 16, length: int = 6, val: int = 90
) -> dict[str, Any]:
    """Sequences whose last vectors are near a document of 300; flags of `ttf train`."""
    rng = np.random.default_rng(3)
    bank = rng.standard_normal((300, dim)).astype(np.float32)
    positives = rng.integers(0, 300, pairs)
    noise = rng.standard_normal((pairs, length, dim)).astype(np.float32)
    queries = (bank[positives][:, None] + noise).astype(np.float32)
    folder.mkdir(parents=True, exist_ok=True)
    np.savez(
        folder / "pairs.npz",
        X_train=queries,
        pos_train=positives,
        X_val=queries[:val],
        pos_val=positives[:val],
    )
    np.savez(folder / "bank.npz", vectors=bank)
    return {"data.pairs": str(folder / "pairs.npz"), "data.bank": str(folder / "bank.npz")}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def folder_of(out: Path, rank: int) -> Path:
    return out / "ranks" / str(rank) if rank else out


def folders_of(out: Path, nodes: Sequence[int]) -> list[Path]:
    """Of the ranks of several hosts, which have so many each."""
    hosts = [out if not node else out / "nodes" / str(node) for node in range(len(nodes))]
    return [
        folder_of(host, at) for host, ranks in zip(hosts, nodes, strict=True) for at in range(ranks)
    ]


def train_ranks(
    out: Path,
    ranks: int,
    flags: dict[str, Any],
    *,
    resume: bool = False,
    timeout_s: float = 30,
    kill: tuple[int, int] | None = None,
    nodes: Sequence[int] = (),
    failpoint: tuple[int, str] = (-1, ""),
) -> list[Ended]:
    """Starts the ranks of an attempt and waits until all have ended. `kill`: a rank, and the step
    that it has done when it is killed. `nodes`: how many ranks each host has, if there are several.
    `failpoint`: of one rank."""
    nodes = nodes or (ranks,)
    assert sum(nodes) == ranks
    places = [(at, count) for count in nodes for at in range(count)]
    folders = folders_of(out, nodes)
    store = f"127.0.0.1:{free_port()}"
    children: list[tuple[Child, Conversation]] = []
    for rank, path in enumerate(folders):
        path.mkdir(parents=True, exist_ok=True)
        RunFolder(path).make_folders()
        if resume and rank and not (path / "run.toml").exists():
            for name in ("run.toml", "manifest.json"):
                shutil.copy(out / name, path / name)
        place = WorldPlace(
            rank=rank,
            size=ranks,
            local_rank=places[rank][0],
            local_size=places[rank][1],
            store=store,
            interface="lo",
            exchange_timeout_s=timeout_s,
        )
        world = place if ranks > 1 else None
        request = TrainRequest(
            run_dir=str(path), resume=resume, flags={} if resume else flags, world=world
        )
        fault = {"TTF_FAILPOINT": failpoint[1]} if rank == failpoint[0] else None
        child = Child(_TRAINER, environment=fault)
        children.append((child, Conversation(child, {"request": asdict(request)})))
    return _ends(children, folders, kill)


def _ends(
    children: list[tuple[Child, Conversation]],
    folders: Sequence[Path],
    kill: tuple[int, int] | None,
) -> list[Ended]:
    ends: dict[int, dict[str, Any]] = {}
    told: dict[int, list[str]] = {rank: [] for rank in range(len(children))}
    while any(child.alive() for child, _ in children):
        wait([talk for _, talk in children], 0.02 if kill else 0.2)
        _take(children, ends, told)
        if kill and steps_done(folders[kill[0]]) >= kill[1]:
            children[kill[0]][0].signal(signal.SIGKILL)
            kill = None
    codes = [child.end(5) for child, _ in children]
    _take(children, ends, told)
    found = [
        Ended(
            ends.get(rank, {}),
            codes[rank],
            talk.stderr.data().decode(errors="replace"),
            "\n".join(told[rank]),
        )
        for rank, (_, talk) in enumerate(children)
    ]
    for child, _ in children:
        child.close()
    return found


def steps_done(folder: Path) -> int:
    if not (folder / "flight.bin").exists():
        return 0
    reader = FlightReader(folder / "flight.bin")
    try:
        return reader.read().step
    finally:
        reader.close()


def _take(
    children: list[tuple[Child, Conversation]],
    ends: dict[int, dict[str, Any]],
    told: dict[int, list[str]],
) -> None:
    for rank, (_, talk) in enumerate(children):
        for message in talk.take():
            told[rank].append(str(message))
            if "end" in message:
                ends[rank] = message["end"]


def results_of(out: Path) -> dict[str, Any]:
    """What must be equal: weights, mined tables, all that metrics.jsonl says but times."""
    tables = {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted((out / "candidates").rglob("*.npy"))
    }
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    kept = [
        {key: value for key, value in line.items() if key not in _OF_A_PROCESS}
        for line in lines
        if line["type"] in ("step", "eval", "mining")
    ]
    return {"tables": tables, "metrics": kept}
