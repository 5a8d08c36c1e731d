"""`ttf` trains two-tower retrievers on vectors that lie on disk. This file: the public names.

Everything is imported on first use, so that `import ttf` costs next to nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttf.api import Run as Run
    from ttf.api import evaluate as evaluate
    from ttf.api import load as load
    from ttf.api import open_vectors as open_vectors
    from ttf.api import train as train
    from ttf.errors import ExitCode as ExitCode
    from ttf.errors import TtfError as TtfError
    from ttf.hookspecs import hookimpl as hookimpl
    from ttf.inference import Model as Model
    from ttf.options import NoOptions as NoOptions
    from ttf.options import option as option

__version__ = "0.1.0"

_HOMES = {
    "ExitCode": "ttf.errors",
    "Model": "ttf.inference",
    "NoOptions": "ttf.options",
    "Run": "ttf.api",
    "TtfError": "ttf.errors",
    "evaluate": "ttf.api",
    "hookimpl": "ttf.hookspecs",
    "load": "ttf.api",
    "open_vectors": "ttf.api",
    "option": "ttf.options",
    "train": "ttf.api",
}

__all__ = [
    "ExitCode",
    "Model",
    "NoOptions",
    "Run",
    "TtfError",
    "__version__",
    "evaluate",
    "hookimpl",
    "load",
    "open_vectors",
    "option",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)
