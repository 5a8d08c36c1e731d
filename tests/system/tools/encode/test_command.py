"""`ttf data encode` as a whole: files, the same command again, deaths of the encoder's process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.kit.widely import wide

import ttf
from ttf.tools.encode.card import read_card

if TYPE_CHECKING:
    from tests.conftest import FakeDistribution, Invoke

FAULTY = """
import ctypes, hashlib, os, pathlib
import numpy as np
from ttf import Availability, NoOptions, hookimpl

class Encoder:
    dim, about = 4, {"model": "faulty"}
    def fingerprint(self):
        return "0" * 16
    def encode(self, texts, role):
        mark = pathlib.Path(os.environ["TTF_FAULTY_MARK"])
        rows = np.array([list(hashlib.blake2b(t.encode(), digest_size=4).digest()) for t in texts], np.float32)
        if role == "query" and not mark.exists():
            mark.touch()
            ctypes.string_at(0)
        if any("poison" in t for t in texts):
            rows[[n for n, t in enumerate(texts) if "poison" in t]] = np.nan
        return rows

class Factory:
    name, options_type = "faulty", NoOptions
    def availability(self):
        return Availability(ok=True)
    def create(self, options, context):
        with open(os.environ["TTF_FAULTY_MARK"] + ".made", "a") as file:
            print("made", file=file)
        return Encoder()

@hookimpl
def ttf_encoder(name):
    return Factory()
"""


@pytest.fixture
def csv(tmp_path: Path) -> Path:
    path = tmp_path / "faq.csv"
    rows = "".join(f"question number {n}?,the answer {n % 2500} of many\n" for n in range(3000))
    path.write_text(f"question,answer\n{rows}")
    return path


@pytest.fixture
def faulty(fake_plugins: FakeDistribution, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    fake_plugins.add("ttf-faulty", {"encoder.faulty": "ttf_faulty"})
    fake_plugins.module("ttf_faulty", FAULTY)
    monkeypatch.setenv("PYTHONPATH", str(fake_plugins.folder))
    mark = tmp_path / "died"
    monkeypatch.setenv("TTF_FAULTY_MARK", str(mark))
    return mark


def contents(out: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in out.iterdir()}


def command(csv: Path, out: Path, *more: str) -> list[str | Path]:
    return ["data", "encode", csv, "--encoder", "hash", "--set", "dim=32", "--out", out, *more]


def test_texts_become_pairs_and_bank_that_train_and_the_same_command_does_nothing(
    invoke: Invoke, csv: Path, tmp_path: Path
) -> None:
    out = tmp_path / "data"
    made = invoke([*command(csv, out), "--json"]).json()
    assert set(contents(out)) == {"bank.npz", "pairs.npz", "card.json", "card.md"}
    counts = made["counts"]
    assert (counts["documents"], counts["queries"]) == (2500, 3000)
    assert counts["train_pairs"] + counts["val_pairs"] == 3000
    assert made["train_command"] == f"ttf train --pairs {out}/pairs.npz --bank {out}/bank.npz"
    with np.load(out / "bank.npz") as bank, np.load(out / "pairs.npz") as pairs:
        assert bank["vectors"].shape == (2500, 32) and bank["vectors"].dtype == np.float32
        texts = bank["texts"].tobytes()[: bank["text_ends"][0]].decode()
        assert texts == "the answer 0 of many"
        assert not set(pairs["pos_train"].ravel()) & set(pairs["pos_val"].ravel())

    before = contents(out)
    again = invoke([*command(csv, out), "--json"]).json()
    assert again["already_there"] and contents(out) == before
    other = invoke(command(csv, out, "--dtype", "f16"))
    assert other.code == 2 and "--overwrite" in other.err and contents(out) == before
    assert invoke(command(csv, out, "--dtype", "f16", "--overwrite")).code == 0
    with np.load(out / "bank.npz") as bank:
        assert bank["vectors"].dtype == np.float16

    assert "Next: ttf train" in invoke(["data", "inspect", out / "pairs.npz"]).err


def test_python_does_the_same_as_the_command(invoke: Invoke, csv: Path, tmp_path: Path) -> None:
    assert invoke(command(csv, tmp_path / "a")).code == 0
    made = ttf.encode(csv, out=tmp_path / "b", encoder="hash", options={"dim": 32})
    first, second = contents(tmp_path / "a"), contents(tmp_path / "b")
    assert first["bank.npz"] == second["bank.npz"] and first["pairs.npz"] == second["pairs.npz"]
    assert made.dim == 32 and "2,500 documents" in repr(made)


def test_an_encoder_that_segfaults_is_named_and_the_next_attempt_continues(
    invoke: Invoke, csv: Path, tmp_path: Path, faulty: Path
) -> None:
    words = ["data", "encode", str(csv), "--encoder", "faulty"]
    died = invoke([*words, "--out", str(tmp_path / "a")])
    assert died.code == 5, died.err
    assert "encoder.faulty (ttf-faulty 1.0) died: segfault (SIGSEGV)" in died.err
    assert "run the same command again" in died.err
    assert {path.name for path in (tmp_path / "a").iterdir()} == {".encode"}
    second = invoke([*words, "--out", str(tmp_path / "a")])
    assert second.code == 0 and "2,500 documents are already encoded" in second.err
    assert invoke([*words, "--out", str(tmp_path / "b")]).code == 0
    assert contents(tmp_path / "a") == contents(tmp_path / "b")
    made = Path(f"{faulty}.made").read_text().splitlines()
    assert len(made) == 3, "one model for each command"


def test_a_vector_that_is_not_finite_is_told_with_its_text(
    invoke: Invoke, csv: Path, tmp_path: Path, faulty: Path
) -> None:
    faulty.touch()
    csv.write_text(csv.read_text() + "ask,a poisoned answer\n")
    refused = invoke(["data", "encode", csv, "--encoder", "faulty", "--out", tmp_path / "a"])
    assert refused.code == 3
    assert "NaN or infinity of the text 'a poisoned answer'" in refused.err


@wide
def test_kill_9_anywhere_leaves_what_the_same_command_continues(csv: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "ttf", *map(str, command(csv, tmp_path / "whole"))]
    subprocess.run(words, check=True, capture_output=True)
    words[words.index(str(tmp_path / "whole"))] = str(tmp_path / "killed")
    work = tmp_path / "killed" / ".encode"
    for place in (work / "texts", work / "plan.json", work / "vectors" / "queries"):
        running = subprocess.Popen(words, stderr=subprocess.DEVNULL, start_new_session=True)
        while running.poll() is None and not place.exists():
            time.sleep(0.002)
        if running.poll() is None:
            os.killpg(running.pid, signal.SIGKILL)
        running.wait()
    subprocess.run(words, check=True, capture_output=True)
    assert contents(tmp_path / "killed") == contents(tmp_path / "whole")


@wide
def test_other_bits_of_an_encoder_make_what_is_there_stale(
    invoke: Invoke, csv: Path, tmp_path: Path
) -> None:
    """The options are a part of the encoder's fingerprint."""
    out = tmp_path / "data"
    assert invoke(command(csv, out)).code == 0
    first = read_card(out)
    assert invoke(command(csv, out, "--set", "seed=1", "--overwrite")).code == 0
    second = read_card(out)
    assert first is not None and second is not None
    assert first["encoder"]["fingerprint"] != second["encoder"]["fingerprint"]
    assert first["texts"] == second["texts"] and first["identity"] != second["identity"]


def test_an_output_that_has_other_files_is_refused(
    invoke: Invoke, csv: Path, tmp_path: Path
) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "bank.npz").write_text("important")
    refused = invoke(command(csv, tmp_path / "mine"))
    assert refused.code == 2 and (tmp_path / "mine" / "bank.npz").read_text() == "important"


def test_errors_are_one_document_with_json(invoke: Invoke, tmp_path: Path) -> None:
    done = invoke(
        ["data", "encode", tmp_path / "x.csv", "--encoder", "hash", "--out", "o", "--json"]
    )
    found: dict[str, Any] = json.loads(done.out)
    assert done.code == 3 and "no such file" in json.dumps(found)
