"""The same training as it is meant: the coming batches are announced, and the table takes the
optimizer's step, with its state beside each row.

    python better.py FOLDER
"""

import sys
from itertools import chain
from pathlib import Path

from work import BATCH, DIM, EPOCHS, SAMPLES, batches, loss_of

import ttf

AHEAD = 8

order = list(chain.from_iterable(batches(epoch) for epoch in range(EPOCHS)))
with ttf.EmbeddingTable(
    Path(sys.argv[1]) / "better", rows=SAMPLES, dim=DIM, budget="1MB", optimizer="adagrad"
) as table:
    for ids in order[:AHEAD]:
        table.prefetch(ids)
    for step, ids in enumerate(order):
        vectors = table.get(ids).requires_grad_()
        loss = loss_of(vectors, ids)
        loss.backward()
        assert vectors.grad is not None
        table.apply_gradients(ids, vectors.grad)
        if step + AHEAD < len(order):
            table.prefetch(order[step + AHEAD])
        if (step + 1) % (SAMPLES // BATCH) == 0:
            table.adaptive_eviction()
            table.end_epoch(every=5)
    print(f"demand loads: {table.stats().demand_loads}")
