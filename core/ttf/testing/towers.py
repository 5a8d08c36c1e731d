"""The conformance suite of towers: shapes, lengths, seeds, gradients, estimated cost."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity

from ttf.contracts import Kind, Tower, TowerShape
from ttf.errors import ConfigError
from ttf.host import plugins
from ttf.testing import _runs
from ttf.testing.plugin import PluginTests

if TYPE_CHECKING:
    from ttf.api import Run

DIM: Final = 12
STEPS: Final = 5
BATCH: Final = 6
LENGTHS: Final = (1, 2, 3, 4, 5, 1)


def shape_of(
    *, sequence: bool = True, in_dim: int = DIM, out_dim: int = DIM, steps: int = STEPS
) -> TowerShape:
    length = steps if sequence else 1
    return TowerShape(in_dim=in_dim, length=length, sequence=sequence, out_dim=out_dim)


def batch(sequence: bool = True, seed: int = 2) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    size = (BATCH, STEPS, DIM) if sequence else (BATCH, DIM)
    return torch.randn(*size, generator=generator)


class TowerTests(PluginTests):
    """Set `name` and `options`. Small widths make the tests fast."""

    kind: ClassVar[Kind] = "tower"

    def made(self, factory: Any, chosen: Any, shape: TowerShape | None = None) -> nn.Module:
        """Creates the tower with a seed, as a run does."""
        torch.manual_seed(1)
        module: nn.Module = factory.create(shape or shape_of(), chosen)
        return module

    def stirred(self, factory: Any, chosen: Any, shape: TowerShape | None = None) -> nn.Module:
        """Adds noise to all weights, as after some training. Returns the tower in eval mode."""
        module = self.made(factory, chosen, shape)
        generator = torch.Generator().manual_seed(5)
        with torch.no_grad():
            for parameter in module.parameters():
                parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.3)
        return module.eval()

    def run_with(self, name: str, data: Mapping[str, Path], out: Path) -> Run:
        # A tower without trainable weights gets a document tower that has some.
        doc = "identity" if self.works_in_every_step() else "linear"
        return _runs.train("tower", name, self.options, data, out, doc_tower=doc)

    def works_in_every_step(self) -> bool:
        from ttf.host.options import checked

        factory = plugins.usable("tower", self.name)
        chosen = checked(factory.options_type, self.options, f"tower.{self.name}")
        return not self.made(factory, chosen).frozen

    @pytest.fixture
    def trainable(self, factory: Any, chosen: Any) -> None:
        if self.made(factory, chosen).frozen:
            pytest.skip("the tower has no trainable weights")

    # --- shapes ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("sequence", [True, False], ids=["sequences", "vectors"])
    def test_it_meets_the_contract(self, factory: Any, chosen: Any, sequence: bool) -> None:
        module = self.made(factory, chosen, shape_of(sequence=sequence))
        assert isinstance(module, nn.Module)
        assert isinstance(module, Tower)
        assert (module.in_dim, module.out_dim) == (DIM, DIM)
        assert module.frozen == (not any(p.requires_grad for p in module.parameters()))
        for mode in (True, False):
            out = module.train(mode)(batch(sequence))
            assert out.shape == (BATCH, DIM)
            assert out.dtype == torch.float32
            assert torch.isfinite(out).all()
        if module.identity:
            assert torch.equal(module(batch(sequence)), batch(sequence))

    def test_it_makes_the_width_that_is_asked_for_or_says_that_it_cannot(
        self, factory: Any, chosen: Any
    ) -> None:
        try:
            module = self.made(factory, chosen, shape_of(out_dim=7))
        except ConfigError as refused:
            assert str(refused)
            return
        assert module.out_dim == 7
        assert module(batch()).shape == (BATCH, 7)

    def test_a_vector_counts_as_a_sequence_of_one_step(self, factory: Any, chosen: Any) -> None:
        module = self.stirred(factory, chosen)
        x = batch(sequence=False)
        torch.testing.assert_close(module(x), module(x[:, None, :]))

    def test_one_row_and_equal_rows(self, factory: Any, chosen: Any) -> None:
        module = self.stirred(factory, chosen)
        one = batch()[:1]
        same = module(one.repeat(4, 1, 1))
        assert module(one).shape == (1, DIM)
        torch.testing.assert_close(same, module(one).expand(4, DIM), rtol=1e-5, atol=1e-5)

    def test_in_eval_mode_a_row_does_not_depend_on_its_batch(
        self, factory: Any, chosen: Any
    ) -> None:
        module = self.stirred(factory, chosen)
        order = torch.tensor([3, 0, 5, 1])
        together = module(batch())[order]
        torch.testing.assert_close(module(batch()[order]), together, rtol=1e-5, atol=1e-5)

    # --- lengths ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("filler", [0.0, 1e6, math.nan, math.inf])
    @pytest.mark.parametrize("lengths", [LENGTHS, (5, 5, 2, 1, 1, 3)], ids=str)
    def test_what_lies_in_the_padding_does_not_matter(
        self, factory: Any, chosen: Any, lengths: Sequence[int], filler: float
    ) -> None:
        module = self.stirred(factory, chosen)
        x = batch()
        for row, length in enumerate(lengths):
            x[row, length:] = filler
        with torch.no_grad():
            together = module(x, torch.tensor(lengths))
            alone = [module(x[i : i + 1, :n]) for i, n in enumerate(lengths)]
        torch.testing.assert_close(together, torch.cat(alone), rtol=1e-5, atol=1e-5)

    def test_full_lengths_equal_no_lengths(self, factory: Any, chosen: Any) -> None:
        module = self.stirred(factory, chosen)
        full = torch.full((BATCH,), STEPS)
        torch.testing.assert_close(module(batch(), full), module(batch()), rtol=1e-6, atol=2e-6)

    # --- numbers ---------------------------------------------------------------------------------

    def test_autocast_and_double_precision_work(self, factory: Any, chosen: Any) -> None:
        module = self.stirred(factory, chosen)
        exact = module(batch())
        with torch.autocast("cpu", dtype=torch.bfloat16):
            rough = module(batch())
        assert rough.shape == exact.shape
        assert cosine_similarity(rough.float(), exact, dim=1).min() > 0.99
        wide = module.double()(batch().double())
        assert wide.dtype == torch.float64
        torch.testing.assert_close(wide.float(), exact, rtol=1e-4, atol=1e-4)

    def test_the_seed_decides_weights_outputs_and_gradients_bit_for_bit(
        self, factory: Any, chosen: Any
    ) -> None:
        def run() -> list[Tensor]:
            module = self.made(factory, chosen).train()
            out = module(batch())
            if not out.requires_grad:
                return [out]
            torch.autograd.backward(out.square().sum())
            grads = [p.grad for p in module.parameters() if p.grad is not None]
            return [out.detach(), *module.state_dict().values(), *grads]

        for first, second in zip(run(), run(), strict=True):
            assert torch.equal(first, second)

    def test_its_state_can_be_saved_and_loaded(
        self, trainable: None, factory: Any, chosen: Any
    ) -> None:
        trained, fresh = self.stirred(factory, chosen), self.made(factory, chosen).eval()
        assert not torch.equal(trained(batch()), fresh(batch()))
        fresh.load_state_dict(trained.state_dict())
        assert torch.equal(trained(batch()), fresh(batch()))

    def test_gradients_reach_the_weights_are_finite_and_ignore_padding(
        self, trainable: None, factory: Any, chosen: Any
    ) -> None:
        module = self.stirred(factory, chosen)
        x, lengths = batch(), torch.tensor(LENGTHS)
        for row, length in enumerate(LENGTHS):
            x[row, length:] = math.nan
        torch.autograd.backward(module(x, lengths).square().sum())
        grads = {k: p.grad for k, p in module.named_parameters() if p.requires_grad}
        assert [key for key, grad in grads.items() if grad is None] == []
        for key, grad in grads.items():
            assert grad is not None and torch.isfinite(grad).all(), key
        assert any(grad is not None and grad.abs().max() > 0 for grad in grads.values())

    def test_one_optimizer_step_from_the_start_moves_the_output(
        self, trainable: None, factory: Any, chosen: Any
    ) -> None:
        module = self.made(factory, chosen).eval()
        start = module(batch()).detach()
        goal = torch.randn(BATCH, DIM, generator=torch.Generator().manual_seed(9))
        torch.autograd.backward((module(batch()) * goal).sum())
        with torch.no_grad():
            for parameter in module.parameters():
                if parameter.grad is not None:
                    parameter.sub_(parameter.grad.sign() * 1e-2)  # Adam's first step
        assert (module(batch()) - start).abs().max() > 1e-3

    # --- the estimate ----------------------------------------------------------------------------

    @pytest.mark.parametrize("sequence", [True, False], ids=["sequences", "vectors"])
    def test_the_estimate_is_what_training_needs(
        self, factory: Any, chosen: Any, sequence: bool
    ) -> None:
        shape = shape_of(sequence=sequence)
        module = self.made(factory, chosen, shape)
        cost = factory.estimate(shape, chosen)
        assert cost.parameters == sum(p.numel() for p in module.parameters())
        kept = kept_bytes(module, shape)
        assert kept / 2 <= cost.activation_bytes + 64 and cost.activation_bytes <= kept * 2 + 64, (
            f"training keeps {kept:.0f} bytes per sample for the backward pass, but the estimate "
            f"is {cost.activation_bytes}"
        )
        assert cost.forward_flops >= 0


def kept_bytes(module: nn.Module, shape: TowerShape) -> float:
    """Bytes per sample that autograd keeps, without weights."""
    rows = 64
    x = torch.randn(rows, shape.length, shape.in_dim)
    own = itertools.chain(module.parameters(), module.buffers())
    weights = {p.untyped_storage().data_ptr() for p in own}
    held: dict[int, Tensor] = {}

    def note(tensor: Tensor) -> Tensor:
        held[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(note, lambda t: t):
        out = module.train()(x if shape.sequence else x[:, 0])
    assert out.shape == (rows, shape.out_dim)
    return sum(t.untyped_storage().nbytes() for p, t in held.items() if p not in weights) / rows
