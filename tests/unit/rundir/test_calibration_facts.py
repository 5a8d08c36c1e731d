"""What is read of a model's calibration, also of a damaged one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from ttf.rundir.calibration_facts import CALIBRATION, calibration_facts


@pytest.mark.parametrize(
    ("changed", "counts"),
    [({}, True), ({"on": "yes"}, False), ({"on": None}, False), ({"weights_sha256": "b"}, False)],
)
def test_facts_count_if_they_say_of_these_weights_whether_it_is_on(
    changed: dict[str, Any], counts: bool, tmp_path: Path
) -> None:
    model = tmp_path / "model"
    model.mkdir()
    facts = {"on": True, "a": 0.5, "weights_sha256": "a", **changed}
    (model / CALIBRATION).write_text(json.dumps(facts))
    assert bool(calibration_facts(model, "a")) is counts
