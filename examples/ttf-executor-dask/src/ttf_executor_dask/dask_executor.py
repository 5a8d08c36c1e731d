"""The executor `dask`: every job is a task of a dask.distributed cluster.

Light: what `ttf plugins list` imports is the standard library and `ttf`.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from ttf import Availability, Executor, ExecutorContext, ExecutorFactory, hookimpl, option


@dataclass(frozen=True, kw_only=True)
class DaskOptions:
    address: str = option(
        "", "address of the scheduler, e.g. tcp://10.0.0.1:8786; empty: a cluster of this host"
    )
    connect_s: float = option(30.0, "how long to try to reach the scheduler", unit="s", ge=0.1)


class DaskFactory:
    """Workers of a dask.distributed cluster."""

    name = "dask"
    options_type = DaskOptions

    def availability(self) -> Availability:
        if importlib.util.find_spec("distributed") is None:
            return Availability(
                ok=False, reason="distributed is not installed", fix="pip install distributed"
            )
        return Availability(ok=True)

    def create(self, options: DaskOptions, context: ExecutorContext) -> Executor:
        from ttf_executor_dask._jobs import DaskExecutor

        return DaskExecutor(options, context.jobs)


@hookimpl
def ttf_executor(name: str) -> ExecutorFactory | None:
    return DaskFactory() if name == "dask" else None
