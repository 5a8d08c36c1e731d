"""The fifth round, in `ttf train`: a loop in a tower that never ends, and a signal to the trainer alone."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.under_train import HEAD

FIFTH_TRAIN: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a loop of a tower that never converges",
        under="train",
        right=("hang",),
        exit_codes=(0,),
        says="of one CPU during this time",
        settings={"supervise.hang_timeout_s": 15},
        code=HEAD + "import torch\nplan = torch.rand(32, 32, dtype=torch.float32)\n"
        "while True: plan = torch.softmax(plan @ plan.T, 1)",
    ),
    Foreign(
        name="SIGTERM to the trainer alone (earlyoom, killall)",
        under="train",
        right=("",),
        exit_codes=(143,),
        code=HEAD + "os.kill(os.getpid(), signal.SIGTERM)",
    ),
)
