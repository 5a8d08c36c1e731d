"""A device that computes wrongly, and a training that diverges, through `ttf train`."""

from __future__ import annotations

import json
from typing import Any

from tests.kit.faulty_run import FaultyPlace
from tests.kit.live_run import Ended
from tests.kit.widely import wide

WRONG = {"device.name": "standin", "device.standin.fault": "scaled"}


def lines(ended: Ended, kind: str) -> list[dict[str, Any]]:
    found = map(json.loads, (ended.run / "metrics.jsonl").read_text().splitlines())
    return [line for line in found if line["type"] == kind]


def test_a_device_that_is_wrong_from_the_start_stops_a_run_without_remedies(
    place: FaultyPlace,
) -> None:
    settings = {**WRONG, "probe.on_mismatch": "cpu"}
    ended = place.train("--no-remedies", settings=settings).wait()
    ended.assert_clean()
    assert ended.code == 4
    assert "--device cpu" in ended.err
    assert ended.config()["device"]["name"] == "standin"
    assert "standin and the CPU compute different numbers" in ended.err
    (incident,) = ended.incidents
    assert (incident["class"], incident["phase"]) == ("non-finite", "probe")
    assert lines(ended, "step") == []
    assert not any((ended.run / "checkpoints").iterdir())
    summary = ended.summary
    assert (summary["status"], summary["exit_code"], summary["restarts"]) == ("failed", 4, 0)


def test_a_device_that_goes_wrong_later_saves_nothing_after(place: FaultyPlace) -> None:
    """It is right for two probes; the third is 1% off. As long as nobody says otherwise, it ends."""
    place.faults.joinpath("wrong-from").write_text("15")
    settings = {"device.name": "standin", "probe.every": 5}
    ended = place.train(settings=settings).wait()
    ended.assert_clean()
    assert ended.code == 4
    assert [line["ok"] for line in lines(ended, "probe")] == [True, True, True, False]
    assert sorted(p.name for p in (ended.run / "checkpoints").iterdir()) == ["step-000000010"]


@wide
def test_a_run_may_go_on_on_the_cpu(place: FaultyPlace, reference: Ended) -> None:
    done = place.train(settings={**WRONG, "probe.on_mismatch": "cpu"}).wait()
    done.assert_clean()
    assert done.code == 0
    (incident,) = done.incidents
    assert incident["class"] == "non-finite"
    assert incident["remedies"] == [
        {"text": "ttf train ... --device cpu", "set": {"device.name": "cpu"}}
    ]
    assert done.config()["device"]["name"] == "cpu"
    assert done.origin("device.name") == "remedy of incident 001 (non-finite)"
    assert done.summary["incidents"][0]["remedy"] == "device.name=cpu"
    assert not done.summary["exact"]
    assert done.summary["deviations"] == [
        "the rest was computed on a different device, because the parity probe failed"
    ]
    assert done.digest == reference.digest  # it had not made a step before


def test_a_training_that_diverges_is_not_restarted(place: FaultyPlace) -> None:
    settings = {"train.lr": 1e9, "train.warmup": 0, "train.clip": 0, "loss.similarity": "dot"}
    ended = place.train(settings=settings).wait()
    ended.assert_clean()
    assert ended.code == 4
    (incident,) = ended.incidents
    assert incident["class"] == "non-finite" and incident["remedies"] == []
    assert ended.summary["restarts"] == 0 and ended.summary["status"] == "failed"
