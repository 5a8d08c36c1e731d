"""The weights of a GRU in the layout of its kernels, rebuilt only if the parameters change.

Gates have the order n, r, z, hn (hn: the part of n that r scales): the product of the input writes
n, r, z and the product of the state writes r, z, hn, each in one piece. Rows of n and hn are
doubled: tanh(a) = 2 sigmoid(2 a) - 1, and torch's sigmoid is many times faster than its tanh.

Shapes: D width in, H width of the state; weights are (rows of the left side, columns).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

_PACKED_OPERATIONS = ("_reorder_linear_weight", "_linear_pointwise")
_SAMPLE = 16
# Number of rows for the packed layout. Constant, so that results depend on shapes alone.
_PACKED_FOR = 128


class Product:
    """Products with one `w`, converted and packed in advance if oneDNN computes them."""

    def __init__(self, w_KN: Tensor, dtype: torch.dtype) -> None:
        self.dtype = dtype
        self._w_KN = w_KN.to(dtype).contiguous()
        self._packed = _pack(self._w_KN.t()) if _packable(self._w_KN) else None
        if self._packed is not None:
            self._w_KN = self._w_KN.new_empty(0)

    def add_(self, out_MN: Tensor, a_MK: Tensor) -> None:
        """out += a @ w"""
        if self._packed is None:
            add_product_(out_MN, a_MK, self._w_KN)
        else:
            out_MN.add_(_packed_product(a_MK, self._packed))

    def into(self, out_MN: Tensor, a_MK: Tensor, bias_N: Tensor | None) -> None:
        """out = a @ w + bias"""
        if self._packed is not None:
            product_MN = _packed_product(a_MK, self._packed)
        else:
            product_MN = torch.mm(a_MK, self._w_KN)
        if bias_N is None:
            out_MN.copy_(product_MN)
        else:
            torch.add(product_MN, bias_N, out=out_MN)


def _packed_product(a_MK: Tensor, packed: Tensor) -> Tensor:
    product_MN: Tensor = torch.ops.mkldnn._linear_pointwise(a_MK, packed, None, "none", [], "")
    return product_MN


def add_product_(out_MN: Tensor, a_MK: Tensor, b_KN: Tensor) -> None:
    """out += a @ b. The sum has the type of `out`, whatever the factors have."""
    if out_MN.dtype == a_MK.dtype:
        out_MN.addmm_(a_MK, b_KN)
    else:
        out_MN.add_(torch.mm(a_MK, b_KN))


def _packable(w_KN: Tensor) -> bool:
    # Whether torch itself would use oneDNN: bf16 always, float32 with "medium". The packed product
    # is not a public operation of torch; without it, torch.mm gives the same.
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if not all(hasattr(torch.ops.mkldnn, name) for name in _PACKED_OPERATIONS):
        return False
    if w_KN.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return w_KN.dtype == torch.float32 and torch.get_float32_matmul_precision() == "medium"


def _pack(w_NK: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(w_NK.contiguous(), _PACKED_FOR)
    return packed


class DirectionWeights:
    """The parameters of one direction, ready for products in `dtype`."""

    def __init__(self, parameters: Sequence[Tensor], dtype: torch.dtype) -> None:
        w_ih, w_hh, b_ih, b_hh = (p.detach() for p in parameters)
        self.hidden = h = w_hh.shape[1]
        self.dtype = dtype
        self._w_ih = w_ih
        self._w_hh = w_hh
        both = b_ih[: 2 * h] + b_hh[: 2 * h]
        self.bias_G = torch.cat([2 * b_ih[2 * h :], both, 2 * b_hh[2 * h :]])
        self._made: dict[str, Product] = {}

    @property
    def input(self) -> Product:
        # From the input to n, r, z.
        h, w = self.hidden, self._w_ih
        return self._once("input", lambda: torch.cat([2 * w[2 * h :], w[: 2 * h]]).t())

    @property
    def state(self) -> Product:
        # From the state to r, z, hn. Not called if all sequences have one step.
        h, w = self.hidden, self._w_hh
        return self._once("state", lambda: torch.cat([w[: 2 * h], 2 * w[2 * h :]]).t())

    @property
    def state_back(self) -> Product:
        # From gradients of r, z, hn to the gradient of the state.
        return self._once("state back", lambda: self._w_hh)

    @property
    def input_back(self) -> Product:
        # From gradients of n, r, z to the gradient of the input.
        h, w = self.hidden, self._w_ih
        return self._once("input back", lambda: torch.cat([w[2 * h :], w[: 2 * h]]))

    def _once(self, name: str, make: Callable[[], Tensor]) -> Product:
        if name not in self._made:
            self._made[name] = Product(make(), self.dtype)
        return self._made[name]


class _Steps:
    """Counts the steps of all optimizers of the process."""

    def __init__(self) -> None:
        self.taken = 0

    def __call__(self, *_: object) -> None:
        self.taken += 1


_steps = _Steps()
register_optimizer_step_post_hook(_steps)


class _Ready(NamedTuple):
    state: tuple[Any, ...]
    values: Tensor
    held: Sequence[Tensor]
    weights: DirectionWeights


class WeightCache:
    """Keeps the weights of each place until the parameters change.

    A change shows in: the tensor, its memory, its version (raised by in-place operations and
    load_state_dict), the count of optimizer steps (fused optimizers do not raise versions), and
    some values (writing through `.data` changes nothing else).
    """

    def __init__(self) -> None:
        self._ready: dict[int, _Ready] = {}

    def get(self, place: int, parameters: Sequence[Tensor], dtype: torch.dtype) -> DirectionWeights:
        if any(p.is_inference() for p in parameters):  # these have no version
            return DirectionWeights(parameters, dtype)
        state = (
            dtype,
            torch.get_float32_matmul_precision(),
            _steps.taken,
            *((id(p), p.data_ptr(), p._version) for p in parameters),
        )
        values = _some_values(parameters)
        known = self._ready.get(place)
        if known is None or known.state != state or not torch.equal(known.values, values):
            # the tensors are held, so that no other can come to lie at their addresses
            held = [*parameters, *(p.detach() for p in parameters)]
            known = _Ready(state, values, held, DirectionWeights(parameters, dtype))
            self._ready[place] = known
        return known.weights


def _some_values(parameters: Sequence[Tensor]) -> Tensor:
    # A few values of each parameter, evenly spread.
    flat = (p.detach().view(-1) for p in parameters)
    return torch.cat([p[:: max(1, len(p) // _SAMPLE)] for p in flat])
