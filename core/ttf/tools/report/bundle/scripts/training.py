"""Trains a plain torch tower of the run's shapes on random vectors, for as many optimizer steps as
the run had done.

Batch, accumulation, threads, precision, forward, backward and AdamW are those of the run; the tower
is torch's own layer of that kind. A fault that needs the run's own vectors does not show.
"""

from __future__ import annotations

import faulthandler
import importlib
import math
import sys
import time

import torch
from torch import Tensor, nn

# --- settings: what the run had ---
CELL: str = "gru"
INPUT: int = 16
LENGTH: int = 4
HIDDEN: int = 16
LAYERS: int = 1
BIDIRECTIONAL: bool = True
DROPOUT: float = 0.1
OUTPUT: int = 16
BATCH: int = 8
ACCUMULATE: int = 2
DOCUMENTS: int = 64
TEMPERATURE: float = 0.05
LEARNING_RATE: float = 0.001
THREADS: int = 1
DEVICE: str = "cpu"
PRECISION: str = "fp32"
STEPS: int = 20
MINER_LIBRARY: str = ""
SEED: int = 0
HANG_AFTER_S: float = 0.0
# --- end of the settings ---


class Tower(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        width = HIDDEN
        self.body: nn.Module
        if CELL in ("gru", "lstm"):
            width = HIDDEN * (2 if BIDIRECTIONAL else 1)
            self.body = (nn.GRU if CELL == "gru" else nn.LSTM)(
                INPUT,
                HIDDEN,
                num_layers=LAYERS,
                batch_first=True,
                bidirectional=BIDIRECTIONAL,
                dropout=DROPOUT if LAYERS > 1 else 0.0,
            )
        elif CELL == "transformer":
            heads = next(n for n in (4, 2, 1) if HIDDEN % n == 0)
            layer = nn.TransformerEncoderLayer(
                HIDDEN, heads, 4 * HIDDEN, DROPOUT, batch_first=True, norm_first=False
            )
            self.body = nn.Sequential(
                nn.Linear(INPUT, HIDDEN), nn.TransformerEncoder(layer, LAYERS)
            )
        elif CELL == "linear":
            width, self.body = INPUT, nn.Identity()
        else:
            self.body = nn.Sequential(nn.Linear(INPUT, HIDDEN), nn.GELU())
        self.dropout = nn.Dropout(DROPOUT)
        self.head = nn.Linear(width, OUTPUT)

    def forward(self, x: Tensor) -> Tensor:
        states = self.body(x)
        if isinstance(states, tuple):
            states = states[0]
        out: Tensor = self.head(self.dropout(states.mean(1)))
        return nn.functional.normalize(out, dim=-1)


def optimizer_step(tower: Tower, optimizer: torch.optim.Optimizer, device: torch.device) -> float:
    documents = nn.functional.normalize(torch.randn(DOCUMENTS, OUTPUT, device=device), dim=-1)
    total = 0.0
    for _ in range(ACCUMULATE):
        x = torch.randn(BATCH, LENGTH, INPUT, device=device)
        with torch.autocast(device.type, torch.bfloat16, enabled=PRECISION == "bf16"):
            queries = tower(x)
        targets = torch.randint(DOCUMENTS, (BATCH,), device=device)
        loss = nn.functional.cross_entropy(queries.float() @ documents.T / TEMPERATURE, targets)
        (loss / ACCUMULATE).backward()  # type: ignore[no-untyped-call]
        total += loss.item() / ACCUMULATE
    nn.utils.clip_grad_norm_(tower.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return total


def chosen_device() -> torch.device:
    try:
        torch.zeros(1, device=DEVICE)
    except (RuntimeError, AssertionError) as error:
        print(
            f"the run used the device {DEVICE!r}, which is not available here ({error}); "
            "using the cpu"
        )
        return torch.device("cpu")
    return torch.device(DEVICE)


def main() -> int:
    faulthandler.enable()
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else STEPS
    if THREADS:
        torch.set_num_threads(THREADS)
    if MINER_LIBRARY:  # it shared the process
        importlib.import_module(MINER_LIBRARY)
        print(f"{MINER_LIBRARY} is loaded into this process", flush=True)
    torch.manual_seed(SEED)
    device = chosen_device()
    tower = Tower().to(device)
    optimizer = torch.optim.AdamW(tower.parameters(), lr=LEARNING_RATE, fused=True)
    print(
        f"torch {torch.__version__}, {CELL} {INPUT} -> {OUTPUT}, {LENGTH} steps, batch {BATCH} x "
        f"{ACCUMULATE}, {DOCUMENTS:,} documents, {PRECISION}, {torch.get_num_threads()} threads",
        flush=True,
    )
    began = time.monotonic()
    for step in range(1, steps + 1):
        if HANG_AFTER_S:  # a step that takes longer ends the script, with its stacks
            faulthandler.dump_traceback_later(HANG_AFTER_S, exit=True)
        loss = optimizer_step(tower, optimizer, device)
        if step % max(1, steps // 10) == 0 or not math.isfinite(loss):
            took = time.monotonic() - began
            print(f"step {step:,} of {steps:,}: loss {loss:.4f}, {took:.1f} s", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"did not crash in {steps:,} rounds (optimizer steps)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
