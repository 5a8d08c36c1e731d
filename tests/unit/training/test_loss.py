"""The one InfoNCE: equal to a naive reference, exact under masks, honest about bad numbers."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from ttf.errors import ConfigError
from ttf.training.loss.infonce import info_nce
from ttf.training.towers import Temperature


def naive(
    q: Tensor,
    cand: Tensor,
    target: Tensor,
    *,
    scale: float | Tensor,
    known: Tensor,
    dead: Tensor | None,
    symmetric: bool = False,
) -> Tensor:
    """What one would write by hand, entry by entry."""
    logits = q @ cand.T * scale
    block = torch.zeros(logits.shape, dtype=torch.bool)
    reverse_block = torch.zeros(len(q), len(q), dtype=torch.bool)
    positives = [
        {int(k) for k in row if k >= 0} | {int(t)} for row, t in zip(known, target, strict=True)
    ]
    for i in range(len(q)):
        dead_set = set() if dead is None else set(dead.tolist())
        for j in (positives[i] | dead_set) - {int(target[i])}:
            block[i, j] = True
        for other in range(len(q)):
            reverse_block[i, other] = other != i and int(target[i]) in positives[other]
    loss = F.cross_entropy(logits.masked_fill(block, -math.inf), target, reduction="none")
    if not symmetric:
        return loss
    reverse = (cand[target] @ q.T * scale).masked_fill(reverse_block, -math.inf)
    return (loss + F.cross_entropy(reverse, torch.arange(len(q)), reduction="none")) / 2


def case(dtype: torch.dtype = torch.float32, batch: int = 7, n: int = 23) -> dict[str, Any]:
    """Queries that share targets, have several positives, and columns that are dead."""
    generator = torch.Generator().manual_seed(3)
    q = F.normalize(torch.randn(batch, 8, generator=generator, dtype=dtype), dim=1)
    cand = F.normalize(torch.randn(n, 8, generator=generator, dtype=dtype), dim=1)
    target = torch.randint(0, 6, (batch,), generator=generator)
    known = torch.randint(-1, n, (batch, 3), generator=generator)
    known[0] = -1
    known[1, 0] = target[1]
    known[2, 1] = target[3]
    return {
        "q": q,
        "cand": cand,
        "target": target,
        "known": known,
        "dead": torch.tensor([n - 1, n - 4, n - 1]),
    }


def ours(c: dict[str, Any], scale: float | Tensor, symmetric: bool = False) -> Tensor:
    return info_nce(
        c["q"],
        c["cand"],
        c["target"],
        scale=scale,
        known_BP=c["known"],
        dead_K=c["dead"],
        symmetric=symmetric,
    )


@pytest.mark.parametrize("symmetric", [False, True], ids=["one-way", "symmetric"])
@pytest.mark.parametrize("scale", [1.0, 20.0, 100.0])
def test_it_equals_the_naive_loss_and_its_gradients(scale: float, symmetric: bool) -> None:
    grads = []
    for loss in (ours, lambda c, s, sym: naive(**c, scale=s, symmetric=sym)):
        c = case()
        leaves = [c["q"].requires_grad_(), c["cand"].requires_grad_()]
        learned = torch.tensor(scale, requires_grad=True)
        value = loss(c, learned, symmetric)
        torch.autograd.backward(value.mean())
        grads.append([value.detach(), *(leaf.grad for leaf in leaves), learned.grad])
    torch.testing.assert_close(grads[0][0], grads[1][0], rtol=1e-6, atol=1e-6)
    for mine, theirs in zip(*grads, strict=True):
        # logits of size `scale` are rounded to scale * 1e-7 by either way of computing them
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-6 * max(1.0, scale / 5))


@pytest.mark.parametrize("symmetric", [False, True], ids=["one-way", "symmetric"])
def test_gradients_of_queries_candidates_and_scale_pass_gradcheck(symmetric: bool) -> None:
    c = case(torch.float64)
    scale = torch.tensor(5.0, dtype=torch.float64, requires_grad=True)

    def loss(q: Tensor, cand: Tensor, s: Tensor) -> Tensor:
        return ours({**c, "q": q, "cand": cand}, s, symmetric)

    inputs = (c["q"].requires_grad_(), c["cand"].requires_grad_(), scale)
    assert torch.autograd.gradcheck(loss, inputs)


@pytest.mark.parametrize("wanted", ["q", "cand", "scale"])
def test_each_gradient_is_the_same_when_it_alone_is_wanted(wanted: str) -> None:
    def gradient(names: tuple[str, ...]) -> Tensor:
        c = case()
        leaves = {"q": c["q"], "cand": c["cand"], "scale": torch.tensor(20.0)}
        for name in names:
            leaves[name].requires_grad_()
        torch.autograd.backward(ours(c, leaves["scale"]).sum())
        grad: Tensor | None = leaves[wanted].grad
        assert grad is not None
        return grad

    torch.testing.assert_close(gradient((wanted,)), gradient(("q", "cand", "scale")))


def test_a_query_whose_other_candidates_are_all_masked_has_loss_and_gradient_zero() -> None:
    c = case()
    n = len(c["cand"])
    known = torch.arange(n).expand(len(c["q"]), n)
    q = c["q"].requires_grad_()
    loss = info_nce(q, c["cand"], c["target"], scale=20.0, known_BP=known)
    torch.autograd.backward(loss.sum())
    assert q.grad is not None
    assert torch.equal(loss, torch.zeros_like(loss))
    assert torch.equal(q.grad, torch.zeros_like(q))


def test_the_target_counts_even_when_it_is_listed_as_known_and_as_dead() -> None:
    c = case()
    bare = info_nce(c["q"], c["cand"], c["target"], scale=9.0, known_BP=c["target"][:, None])
    none = torch.full((len(c["q"]), 1), -1)
    torch.testing.assert_close(
        bare, naive(c["q"], c["cand"], c["target"], scale=9.0, known=none, dead=None)
    )
    dead = c["target"][:1]
    loss = info_nce(c["q"], c["cand"], c["target"], scale=9.0, known_BP=none, dead_K=dead)
    expected = naive(c["q"], c["cand"], c["target"], scale=9.0, known=none, dead=dead)
    torch.testing.assert_close(loss, expected)


def test_a_dead_column_changes_nothing_for_anybody() -> None:
    c = case()
    c["known"] = torch.full_like(c["known"], -1)
    with_copy = torch.cat([c["cand"], c["cand"][:5]])
    copies = torch.arange(len(c["cand"]), len(with_copy))
    plain = ours({**c, "dead": None}, 20.0)
    torch.testing.assert_close(ours({**c, "cand": with_copy, "dead": copies}, 20.0), plain)
    padded = torch.tensor([*copies, -1])
    torch.testing.assert_close(ours({**c, "cand": with_copy, "dead": padded}, 20.0), plain)


def test_no_known_positives_at_all_may_be_an_empty_table() -> None:
    c = case()
    empty = torch.empty(len(c["q"]), 0, dtype=torch.int64)
    padded = torch.full((len(c["q"]), 2), -1)
    for symmetric in (False, True):
        losses = [ours({**c, "known": k}, 20.0, symmetric) for k in (empty, padded)]
        assert torch.equal(*losses)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("where", ["query", "target", "other", "known", "dead"])
def test_a_number_that_is_not_finite_makes_the_loss_not_finite(where: str, bad: float) -> None:
    c = case()
    c["known"] = torch.full_like(c["known"], -1)
    c["known"][0, 0] = 10
    column = {"target": int(c["target"][0]), "other": 12, "known": 10, "dead": len(c["cand"]) - 1}
    if where == "query":
        c["q"][0, 0] = bad
    else:
        c["cand"][column[where], 0] = bad
    assert not torch.isfinite(ours(c, 20.0)[0])


def test_other_queries_of_a_bad_query_keep_their_loss() -> None:
    c = case()
    before = ours(c, 20.0)
    c["q"][0, 0] = math.nan
    assert torch.equal(ours(c, 20.0)[1:], before[1:])


def test_large_scores_do_not_overflow() -> None:
    c = case()
    loss = ours({**c, "q": c["q"] * 1e4}, 100.0)
    assert torch.isfinite(loss).all()


def test_it_is_deterministic_and_a_retained_graph_can_be_used_twice() -> None:
    def run() -> tuple[Tensor, ...]:
        c = case(batch=64, n=500)
        leaves = (c["q"].requires_grad_(), c["cand"].requires_grad_())
        total = ours(c, 20.0).mean()
        first = torch.autograd.grad(total, leaves, retain_graph=True)
        second = torch.autograd.grad(total, leaves)
        for a, b in zip(first, second, strict=True):
            assert torch.equal(a, b)
        return total.detach(), *first

    for a, b in zip(run(), run(), strict=True):
        assert torch.equal(a, b)


def test_autocast_and_half_precision_vectors_still_give_a_float32_loss() -> None:
    c = case()
    plain = ours(c, 20.0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(ours(c, 20.0), plain)
    half = {**c, "q": c["q"].bfloat16().requires_grad_(), "cand": c["cand"].bfloat16()}
    loss = ours(half, 20.0)
    torch.autograd.backward(loss.sum())
    assert loss.dtype == torch.float32
    assert half["q"].grad.dtype == torch.bfloat16


@pytest.mark.parametrize("trained", [True, False])
def test_a_buffer_of_queries_times_candidates_is_kept_only_for_candidates_that_train(
    trained: bool,
) -> None:
    c = case(batch=16, n=400)
    c["cand"].requires_grad_(trained)
    sizes: list[int] = []

    def note(tensor: Tensor) -> Tensor:
        sizes.append(tensor.numel())
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        ours({**c, "q": c["q"].requires_grad_()}, 20.0)
    assert sum(size >= 16 * 400 for size in sizes) == trained


@pytest.mark.parametrize("columns", [1, 7, 23, 64])
def test_candidates_in_blocks_give_the_naive_loss(
    columns: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttf.training.loss.infonce.COLUMNS_AT_ONCE", columns)
    c = case()
    c["q"].requires_grad_()
    loss = ours(c, 20.0)
    torch.testing.assert_close(loss, naive(**c, scale=20.0), rtol=1e-6, atol=1e-5)
    (grad,) = torch.autograd.grad(loss.mean(), c["q"])
    (wanted,) = torch.autograd.grad(naive(**c, scale=20.0).mean(), c["q"])
    torch.testing.assert_close(grad, wanted, rtol=1e-5, atol=1e-5)


def test_candidates_in_half_precision_leave_the_target_exact_and_the_rest_close() -> None:
    c = case(batch=64, n=3000)
    arguments = {k: c[v] for k, v in (("q_BD", "q"), ("cand_ND", "cand"), ("target_B", "target"))}
    arguments |= {"known_BP": c["known"], "scale": 20.0}
    exact = info_nce(**arguments)
    loss = info_nce(**arguments, half_ND=c["cand"].bfloat16())
    assert loss.dtype == torch.float32
    assert 0 < float((loss - exact).abs().max()) < 0.0625
    nobody = torch.arange(3000).expand(64, 3000)
    alone = info_nce(**{**arguments, "known_BP": nobody}, half_ND=c["cand"].bfloat16())
    assert torch.equal(alone, torch.zeros(64))


def test_a_fixed_temperature_has_no_parameters_but_has_state() -> None:
    fixed = Temperature(0.05)
    assert list(fixed.parameters()) == []
    assert float(fixed.scale()) == pytest.approx(20.0, rel=1e-6)
    other = Temperature(0.5)
    other.load_state_dict(fixed.state_dict())
    assert other.temperature() == pytest.approx(0.05, rel=1e-6)


@pytest.mark.parametrize(("start", "push", "bound"), [(0.02, 9.0, 0.01), (0.5, -9.0, 1.0)])
def test_a_learned_temperature_stays_in_bounds_and_comes_back(
    start: float, push: float, bound: float
) -> None:
    learned = Temperature(start, learned=True)
    with torch.no_grad():
        learned.log_scale += push
    assert learned.temperature() == pytest.approx(bound, rel=1e-5)
    torch.autograd.backward(learned.scale())
    grad = learned.log_scale.grad
    assert grad is not None
    assert grad != 0


@pytest.mark.parametrize(("value", "learned"), [(0.001, True), (2.0, True), (0.0, False)])
def test_a_temperature_out_of_range_is_refused_with_the_range(value: float, learned: bool) -> None:
    with pytest.raises(ConfigError, match=r"loss\.temperature is"):
        Temperature(value, learned=learned)
