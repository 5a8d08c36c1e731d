"""Before a run has a folder: which node is this, and is node 0 there?"""

from __future__ import annotations

from pathlib import Path

from ttf.rundir.request import TrainRequest
from ttf.rundir.run_folder import RunFolder
from ttf.rundir.supervision import Journal
from ttf.supervise.attempts import Alone, Team
from ttf.supervise.nodes.addresses import is_here, parsed
from ttf.supervise.nodes.follower import Follower
from ttf.supervise.nodes.leader import Leader
from ttf.supervise.nodes.same_folder import own_path
from ttf.supervise.nodes.scale import Scale, with_settings
from ttf.supervise.screen import Screen


def met(scale: Scale, request: TrainRequest, out: Path | None) -> tuple[Team, Path | None]:
    """The team of a run, and the folder it has on this node: `out`, or one inside it where node 0 uses
    the same. Not node 0: waits for it. Raises ConfigError and PeerLost."""
    scale.check()
    scale = with_settings(scale, request)
    if scale.nodes == 1:
        return Alone(scale), out
    node = scale.node
    if node is None and is_here(*parsed(scale.rendezvous)):
        node = 0
    if node == 0:
        return Leader(scale), out
    follower = Follower(scale, "" if out is None else _run_id(out))
    screen = Screen(request.progress)
    try:
        follower.meet(screen.waiting)
    except BaseException:
        follower.close()
        raise
    finally:
        screen.close()
    return follower, None if out is None else own_path(out, follower.node, follower.mark)


def _run_id(path: Path) -> str:
    return Journal.read(RunFolder(path).supervision).run_id
