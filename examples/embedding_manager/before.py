"""Trains one vector for each sample, with a manager of one's own (manager.py).

python before.py FOLDER
"""

import sys
from pathlib import Path

import torch
from manager import EmbeddingManager
from work import BATCH, DIM, EPOCHS, LR, SAMPLES, batches, loss_of

torch.manual_seed(0)
manager = EmbeddingManager(
    str(Path(sys.argv[1]) / "vectors"),
    num_samples=SAMPLES,
    dim=DIM,
    l1_mb=0.04,
    l2_mb=0.05,
    chunk=256,
    sync_every=10,
    auto_sync=True,
)
for ids in torch.arange(SAMPLES).split(BATCH):
    manager.update_embeddings(ids, torch.randn(len(ids), DIM))
for epoch in range(EPOCHS):
    total = 0.0
    for ids in batches(epoch):
        vectors = manager.get_embeddings(ids).requires_grad_()
        loss = loss_of(vectors, ids)
        loss.backward()
        assert vectors.grad is not None
        manager.update_embeddings(ids, vectors.detach() - LR * vectors.grad)
        total += loss.item()
    print(f"epoch {epoch + 1}: loss {total}")
    manager.adaptive_eviction()
    if epoch % 5 == 4:
        print(manager.stats())
manager.sync()
