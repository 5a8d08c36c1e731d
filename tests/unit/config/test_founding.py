"""The configurations of the founding reports, in the spelling of such people: as YAML and as flags,
each setting is read, or answered with what it is here, and `ttf config convert` translates it."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ttf.config import reference, synonyms
from ttf.config.answers import foreign_flags
from ttf.config.convert import convert
from ttf.config.resolve import FLAGS, flat, leaves, resolve
from ttf.config.yaml_text import read
from ttf.errors import ConfigError

if TYPE_CHECKING:
    from tests.conftest import Invoke

# Of each report: the file, its keys here, and what has no counterpart (a word of the reason).
CRASHES = """\
bs: 32
accum_steps: 16
memory_bank_size: 50000
learning_rate: 1e-3
lr_schedule: cosine_annealing
num_epochs: 8
num_workers: 4
model:
  type: bigru
  hidden_dim: 512
  num_layers: 1
"""
CONSULTANT = """\
training:
  batch: 16
  gradient_accumulation_steps: 1
  hard_negatives: 5
  grad_clip: 1.0
  amp: no
env:
  KMP_DUPLICATE_LIB_OK: 'TRUE'
"""
MPS = """\
device: mps
dataloader: {batch_size: 24, pin_memory: false}
accumulation_steps: 4
loss:
  temp: 0.07
optimizer: {name: adamw, lr: 3.0e-4, wd: 0.01}
random_seed: 7
"""
OPENMP = """\
device: cpu
micro_batch_size: 8
grad_accum: 64
OMP_NUM_THREADS: 1
index_type: hnsw
top_k: 100
early_stopping: {patience: 3}
"""
MANAGER = """\
l1_cache_mb: 512
l2_cache_mb: 2048
chunk_size: 1024
sync_every_n_batches: 10
auto_sync: true
queue_size: 10000
max_memory_gb: 4
"""
CASES: Mapping[str, tuple[str, dict[str, Any], dict[str, str]]] = {
    "32 x 16 with a memory bank": (
        CRASHES,
        {
            "train.batch_size": 32,
            "train.accumulate": 16,
            "loss.memory_bank": 50_000,
            "train.lr": 1e-3,
            "train.schedule": "cosine",
            "train.epochs": 8,
            "tower.query.name": "gru",
            "tower.query.hidden": 512,
            "tower.query.layers": 1,
        },
        {"num_workers": "no DataLoader workers"},
    ),
    "16 x 1": (
        CONSULTANT,
        {
            "train.batch_size": 16,
            "train.accumulate": 1,
            "miner.negatives": 5,
            "train.clip": 1.0,
            "device.precision": "fp32",
        },
        {"KMP_DUPLICATE_LIB_OK": "two OpenMP runtimes"},
    ),
    "24 x 4 on MPS": (
        MPS,
        {
            "device.name": "mps",
            "train.batch_size": 24,
            "train.accumulate": 4,
            "loss.temperature": 0.07,
            "train.lr": 3e-4,
            "train.weight_decay": 0.01,
            "train.seed": 7,
        },
        {"pin_memory": "no DataLoader workers", "name": "always AdamW"},
    ),
    "8 x 64 on the CPU": (
        OPENMP,
        {
            "device.name": "cpu",
            "train.batch_size": 8,
            "train.accumulate": 64,
            "device.threads": 1,
            "miner.name": "hnswlib",
            "miner.k": 100,
            "evaluate.patience": 3,
        },
        {},
    ),
    "the embedding manager": (
        MANAGER,
        {"loss.memory_bank": 10_000, "memory.limit": "4GiB"},
        dict.fromkeys(
            ("l1_cache_mb", "l2_cache_mb", "chunk_size", "sync_every_n_batches", "auto_sync"),
            "no cache of vectors",
        ),
    ),
}


@pytest.fixture(params=CASES, ids=lambda name: name.replace(" ", "-"))
def case(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any], dict[str, str]]:
    return CASES[request.param]


def test_every_wrong_key_of_a_file_is_answered_with_the_right_one(
    case: tuple[str, dict[str, Any], dict[str, str]], tmp_path: Path
) -> None:
    text, keys, reasons = case
    file = tmp_path / "theirs.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        resolve(file)
    said = "\n".join(caught.value.problems)
    for key in keys:
        assert key in said
    for reason in reasons.values():
        assert reason in said
    assert f"ttf config convert {file}" in caught.value.hint


def test_a_file_is_converted_to_one_that_is_read(
    case: tuple[str, dict[str, Any], dict[str, str]],
    tmp_path: Path,
    invoke: Invoke,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text, keys, reasons = case
    (tmp_path / "theirs.yaml").write_text(text)
    out = tmp_path / "run.toml"
    done = invoke(["config", "convert", tmp_path / "theirs.yaml", "--out", out, "--json"])
    assert "mps" in text or done.code == 0, done.err  # there is no MPS here: said, and written
    told = json.loads(done.out)
    assert not told["not_translated"]
    assert {path: _at(told["values"], path) for path in keys} == keys
    assert len(told["not_needed"]) == len(reasons)
    for name, reason in reasons.items():
        assert any(name in left and reason in left for left in told["not_needed"])
        assert f"{name} = " in out.read_text(), "left out, but still in the file as a comment"
    read = flat(resolve(out, plugins=False).config)
    assert {path: read.get(path, _at(told["values"], path)) for path in keys} == keys


def _at(tree: Any, path: str) -> Any:
    for part in path.split("."):
        tree = tree[part]
    return tree


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "--bs 32 --accum-steps 16 --hidden-dim 512 --memory-bank-size 50000 --num-workers 4",
            [
                "--bs: here it is --batch-size 32",
                "--accum-steps: here it is --accum 16",
                "--hidden-dim: here it is --set tower.query.hidden=512",
                "--memory-bank-size: here it is --memory-bank 50000",
                "--num-workers: not needed: there are no DataLoader workers",
            ],
        ),
        (
            "--batch 16 --gradient_accumulation_steps=1 --hard-negatives 5 --clip 1.0 --fp16",
            [
                "--batch: here it is --batch-size 16",
                "--gradient_accumulation_steps: here it is --accum 1",
                "--hard-negatives: here it is --set miner.negatives=5",
                "--clip: here it is --set train.clip=1.0",
                "--fp16: float16 is not offered",
            ],
        ),
        (
            "--batch-size 24 --accumulation-steps 4 --device mps --temperature 0.07 --amp",
            [
                "--accumulation-steps: here it is --accum 4",
                "--temperature: here it is --set loss.temperature=0.07",
                "--amp: here it is --precision bf16",
            ],
        ),
        (
            "--micro-batch-size 8 --grad-accum 64 --device cpu --learning-rate 1e-3 --num-epochs 3",
            [
                "--micro-batch-size: here it is --batch-size 8",
                "--grad-accum: here it is --accum 64",
                "--learning-rate: here it is --lr 0.001",
                "--num-epochs: here it is --epochs 3",
            ],
        ),
        (
            "--l1-mb 512 --l2-mb 2048 --sync-every 10 --lr-schedule cosine_annealing --nonsense",
            [
                "--l1-mb: not needed: there is no cache of vectors",
                "--l2-mb: not needed",
                (
                    "--sync-every: not needed: there is no cache of vectors to synchronise; when a run "
                    "waits for its device is the option sync of the device: ttf config explain sync"
                ),
                "--lr-schedule: here it is --set train.schedule=cosine",
                "--nonsense: no such option.",
            ],
        ),
    ],
    ids=["32x16", "16x1", "24x4-mps", "8x64-cpu", "manager"],
)
def test_all_wrong_flags_are_answered_at_once(line: str, said: list[str], invoke: Invoke) -> None:
    done = invoke(["train", *line.split(), "--plan", "--json"])
    assert done.code == 2
    problems = json.loads(done.out)["error"]["problems"]
    assert len(problems) == len(said)
    for problem, expected in zip(problems, said, strict=True):
        assert problem.startswith(expected)


def test_waiting_for_the_device_and_emptying_its_cache_are_answered_with_its_options(
    invoke: Invoke,
) -> None:
    done = invoke(["train", "--sync", "micro-batch", "--clear-cache-every", "1", "--json"])
    problems = json.loads(done.out)["error"]["problems"]
    assert problems[0] == "--sync: here it is --set device.mps.sync=micro-batch"
    assert "ttf config explain empty_cache" in problems[1]
    explained = invoke(["config", "explain", "empty_cache"]).out
    assert "device.mps.empty_cache" in explained and "'never', 'step' or 'micro-batch'" in explained


def test_python_is_answered_too() -> None:
    with pytest.raises(ConfigError, match=r"bs: no such option. Here it is train.batch_size"):
        resolve(flags={"bs": 4})


def test_options_that_nobody_has_are_answered_as_before(invoke: Invoke) -> None:
    done = invoke(["train", "--epocks", "3"])
    assert done.code == 2 and "No such option" in done.err and "--epochs" in done.err
    assert not foreign_flags(["train", "--epocks", "3"], ["--epochs"])


def test_flags_after_two_dashes_belong_to_another_program() -> None:
    assert not foreign_flags(["bisect", "--command", "--", "train.py", "--bs", "4"], ["--command"])


def test_what_cannot_be_translated_is_listed_and_the_rest_written(
    tmp_path: Path, invoke: Invoke
) -> None:
    theirs = tmp_path / "theirs.toml"
    theirs.write_text(
        "bs = 8\nbatch = 9\nfp16 = true\nzorp = 'x'\nk = 3\ntrain_path = 'p.npz'\n"
        "[optim]\nname = 'sgd'\nlr = 'fast'\n[doc_encoder]\nhidden_dim = 64\n"
    )
    (tmp_path / "sub").mkdir()
    out = tmp_path / "sub" / "run.toml"
    done = invoke(["config", "convert", theirs, "--out", out])
    assert done.code == 2
    for expected in (
        "theirs.toml:2: batch = 9: train.batch_size already has the value of bs (theirs.toml:1)",
        "theirs.toml:3: fp16 = True: float16 is not offered",
        "theirs.toml:4: zorp = 'x': no key of ttf is known for it",
        "theirs.toml:5: k = 3: it may be miner.k or evaluate.k",
        "theirs.toml:8: optim.name = 'sgd': it is always AdamW",
        "theirs.toml:9 (optim.lr): train.lr: input should be a valid number (got 'fast')",
    ):
        assert expected in done.err
    written = tomllib.loads(out.read_text())
    assert written["data"]["pairs"] == str(tmp_path / "p.npz"), "found from the other folder"
    assert written["tower"] == {"doc": {"hidden": 64}} and written["train"]["batch_size"] == 8
    assert "# not translated: theirs.toml:4: zorp" in out.read_text()
    assert invoke(["config", "convert", theirs, "--out", out]).code == 2
    assert "already exists" in invoke(["config", "convert", theirs, "--out", out]).err


def test_a_run_toml_is_converted_to_itself(tmp_path: Path, invoke: Invoke) -> None:
    file = tmp_path / "run.toml"
    file.write_text(
        "[train]\nlr = 0.1\n[tower.query]\nname = 'mlp'\nhidden = 8\n[miner.hnswlib]\nM = 8\n"
        "[data.names]\nX_train = 'q'\n[[gates]]\nat = 'step 1'\nneed = 'mrr@10 > 0'\n"
    )
    done = invoke(["config", "convert", file])
    assert tomllib.loads(done.out) == tomllib.loads(file.read_text())


@pytest.mark.parametrize(
    "text",
    [
        "gates: [3]",
        "gates: {at: epoch 1}",
        "tower: {query: {hidden: {b: 1}}}\nhidden_dim: 5",
        '"x\\r\\ny  # z": {bs: 3}\n"\\u2028": "\\r"',
        "'': {'': 1}\na.b: {lr: [null, {c: .nan}]}",
        "data: {names: {a: {b: 1}, 'c d': e}}\nminer: {hnswlib: 3, faiss: {x: {y: 1}}}",
    ],
)
def test_whatever_is_converted_the_result_is_toml_and_nothing_is_lost(
    text: str, tmp_path: Path
) -> None:
    file = tmp_path / "odd.yaml"
    file.write_text(text)
    found = convert(file, tmp_path)
    tomllib.loads(found.text())
    given = list(leaves((), read(text, file).values))
    assert len(given) == len(found.values) + len(found.missing) + len(found.needless)


def test_every_synonym_leads_to_a_key_and_is_none_itself() -> None:
    named = {key.name for section in reference.sections() for key in section.keys}
    for name, found in synonyms.MEANINGS.items():
        assert synonyms.words(name) == name
        assert bool(found.key) != bool(found.reason)
        assert not found.key or reference.is_key(found.key), found.key
        assert name not in named, f"{name} is a key here"
    assert all(reference.is_key(key) for key in FLAGS.values())
