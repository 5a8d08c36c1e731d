"""The sixth round, in `ttf train`: a panic of a library in Rust, which is no Exception of Python."""

from __future__ import annotations

from typing import Final

from chaos.foreign.case import Foreign
from chaos.foreign.under_train import FORWARD

SIXTH_TRAIN: Final[tuple[Foreign, ...]] = (
    Foreign(
        name="a tokenizer in Rust panics within a tower",
        under="train",
        right=("python-error",),
        certain=True,
        exit_codes=(0,),
        says="PanicException: byte index 3 is not a char boundary",
        code=FORWARD.replace(
            "{does}",
            "raise type('PanicException', (BaseException,), {'__module__': 'pyo3_runtime'})('byte index 3 is not a char boundary')",
        ),
    ),
)
