"""A model inside a program that has settings of its own in torch."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import ttf
from ttf.training.borrowed_torch import TorchSettings

ROWS, D = 40, 8


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place, draw = tmp_path_factory.mktemp("borrowed"), np.random.default_rng(0)
    x, bank = (draw.standard_normal((ROWS, D)).astype(np.float32) for _ in range(2))
    here = np.arange(ROWS)
    np.savez(place / "pairs.npz", X_train=x, X_val=x, pos_train=here, pos_val=here)
    np.savez(place / "bank.npz", vectors=bank)
    ids = np.array([f"d{row}" for row in here], dtype=object)
    np.savez(place / "objects.npz", vectors=bank, ids=ids)
    own: dict[str, Any] = {"sets": {"device.cpu.float32_matmul": "medium"}, "supervised": False}
    ttf.train(
        pairs=place / "pairs.npz",
        bank=place / "bank.npz",
        out=place / "run",
        tower="linear",
        steps=2,
        batch_size=8,
        device="cpu",
        threads=1,
        **own,
    )
    return place / "run"


@pytest.fixture
def own() -> Any:
    """Settings that are not those of the run."""
    before = TorchSettings.now()
    torch.set_num_threads(2)
    torch.set_deterministic_debug_mode("default")
    torch.set_float32_matmul_precision("highest")
    yield TorchSettings.now()
    before.apply()


def _works(model: ttf.Model) -> list[Callable[[], object]]:
    queries = np.ones((3, D), np.float32)
    return [
        lambda: model.search(queries, k=3),
        lambda: model.encode_queries(queries),
        lambda: model.encode_documents(queries),
        lambda: model.evaluate([1, 10]),
    ]


def test_opening_and_using_a_model_leaves_torch_as_it_was(run: Path, own: TorchSettings) -> None:
    with ttf.load(run) as model:
        assert TorchSettings.now() == own
        for work in _works(model):
            work()
            assert TorchSettings.now() == own
        with pytest.raises(ttf.BadData):
            model.search(np.ones((3, D + 1), np.float32))
        assert TorchSettings.now() == own
    ttf.evaluate(run)
    assert TorchSettings.now() == own


def test_while_it_works_a_model_has_the_settings_of_its_run(
    run: Path, own: TorchSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[TorchSettings] = []
    with ttf.load(run) as model:
        encode = model.towers.encode_documents

        def looks(given: torch.Tensor) -> torch.Tensor:
            seen.append(TorchSettings.now())
            return encode(given)

        monkeypatch.setattr(model.towers, "encode_documents", looks)
        model.encode_documents(np.ones((3, D), np.float32))
    (there,) = seen
    assert (there.threads, there.matmul, there.deterministic) == (1, "medium", 2)
    assert there != own


class _DefaultType:
    """Its tensors have another type, as in many programs of science."""

    def __enter__(self) -> None:
        torch.set_default_dtype(torch.float64)

    def __exit__(self, *_: object) -> None:
        torch.set_default_dtype(torch.float32)


_PROGRAMS: dict[str, Callable[[], Any]] = {
    "float64": _DefaultType,
    "another device": lambda: torch.device("meta"),  # stands for a GPU
    "autocast": lambda: torch.autocast("cpu", dtype=torch.bfloat16),
    "no gradients": torch.inference_mode,
}


@pytest.mark.parametrize("program", _PROGRAMS)
def test_a_model_answers_the_same_in_a_program_with_other_defaults(run: Path, program: str) -> None:
    queries = np.random.default_rng(1).standard_normal((9, D)).astype(np.float32)
    with ttf.load(run) as model:
        wanted = model.search(queries, k=5)
        vectors = model.encode_queries(queries)
        judged = model.evaluate([1, 10])
    with _PROGRAMS[program](), ttf.load(run) as model:
        found = model.search(queries, k=5)
        assert np.array_equal(found.ids, wanted.ids)
        assert np.array_equal(found.scores, wanted.scores)
        assert np.array_equal(model.encode_queries(queries), vectors)
        assert model.evaluate([1, 10]) == judged
        inside = torch.ones(1, 1)
    with _PROGRAMS[program]():
        own = torch.ones(1, 1)
    assert (inside.dtype, inside.device) == (own.dtype, own.device)


@pytest.mark.parametrize("program", _PROGRAMS)
@pytest.mark.parametrize("optimizer", ["sgd", "adagrad", "adam"])
def test_an_embedding_table_has_the_same_values_in_a_program_with_other_defaults(
    tmp_path: Path, program: str, optimizer: str
) -> None:
    def trained(name: str) -> torch.Tensor:
        sizes: dict[str, Any] = {"rows": 10, "dim": 4, "budget": "16MB"}
        with ttf.EmbeddingTable(tmp_path / name, optimizer=optimizer, **sizes) as table:
            table.update([5], [[0.1, 0.2, 0.3, 0.4]])
            for _ in range(3):
                table.apply_gradients([1, 2, 1, 5], np.full((4, 4), 0.1, np.float32))
            return table.get(np.arange(10))

    wanted = trained("plain")
    with _PROGRAMS[program]():
        found = trained("other")
    assert np.array_equal(found.numpy(), wanted.numpy())


def test_threads_that_use_a_model_at_once_leave_torch_as_it_was(
    run: Path, own: TorchSettings
) -> None:
    with ttf.load(run) as model:

        def use() -> None:
            for work in _works(model) * 3:
                work()

        users = [threading.Thread(target=use) for _ in range(4)]
        for user in users:
            user.start()
        for user in users:
            user.join()
    assert TorchSettings.now() == own


def test_opening_a_model_draws_none_of_the_random_numbers_of_the_program(run: Path) -> None:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        wanted = torch.rand(4)
        torch.manual_seed(3)
        with ttf.load(run) as model:
            model.search(np.ones((1, D), np.float32))
        assert torch.equal(torch.rand(4), wanted)


def test_a_search_says_that_the_ids_of_its_bank_were_not_read(run: Path) -> None:
    with ttf.load(run, bank=run.parent / "objects.npz") as model:
        assert model.search(np.ones((1, D), np.float32), k=1).ids_are == "rows of the bank"
        assert any("pickled Python objects" in note for note in model.notes)


_FORKS = """
import os, signal, torch
from ttf.training.borrowed_torch import borrowed_torch
rows = torch.ones(1000, 1000)
with borrowed_torch(lambda: torch.set_num_threads(2)):
    rows @ rows
child = os.fork()
if not child:
    signal.alarm(20)
    with borrowed_torch(lambda: torch.set_num_threads(2)):
        rows @ rows
    os._exit(0)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_model_that_worked_works_on_in_a_forked_process() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORKS], capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.split() == ["0"]
