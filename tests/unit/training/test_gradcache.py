"""Chunked gradients: equal to those of the plain batch, dropout included."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ttf.training.gradcache import cached_step
from ttf.training.loss.infonce import info_nce
from ttf.training.towers import Temperature

SAMPLES, EXTRA, DIM = 22, 5, 12


class HostRng:
    """The DevicePolicy contract over torch's own generator."""

    def rng_state(self) -> dict[str, Tensor]:
        return {"host": torch.get_rng_state()}

    def set_rng_state(self, state: Mapping[str, Tensor]) -> None:
        torch.set_rng_state(state["host"])


class World:
    """Two towers with dropout, a temperature, and a batch that repeats some documents."""

    def __init__(self, *, learned: bool, symmetric: bool, documents: bool) -> None:
        torch.manual_seed(5)
        self.query = self._tower()
        self.document = self._tower()
        self.temperature = Temperature(0.05, learned=learned)
        self.symmetric, self.documents = symmetric, documents
        self.x = torch.randn(SAMPLES, DIM)
        self.y = torch.randn(SAMPLES, DIM)
        self.extra = F.normalize(torch.randn(EXTRA, DIM), dim=1)
        self.known = torch.randint(-1, SAMPLES + EXTRA, (SAMPLES, 2))
        torch.manual_seed(99)

    @staticmethod
    def _tower() -> nn.Module:
        return nn.Sequential(nn.Linear(DIM, 32), nn.Tanh(), nn.Dropout(0.4), nn.Linear(32, DIM))

    def encode_query(self, chunk: slice) -> Tensor:
        out: Tensor = self.query(self.x[chunk])
        return out

    def encode_document(self, chunk: slice) -> Tensor:
        out: Tensor = self.document(self.y[chunk])
        return out

    def loss(self, q: Tensor, d: Tensor | None) -> Tensor:
        documents = self.y if d is None else d
        candidates = torch.cat([F.normalize(documents.float(), dim=1), self.extra])
        return info_nce(
            F.normalize(q.float(), dim=1),
            candidates,
            torch.arange(SAMPLES) // 2 * 2,
            scale=self.temperature.scale(),
            known_BP=self.known,
            symmetric=self.symmetric,
        )

    def gradients(self) -> list[Tensor]:
        modules = (self.query, self.document, self.temperature)
        return [p.grad for m in modules for p in m.parameters() if p.grad is not None]

    def plain(self, chunks: Sequence[slice]) -> Tensor:
        """All activations alive at once; same order of random numbers."""
        parts = [
            (self.encode_query(c), self.encode_document(c) if self.documents else None)
            for c in chunks
        ]
        d = torch.cat([p for _, p in parts if p is not None]) if self.documents else None
        losses = self.loss(torch.cat([p for p, _ in parts]), d)
        torch.autograd.backward(losses.mean())
        return losses.detach()

    def cached(self, chunks: Sequence[slice]) -> Tensor:
        encode: Callable[[slice], Tensor] | None = self.encode_document if self.documents else None
        return cached_step(chunks, self.encode_query, encode, self.loss, HostRng())


def cut(size: int) -> list[slice]:
    """Chunks of `size`; the last one is smaller."""
    return [slice(start, min(start + size, SAMPLES)) for start in range(0, SAMPLES, size)]


SETTINGS: list[Any] = [
    pytest.param(
        {"learned": learned, "symmetric": symmetric, "documents": documents},
        id="-".join(
            [
                "learned" if learned else "fixed",
                "symmetric" if symmetric else "one-way",
                "documents" if documents else "frozen",
            ]
        ),
    )
    for learned in (False, True)
    for symmetric in (False, True)
    for documents in (False, True)
]


@pytest.mark.parametrize("settings", SETTINGS)
@pytest.mark.parametrize("size", [4, 22], ids=["uneven-last-chunk", "one-chunk"])
def test_cached_losses_and_gradients_equal_the_plain_ones(
    settings: dict[str, bool], size: int
) -> None:
    plain, cached = World(**settings), World(**settings)
    expected = plain.plain(cut(size))
    plain_after = torch.rand(4)
    torch.manual_seed(99)
    found = cached.cached(cut(size))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    assert torch.equal(torch.rand(4), plain_after)
    mine, theirs = cached.gradients(), plain.gradients()
    assert len(mine) == len(theirs) == (8 if settings["documents"] else 4) + settings["learned"]
    for a, b in zip(mine, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        assert a.abs().sum() > 0


def test_dropout_that_is_not_replayed_would_be_noticed() -> None:
    class Forgetful(HostRng):
        def set_rng_state(self, state: Mapping[str, Tensor]) -> None:
            pass

    settings = {"learned": False, "symmetric": False, "documents": True}
    plain, cached = World(**settings), World(**settings)
    plain.plain(cut(4))
    torch.manual_seed(99)
    cached_step(cut(4), cached.encode_query, cached.encode_document, cached.loss, Forgetful())
    pairs = zip(cached.gradients(), plain.gradients(), strict=True)
    assert not all(torch.allclose(a, b, atol=1e-4) for a, b in pairs)


def test_gradients_accumulate_on_top_of_earlier_ones() -> None:
    world = World(learned=True, symmetric=True, documents=True)
    world.cached(cut(4))
    once = [g.clone() for g in world.gradients()]
    torch.manual_seed(99)
    world.cached(cut(4))
    for a, b in zip(world.gradients(), once, strict=True):
        torch.testing.assert_close(a, 2 * b)


@pytest.mark.parametrize("outside", [False, True], ids=["around-each-encode", "around-the-step"])
def test_weights_get_their_gradient_under_autocast(outside: bool) -> None:
    def autocast() -> AbstractContextManager[Any]:
        return torch.autocast("cpu", dtype=torch.bfloat16)

    world = World(learned=False, symmetric=False, documents=True)
    inner = nullcontext if outside else autocast

    def query(chunk: slice) -> Tensor:
        with inner():
            return world.encode_query(chunk)

    def document(chunk: slice) -> Tensor:
        with inner():
            return world.encode_document(chunk)

    with autocast() if outside else nullcontext():
        cached_step(cut(4), query, document, world.loss, HostRng())
    exact = World(learned=False, symmetric=False, documents=True)
    exact.plain(cut(4))
    for a, b in zip(world.gradients(), exact.gradients(), strict=True):
        assert F.cosine_similarity(a.flatten(), b.flatten(), dim=0) > 0.99


def test_a_frozen_query_tower_leaves_gradients_to_the_documents() -> None:
    world = World(learned=False, symmetric=False, documents=True)
    cached_step(cut(4), lambda c: world.x[c], world.encode_document, world.loss, HostRng())
    assert all(p.grad is None for p in world.query.parameters())
    assert all(p.grad is not None for p in world.document.parameters())


def test_a_loss_that_is_not_finite_is_returned_and_not_hidden() -> None:
    world = World(learned=False, symmetric=False, documents=False)
    world.x[3, 0] = torch.nan
    losses = world.cached(cut(4))
    assert not torch.isfinite(losses[3])
    assert torch.isfinite(losses[4])


def test_no_chunks_are_refused() -> None:
    world = World(learned=False, symmetric=False, documents=False)
    with pytest.raises(ValueError, match="at least one chunk"):
        world.cached([])
