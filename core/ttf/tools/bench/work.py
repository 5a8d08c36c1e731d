"""What a training step has to compute, in floating-point operations, and how fast that could go.

Needed work only: steps whose outputs nobody reads are not counted, nor gradients of inputs.
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
    last_only: bool
    """Only the last step's output is used: the reverse direction makes one step."""

    @property
    def _gates(self) -> int:
        return 3 * self.hidden

    @property
    def _steps(self) -> int:
        """Of both directions together."""
        return self.length + (1 if self.last_only else self.length)

    @property
    def _input(self) -> int:
        return 2 * self._steps * self.in_dim * self._gates

    @property
    def _recurrent(self) -> int:
        """The first step of a direction starts from zeros."""
        steps = self.length - 1 if self.last_only else 2 * (self.length - 1)
        return 2 * steps * self.hidden * self._gates

    @property
    def _head(self) -> int:
        return 2 * 2 * self.hidden * self.out_dim

    @property
    def forward(self) -> int:
        return self._input + self._recurrent + self._head

    @property
    def training(self) -> int:
        """Forward, gradients of weights, gradients of states; inputs need none."""
        return 2 * self._input + 3 * self._recurrent + 3 * self._head


def contrast_flops(candidates: int, dim: int) -> int:
    """The loss of one query against so many candidates: scores, and the query's gradient."""
    return 4 * candidates * dim
