"""When a run ends: by patience, by a signal; and what it keeps, refreshes and measures on the way."""

from __future__ import annotations

import signal

import pytest
from tests.unit.training.test_selection_and_stopping import WORKS, start  # noqa: F401


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_stops_at_the_next_step(signum: signal.Signals) -> None:
    with start() as process:
        process.send_signal(signum)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out == f"asked {signum.name} {int(signum)}\nrestored\n"


@pytest.mark.parametrize(("second", "code"), [(signal.SIGTERM, -15), (signal.SIGINT, None)])
def test_the_second_signal_is_obeyed_at_once(second: signal.Signals, code: int | None) -> None:
    with start("save") as process:
        process.send_signal(signal.SIGINT)
        assert process.stdout is not None
        assert process.stdout.readline().startswith("asked SIGINT")
        process.send_signal(second)
        out, err = process.communicate(timeout=60)
    assert out == ""
    if code is None:
        assert "KeyboardInterrupt" in err
    else:
        assert process.returncode == code
