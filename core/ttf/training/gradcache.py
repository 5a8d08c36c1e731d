"""Exact gradients of one large batch, computed a micro-batch at a time (GradCache, 2101.06983).

Encodes every chunk without a graph, takes the gradient of the loss by the vectors, then encodes
each chunk again with the same dropout and backpropagates its part. Costs a second forward pass;
keeps the activations of one chunk only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor

Chunk = TypeVar("Chunk")
Loss = Callable[[Tensor, Tensor | None], Tensor]


class Rng(Protocol):
    """The part of a `DevicePolicy` that replays dropout."""

    def rng_state(self) -> dict[str, Tensor]: ...

    def set_rng_state(self, state: Mapping[str, Tensor]) -> None: ...


def cached_step(
    chunks: Sequence[Chunk],
    encode_query: Callable[[Chunk], Tensor],
    encode_document: Callable[[Chunk], Tensor] | None,
    loss: Loss,
    rng: Rng,
    before_backward: Callable[[], None] = lambda: None,
    after_backward: Callable[[], None] = lambda: None,
) -> Tensor:
    """Returns the losses (S,) of all samples, detached; adds gradients of their mean to the
    parameters.

    `encode_document` is None for frozen documents: `loss` then has them already and gets None.
    Encoders are called once without and once with a graph, in the same order (per chunk: query,
    document) and with the same random numbers. Afterwards the generators are where a single pass
    would have left them.
    """
    if not chunks:
        raise ValueError("cached_step needs at least one chunk")
    states, query_parts, document_parts = [], [], []
    with torch.no_grad():
        for chunk in chunks:
            states.append(rng.rng_state())
            query_parts.append(encode_query(chunk))
            if encode_document is not None:
                document_parts.append(encode_document(chunk))
    query_grads, document_grads, losses = _vector_gradients(query_parts, document_parts, loss)
    after = rng.rng_state()
    for i, chunk in enumerate(chunks):
        rng.set_rng_state(states[i])
        outputs = [(encode_query(chunk), query_grads[i])]
        if encode_document is not None:
            outputs.append((encode_document(chunk), document_grads[i]))
        live = [(out, grad) for out, grad in outputs if out.requires_grad]
        if live:
            before_backward()
            torch.autograd.backward([out for out, _ in live], [grad for _, grad in live])
            after_backward()
    rng.set_rng_state(after)
    return losses


def _vector_gradients(
    query_parts: list[Tensor], document_parts: list[Tensor], loss: Loss
) -> tuple[Sequence[Tensor], Sequence[Tensor], Tensor]:
    # Parameters of the loss (a learned temperature) get their gradients here.
    q_SD = torch.cat(query_parts).requires_grad_()
    d_MD = torch.cat(document_parts).requires_grad_() if document_parts else None
    losses_S = loss(q_SD, d_MD)
    torch.autograd.backward(losses_S.mean())
    return _split(q_SD, query_parts), _split(d_MD, document_parts), losses_S.detach()


def _split(joined: Tensor | None, parts: Sequence[Tensor]) -> Sequence[Tensor]:
    if joined is None:
        return ()
    # a side that the loss does not look at has no gradient
    grad = torch.zeros_like(joined) if joined.grad is None else joined.grad
    return torch.split(grad, [len(part) for part in parts])
