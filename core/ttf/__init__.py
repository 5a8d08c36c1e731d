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
    from ttf.contracts import ArrayWriter as ArrayWriter
    from ttf.contracts import Availability as Availability
    from ttf.contracts import BatchPlan as BatchPlan
    from ttf.contracts import DeviceFactory as DeviceFactory
    from ttf.contracts import DevicePolicy as DevicePolicy
    from ttf.contracts import DType as DType
    from ttf.contracts import EvalRecord as EvalRecord
    from ttf.contracts import Miner as Miner
    from ttf.contracts import MinerContext as MinerContext
    from ttf.contracts import MinerCost as MinerCost
    from ttf.contracts import MinerFactory as MinerFactory
    from ttf.contracts import MinerTraits as MinerTraits
    from ttf.contracts import Precision as Precision
    from ttf.contracts import Settled as Settled
    from ttf.contracts import StepRecord as StepRecord
    from ttf.contracts import StorageFactory as StorageFactory
    from ttf.contracts import Store as Store
    from ttf.contracts import StoreWriter as StoreWriter
    from ttf.contracts import Tower as Tower
    from ttf.contracts import TowerCost as TowerCost
    from ttf.contracts import TowerFactory as TowerFactory
    from ttf.contracts import TowerShape as TowerShape
    from ttf.contracts import VectorSource as VectorSource
    from ttf.data.vectors import checked_ids as checked_ids
    from ttf.data.vectors import checked_out as checked_out
    from ttf.data.vectors import checked_span as checked_span
    from ttf.data.vectors import numpy_dtype as numpy_dtype
    from ttf.data.vectors import to_float32 as to_float32
    from ttf.errors import ArrayMissing as ArrayMissing
    from ttf.errors import ArtifactDamaged as ArtifactDamaged
    from ttf.errors import BadData as BadData
    from ttf.errors import ConfigError as ConfigError
    from ttf.errors import DataChanged as DataChanged
    from ttf.errors import DataMissing as DataMissing
    from ttf.errors import ExitCode as ExitCode
    from ttf.errors import PluginUnavailable as PluginUnavailable
    from ttf.errors import StorageError as StorageError
    from ttf.errors import TtfError as TtfError
    from ttf.errors import storage_error as storage_error
    from ttf.hookspecs import hookimpl as hookimpl
    from ttf.host.deprecation import PluginDeprecationWarning as PluginDeprecationWarning
    from ttf.host.options import NoOptions as NoOptions
    from ttf.host.options import option as option
    from ttf.machine.processor import usable_threads as usable_threads
    from ttf.machine.thread_variables import thread_environment as thread_environment
    from ttf.mining.author_helpers import exact_search as exact_search
    from ttf.mining.author_helpers import float32_blocks as float32_blocks
    from ttf.mining.author_helpers import require_bank as require_bank
    from ttf.mining.author_helpers import require_memory as require_memory
    from ttf.rundir.durable import fsync_dir as fsync_dir
    from ttf.rundir.durable import fsync_file as fsync_file
    from ttf.tools.ab.comparison import Compared as Compared
    from ttf.tools.ab.comparison import compare as compare
    from ttf.tools.doctor.check import CheckContext as CheckContext
    from ttf.tools.doctor.check import Verdict as Verdict
    from ttf.training.inference import Model as Model

__version__ = "0.1.0"

_HOMES = {
    "ArrayMissing": "ttf.errors",
    "ArrayWriter": "ttf.contracts",
    "ArtifactDamaged": "ttf.errors",
    "Availability": "ttf.contracts",
    "BadData": "ttf.errors",
    "BatchPlan": "ttf.contracts",
    "CheckContext": "ttf.tools.doctor.check",
    "Compared": "ttf.tools.ab.comparison",
    "ConfigError": "ttf.errors",
    "DType": "ttf.contracts",
    "DataChanged": "ttf.errors",
    "DataMissing": "ttf.errors",
    "DeviceFactory": "ttf.contracts",
    "DevicePolicy": "ttf.contracts",
    "EvalRecord": "ttf.contracts",
    "ExitCode": "ttf.errors",
    "Miner": "ttf.contracts",
    "MinerContext": "ttf.contracts",
    "MinerCost": "ttf.contracts",
    "MinerFactory": "ttf.contracts",
    "MinerTraits": "ttf.contracts",
    "Model": "ttf.training.inference",
    "NoOptions": "ttf.host.options",
    "PluginDeprecationWarning": "ttf.host.deprecation",
    "PluginUnavailable": "ttf.errors",
    "Precision": "ttf.contracts",
    "Run": "ttf.api",
    "Settled": "ttf.contracts",
    "StepRecord": "ttf.contracts",
    "StorageError": "ttf.errors",
    "StorageFactory": "ttf.contracts",
    "Store": "ttf.contracts",
    "StoreWriter": "ttf.contracts",
    "Tower": "ttf.contracts",
    "TowerCost": "ttf.contracts",
    "TowerFactory": "ttf.contracts",
    "TowerShape": "ttf.contracts",
    "TtfError": "ttf.errors",
    "VectorSource": "ttf.contracts",
    "Verdict": "ttf.tools.doctor.check",
    "checked_ids": "ttf.data.vectors",
    "checked_out": "ttf.data.vectors",
    "checked_span": "ttf.data.vectors",
    "compare": "ttf.tools.ab.comparison",
    "evaluate": "ttf.api",
    "exact_search": "ttf.mining.author_helpers",
    "float32_blocks": "ttf.mining.author_helpers",
    "fsync_dir": "ttf.rundir.durable",
    "fsync_file": "ttf.rundir.durable",
    "hookimpl": "ttf.hookspecs",
    "load": "ttf.api",
    "mine": "ttf.api",
    "numpy_dtype": "ttf.data.vectors",
    "open_vectors": "ttf.api",
    "option": "ttf.host.options",
    "plan": "ttf.api",
    "require_bank": "ttf.mining.author_helpers",
    "require_memory": "ttf.mining.author_helpers",
    "resume": "ttf.api",
    "storage_error": "ttf.errors",
    "thread_environment": "ttf.machine.thread_variables",
    "to_float32": "ttf.data.vectors",
    "train": "ttf.api",
    "usable_threads": "ttf.machine.processor",
}

__all__ = [
    "ArrayMissing",
    "ArrayWriter",
    "ArtifactDamaged",
    "Availability",
    "BadData",
    "BatchPlan",
    "CheckContext",
    "Compared",
    "ConfigError",
    "DType",
    "DataChanged",
    "DataMissing",
    "DeviceFactory",
    "DevicePolicy",
    "EvalRecord",
    "ExitCode",
    "Miner",
    "MinerContext",
    "MinerCost",
    "MinerFactory",
    "MinerTraits",
    "Model",
    "NoOptions",
    "PluginDeprecationWarning",
    "PluginUnavailable",
    "Precision",
    "Run",
    "Settled",
    "StepRecord",
    "StorageError",
    "StorageFactory",
    "Store",
    "StoreWriter",
    "Tower",
    "TowerCost",
    "TowerFactory",
    "TowerShape",
    "TtfError",
    "VectorSource",
    "Verdict",
    "__version__",
    "checked_ids",
    "checked_out",
    "checked_span",
    "compare",
    "evaluate",
    "exact_search",
    "float32_blocks",
    "fsync_dir",
    "fsync_file",
    "hookimpl",
    "load",
    "mine",
    "numpy_dtype",
    "open_vectors",
    "option",
    "plan",
    "require_bank",
    "require_memory",
    "resume",
    "storage_error",
    "thread_environment",
    "to_float32",
    "train",
    "usable_threads",
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
