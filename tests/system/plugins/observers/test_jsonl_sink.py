"""events.jsonl: what a program that follows a run finds in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.kit.observed_runs import (
    EVALUATED,
    STEPS,
    Place,
    lines,
)
from tests.kit.widely import CHAOS, wide
from tests.unit.plugins.observers.test_jsonl_sink import logged, train  # noqa: F401

pytestmark = pytest.mark.usefixtures("_closed_after")


def test_every_hook_of_a_run_is_a_line_in_the_order_of_time(undisturbed: Path) -> None:
    told = lines(undisturbed)
    assert told[0]["event"] == "run_started" and told[0]["resumed_from"] == 0
    assert told[0]["config"]["train"]["batch_size"] == 16
    assert told[-1]["event"] == "run_finished" and told[-1]["summary"]["status"] == "finished"
    assert logged(undisturbed) == list(range(1, STEPS + 1))
    assert logged(undisturbed, "evaluated") == EVALUATED
    assert "recall@10" in lines(undisturbed, "evaluated")[0]["metrics"]
    assert {"loss", "lr", "grad_norm", "samples_per_s", "extra"} <= set(told[2])
    saved = lines(undisturbed, "checkpointed")
    assert saved and Path(saved[-1]["path"]).is_dir()
    times = [line["time"] for line in told]
    assert (
        times == sorted(times)
        and abs((undisturbed / "events.jsonl").stat().st_mtime - times[-1]) < 60
    )


@wide
def test_a_killed_run_has_each_step_once_and_tells_of_its_death(killed: Path) -> None:
    assert logged(killed) == list(range(1, STEPS + 1))
    assert logged(killed, "evaluated") == EVALUATED
    first, second = lines(killed, "run_started")
    assert (first["resumed_from"], second["resumed_from"] > 0) == (0, True)
    (incident,) = lines(killed, "incident")
    assert incident["incident"]["class"] == "killed"
    assert max(logged(killed, "checkpointed")) == STEPS


@pytest.mark.skipif(not CHAOS, reason="as with TensorBoard's own disk: TTF_CHAOS=1 runs it")
def test_a_disk_that_takes_no_more_leaves_it_out_aloud_and_the_run_goes_on(
    place: Place, tmp_path: Path
) -> None:
    patience = "--set=checkpoint.retry_s=0"
    err = place.train(["jsonl"], patience, out=tmp_path / "run", failpoint="events.write:40+:eio")
    assert err.count("ttf does not call it again in this run") == 1, err
    assert "events.jsonl: Input/output error" in err
    assert logged(tmp_path / "run") == list(range(1, len(logged(tmp_path / "run")) + 1))
