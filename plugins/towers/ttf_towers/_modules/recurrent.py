"""The GRU and LSTM towers: torch's layers hold the parameters; `NativeGru` runs GRUs on the CPU.

Shapes: B samples, L steps, D width.
"""

from __future__ import annotations

from typing import Literal

from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ttf import TowerShape
from ttf_towers._common import Skip
from ttf_towers._modules.base import Head, TowerModule
from ttf_towers._modules.gru import NativeGru, Need, supported
from ttf_towers._modules.pooling import Pool, plain
from ttf_towers.recurrent import RecurrentOptions


class RecurrentTower(TowerModule):
    """Steps through a GRU or LSTM, pooled, projected, plus an input vector if configured."""

    def __init__(
        self,
        shape: TowerShape,
        cell: Literal["gru", "lstm"],
        options: RecurrentOptions,
        skip: Skip,
    ) -> None:
        super().__init__(shape.in_dim, shape.out_dim)
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
        self.directions = options.directions
        self._native = NativeGru()
        self._need: Need = options.pool if options.pool in ("last", "final") else "all"
        self.pool = Pool(options.pool, options.width, shape.length) if self._need == "all" else None
        self.dropout = nn.Dropout(options.dropout)
        project = options.project or options.width != shape.out_dim
        self.head = Head(options.width, shape.out_dim, project=project, at_zero=skip != "none")
        self.skip = None if skip == "none" else Pool(skip, shape.in_dim, shape.length)

    def forward(self, x: Tensor, lengths: Tensor | None = None) -> Tensor:
        x_BLD, lengths_B = self.steps(x, lengths)
        if x_BLD.shape[0] == 0:  # neither torch's layers nor the native GRU take an empty batch
            return x_BLD.new_zeros(0, self.out_dim)
        state_BD = self._encode(x_BLD if self.norm is None else self.norm(x_BLD), lengths_B)
        out_BD: Tensor = self.head(self.dropout(state_BD))
        return out_BD if self.skip is None else out_BD + self.skip(x_BLD, lengths_B)

    def _encode(self, x_BLD: Tensor, lengths_B: Tensor | None) -> Tensor:
        if isinstance(self.rnn, nn.GRU) and supported(x_BLD, self.rnn):
            states = final = self._native(self.rnn, x_BLD, lengths_B, self._need)
            if self.pool is None:
                return states
        else:
            states, final = self._torch(x_BLD, lengths_B)
        if self.pool is not None:
            pooled: Tensor = self.pool(states, lengths_B)
            return pooled
        if self._need == "last":
            return plain("last", states, lengths_B)
        return final[-self.directions :].transpose(0, 1).flatten(1)

    def _torch(self, x_BLD: Tensor, lengths_B: Tensor | None) -> tuple[Tensor, Tensor]:
        """Returns outputs of all steps and final states of all layers, computed by torch's
        layer."""
        steps: Tensor | PackedSequence = x_BLD
        if lengths_B is not None:
            steps = pack_padded_sequence(
                x_BLD, lengths_B.cpu(), batch_first=True, enforce_sorted=False
            )
        states, final = self.rnn(steps)
        if lengths_B is not None:
            states, _ = pad_packed_sequence(states, batch_first=True, total_length=x_BLD.shape[1])
        return states, final[0] if isinstance(final, tuple) else final
