"""Shards behind an address: how fast they come, and whether a step with a warm cache waits for them.

A server on loopback, in a process of its own, answers for parts of files and counts its requests. Gathers are compared
with those from an NPZ file with the same rows (512 of 3 KB, in the page cache); the steps are those of a run that opened
the address, against the same steps from memory ("headspace", bar 1%).

    python benchmarks/bench_objects.py
    python benchmarks/bench_objects.py --tower gru --repeats 15
"""

from __future__ import annotations

import argparse
import functools
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
from headspace import headspace

from ttf.data.convert import convert
from ttf.data.synth import SynthShape, write_synth
from ttf.data.vectors import empty_rows
from ttf.host.plugins import open_store
from ttf.tools.bench.paired import in_turns, ratio

ROWS, GATHERS = 512, 100
ASKED = "/asked"


class Handler(BaseHTTPRequestHandler):
    """Parts of files below the current folder."""

    protocol_version = "HTTP/1.1"
    asked = 0

    def do_GET(self) -> None:
        if self.path == ASKED:
            self._answer(str(Handler.asked).encode())
            return
        Handler.asked += 1
        path = Path(self.path.lstrip("/"))
        first, _, last = self.headers["Range"].removeprefix("bytes=").partition("-")
        size = path.stat().st_size
        start, stop = int(first), min(int(last) + 1, size)
        self.send_response(206)
        self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{size}")
        self.send_header("Content-Length", str(stop - start))
        self.send_header("Last-Modified", self.date_time_string(0))
        self.end_headers()
        with path.open("rb") as file:
            self.connection.sendfile(file, start, stop - start)

    def _answer(self, body: bytes) -> None:
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Silence."""


def serve(folder: Path) -> None:
    os.chdir(folder)
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    print(f"http://127.0.0.1:{server.server_port}", flush=True)
    server.serve_forever()


@contextmanager
def served(folder: Path) -> Iterator[str]:
    words = [sys.executable, __file__, "--serve", str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        try:
            yield server.stdout.readline().strip()
        finally:
            server.kill()


def requests(url: str) -> int:
    from urllib.request import urlopen

    with urlopen(url + ASKED) as answer:
        return int(answer.read())


def made(folder: Path, tower: str) -> dict[str, Path]:
    shape = SynthShape(
        pairs=4096 if tower == "gru" else 100_000,
        val=1,
        seq_len=100 if tower == "gru" else 1,
        dim=768,
        bank=60_000,
        seed=0,
    )
    files = write_synth(folder / "data", shape)
    for role in ("pairs", "bank"):
        convert(str(files[role]), str(folder / "data" / f"{role}.objects"))
    return {role: Path(files[role]) for role in ("pairs", "bank")}


@contextmanager
def opened(folder: Path, url: str, tower: str) -> Iterator[Any]:
    """A run as `ttf train` opens it."""
    from ttf.config.resolve import resolve
    from ttf.rundir.run_folder import RunFolder
    from ttf.text.progress import Reporter
    from ttf.tools.bench.ours import policy_of
    from ttf.training.session import open_session

    sets = ["device.name=cpu", f"tower.query.name={tower}", "miner.negatives=0"]
    sets += ["train.batch_size=32", "train.accumulate=4", "train.epochs=100000"]
    sets += ["evaluate.every=end", f"loss.memory_bank={50_000 if tower == 'gru' else 0}"]
    flags = {"pairs": f"{url}/pairs.objects", "bank": f"{url}/bank.objects"}
    resolved = resolve(sets=sets, flags=flags)
    run = RunFolder.new(folder / "run")
    with open_session(resolved, run, policy_of(resolved.config), Reporter()) as session:
        yield session
    run.close()


def fetching(url: str) -> None:
    for role in ("pairs", "bank"):
        store: Any = open_store(f"{url}/{role}.objects")
        before, began = _cpu_s(), time.perf_counter()
        for name in store.names():
            store.source(name).fetch()
        took, cpu = time.perf_counter() - began, _cpu_s() - before
        mb = store.content_bytes / 1e6
        print(f"fetch {role}: {mb:.0f} MB in {took:.1f} s, {mb / took:.0f} MB/s, cpu {cpu:.1f} s")
        store.close()


def _cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def gathers(files: dict[str, Path], url: str, repeats: int) -> None:
    stores = {"npz": open_store(str(files["bank"])), "objects": open_store(f"{url}/bank.objects")}
    sources: dict[str, Any] = {kind: store.source("vectors") for kind, store in stores.items()}
    sources["objects"].fetch()
    count, rng = sources["npz"].shape[0], np.random.default_rng(1)
    for source in sources.values():
        source.gather(np.arange(count))
    draws = [rng.choice(count, ROWS, replace=False) for _ in range(GATHERS)]
    out = empty_rows((ROWS, sources["npz"].shape[1]), "float32")

    def turn(kind: str) -> None:
        for ids in draws:
            sources[kind].gather(ids, out)

    seconds = in_turns({kind: functools.partial(turn, kind) for kind in sources}, repeats, warm=2)
    each = {k: 1e6 * statistics.median(v) / GATHERS for k, v in seconds.items()}
    print(
        f"gather {ROWS} rows: npz {each['npz']:.0f} us, objects {each['objects']:.0f} us, "
        f"objects / npz {ratio(seconds['objects'], seconds['npz'])}"
    )
    for store in stores.values():
        store.close()


def steps(folder: Path, url: str, tower: str, repeats: int, at_a_time: int | None) -> None:
    with opened(folder, url, tower) as session:
        asked = requests(url)
        with session.load(0, session.decided.total_steps, None) as loader:
            found = headspace(
                lambda head, batches: session.parts.stepper(head, batches, 1e-4),
                iter(loader),
                steps_a_turn=at_a_time or (4 if tower == "gru" else 100),
                repeats=repeats,
            )
        ms = 1e3 * statistics.median(found.cached_s)
        print(
            f"loader stall, {tower}, from a warm cache: {found}; a turn {ms:.0f} ms; bar 1%; "
            f"{requests(url) - asked} requests meanwhile"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tower", choices=["gru", "linear"], default="linear")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--steps", type=int, help="of a turn; fewer on a busy machine")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.serve is not None:
        serve(given.serve)
        return
    with tempfile.TemporaryDirectory(prefix="bench-objects-") as name:
        folder = Path(name)
        os.environ["TTF_HOME"] = str(folder / "home")
        files = made(folder, given.tower)
        with served(folder / "data") as url:
            fetching(url)
            gathers(files, url, given.repeats)
            steps(folder, url, given.tower, given.repeats, given.steps)


if __name__ == "__main__":
    main()
