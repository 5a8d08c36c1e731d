"""Forward and backward of one direction of a GRU layer, in chunks of rows that fit the cache.

The gates n, r, z, hn of each row are kept for backward, in float32 (or the type of the state), even
if products run in bf16. Backward needs no earlier state: z (h_before - n) is h - n.

Shapes: R rows, D width in, H width of the state, G = 4 H gates; F factors of the gradient.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from ttf_towers._modules.gru_rows import Chunk, chunks
from ttf_towers._modules.gru_weights import DirectionWeights, add_product_

# Enough rows for efficient products, few enough for the cache.
CHUNK_ROWS = 1024


class Buffers:
    """Gates returned by backward, reused by the next forward.

    Fresh memory costs a page fault every 4 KB, which took a quarter of the time. Autograd refuses a
    graph whose gates were reused.
    """

    def __init__(self) -> None:
        self._free: list[Tensor] = []

    def take(self, rows: int, width: int, like: Tensor) -> Tensor:
        while self._free:
            found = self._free.pop()
            if found.shape == (rows, width) and found.dtype == like.dtype:
                return found
        return like.new_empty(rows, width)

    def give(self, gates: Tensor) -> None:
        self._free.append(gates)


@dataclass(frozen=True, kw_only=True)
class Pass:
    """How one direction goes over its rows. Autograd does not track anything of this."""

    weights: DirectionWeights
    sizes: tuple[int, ...]  # the number of sequences with a first step, a second step, ...
    reverse: bool
    last_B: Tensor  # the row where each sequence ends
    buffers: Buffers | None  # None: no backward will follow; else backward returns the gates


class GruDirection(torch.autograd.Function):
    """From (rows of x, parameters) to (all states, the state at the end of each sequence)."""

    @staticmethod
    def forward(
        ctx: Any,
        x_RD: Tensor,
        w_ih: Tensor,
        w_hh: Tensor,
        b_ih: Tensor,
        b_hh: Tensor,
        how: Pass,
    ) -> tuple[Tensor, Tensor]:
        work = chunks(how.sizes, how.reverse, CHUNK_ROWS)
        with torch.autocast("cpu", enabled=False):
            h_RH, gates_RG = _forward(x_RD, how.weights, work, how.buffers)
        first = how.sizes[0]
        final_BH = h_RH[:first].clone() if how.reverse else h_RH.index_select(0, how.last_B)
        ctx.set_materialize_grads(False)
        if how.buffers is not None:
            ctx.work = work
            ctx.how = how
            # the parameters are saved so that autograd refuses a backward after they changed
            ctx.save_for_backward(x_RD, h_RH, gates_RG, w_ih, w_hh)
        return h_RH, final_BH

    @staticmethod
    @once_differentiable
    def backward(
        ctx: Any, grad_RH: Tensor | None, grad_final_BH: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        x_RD, h_RH, gates_RG, *_ = ctx.saved_tensors
        with torch.autocast("cpu", enabled=False):
            back = _Backward(x_RD, h_RH, gates_RG, ctx.how.weights, ctx.needs_input_grad)
            back.run(ctx.work, grad_RH, grad_final_BH)
            ctx.how.buffers.give(gates_RG)
            return (*back.gradients(), None)


def _forward(
    x_RD: Tensor, weights: DirectionWeights, work: Sequence[Chunk], buffers: Buffers | None
) -> tuple[Tensor, Tensor | None]:
    hidden, bias_G = weights.hidden, weights.bias_G
    h_RH = bias_G.new_empty(len(x_RD), hidden)
    if buffers is not None:
        gates_RG = buffers.take(len(x_RD), 4 * hidden, bias_G)
    else:
        gates_RG = bias_G.new_empty(max(c.stop - c.first for c in work), 4 * hidden)
    for chunk in work:
        start = 0 if buffers is None else chunk.first
        stop = start + chunk.stop - chunk.first
        gates = gates_RG[start:stop]
        x = x_RD[chunk.first : chunk.stop]
        weights.input.into(gates[:, : 3 * hidden], x, bias_G[: 3 * hidden])
        gates[:, 3 * hidden :] = bias_G[3 * hidden :]
        _steps_forward(chunk, gates, h_RH, weights)
    return h_RH, None if buffers is None else gates_RG


def _steps_forward(chunk: Chunk, gates_RG: Tensor, h_RH: Tensor, weights: DirectionWeights) -> None:
    hidden = weights.hidden
    minus_one = gates_RG.new_full((), -1.0)
    for step in chunk.steps:
        begin = step.first - chunk.first
        g = gates_RG[begin : begin + step.size]
        n, r, z, hn = g.chunk(4, 1)
        c = step.carried
        if c:
            before = h_RH[step.before : step.before + c]
            weights.state.add_(g[:c, hidden:], before.to(weights.dtype))
        g[:, hidden : 3 * hidden].sigmoid_()
        torch.addcmul(n, r, hn, out=n).sigmoid_()
        torch.add(minus_one, n, alpha=2, out=n)
        h = h_RH[step.first : step.first + step.size]
        if c < step.size:
            torch.addcmul(n[c:], n[c:], z[c:], value=-1, out=h[c:])
        if c:
            torch.lerp(n[:c], before, z[:c], out=h[:c])


class _Backward:
    """The inputs and sums of one backward pass."""

    def __init__(
        self,
        x_RD: Tensor,
        h_RH: Tensor,
        gates_RG: Tensor,
        weights: DirectionWeights,
        needed: Sequence[bool],
    ) -> None:
        self.x_RD = x_RD
        self.h_RH = h_RH
        self.gates_RG = gates_RG
        self.weights = weights
        h = self.hidden = weights.hidden
        self.needs_x, self.needs_ih, self.needs_hh, *biases = needed[:5]
        self.needs_biases = any(biases)
        self.dx_RD = x_RD.new_empty(x_RD.shape) if self.needs_x else None
        self.dw_ih = h_RH.new_zeros(3 * h, x_RD.shape[1]) if self.needs_ih else None
        self.dw_hh = h_RH.new_zeros(3 * h, h) if self.needs_hh else None
        self.db_G = h_RH.new_zeros(4 * h)

    def run(self, work: Sequence[Chunk], grad_RH: Tensor | None, final_BH: Tensor | None) -> None:
        batch = max(step.size for step in work[0].steps + work[-1].steps)
        dh_BH = self.h_RH.new_zeros(batch, self.hidden)
        if final_BH is not None:
            dh_BH.copy_(final_BH)
        rows = max(chunk.stop - chunk.first for chunk in work)
        factors_RF = self.h_RH.new_empty(rows, 4 * self.hidden)
        before_RH = self.h_RH.new_empty(rows, self.hidden, dtype=self.weights.dtype)
        for chunk in reversed(work):
            count = chunk.stop - chunk.first
            f_RF, b_RH = factors_RF[:count], before_RH[:count]
            _factors(
                self.gates_RG[chunk.first : chunk.stop], self.h_RH[chunk.first : chunk.stop], f_RF
            )
            self._steps(chunk, f_RF, b_RH, dh_BH, grad_RH)
            self._sum_up(chunk, f_RF, b_RH)

    def _steps(
        self, chunk: Chunk, f_RF: Tensor, b_RH: Tensor, dh_BH: Tensor, grad_RH: Tensor | None
    ) -> None:
        # Turns factors into gradients of the gates, in place. Gathers the states before them.
        hidden = self.hidden
        product, dtype = self.weights.state_back, self.weights.dtype
        z_RH = self.gates_RG[:, 2 * hidden : 3 * hidden]
        for step in reversed(chunk.steps):
            begin, size, c = step.first - chunk.first, step.size, step.carried
            dh = dh_BH[:size]
            if grad_RH is not None:
                dh.add_(grad_RH[step.first : step.first + size])
            f = f_RF[begin : begin + size]
            f.view(size, 4, hidden).mul_(dh[:, None, :])
            before = b_RH[begin : begin + size]
            if c < size:
                before[c:].zero_()
            if c:
                before[:c].copy_(self.h_RH[step.before : step.before + c])
                dh[:c].mul_(z_RH[step.first : step.first + c])
                product.add_(
                    dh[:c], f[:c, hidden:].to(dtype, memory_format=torch.contiguous_format)
                )

    def _sum_up(self, chunk: Chunk, d_RG: Tensor, before_RH: Tensor) -> None:
        hidden = self.hidden
        x_RD = self.x_RD[chunk.first : chunk.stop]
        if self.needs_biases:
            self.db_G.add_(d_RG.sum(0))
        d_RG = d_RG.to(self.weights.dtype)
        if self.dw_ih is not None:
            add_product_(self.dw_ih, d_RG[:, : 3 * hidden].t(), x_RD)
        if self.dw_hh is not None and any(step.carried for step in chunk.steps):
            add_product_(self.dw_hh, d_RG[:, hidden:].t(), before_RH)
        if self.dx_RD is not None:
            dx = self.dx_RD[chunk.first : chunk.stop]
            self.weights.input_back.into(dx, d_RG[:, : 3 * hidden], None)

    def gradients(self) -> tuple[Tensor | None, ...]:
        """Returns the gradients of x, w_ih, w_hh, b_ih, b_hh, with gates in torch's order r, z,
        n."""
        h = self.hidden
        dw_ih = None if self.dw_ih is None else torch.cat([self.dw_ih[h:], self.dw_ih[:h]])
        if not self.needs_biases:
            return self.dx_RD, dw_ih, self.dw_hh, None, None
        db_ih = torch.cat([self.db_G[h : 3 * h], self.db_G[:h]])
        return self.dx_RD, dw_ih, self.dw_hh, db_ih, self.db_G[h:].clone()


def _factors(gates_RG: Tensor, h_RH: Tensor, out_RF: Tensor) -> None:
    # Factors from a state's gradient to the gradients of n, r, z, hn (before their functions).
    n, r, z, hn = gates_RG.chunk(4, 1)
    f_n, f_r, f_z, f_hn = out_RF.chunk(4, 1)
    keep = torch.rsub(z, 1.0)
    torch.sub(h_RH, n, out=f_z).mul_(keep)
    torch.addcmul(keep.new_ones(()), n, n, value=-1, out=f_n).mul_(keep)
    torch.mul(f_n, r, out=f_hn)
    # hn is kept doubled, so half of 1 - r
    torch.mul(f_hn, hn, out=f_r).mul_(torch.mul(r, -0.5, out=keep).add_(0.5))
