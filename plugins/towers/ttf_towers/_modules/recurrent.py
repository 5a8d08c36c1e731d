"""The GRU and LSTM towers over torch's own layers.

Shapes: B samples, L steps, D width.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ttf_towers._modules.base import Head, TowerModule
from ttf_towers._modules.pooling import Pool

if TYPE_CHECKING:
    from ttf.contracts import TowerShape
    from ttf_towers._common import Skip
    from ttf_towers.recurrent import RecurrentOptions


class RecurrentTower(TowerModule):
    """Steps through a GRU or LSTM, pooled, projected, plus an input vector where asked."""

    def __init__(
        self,
        shape: TowerShape,
        cell: Literal["gru", "lstm"],
        options: RecurrentOptions,
        skip: Skip,
    ) -> None:
        super().__init__(shape.in_dim, shape.out_dim)
        width = options.hidden * (2 if options.bidirectional else 1)
        self.norm = nn.LayerNorm(shape.in_dim, elementwise_affine=False) if options.norm else None
        self.rnn = (nn.GRU if cell == "gru" else nn.LSTM)(
            shape.in_dim,
            options.hidden,
            num_layers=options.layers,
            batch_first=True,
            bidirectional=options.bidirectional,
            # torch warns where there is no second layer to put it before
            dropout=options.dropout if options.layers > 1 else 0.0,
        )
        self.directions = 2 if options.bidirectional else 1
        self.pool = None if options.pool == "last" else Pool(options.pool, width, shape.length)
        self.dropout = nn.Dropout(options.dropout)
        project = options.project or width != shape.out_dim
        self.head = Head(width, shape.out_dim, project=project, at_zero=skip != "none")
        self.skip = None if skip == "none" else Pool(skip, shape.in_dim, shape.length)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        x_BLD, lengths_B = self.steps(x, lengths)
        state_BD = self._encode(x_BLD if self.norm is None else self.norm(x_BLD), lengths_B)
        out_BD: Tensor = self.head(self.dropout(state_BD))
        return out_BD if self.skip is None else out_BD + self.skip(x_BLD, lengths_B)

    def _encode(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        steps: Tensor | PackedSequence = x_BLD
        if lengths_B is not None:
            steps = pack_padded_sequence(
                x_BLD, lengths_B.cpu(), batch_first=True, enforce_sorted=False
            )
        states, final = self.rnn(steps)
        if self.pool is None:
            return self._last(final[0] if isinstance(final, tuple) else final)
        if lengths_B is not None:
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=x_BLD.shape[1])
        pooled: Tensor = self.pool(states, lengths_B)
        return pooled

    def _last(self, final: Tensor) -> Tensor:
        """The last layer's final states: forward after the last valid step, reverse after the
        first, side by side, as a reader of `h_n` expects."""
        return final[-self.directions :].transpose(0, 1).flatten(1)
