"""A process that fetches shards, for tests that kill it or start two:
python -m tests.kit.fetch_shards URL FOLDER [hold]; with "hold" it keeps its lease until its input ends."""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

from tests.kit.object_server import PlainRemote

from ttf import Fetching, NodeCache, Shard


def shards_of(url: str, folder: Path) -> list[Shard]:
    return [
        Shard(
            key=path.name,
            address=f"{url}/{path.name}",
            size=path.stat().st_size,
            sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        )
        for path in sorted(folder.glob("*.bin"))
    ]


def main(url: str, folder: str, hold: str = "") -> None:
    cache = NodeCache()
    cache.bring(shards_of(url, Path(folder)), lambda: PlainRemote(url), Fetching())
    print("here", flush=True)
    if hold:
        sys.stdin.read()
    cache.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
