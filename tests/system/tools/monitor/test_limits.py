"""The time to a real limit, of a process that grows at a known rate."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.kit.fixtures.monitor import GROWS, Start
from tests.kit.widely import wide

from ttf.tools.monitor.nearest_limit import NearestLimit
from ttf.tools.monitor.watch import Monitor
from ttf.tools.monitor.what_to_watch import find

MIB = 1 << 20
_LIMIT_DATA = f"import resource; resource.setrlimit(resource.RLIMIT_DATA, ({180 * MIB},) * 2)\n"


def _predictions(process: subprocess.Popen[bytes]) -> list[tuple[float, NearestLimit]]:
    """(time, what was seen) until it is dead."""
    monitor = Monitor(find(str(process.pid)))
    found = []
    while (view := monitor.look()).alive:
        if view.limit is not None:
            found.append((view.time, view.limit))
        time.sleep(0.2)
    return found


def _assert_right(process: subprocess.Popen[bytes], source: str) -> None:
    """Each prediction against how long it really took, and none before there was a slope."""
    seen = _predictions(process)
    assert process.stdout is not None
    died_at = [float(line.split()[0]) for line in process.stdout.read().splitlines()][-1]
    first = seen[0][0]
    told = [(at, room) for at, room in seen if room.seconds_left is not None]
    assert told, "it never said when"
    assert told[0][0] - first >= 4.9, "no number from a second or two"
    # The last second is a matter of one allocation more or less.
    judged = [(died_at - at, room) for at, room in told if died_at - at > 1]
    assert judged
    for truly, room in judged:
        assert source in room.source
        assert room.seconds_left is not None
        assert truly / 1.5 <= room.seconds_left <= truly * 1.5, (truly, room.seconds_left)


def test_the_time_to_a_limit_of_the_process_itself(start: Start) -> None:
    _assert_right(
        start(_LIMIT_DATA + GROWS, 2 * MIB, 0.08, stderr=subprocess.DEVNULL), "RLIMIT_DATA"
    )


@wide
def test_the_time_to_the_limit_of_a_control_group(start: Start, memory_group: Path) -> None:
    (memory_group / "memory.limit_in_bytes").write_text(str(320 * MIB))
    join = f"open({str(memory_group / 'cgroup.procs')!r}, 'w').write('0')\n"
    _assert_right(start(join + GROWS, 2 * MIB, 0.08), str(memory_group.name))


def test_a_process_that_does_not_grow_has_no_time_to_any_limit(
    waiting: subprocess.Popen[bytes],
) -> None:
    monitor = Monitor(find(str(waiting.pid)))
    for _ in range(5):
        view = monitor.look()
        assert view.limit is not None and view.limit.rising is None, "not yet known"
        time.sleep(0.05)
