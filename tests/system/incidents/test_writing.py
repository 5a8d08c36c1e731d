"""An incident's folder: complete, private, collision-free, and readable when it is damaged."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ttf.errors import StorageError
from ttf.incidents.classify import classify
from ttf.incidents.death import Death, FileChange
from ttf.incidents.writing import note_remedy, write_incident
from ttf.machine.memory.tree import Machine, MemoryPoint
from ttf.rundir.flight_record import FlightRecorder, Phase, read_flight
from ttf.rundir.incident_files import list_incidents

KEYS = [
    *("class", "certain", "process", "signal", "exit_code", "phase", "step"),
    *("evidence", "explanation", "remedies", "lost_steps", "time", "hidden", "asked"),
    *("epoch", "batch_of_epoch", "micro_batch", "micro_batches", "boundary_share", "age_s"),
    *("trained_s", "since_mining_s", "since_mining_steps", "mined_for_steps", "memory_bytes"),
    *("device_allocated_bytes", "device_cached_bytes", "machine_available_bytes", "native_frames"),
]
SETTINGS = {"miner.isolation": "none", "device.name": "cpu", "device.threads": 1}


@pytest.fixture
def death(tmp_path: Path) -> Death:
    FlightRecorder(tmp_path / "flight.bin").enter(Phase.MINING, step=117)
    raw = b"OMP: Error #15: Initializing libiomp5.so, but found libomp.so already initialized.\n\xff\n"
    points = [
        MemoryPoint(time=1000.0 + i, step=i, anon=i, shared=1, file=7, limit=8_000_000_000)
        for i in range(1000)
    ]
    return Death(
        process="trainer",
        pid=4242,
        time=1.8e9,
        signal=6,
        stderr=raw.decode(errors="replace"),
        raw_stderr=raw,
        faulthandler="Fatal Python error: Aborted\n",
        flight=read_flight(tmp_path / "flight.bin"),
        memory=tuple(points),
        settings=SETTINGS,
        changed_files=(FileChange(path="bank.npz", was="2 bytes", now="gone"),),
    )


def write(folder: Path, death: Death, applied: str | None = None) -> str:
    return write_incident(
        folder, death, classify(death), applied=applied, lost_steps=17, checkpoint_step=100
    )


def test_the_memory_of_the_device_and_of_the_machine_is_told(tmp_path: Path, death: Death) -> None:
    recorder = FlightRecorder(tmp_path / "with-device.bin")
    recorder.device_holds({"allocated": 3_000_000, "reserved": 8_000_000, "free": 1, "total": 9})
    recorder.enter(Phase.FORWARD)
    point = replace(death.memory[-1], machine=Machine(available=5_000_000))
    flight = read_flight(tmp_path / "with-device.bin")
    number = write(
        tmp_path / "incidents", replace(death, flight=flight, memory=(*death.memory, point))
    )
    folder = tmp_path / "incidents" / number
    told = json.loads((folder / "incident.json").read_text())
    assert (told["device_allocated_bytes"], told["device_cached_bytes"]) == (3_000_000, 8_000_000)
    assert told["machine_available_bytes"] == 5_000_000
    page = (folder / "incident.md").read_text()
    assert "| memory of the device | 3.0 MB allocated, 8.0 MB taken from it |" in page
    assert "| memory the machine had left | 5.0 MB |" in page


def test_the_folder_has_all_its_files(tmp_path: Path, death: Death) -> None:
    number = write(tmp_path / "incidents", death)
    folder = tmp_path / "incidents" / number
    assert number == "001"
    assert {path.name for path in folder.iterdir()} == {
        "incident.json",
        "incident.md",
        "stderr.txt",
        "faulthandler.txt",
        "flight.json",
        "memory.csv",
    }
    assert (folder / "stderr.txt").read_bytes() == death.raw_stderr, "byte for byte"
    assert (folder / "faulthandler.txt").read_text() == death.faulthandler
    assert json.loads((folder / "flight.json").read_text())["phase"] == "mining"
    rows = (folder / "memory.csv").read_text().splitlines()
    assert rows[0] == (
        "time,step,anon,shared,file,limit,"
        "phase,device_allocated,device_cached,available,swap_used,swap_free"
    )
    assert rows[1].startswith("1399.000,399,399,1,7,") and len(rows) == 602, "ten minutes"


def test_the_document_has_the_keys_of_the_contract(tmp_path: Path, death: Death) -> None:
    number = write(tmp_path, death)
    document = json.loads((tmp_path / number / "incident.json").read_text())
    assert list(document) == KEYS
    assert (document["class"], document["signal"], document["exit_code"]) == (
        "omp-duplicate",
        6,
        None,
    )
    assert (document["phase"], document["step"], document["lost_steps"]) == ("mining", 117, 17)
    assert document["remedies"] == [
        {"text": "ttf train ... --isolation process", "set": {"miner.isolation": "process"}}
    ]
    assert all(list(line) == ["source", "text"] for line in document["evidence"])


def test_the_page_can_be_read_by_a_person(tmp_path: Path, death: Death) -> None:
    page = (tmp_path / write(tmp_path, death) / "incident.md").read_text()
    assert page.startswith(
        "# Incident 001: omp-duplicate\n\nOne process loaded two OpenMP runtimes"
    )
    for words in (
        "| where | phase mining, 117 steps done |",
        "| newest checkpoint | step 100 |",
        "| steps to redo | 17 |",
        "- **stderr:1**: `OMP: Error #15",
        "- `ttf train ... --isolation process` - the results stay the same",
    ):
        assert words in page


def test_a_death_of_which_nothing_is_known_is_written_too(tmp_path: Path) -> None:
    bare = Death(process="command", pid=1, time=0.0, exit_code=7)
    number = write_incident(
        tmp_path, bare, classify(bare), applied=None, lost_steps=None, checkpoint_step=None
    )
    assert json.loads((tmp_path / number / "flight.json").read_text()) is None
    page = (tmp_path / number / "incident.md").read_text()
    assert "There is no setting that avoids this." in page and "checkpoint" not in page


def test_secrets_of_the_environment_do_not_get_in(
    tmp_path: Path, death: Death, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret = 'hf_"canary\\42'
    monkeypatch.setenv("HF_TOKEN", secret)
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Fatal Python")
    raw = f"login with {secret} failed\nMemoryError: {secret}\n".encode()
    leaking = Death(
        process="trainer",
        pid=1,
        time=0.0,
        exit_code=1,
        stderr=raw.decode(),
        raw_stderr=raw,
        faulthandler=f"Fatal Python error: {secret}",
    )
    folder = tmp_path / "incidents" / write(tmp_path / "incidents", leaking)
    for path in folder.iterdir():
        assert b"canary" not in path.read_bytes(), path.name
    assert b"login with <secret-HF_TOKEN> failed" in (folder / "stderr.txt").read_bytes()
    assert "Fatal Python error" in (folder / "faulthandler.txt").read_text()


def test_writers_at_the_same_time_never_share_a_number(tmp_path: Path) -> None:
    code = """
import sys
from pathlib import Path
from ttf.incidents.classify import classify
from ttf.incidents.death import Death
from ttf.incidents.writing import write_incident
sys.stdin.readline()
for _ in range(8):
    death = Death(process="miner", pid=1, time=0.0, signal=11)
    print(write_incident(Path(sys.argv[1]), death, classify(death), applied=None, lost_steps=0,
                         checkpoint_step=-1))
"""
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path / "incidents")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(4)
    ]
    try:
        for writer in writers:
            assert writer.stdin is not None
            writer.stdin.write("go\n")
            writer.stdin.flush()
        taken = [line for writer in writers for line in writer.communicate(timeout=60)[0].split()]
    finally:
        for writer in writers:
            writer.kill()
            writer.wait()
    assert sorted(taken) == [f"{n:03d}" for n in range(1, 33)]
    assert [entry["class"] for entry in list_incidents(tmp_path / "incidents")] == ["segfault"] * 32


def test_the_list_has_what_the_summary_wants(tmp_path: Path, death: Death) -> None:
    assert list_incidents(tmp_path / "none") == []
    folder = tmp_path / "incidents"
    write(folder, death)
    write(folder, death, applied="exact takes over")
    note_remedy(folder, "001", "miner.isolation = process")
    common = {"class": "omp-duplicate", "process": "trainer"}
    assert list_incidents(folder) == [
        {"id": "001", **common, "remedy": "miner.isolation = process"},
        {"id": "002", **common, "remedy": "exact takes over"},
    ]


@pytest.mark.parametrize("content", [None, b"", b"{", b"[]", b"null", b"\xff\xfe", b'{"class": 7}'])
def test_a_damaged_incident_is_listed_all_the_same(tmp_path: Path, content: bytes | None) -> None:
    (tmp_path / "003").mkdir()
    (tmp_path / ".tmp-x").mkdir()
    (tmp_path / "notes.txt").touch()
    if content is not None:
        (tmp_path / "003/incident.json").write_bytes(content)
    (listed,) = list_incidents(tmp_path)
    assert (listed["id"], listed["remedy"]) == ("003", None)


def test_a_number_that_was_begun_is_not_taken_again(tmp_path: Path, death: Death) -> None:
    (tmp_path / "041").mkdir()
    (tmp_path / "notes").touch()
    assert write(tmp_path, death) == "042"


def test_a_full_disk_is_a_storage_error_that_names_the_incident(
    small_disk: Path, death: Death
) -> None:
    first = write(small_disk / "incidents", death)
    ballast = small_disk / "ballast"
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError):
        while True:
            file.write(bytes(4096))
    with pytest.raises(StorageError) as caught:
        write(small_disk / "incidents", death)
    assert caught.value.exit_code == 8
    ballast.unlink()
    listed = list_incidents(small_disk / "incidents")
    assert listed[0]["id"] == first and listed[0]["class"] == "omp-duplicate"
    assert [entry["id"] for entry in listed[1:]] in ([], [caught.value.details.get("incident")])


def test_a_folder_that_may_not_be_written_is_a_storage_error(tmp_path: Path, death: Death) -> None:
    blocked = tmp_path / "incidents"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(StorageError):
        write(blocked, death)


def test_gathering_and_writing_load_nothing_heavy() -> None:
    code = (
        "import sys, ttf.incidents.gather, ttf.incidents.classify, ttf.incidents.writing\n"
        "print(*sorted({m.partition('.')[0] for m in sys.modules}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=os.environ
    )
    assert not {"torch", "numpy", "pydantic", "rich", "click"} & set(done.stdout.split())
