"""The bundle of a real run: nobody can be found in it; it is whole and small."""

from __future__ import annotations

import base64
import json
import random
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kit.canaries import NEVER, PRINTED, PROJECT, USER
from tests.kit.fixtures.report import Person, incident
from tests.kit.secret_kinds import HIDDEN, WORDS
from tests.kit.widely import wide
from tests.unit.tools.report.test_page import Checked

from ttf.tools.report.bundle import write_bundle
from ttf.tools.report.bundle._collect import Bounds, chosen_incidents, collect
from ttf.tools.report.bundle._zip import MOST_BYTES


@pytest.fixture(scope="module")
def bundle(person: Person, crashed_run: Path) -> Iterator[dict[str, str]]:
    """Its files, made by the person who ran it."""
    path = person.home / "out.zip"
    done = person.ttf("report", crashed_run, "--bundle", path, "--json")
    assert done.code == 0, done.err
    told = json.loads(done.out)
    assert told["bundle_bytes"] == path.stat().st_size < MOST_BYTES
    assert told["bytes"] == (crashed_run / "report.html").stat().st_size
    assert told["redacted"] == sum(told["redacted_kinds"].values()) > 20
    assert {"MY_PIN", "SHORT_PASSWORD", "password", "url-password", "jwt"} <= told["secrets"].keys()
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        yield {n: archive.read(n).decode() for n in archive.namelist()}


def canaries_in(files: dict[str, str]) -> set[str]:
    return {
        f"{canary} in {name}"
        for name, text in files.items()
        for canary in NEVER
        if canary.lower() in text.lower() or canary.lower() in name.lower()
    }


def test_none_of_the_canaries_is_in_any_file(bundle: dict[str, str]) -> None:
    assert not canaries_in(bundle)


def test_nor_in_that_of_a_guarded_command(person: Person) -> None:
    script = person.home / PROJECT / "their train.py"
    script.write_text(
        "import ctypes, os\n"
        "os.write(2, bytes(range(1, 256)) + os.environ['CANARIES'].encode() + b'\\n')\n"
        "held = open(__file__)\n"
        "ctypes.string_at(0)\n"
    )
    folder, path = person.home / "watched", person.home / "guard.zip"
    words: list[str | Path] = [sys.executable, script, "--owner", USER, *WORDS]
    done = person.ttf("guard", "--out", folder, "--", *words)
    assert done.code == 139, done.err
    done = person.ttf("report", folder, "--bundle", path)
    assert done.code == 0, done.err
    for name in ("WANDB_KEY", "token", "github-token", "private-key", "user-password"):
        assert f"{name} " in done.err.partition("Secrets that were replaced")[2], done.err
    with zipfile.ZipFile(path) as archive:
        files = {n: archive.read(n).decode() for n in archive.namelist()}
    assert "incidents/001/faulthandler.txt" in files and "their train.py" in files["report.html"]
    assert not canaries_in(files)


def test_the_run_said_them_all_and_its_own_folder_has_no_secret(crashed_run: Path) -> None:
    said = (crashed_run / "stderr.txt").read_bytes() + b"".join(
        path.read_bytes() for path in crashed_run.glob("incidents/*/*")
    )
    whole = said + (crashed_run / "manifest.json").read_bytes()
    assert not [secret for secret in HIDDEN if secret.encode() in whole]
    hidden_at_once = [c for c in NEVER if c.encode() not in whole]
    assert USER not in hidden_at_once and PRINTED["e-mail"] not in hidden_at_once
    assert whole.count(b"<secret-") > 100


def test_it_holds_what_a_stranger_needs(bundle: dict[str, str]) -> None:
    expected = {
        "README.txt",
        "report.html",
        "run.toml",
        "summary.json",
        "manifest.json",
        "supervision.json",
        "flight.json",
        "log.txt",
        "metrics.jsonl",
        "memory.jsonl",
        "incidents/001/incident.json",
        "incidents/001/faulthandler.txt",
        "incidents/002/incident.md",
        "reproduce/001-segfault.py",
    }
    assert expected <= set(bundle)
    assert not [name for name in bundle if "checkpoint" in name or name.endswith((".npz", ".npy"))]
    page = Checked(bundle["report.html"])
    assert "During the run, it had 2 incidents" in page.text
    assert "<home>/<dir-" in page.text
    assert json.loads(bundle["manifest.json"])["versions"]["torch"]
    assert "Segmentation fault" in bundle["incidents/001/faulthandler.txt"]


def test_its_readme_says_what_was_struck_out_and_what_the_scripts_do(
    bundle: dict[str, str],
) -> None:
    text = bundle["README.txt"]
    for told in ("home folders", "user names", "secret variables", "e-mail", "IP and hardware"):
        assert told in text, text
    assert "reproduce/001-segfault.py (segfault)" in text
    assert "incident 002 (killed)" in text and "no script: the signal came from outside" in text
    assert "No rows of the data" in text


def test_paths_stay_comparable(bundle: dict[str, str]) -> None:
    data = json.loads(bundle["manifest.json"])["data"]
    assert data["pairs"].endswith("/pairs.npz") and data["bank"].endswith("/bank.npz")
    assert data["pairs"].partition("/pairs")[0] == data["bank"].partition("/bank")[0]
    assert set(data["files"]) == {data["pairs"], data["bank"]}
    assert data["pairs"] in bundle["run.toml"]


def test_the_same_run_makes_the_same_bundle(crashed_run: Path, tmp_path: Path) -> None:
    first, second = tmp_path / "a.zip", tmp_path / "b.zip"
    write_bundle(crashed_run, first)
    write_bundle(crashed_run, second)
    assert first.read_bytes() == second.read_bytes()


def test_a_guarded_command_has_a_bundle(guard_dir: Path, tmp_path: Path) -> None:
    made = write_bundle(guard_dir, tmp_path / "guard.zip")
    assert "environment.json" in made.files and "incidents/001/incident.json" in made.files
    (script,) = made.reproducers
    assert not script.text and "the code of the command is unknown" in script.note


@wide
def test_a_bundle_of_very_much_is_small(guard_dir: Path, tmp_path: Path) -> None:
    noise = random.Random(0)
    for number in range(2, 16):
        folder = guard_dir / "incidents" / f"{number:03d}"
        folder.mkdir()
        told = incident(
            "segfault", f"phase {number}", evidence=[{"source": "x", "text": "y" * 9000}]
        )
        (folder / "incident.json").write_text(json.dumps(told))
        (folder / "stderr.txt").write_bytes(base64.b85encode(noise.randbytes(80_000)))
    made = write_bundle(guard_dir, tmp_path / "large.zip")
    assert made.bytes <= MOST_BYTES
    assert "incidents/015/incident.json" in made.files


def test_the_first_incident_of_each_class_is_kept(guard_dir: Path) -> None:
    for number, name in ((2, "omp-duplicate"), (3, "killed"), (4, "killed"), (5, "killed")):
        folder = guard_dir / "incidents" / f"{number:03d}"
        folder.mkdir()
        (folder / "incident.json").write_text(json.dumps(incident(name, "")))
    chosen = chosen_incidents(guard_dir / "incidents", 3)
    assert [p.name for p in chosen] == ["001", "002", "003", "004", "005"]
    assert [p.name for p in chosen_incidents(guard_dir / "incidents", 1)] == ["001", "005"]


def test_of_long_files_the_end_is_taken_from_the_start_of_a_line(guard_dir: Path) -> None:
    (guard_dir / "stderr.txt").write_text("".join(f"line {n}\n" for n in range(10_000)))
    found = {t.name: t for t in collect(guard_dir, Bounds(incidents=1, file_bytes=1000))}
    text = found["stderr.txt"].text
    assert text.startswith("line 9") and text.endswith("line 9999\n")
    assert found["stderr.txt"].left_out == 98_890 - len(text)
