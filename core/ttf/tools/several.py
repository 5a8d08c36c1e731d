"""Runs on several processes and machines: what is asked for, and with whom."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ttf.errors import ConfigError

if TYPE_CHECKING:
    from ttf.rundir.documents import Summary
    from ttf.rundir.request import TrainRequest
    from ttf.rundir.run_folder import RunFolder
    from ttf.supervise.attempts import Team
    from ttf.supervise.nodes.scale import Scale


class Runs(Protocol):
    """`ttf.api.run`"""

    def __call__(
        self, request: TrainRequest, folder: RunFolder, *, own_process: bool, team: Team
    ) -> Summary: ...


def scale_of(
    nodes: int = 1,
    ranks: int = 1,
    rendezvous: str = "",
    node: int | None = None,
    *,
    supervised: bool = True,
) -> Scale | None:
    """None: a run of one process. Raises ConfigError."""
    if (nodes, ranks, rendezvous, node) == (1, 1, "", None):
        return None
    from ttf.supervise.nodes.scale import Scale

    scale = Scale(nodes=nodes, ranks=ranks, rendezvous=rendezvous, node=node)
    scale.check()
    if not supervised and not scale.single:
        raise ConfigError(
            "A run on several processes needs its supervisor.",
            hint="For a debugger, train with one process: without --nodes and --ranks.",
        )
    return scale


def run_several(
    request: TrainRequest,
    path: Path | None,
    scale: Scale,
    run: Runs,
    *,
    own_process: bool = False,
) -> Summary:
    """A new run in `path`, or one that is there already; perhaps together with other machines."""
    from ttf.rundir.run_folder import RunFolder
    from ttf.supervise.nodes.meeting import met

    team, own = met(scale, request, path)
    try:
        is_run = own is not None and request.resume and RunFolder(own).is_run()
        folder = RunFolder.existing(own) if own is not None and is_run else RunFolder.new(own)
        request = replace(request, run_dir=str(folder.path))
        return run(request, folder, own_process=own_process, team=team)
    finally:
        team.close()
