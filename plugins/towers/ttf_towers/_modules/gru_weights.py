"""A GRU's weights as its kernels want them, made anew only when the parameters have changed.

Gates are kept in the order n, r, z, hn (the part of n that r scales), so that the input's product
writes n, r, z, the state's product r, z, hn, each in one piece. Rows of n and hn are doubled:
tanh(a) = 2 sigmoid(2 a) - 1, and torch's sigmoid is many times faster than its tanh.
Shapes: D width in, H width of the state; weights are (rows of the left side, columns).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

_PACKED_FOR = 128
"""Rows the packed layout is chosen for; a constant, so that results follow from shapes alone."""


class Product:
    """out += a @ w, with `w` cast and packed beforehand where oneDNN multiplies."""

    def __init__(self, w_KN: Tensor, dtype: torch.dtype) -> None:
        self.dtype = dtype
        w_KN = w_KN.to(dtype)
        self._packed = _pack(w_KN.t()) if _packable(w_KN) else None
        self._w_KN = None if self._packed is not None else w_KN.contiguous()

    def add_(self, out_MN: Tensor, a_MK: Tensor) -> None:
        if self._packed is not None:
            out_MN.add_(
                torch.ops.mkldnn._linear_pointwise(a_MK, self._packed, None, "none", [], "")
            )
        elif self._w_KN is not None:
            add_product_(out_MN, a_MK, self._w_KN)


def add_product_(out_MN: Tensor, a_MK: Tensor, b_KN: Tensor) -> None:
    """out += a @ b; the sum is kept in `out`'s type, whatever the factors have."""
    if out_MN.dtype == a_MK.dtype:
        out_MN.addmm_(a_MK, b_KN)
    else:
        out_MN.add_(torch.mm(a_MK, b_KN))


def _packable(w_KN: Tensor) -> bool:
    """Where torch itself would ask oneDNN: bf16 always, float32 when set to "medium"."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    if w_KN.dtype == torch.bfloat16:
        return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
    return w_KN.dtype == torch.float32 and torch.get_float32_matmul_precision() == "medium"


def _pack(w_NK: Tensor) -> Tensor:
    packed: Tensor = torch.ops.mkldnn._reorder_linear_weight(w_NK.contiguous(), _PACKED_FOR)
    return packed


class DirectionWeights:
    """One direction's parameters, ready for products in `dtype`."""

    def __init__(self, parameters: Sequence[Tensor], dtype: torch.dtype) -> None:
        w_ih, w_hh, b_ih, b_hh = (p.detach() for p in parameters)
        self.hidden = h = w_hh.shape[1]
        self.dtype = dtype
        self._w_ih, self._w_hh = w_ih, w_hh
        self.input = Product(torch.cat([2 * w_ih[2 * h :], w_ih[: 2 * h]]).t(), dtype)
        self.state = Product(torch.cat([w_hh[: 2 * h], 2 * w_hh[2 * h :]]).t(), dtype)
        both = b_ih[: 2 * h] + b_hh[: 2 * h]
        self.bias_G = torch.cat([2 * b_ih[2 * h :], both, 2 * b_hh[2 * h :]])
        self._back: dict[str, Product] = {}

    @property
    def state_back(self) -> Product:
        """From gradients of r, z, hn to that of the state."""
        return self._once("state", lambda: self._w_hh)

    @property
    def input_back(self) -> Product:
        """From gradients of n, r, z to that of the input."""
        h = self.hidden
        return self._once("input", lambda: torch.cat([self._w_ih[2 * h :], self._w_ih[: 2 * h]]))

    def _once(self, name: str, make: Callable[[], Tensor]) -> Product:
        if name not in self._back:
            self._back[name] = Product(make(), self.dtype)
        return self._back[name]


class WeightCache:
    """Ready weights by place, for as long as the parameters stay what they were.

    A change is seen by the tensor, its memory and its version, which every operation in place
    raises (optimizers and load_state_dict included; writing through `.data` does not). Copies and
    pickles of it are empty.
    """

    def __init__(self) -> None:
        self._ready: dict[int, tuple[tuple[Any, ...], Sequence[Tensor], DirectionWeights]] = {}

    def get(self, place: int, parameters: Sequence[Tensor], dtype: torch.dtype) -> DirectionWeights:
        if any(p.is_inference() for p in parameters):  # these have no version
            return DirectionWeights(parameters, dtype)
        state = (
            dtype,
            torch.get_float32_matmul_precision(),
            *((id(p), p.data_ptr(), p._version) for p in parameters),
        )
        known = self._ready.get(place)
        if known is None or known[0] != state:
            # the tensors are held, so that no other can come to lie at their addresses
            held = [*parameters, *(p.detach() for p in parameters)]
            known = self._ready[place] = (state, held, DirectionWeights(parameters, dtype))
        return known[2]

    def __reduce__(self) -> tuple[type[WeightCache], tuple[()]]:
        return WeightCache, ()

    def __deepcopy__(self, memo: object) -> WeightCache:
        return WeightCache()
