"""Bad input, a row each: the files, the command line, its exit code and what the message names.

Every row must end with one message on standard error, no traceback, and nothing left behind.
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

if TYPE_CHECKING:
    from tests.conftest import Invoke

D, TRAIN, VAL, BANK = 8, 64, 16, 40
Change = Callable[[Path], object]
TRAINS = ("train", "--pairs", "pairs.npz", "--bank", "bank.npz", "--out", "run",
          "--tower", "linear", "--miner", "exact", "--isolation", "none", "--steps", "2",
          "--batch-size", "8", "--device", "cpu", "--set", "tower.query={}")  # fmt: skip


def vectors(rows: int, *shape: int, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((rows, *shape)).astype(np.float32)


def good_pairs() -> dict[str, Any]:
    return {
        "X_train": vectors(TRAIN, D),
        "X_val": vectors(VAL, D, seed=1),
        "pos_train": np.arange(TRAIN) % BANK,
        "pos_val": np.arange(VAL) % BANK,
    }


def good_bank() -> dict[str, Any]:
    return {"vectors": vectors(BANK, D, seed=2)}


def pairs(**changes: Any) -> Change:
    """pairs.npz with arrays changed, added or (None) left out."""

    def make(folder: Path) -> None:
        arrays = {k: v for k, v in (good_pairs() | changes).items() if v is not None}
        np.savez(folder / "pairs.npz", **arrays)

    return make


def bank(**changes: Any) -> Change:
    def make(folder: Path) -> None:
        arrays = {k: v for k, v in (good_bank() | changes).items() if v is not None}
        np.savez(folder / "bank.npz", **arrays)

    return make


def both(*changes: Change) -> Change:
    return lambda folder: [change(folder) for change in changes]


def text(name: str, content: str) -> Change:
    return lambda folder: (folder / name).write_text(content)


def content(name: str, data: bytes) -> Change:
    return lambda folder: (folder / name).write_bytes(data)


def cut(name: str, keep: float) -> Change:
    """The file as an interrupted copy leaves it."""

    def make(folder: Path) -> None:
        data = (folder / name).read_bytes()
        (folder / name).write_bytes(data[: int(len(data) * keep)])

    return make


def deflated(folder: Path) -> None:
    np.savez_compressed(folder / "pairs.npz", **good_pairs())


def no_values(folder: Path) -> None:
    np.savez_compressed(folder / "flat.npz", vectors=np.zeros((40, 0), np.float32))


def overwritten(folder: Path) -> None:
    """Bytes of an array's own header are gone: the zip is whole, the member is not."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr("vectors.npy", b"\x00" * 4096)
    (folder / "bank.npz").write_bytes(buffer.getvalue())


def with_value(array: np.ndarray[Any, Any], index: tuple[int, ...], value: float) -> Any:
    array = array.copy()
    array[index] = value
    return array


def a_run(folder: Path, config: str = "") -> None:
    """A folder as a run leaves it that never came to a checkpoint."""
    for name in ("checkpoints", "candidates", "index", "incidents"):
        (folder / "old" / name).mkdir(parents=True)
    default = "[data]\npairs = '../pairs.npz'\nbank = '../bank.npz'\n[device]\nname = 'cpu'\n"
    (folder / "old" / "run.toml").write_text(config or default)


def robbed(folder: Path) -> None:
    """Somebody deleted what the run had saved."""
    a_run(folder)
    journal = {"restarts": 0, "wall_s": 1.0, "checkpointed": 8, "overlay": {}}
    (folder / "old" / "supervision.json").write_text(json.dumps(journal))
    (folder / "old" / "manifest.json").write_text("{}")


def pipe(name: str) -> Change:
    return lambda folder: os.mkfifo(folder / name)


def nothing(folder: Path) -> None:
    """Only the good files."""


@dataclass(frozen=True)
class Row:
    """What is wrong, made by `change` in a folder that has good files; `says` is in the message."""

    id: str
    change: Change
    argv: tuple[str, ...]
    code: int
    says: tuple[str, ...]


def usage(id: str, argv: str, *says: str, change: Change = nothing) -> Row:
    return Row(id, change, tuple(argv.split()), 2, says)


def data(id: str, change: Change, *says: str, extra: tuple[str, ...] = ()) -> Row:
    return Row(id, change, (*TRAINS, *extra), 3, says)


def swapped(flag: str, value: str) -> tuple[str, ...]:
    """TRAINS with another value of one flag; None of the rest changes."""
    words = list(TRAINS)
    words[words.index(flag) + 1] = value
    return tuple(words)


def without(flag: str) -> tuple[str, ...]:
    at = TRAINS.index(flag)
    return TRAINS[:at] + TRAINS[at + 2 :]


SEQ = np.zeros((TRAIN, 4), np.int32)
SEQ_VAL = np.zeros((VAL, 4), np.int32)

ROWS = [
    # usage: 2
    usage("unknown command", "trian", "'trian'", "'train'"),
    usage("unknown option", "train --epoch 3", "--epoch", "--epochs"),
    usage("misspelt supervision", "train --set supervise.max_restart=3",
          "supervise.max_restart", "'max_restarts'"),
    usage("negative probe", "train run.toml", "run.toml:2: probe.every",
          change=text("run.toml", "[probe]\nevery = -3\n")),
    usage("misspelt tower", "train --tower gruu", "--tower", "'gru'"),
    usage("misspelt miner", "train --miner hnswlb", "--miner", "'hnswlib'"),
    usage("misspelt device", "train --device cpuu", "--device", "'cpu'"),
    usage("misspelt storage", "train --storage npx", "--storage", "'npz'"),
    usage("steps that are a word", "train --steps many", "--steps", "many"),
    usage("batch size that is a word", "train --batch-size large", "--batch-size", "large", "auto"),
    usage("learning rate zero", "train --lr 0", "--lr", "greater than 0"),
    usage("negative seed", "train --seed -1", "--seed", "-1"),
    usage("precision nobody has", "train --precision fp64", "--precision", "fp32"),
    usage("set without a value", "train --set train.lr", "--set train.lr", "key.path=value"),
    usage("set of an unknown section", "train --set trian.lr=1", "--set", "'train'"),
    usage("set of an unknown key", "train --set train.ler=1", "train.ler", "'lr'"),
    usage("unknown option of a tower", "train --tower gru --set tower.query.hiden=3",
          "tower.query.hiden", "'hidden'"),
    usage("option of a tower out of bounds", "train --tower gru --set tower.query.hidden=0",
          "tower.query.hidden", "(got 0)"),
    usage("options of a miner that is not there", "train --set miner.fais.kind=flat",
          "miner.fais", "'faiss'"),
    usage("metric that is not computed", "train --set evaluate.metric=recall@11",
          "evaluate.metric", "recall@10"),
    usage("size that is none", "train --set memory.budget=lots", "memory.budget", "512MiB"),
    usage("bank without pairs", "train --bank bank.npz", "--bank", "--pairs"),
    usage("bad TOML", "train run.toml", "run.toml", "line 2",
          change=text("run.toml", "[train]\nlr = = 3\n")),
    usage("configuration that is not there", "train rum.toml", "rum.toml", "'run.toml'",
          change=text("run.toml", "")),
    usage("configuration that is data", "train pairs.npz", "pairs.npz", "not UTF-8"),
    usage("configuration that is a folder", "train .", "is a folder", "ttf resume"),
    usage("unknown key in a file", "train run.toml", "run.toml:2", "'epochs'",
          change=text("run.toml", "[train]\nepohs = 3\n")),
    usage("key of another program", "train run.yaml", "run.yaml:2", "train.batch_size",
          change=text("run.yaml", "train:\n  bs: 3\n")),
    usage("YAML with an alias", "train run.yaml", "run.yaml:1", "repeat the value",
          change=text("run.yaml", "a: &x 1\nb: *x\n")),
    usage("wrong type in a file", "train run.toml", "run.toml:2", "train.epochs", "True",
          change=text("run.toml", "[train]\nepochs = true\n")),
    usage("several problems at once", "train run.toml --lr 0", "3 problems", "run.toml:2",
          "run.toml:4", "--lr",
          change=text("run.toml", "[train]\nepochs = 0\n[miner]\nname = 'nobody'\n")),
    usage("gate that says nothing", "train run.toml", "run.toml:3", "recall@500 >= 0.25",
          change=text("run.toml", "[[gates]]\nat = 'epoch 1'\nneed = 'good'\n")),
    usage("resume with other flags", "train --resume old --lr 3", "--resume", "--lr"),
    usage("recall at zero", "eval run --k 0", "--k", "1 or more"),
    usage("search without queries", "search run", "--queries"),
    usage("search for no documents", "search run --queries pairs.npz -k 0", "-k"),
    usage("plugin that is not there", "plugins show miner.fais", "'faiss'"),
    usage("address with a password", "data inspect https://me:hunter2@host/bank", "password"),
    usage("address that is none", "data verify s3:///bank", "no address"),
    usage("output at an address", "data convert bank.npz s3://b/bank.objects", "on this machine"),
    usage("shell nobody completes", "completion tcsh", "tcsh", "bash"),
    Row("folder that holds a run", a_run, swapped("--out", "old"), 2,
        ("old", "ttf resume old")),
    Row("pairs of an unknown kind", text("pairs.csv", "1,2"), swapped("--pairs", "pairs.csv"), 2,
        ("pairs.csv", "ttf data encode")),
    # data: 3
    Row("pairs that are not there", nothing, swapped("--pairs", "pair.npz"), 3,
        ("pair.npz", "pairs.npz")),
    Row("bank that is not there", nothing, swapped("--bank", "no/bank.npz"), 3, ("no/bank.npz",)),
    Row("run folder that is not there", nothing, ("resume", "nowhere"), 3, ("nowhere", "run.toml")),
    Row("evaluation of a folder that is no run", nothing, ("eval", "."), 3, ("run.toml",)),
    Row("search in a folder that is no run", nothing, ("search", ".", "--queries", "pairs.npz"), 3,
        ("run.toml",)),
    Row("weights to start from that are not there", nothing,
        (*TRAINS, "--init", "w.safetensors"), 3, ("w.safetensors",)),
    Row("weights to start from that are none", content("w.safetensors", b"not weights at all"),
        (*TRAINS, "--init", "w.safetensors"), 3, ("w.safetensors",)),
    Row("weights to start from that are a pipe", pipe("w.safetensors"),
        (*TRAINS, "--init", "w.safetensors"), 3, ("w.safetensors", "pipe")),
    Row("weights to start from that are a folder", nothing,
        (*TRAINS, "--init", "."), 3, ("--init ", "is a folder")),
    Row("a plan with weights that are not there", nothing,
        (*TRAINS, "--init", "w.safetensors", "--plan"), 3, ("w.safetensors", "no such file")),
    Row("a plan with weights that are none", content("w.safetensors", b"not weights at all"),
        (*TRAINS, "--init", "w.safetensors", "--plan"), 3, ("w.safetensors", "safetensors file")),
    data("empty file", content("pairs.npz", b""), "pairs.npz"),
    data("no zip file", content("pairs.npz", b"X_train" * 100), "pairs.npz"),
    data("half a file", cut("pairs.npz", 0.5), "pairs.npz"),
    data("nearly a whole file", cut("bank.npz", 0.99), "bank.npz"),
    data("overwritten array header", overwritten, "bank.npz", "vectors"),
    Row("compressed rows without values", no_values, ("data", "convert", "flat.npz", "copy.npz"), 3,
        ("the array 'vectors' has the shape 40x0", "--array")),
    data("compressed file", deflated, "pairs.npz", "ttf data convert"),
    data("pickled objects", pairs(X_train=np.array([{"a": 1}] * TRAIN, dtype=object)),
         "pairs.npz", "X_train", "pickle"),
    data("no queries", pairs(X_train=None), "pairs.npz", "X_train"),
    data("no validation queries", pairs(X_val=None), "pairs.npz", "X_val"),
    data("queries twice", pairs(seq_train=SEQ), "pairs.npz", "X_train", "seq_train"),
    data("queries of rank 1", pairs(X_train=vectors(TRAIN)), "X_train", f"({TRAIN},)"),
    data("queries of rank 4", pairs(X_train=vectors(TRAIN, 2, 2, D)), "X_train", "(N, L, D)"),
    data("queries of integers", pairs(X_train=np.ones((TRAIN, D), np.int64)), "X_train", "int64"),
    data("queries of complex numbers", pairs(X_train=np.ones((TRAIN, D), np.complex64)), "X_train"),
    data("no rows", pairs(X_train=vectors(0, D), pos_train=np.zeros(0, np.int64)), "X_train"),
    data("validation of another width", pairs(X_val=vectors(VAL, D + 1)), "X_val"),
    data("a query that is not a number", pairs(X_train=with_value(vectors(TRAIN, D), (5, 1), np.nan)),
         "pairs.npz", "X_train", "5", extra=("--steps", "8")),  # a whole epoch: in any order
    data("an infinite validation query", pairs(X_val=with_value(vectors(VAL, D), (3, 0), np.inf)),
         "X_val", "3"),
    data("a document that is not a number",
         bank(vectors=with_value(vectors(BANK, D), (7, 2), np.nan)), "bank.npz", "vectors", "7"),
    data("an infinite document", bank(vectors=with_value(vectors(BANK, D), (9, 0), -np.inf)),
         "bank.npz", "9"),
    data("positive beyond the bank", pairs(pos_train=np.full(TRAIN, BANK)), "pos_train[0]", str(BANK)),
    data("positive below -1", pairs(pos_val=np.full(VAL, -2)), "pos_val[0]", "-2"),
    data("positives that are floats", pairs(pos_train=np.zeros(TRAIN, np.float32)), "pos_train"),
    data("positives of another count", pairs(pos_train=np.zeros(3, np.int64)), "pos_train", "3"),
    data("no known positive", pairs(pos_train=np.full(TRAIN, -1)), "positive", "pos_train"),
    data("no positives at all", pairs(pos_train=None), "pos_train", "Y_train"),
    data("targets that are in no bank",
         pairs(pos_train=None, Y_train=vectors(TRAIN, D, seed=9)), "Y_train"),
    data("targets of another width", pairs(pos_train=None, Y_train=vectors(TRAIN, D + 1)),
         "Y_train", str(D + 1), "bank.npz"),
    data("bank without vectors", bank(vectors=None, vecs=vectors(BANK, D)), "bank.npz", "vectors",
         "vecs"),
    data("bank of rank 1", bank(vectors=vectors(BANK)), "bank.npz", "vectors"),
    data("bank of integers", bank(vectors=np.ones((BANK, D), np.int32)), "bank.npz", "int32"),
    data("empty bank", bank(vectors=vectors(0, D)), "bank.npz", "vectors"),
    data("duplicate ids", bank(ids=np.zeros(BANK, np.int64)), "ids", "duplicates", "rows 0 and 1"),
    data("ids of another count", bank(ids=np.arange(3)), "ids", str(BANK)),
    data("lengths beyond the sequence",
         pairs(X_train=vectors(TRAIN, 4, D), X_val=vectors(VAL, 4, D), len_train=np.full(TRAIN, 5)),
         "len_train[0]", "5"),
    data("lengths of another count",
         pairs(X_train=vectors(TRAIN, 4, D), X_val=vectors(VAL, 4, D), len_train=np.ones(3, int)),
         "len_train"),
    data("rows beyond the context", pairs(X_train=None, X_val=None, seq_train=SEQ + BANK,
                                          seq_val=SEQ_VAL), "seq_train[0]", str(BANK)),
    data("rows that are all padding", pairs(X_train=None, X_val=None, seq_train=SEQ - 1,
                                            seq_val=SEQ_VAL), "seq_train[0]", "padding"),
    data("rows that are floats", pairs(X_train=None, X_val=None, seq_val=SEQ_VAL,
                                       seq_train=SEQ.astype(np.float32)), "seq_train", "int32"),
    data("array name that maps to nothing", nothing, "X_trian",
         extra=("--set", "data.names.X_train=X_trian")),
    Row("no bank and no targets", nothing, without("--bank"), 3, ("bank", "Y_train")),
    # storage: 8
    Row("folder that cannot be made", text("file", ""), swapped("--out", "file/run"), 8,
        ("file/run",)),
    Row("folder of the kernel", nothing, swapped("--out", "/proc/ttf-run"), 8, ("/proc/ttf-run",)),
    # nothing to resume: 10
    Row("run whose checkpoints are gone", robbed, ("resume", "old"), 10, ("old",)),
]  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)
    pairs()(place)
    bank()(place)
    return place


def test_the_good_files_are_good(folder: Path, invoke: Invoke) -> None:
    result = invoke(TRAINS)
    assert result.code == 0, result.err
    assert (folder / "run" / "summary.json").is_file()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.id)
def test_bad_input_gets_one_message_that_names_the_thing(
    row: Row, folder: Path, invoke: Invoke
) -> None:
    row.change(folder)
    before = listing(folder)
    result = invoke([*row.argv, *in_process(row)])
    assert result.code == row.code, result.err
    assert result.out == ""
    assert result.err.count("error: ") == 1, result.err
    assert "Traceback" not in result.err
    message = result.err[result.err.index("error: ") :]
    for said in row.says:
        assert said in message, message
    after = listing(folder)
    if "run/summary.json" not in after and row.argv[0] == "train":
        assert "Run folder:" not in result.err and "Device:" not in result.err
    if "run/summary.json" in after:  # it began before the bad row was met, and says how it ended
        assert '"failed"' in (folder / "run" / "summary.json").read_text()
        after = [name for name in after if not name.startswith("run")]
    assert set(after) - _WATCHED == set(before), "something half-written was left behind"


def in_process(row: Row) -> list[str]:
    """One row of each exit code that a trainer ends with goes through supervisor and trainer, all of
    them with TTF_CHAOS=1: the others would mostly load torch."""
    if os.environ.get("TTF_CHAOS", "0") not in ("", "0") or row.id in SUPERVISED:
        return []
    return ["--in-process"] if row.argv[0] in ("train", "resume") else []


SUPERVISED = {
    "unknown option of a tower",
    "an infinite document",
    "folder of the kernel",
    "run whose checkpoints are gone",
}
_WATCHED = {
    f"old/{name}"
    for name in (".writer", "faulthandler.txt", "flight.bin", "memory.jsonl", "summary.json")
} | {"old/stderr.txt", "old/report.html", "old/log.txt"}
"""What watching over a run that is continued writes, however it ends."""


def listing(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.name != ".lock")


def test_the_table_has_what_the_design_asks_for() -> None:
    assert len(ROWS) >= 40
    assert len({row.id for row in ROWS}) == len(ROWS)
    assert {row.code for row in ROWS} == {2, 3, 8, 10}
