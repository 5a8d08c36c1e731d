"""Builds what a run is made of: towers, documents, memory bank, optimizer."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch

from ttf.contracts import DevicePolicy
from ttf.data.dataset import Dataset
from ttf.data.keyed_random import key
from ttf.errors import ConfigError
from ttf.machine.memory import budget_bytes as memory_budget
from ttf.rundir.cache import cache_dir
from ttf.rundir.flight_record import FlightRecorder
from ttf.training.auto import Decided, Specs
from ttf.training.documents import Documents
from ttf.training.loss.whole_bank import FullBank
from ttf.training.memory_bank import MemoryBank
from ttf.training.step import Stepper, StepSettings, make_optimizer
from ttf.training.towers import TwoTower, build


@dataclass(kw_only=True)
class Parts:
    """Built and seeded; owned by the trainer."""

    model: TwoTower
    documents: Documents
    bank: MemoryBank
    stepper: Stepper


def assemble(
    decided: Decided,
    specs: Specs,
    data: Dataset,
    policy: DevicePolicy,
    flight: FlightRecorder | None = None,
    say: Callable[[str], None] = lambda _: None,
) -> Parts:
    """Builds what is seeded; call after `policy.start()`."""
    config = decided.config
    torch.manual_seed(key(config.train.seed, "weights"))
    model = build(specs.query, specs.doc, config.loss).to(policy.torch_device())
    if not any(p.requires_grad for p in model.parameters()):
        raise ConfigError(
            f"There is nothing to train: the towers {specs.query.name!r} and {specs.doc.name!r} "
            "have no trainable weights.",
            hint="Choose another query tower, e.g. --tower linear.",
        )
    width = specs.query.shape.out_dim
    documents = Documents(data, model, policy, width, memory_budget(config.memory.budget))
    capacity = config.loss.memory_bank
    assert isinstance(capacity, int)
    bank = MemoryBank(
        capacity=capacity,
        num_documents=data.bank.shape[0],
        dim=width,
        room=decided.plan.samples * (1 + config.miner.negatives),
        device=policy.torch_device(),
        constant_shape=policy.constant_shapes,
        half=decided.precision.name == "bf16"
        and (model.documents_as_stored or model.documents_frozen),
    )
    stepper = Stepper(
        model=model,
        optimizer=make_optimizer(model, config.train.lr, config.train.weight_decay),
        bank=bank,
        documents=documents,
        data=data,
        policy=policy,
        precision=decided.precision,
        settings=StepSettings(
            loss=config.loss,
            seed=config.train.seed,
            clip=config.train.clip,
            grad_cache=bool(config.train.grad_cache),
        ),
        micro_batch=decided.plan.micro_batch,
        flight=flight,
        full_bank=FullBank(documents, config.negatives, config.evaluate.k, cache_dir(), say)
        if config.loss.negatives == "bank"
        else None,
    )
    return Parts(model=model, documents=documents, bank=bank, stepper=stepper)
