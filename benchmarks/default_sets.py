"""The data sets of `bench_defaults.py`: two real ones, and five that are made here.

Every set is judged on a random hold-out of its *training* pairs. The validation pairs of the real
sets are never opened: they judge the defaults, so they must not choose them.
"""

from __future__ import annotations

import ast
import gzip
import json
import math
import sysconfig
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn.functional import normalize

PAIRS: Final = 20_000
HELD_OUT: Final = 2_000
_BUCKETS: Final = 1 << 15
_WIDTH: Final = 256

Ints = NDArray[np.int64]


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """Queries (N, D) or (N, L, D), row of the positive of each, and all documents; pairs from
    `split` on are held out."""

    x: Tensor
    positive: Tensor
    bank: Tensor
    split: int


def _pairs(x: Tensor, positive: Ints, bank: Tensor, seed: int = 0) -> Pairs:
    """Draws the hold-out at random."""
    chosen = np.random.default_rng(seed).permutation(len(positive))[: PAIRS + HELD_OUT]
    return Pairs(
        x=x[torch.from_numpy(chosen)].float(),
        positive=torch.from_numpy(positive[chosen]),
        bank=normalize(bank.float(), dim=-1),
        split=len(chosen) - min(HELD_OUT, len(chosen) // 5),
    )


def wordnet(data: Path) -> Pairs:
    folder = data / "wordnet-definitions"
    arrays = np.load(folder / "pairs.npz")
    bank = torch.from_numpy(np.load(folder / "bank.npz")["vectors"])
    return _pairs(torch.from_numpy(arrays["X_train"]), arrays["pos_train"], bank)


def novels(data: Path) -> Pairs:
    folder = data / "novels-next-passage"
    arrays = np.load(folder / "windows.npz")
    context = torch.from_numpy(np.load(folder / "context.npz")["vectors"])
    bank = torch.from_numpy(np.load(folder / "bank.npz")["vectors"])
    return _pairs(context[torch.from_numpy(arrays["seq_train"]).long()], arrays["pos_train"], bank)


def novels_words(data: Path) -> Pairs:
    """The next passage, from the words of one: TF-IDF, reduced to 256 values."""
    texts: dict[tuple[str, int], str] = {}
    with gzip.open(data / "novels-next-passage" / "passages.jsonl.gz", "rt") as file:
        for line in file:
            row = json.loads(line)
            texts[row["book"], row["chunk"]] = row["text"]
    keys = sorted(texts)[::2]
    keys = [key for key in keys if (key[0], key[1] + 1) in texts]
    vectors = _tf_idf(
        [texts[k] for k in keys] + [texts[k[0], k[1] + 1] for k in keys], lambda t: t.split()
    )
    return _pairs(vectors[: len(keys)], np.arange(len(keys)), vectors[len(keys) :])


def python_docs(data: Path) -> Pairs:
    """The name of a function, from the first line of its docstring: groups of letters."""
    found: dict[str, str] = {}
    for path in sorted(Path(sysconfig.get_path("stdlib")).rglob("*.py")):
        if "site-packages" in path.parts or "test" in path.parts:
            continue
        try:
            tree = ast.parse(path.read_text("utf-8"))
        except (SyntaxError, UnicodeDecodeError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                text = ast.get_docstring(node)
                if text:
                    found.setdefault(text.splitlines()[0], f"{path.stem} {node.name}")
    vectors = _tf_idf([*found, *found.values()], _letters)
    return _pairs(vectors[: len(found)], np.arange(len(found)), vectors[len(found) :])


def clicks(data: Path) -> Pairs:
    """Sequences of ten items, the popular more often: the next item is near a turned current one,
    or any."""
    draw = np.random.default_rng(7)
    items, width, steps = 8_000, 64, 10
    latent = draw.standard_normal((items, width))
    latent /= np.linalg.norm(latent, axis=1, keepdims=True)
    turn, _ = np.linalg.qr(draw.standard_normal((width, width)))
    near = np.argpartition(-(latent @ turn) @ latent.T, 20, axis=1)[:, :20]
    popular = 1 / np.arange(1, items + 1) ** 0.8
    share = popular[near] ** 0.5
    cumulated = np.cumsum(share / share.sum(1, keepdims=True), axis=1)
    number = PAIRS + HELD_OUT
    now = draw.choice(items, number, p=popular / popular.sum())
    walk = [now]
    for _ in range(steps):
        place = (cumulated[now] < draw.random((number, 1))).sum(1).clip(0, 19)
        any_item = draw.choice(items, number, p=popular / popular.sum())
        now = np.where(draw.random(number) < 0.2, any_item, near[now, place])
        walk.append(now)
    stored = torch.from_numpy(latent + 0.05 * draw.standard_normal(latent.shape))
    return _pairs(
        stored[torch.from_numpy(np.stack(walk[:-1], 1))], walk[-1].astype(np.int64), stored
    )


def item_item(data: Path) -> Pairs:
    """What is bought together: an item of the same kind, the popular more often; 60 pairs in 100
    follow it."""
    draw = np.random.default_rng(11)
    items, width, kinds = 12_000, 128, 400
    kind = draw.integers(kinds, size=items)
    latent = draw.standard_normal((kinds, 32))[kind] + 0.7 * draw.standard_normal((items, 32))
    turn = draw.standard_normal((32, 32)) / math.sqrt(32)
    popular = 1 / np.arange(1, items + 1) ** 0.7
    near = np.argpartition(-(latent @ turn) @ latent.T, 15, axis=1)[:, :15]
    number = PAIRS + HELD_OUT
    query = draw.integers(items, size=number)
    bought = near[query, draw.integers(15, size=number)]
    other = draw.choice(items, number, p=popular / popular.sum())
    positive = np.where(draw.random(number) < 0.6, bought, other)
    shown = latent @ draw.standard_normal((32, width)) / math.sqrt(32)
    stored = torch.from_numpy(shown + 0.3 * draw.standard_normal(shown.shape))
    return _pairs(stored[torch.from_numpy(query)], positive.astype(np.int64), stored)


def noisy(data: Path) -> Pairs:
    """Queries of another width than the documents, with noise; one positive in five is wrong."""
    draw = np.random.default_rng(13)
    rows, width = 10_000, 128
    bank = draw.standard_normal((rows, width))
    bank /= np.linalg.norm(bank, axis=1, keepdims=True)
    number = PAIRS + HELD_OUT
    positive = draw.integers(rows, size=number)
    x = bank[positive] @ draw.standard_normal((width, 96)) / math.sqrt(96)
    x += 0.1 * draw.standard_normal(x.shape)
    wrong = draw.integers(rows, size=number)
    shown = np.where(draw.random(number) < 0.2, wrong, positive)
    return _pairs(torch.from_numpy(x), shown.astype(np.int64), torch.from_numpy(bank))


SETS: Final[Mapping[str, Callable[[Path], Pairs]]] = {
    "wordnet": wordnet,
    "novels": novels,
    "novels' words": novels_words,
    "python docs": python_docs,
    "clicks": clicks,
    "item-item": item_item,
    "noisy": noisy,
}


def _letters(text: str) -> list[str]:
    padded = f" {text.lower().replace('_', ' ')} "
    return [padded[at : at + n] for n in (3, 4) for at in range(len(padded) - n + 1)]


def _tf_idf(texts: Sequence[str], cut: Callable[[str], list[str]]) -> Tensor:
    """Weighted counts of hashed terms, projected to their largest singular vectors."""
    rows: list[int] = []
    columns: list[int] = []
    for row, text in enumerate(texts):
        terms = [zlib.crc32(term.lower().encode()) % _BUCKETS for term in cut(text)]
        rows += [row] * len(terms)
        columns += terms
    counts = torch.sparse_coo_tensor(
        torch.tensor([rows, columns]), torch.ones(len(rows)), (len(texts), _BUCKETS)
    ).coalesce()
    row, column = counts.indices()
    documents = torch.bincount(column, minlength=_BUCKETS).float()
    values = counts.values().log1p() * torch.log(len(texts) / documents.clamp(min=1))[column]
    squares = torch.zeros(len(texts)).index_add_(0, row, values**2)
    values = values / squares.sqrt().clamp(min=1e-9)[row]
    weighted = torch.sparse_coo_tensor(counts.indices(), values, counts.shape).coalesce()
    torch.manual_seed(0)
    found = torch.linalg.qr(weighted @ torch.randn(_BUCKETS, _WIDTH + 32)).Q
    for _ in range(2):
        found = torch.linalg.qr(weighted @ torch.linalg.qr(weighted.t() @ found).Q).Q
    small = (weighted.t() @ found).T
    left, scale, _ = torch.linalg.svd(small @ small.T)
    return normalize(found @ left[:, :_WIDTH] * scale[:_WIDTH].sqrt(), dim=-1)
