"""What a run was changed to is kept, said and shown: --safe, remedies, and other machines."""

from __future__ import annotations

import json
import shutil
import signal
from pathlib import Path
from typing import Any, Literal

import pytest
from tests.kit.faulty_run import FaultyPlace
from tests.kit.fixtures.faults import write_distribution
from tests.kit.live_run import Ended
from tests.kit.widely import CHAOS, wide

DEEP = {"train.batch_size": 4, "train.accumulate": 8, "miner.isolation": "none"}
SAFE = {"miner.isolation": "process", "miner.threads": 1, "device.precision": "fp32"}
CUT = {"train.batch_size": 8, "train.accumulate": 4}


def configuration(place: FaultyPlace, settings: dict[str, Any]) -> Path:
    """The same as a file, which --safe may overrule."""
    sections: dict[str, list[str]] = {}
    for key, value in settings.items():
        section, _, name = key.rpartition(".")
        sections.setdefault(section, []).append(f"{name} = {json.dumps(value)}")
    path = place.root / "given.toml"
    lines = [line for section, found in sections.items() for line in (f"[{section}]", *found)]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.mark.parametrize("container", ["npz", "zarr"] if CHAOS else ["zarr"])
@wide
def test_a_safe_run_says_what_it_made_safe(
    place: FaultyPlace, container: Literal["npz", "zarr"]
) -> None:
    from ttf.data.synth import SynthShape, write_synth

    paths = write_synth(place.root / "own", SynthShape(pairs=600, val=60, seq_len=5, dim=16, bank=400, seed=3), container=container)  # fmt: skip
    place.data = {"pairs": paths["pairs"], "bank": paths["bank"]}
    place.leave_out = ("train.batch_size", "train.accumulate")
    given = str(configuration(place, DEEP))
    settings = {"miner.negatives": 2, "train.steps": 4}
    done = place.train(given, "--safe", settings=settings).wait()
    done.assert_clean()
    assert done.code == 0
    config = done.config()
    for key, value in {**SAFE, **CUT}.items():
        section, _, name = key.partition(".")
        assert config[section][name] == value
        assert done.origin(key) == "--safe", key
    assert done.summary["samples"] == 4 * 32
    assert done.summary["exact"] and done.summary["miner"] == "exact"


def test_a_safe_plan_shows_the_same_run(place: FaultyPlace) -> None:
    place.leave_out = ("train.batch_size", "train.accumulate")
    given = str(configuration(place, DEEP))
    done = place.train(given, "--safe", "--plan", "--json").wait()
    done.assert_clean()
    assert done.code == 0 and not done.run.exists()
    plan = json.loads(done.out)
    assert (plan["micro_batch"], plan["accumulate"], plan["precision"]) == (8, 4, "fp32")
    assert any("train.accumulate is 4 instead of 8" in note for note in plan["notes"])
    assert f"Next: ttf train {given} --safe " in done.err


@wide
def test_a_remedy_outlives_the_supervisor(place: FaultyPlace) -> None:
    """The run that is resumed is the one that was changed, and says so. 1.2 GB at once may not be
    allocated, half of that may."""
    place.hold(30)
    # The checkpoints of steps 20 and 30 are left out where that of step 10 is still in the writing.
    (place.faults / "hungry").write_text("20000")
    settings = {"train.batch_size": 64, "train.accumulate": 1, "train.steps": 40}
    command = place.train(settings=settings, before="ulimit -d 1200000")
    command.held(30)
    command.saved(10)
    command.process.send_signal(signal.SIGKILL)
    command.process.wait()
    origin = "remedy of incident 001 (alloc-failure)"
    supervision = json.loads((command.run / "supervision.json").read_text())
    assert supervision["overlay"]["train.batch_size"]["value"] == 32
    (place.faults / "hungry").unlink()
    done = place.resume(command.run).wait()
    done.assert_clean()
    assert done.code == 0
    assert (done.config()["train"]["batch_size"], done.origin("train.batch_size")) == (32, origin)
    assert (done.config()["train"]["accumulate"], done.origin("train.accumulate")) == (2, origin)
    (incident,) = done.incidents
    assert (incident["class"], incident["process"]) == ("alloc-failure", "trainer")
    assert incident["phase"] == "forward"
    summary = done.summary
    assert summary["incidents"][0]["remedy"] == (
        "train.batch_size=32, train.accumulate=2, train.fuse=1"
    )
    assert not summary["exact"] and len(summary["deviations"]) == 1
    assert summary["samples"] == 40 * 64 and summary["restarts"] == 1
    # a person sees all of it
    page = (done.run / "report.html").read_text()
    for shown in ("alloc-failure", "train.batch_size=32, train.accumulate=2", origin):
        assert shown in page
    for deviation in summary["deviations"]:
        assert deviation in page and deviation in done.out
    assert "alloc-failure (trainer)" in done.out
    assert "train.batch_size=32, train.accumulate=2" in done.out


@wide  # benchmarks/exact_resume.py
def test_a_run_that_goes_on_sets_its_own_variables_again_and_says_what_else_differs(
    place: FaultyPlace, tmp_path: Path, reference: Ended
) -> None:
    """Each variable alone changes the weights; OMP_DYNAMIC would make them garbage."""
    site = tmp_path / "site"
    shutil.copytree(place.plugins, site)
    place.plugins = site
    place.hold(12)
    command = place.train(settings={"device.name": "standin"}, env={"OMP_DYNAMIC": "true"})
    command.held(12)
    command.saved(10)
    command.process.send_signal(signal.SIGTERM)
    command.go(12)
    assert command.wait().code == 143
    assert "ttf ignores OMP_DYNAMIC=true" in command.err
    elsewhere = Path(shutil.copytree(command.run, tmp_path / "elsewhere"))

    others = {"ONEDNN_MAX_CPU_ISA": "SSE41", "ATEN_CPU_CAPABILITY": "default"}
    done = place.resume(command.run, env=others).wait()
    done.assert_clean()
    assert (done.code, done.digest) == (0, reference.digest), done.err
    assert done.summary["exact"] and done.summary["deviations"] == []
    for name, value in others.items():
        assert f"{name} unset (was '{value}')" in done.err

    write_distribution(site, "1.1")
    path = elsewhere / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["numeric"] |= {"threads": 3, "torch": "0.0.1", "cpu_capability": "Z80"}
    manifest["numeric"]["bits"]["numpy"] = "0"
    path.write_text(json.dumps(manifest))
    done = place.resume(elsewhere).wait()
    done.assert_clean()
    assert done.code == 0
    assert not done.summary["exact"]
    differ = "\n".join(done.summary["deviations"])
    for name in (
        "threads was 3",
        "torch was '0.0.1'",
        "cpu_capability was 'Z80'",
        "the plugin device.standin was 'faulty 1.0', is 'faulty 1.1'",
        "the same calculations give different bits (numpy)",
    ):
        assert name in differ and name in done.err, name
    assert done.err.count("no longer bitwise the same") == 5
