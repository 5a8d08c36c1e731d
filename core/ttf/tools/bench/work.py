"""The floating-point operations of a training step.

Only needed work: steps with unused outputs and gradients of inputs do not count.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class GruWork:
    """A bidirectional GRU of one layer with a projection, per sample, forward and backward."""

    in_dim: int
    hidden: int
    out_dim: int
    length: int
    last_only: bool  # Only the last step's output is used: the reverse direction makes one step.

    @property
    def forward(self) -> int:
        return sum(self._products)

    @property
    def training(self) -> int:
        """Forward, gradients of weights, gradients of states; inputs need none."""
        inputs, recurrent, head = self._products
        return 2 * inputs + 3 * recurrent + 3 * head

    @property
    def _products(self) -> tuple[int, int, int]:
        """Of inputs, of states, of the projection; a direction's first state is zero."""
        gates = 3 * self.hidden
        steps = self.length + (1 if self.last_only else self.length)  # of both directions
        inputs = 2 * steps * self.in_dim * gates
        recurrent = 2 * (steps - 2) * self.hidden * gates
        return inputs, recurrent, 2 * 2 * self.hidden * self.out_dim


def contrast_flops(candidates: int, dim: int) -> int:
    """The loss of one query against these candidates: scores, and the query's gradient."""
    return 4 * candidates * dim
