"""`ttf` trains two-tower retrievers on vectors that lie on disk. This file: the public names.

Everything is imported on first use, so that `import ttf` costs next to nothing.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ttf.api import Run as Run
    from ttf.api import evaluate as evaluate
    from ttf.api import load as load
    from ttf.api import mine as mine
    from ttf.api import open_vectors as open_vectors
    from ttf.api import plan as plan
    from ttf.api import resume as resume
    from ttf.api import train as train
    from ttf.contracts import Availability as Availability
    from ttf.contracts import BatchPlan as BatchPlan
    from ttf.contracts import EvalRecord as EvalRecord
    from ttf.contracts import MinerContext as MinerContext
    from ttf.contracts import MinerCost as MinerCost
    from ttf.contracts import MinerTraits as MinerTraits
    from ttf.contracts import Precision as Precision
    from ttf.contracts import StepRecord as StepRecord
    from ttf.contracts import TowerCost as TowerCost
    from ttf.contracts import TowerShape as TowerShape
    from ttf.doctor.check import CheckContext as CheckContext
    from ttf.doctor.check import Verdict as Verdict
    from ttf.errors import BadData as BadData
    from ttf.errors import ConfigError as ConfigError
    from ttf.errors import ExitCode as ExitCode
    from ttf.errors import PluginUnavailable as PluginUnavailable
    from ttf.errors import TtfError as TtfError
    from ttf.hookspecs import hookimpl as hookimpl
    from ttf.inference import Model as Model
    from ttf.options import NoOptions as NoOptions
    from ttf.options import option as option

__version__ = "0.1.0"

_HOMES = {
    "Availability": "ttf.contracts",
    "BadData": "ttf.errors",
    "BatchPlan": "ttf.contracts",
    "CheckContext": "ttf.doctor.check",
    "ConfigError": "ttf.errors",
    "EvalRecord": "ttf.contracts",
    "ExitCode": "ttf.errors",
    "MinerContext": "ttf.contracts",
    "MinerCost": "ttf.contracts",
    "MinerTraits": "ttf.contracts",
    "Model": "ttf.inference",
    "NoOptions": "ttf.options",
    "PluginUnavailable": "ttf.errors",
    "Precision": "ttf.contracts",
    "Run": "ttf.api",
    "StepRecord": "ttf.contracts",
    "TowerCost": "ttf.contracts",
    "TowerShape": "ttf.contracts",
    "TtfError": "ttf.errors",
    "Verdict": "ttf.doctor.check",
    "evaluate": "ttf.api",
    "hookimpl": "ttf.hookspecs",
    "load": "ttf.api",
    "mine": "ttf.api",
    "open_vectors": "ttf.api",
    "option": "ttf.options",
    "plan": "ttf.api",
    "resume": "ttf.api",
    "train": "ttf.api",
}

__all__ = [
    "Availability",
    "BadData",
    "BatchPlan",
    "CheckContext",
    "ConfigError",
    "EvalRecord",
    "ExitCode",
    "MinerContext",
    "MinerCost",
    "MinerTraits",
    "Model",
    "NoOptions",
    "PluginUnavailable",
    "Precision",
    "Run",
    "StepRecord",
    "TowerCost",
    "TowerShape",
    "TtfError",
    "Verdict",
    "__version__",
    "evaluate",
    "hookimpl",
    "load",
    "mine",
    "open_vectors",
    "option",
    "plan",
    "resume",
    "train",
]


class _Public(ModuleType):
    """Keeps the public names what they are: importing the submodules `ttf.evaluate` or `ttf.plan`
    would otherwise put these modules in the place of the functions."""

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in _HOMES or not isinstance(value, ModuleType):
            super().__setattr__(name, value)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'ttf' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return list(__all__)


sys.modules[__name__].__class__ = _Public
