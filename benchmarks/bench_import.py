"""`ttf data import` of Parquet: memory, time against size, and 20 kills.

    python benchmarks/bench_import.py [--gb 0.5,1,2] [--kills 20] [--folder DIR]

For each size: writes a Parquet file (float32 lists of 384 numbers, string ids; row groups as pyarrow
makes them), imports it in a process of its own, and prints seconds, processor seconds, MB/s and the peak of
anonymous memory (RssAnon and RssShmem of /proc, sampled every 20 ms). The slope is a straight line through the
seconds; it is what a larger size is predicted from. Then the largest file is imported again and killed
(SIGKILL) at random times; in the end every file must equal that of the undisturbed import.
"""

from __future__ import annotations

import argparse
import filecmp
import json
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

DIM = 384


def write(path: Path, gigabytes: float) -> int:
    rows, step = int(gigabytes * 1e9 / (DIM * 4)), 50_000
    schema = pa.schema([("id", pa.string()), ("vector", pa.list_(pa.float32()))])
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, schema) as writer:
        for start in range(0, rows, step):
            count = min(step, rows - start)
            values = pa.array(rng.standard_normal(count * DIM, dtype=np.float32))
            offsets = pa.array(np.arange(0, count * DIM + 1, DIM, dtype=np.int32))
            lists = pa.ListArray.from_arrays(offsets, values)
            ids = pa.array([f"document-{n}" for n in range(start, start + count)])
            batch = pa.record_batch([ids, lists], schema=schema)
            writer.write_batch(batch, row_group_size=1 << 20)  # one group grows over many batches
    return rows


def start(source: Path, out: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "ttf", "data", "import", str(source), "--out", str(out)]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def anonymous_mb(pid: int) -> float:
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0.0
    wanted = [line for line in lines if line.startswith(("RssAnon", "RssShmem"))]
    return sum(int(line.split()[1]) for line in wanted) / 1e3


def cpu_s() -> float:
    """Of the children that ended: what does not depend on how busy the machine is."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measured(source: Path, out: Path) -> tuple[float, float, float]:
    began, peak, before = time.perf_counter(), 0.0, cpu_s()
    child = start(source, out)
    while child.poll() is None:
        peak = max(peak, anonymous_mb(child.pid))
        time.sleep(0.02)
    if child.returncode:
        raise SystemExit(f"the import ended with {child.returncode}")
    return time.perf_counter() - began, cpu_s() - before, peak


def killed(source: Path, out: Path, kills: int, seconds: float) -> int:
    rng, done = random.Random(0), 0
    for _ in range(kills):
        child = start(source, out)
        try:
            child.wait(rng.uniform(0.3, max(1.0, seconds * 0.6)))
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGKILL)
            done += 1
        child.wait()
        if child.returncode == 0:  # it was finished: the next one begins anew
            shutil.rmtree(out)
    if start(source, out).wait():
        raise SystemExit("the last import failed")
    return done


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gb", default="0.5,1,2")
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    sizes = [float(text) for text in given.gb.split(",")]
    results = []
    with tempfile.TemporaryDirectory(dir=given.folder) as scratch:
        folder = Path(scratch)
        for size in sizes:
            source, out = folder / "source.parquet", folder / "out"
            shutil.rmtree(out, ignore_errors=True)
            rows = write(source, size)
            seconds, cpu, peak = measured(source, out)
            results.append(
                {
                    "gb": size,
                    "rows": rows,
                    "s": round(seconds, 2),
                    "cpu_s": round(cpu, 2),
                    "mb_per_s": round(size * 1e3 / seconds),
                    "peak_anon_mb": round(peak),
                }
            )
            print(json.dumps(results[-1]), flush=True)
        if len(sizes) > 1:
            for what in ("s", "cpu_s"):
                slope, base = np.polyfit(sizes, [r[what] for r in results], 1)
                line = {"of": what, "per_gb": round(slope, 2), "base": round(base, 2)}
                line |= {f"predicted_for_{n}_gb": round(base + n * slope) for n in (20, 100)}
                print(json.dumps(line), flush=True)
        if given.kills:
            count = killed(source, folder / "killed", given.kills, results[-1]["s"])
            equal = filecmp.cmpfiles(
                out / "bank", folder / "killed" / "bank", ["vectors.npy", "ids.npy"], shallow=False
            )
            print(json.dumps({"kills": count, "equal": equal[0], "different": equal[1] + equal[2]}))


if __name__ == "__main__":
    main()
