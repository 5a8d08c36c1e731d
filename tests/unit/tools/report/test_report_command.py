"""`ttf report` as a person meets it."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path

import pytest
from tests.conftest import Invoke


def test_it_says_where_the_page_is_how_large_and_what_to_do_next(
    guard_dir: Path, invoke: Invoke
) -> None:
    done = invoke(["report", str(guard_dir)])
    page = guard_dir / "report.html"
    assert done.code == 0
    assert done.out.startswith(f"{page}  (") and done.out.count("\n") == 1
    assert f"Next: ttf report {guard_dir} --bundle bundle.zip" in done.err


def test_json_is_one_document(guard_dir: Path, tmp_path: Path, invoke: Invoke) -> None:
    done = invoke(["report", str(guard_dir), "--json"])
    told = done.json()
    assert told["path"] == str(guard_dir / "report.html")
    assert told["bytes"] == (guard_dir / "report.html").stat().st_size
    assert (told["bundle"], told["bundle_bytes"], told["redacted"]) == (None, None, 0)
    assert done.err == ""
    bundle = tmp_path / "a b.zip"
    told = invoke(["report", str(guard_dir), "--json", "--bundle", str(bundle)]).json()
    assert told["bundle"] == str(bundle) and told["bundle_bytes"] == bundle.stat().st_size


def test_a_bundle_says_what_was_struck_out(guard_dir: Path, tmp_path: Path, invoke: Invoke) -> None:
    done = invoke(["report", str(guard_dir), "--bundle", str(tmp_path / "b.zip")])
    assert done.code == 0
    assert f"{tmp_path / 'b.zip'}  (" in done.out
    assert "Removed: " in done.err
    assert f"Next: unzip -p {tmp_path / 'b.zip'} README.txt" in done.err


def test_other_files_go_into_the_bundle_without_names(
    guard_dir: Path, tmp_path: Path, invoke: Invoke
) -> None:
    found = tmp_path / "doctor.json"
    found.write_text(json.dumps({"path": str(tmp_path / "pairs.npz")}))
    bundle = tmp_path / "b.zip"
    done = invoke(["report", str(guard_dir), "--bundle", str(bundle), "--attach", str(found)])
    assert done.code == 0, done.err
    with zipfile.ZipFile(bundle) as packed:
        attached = json.loads(packed.read("attached/doctor.json"))
        assert "attached/doctor.json attached by hand" in packed.read("README.txt").decode()
    assert attached["path"].endswith("/pairs.npz") and str(tmp_path) not in attached["path"]


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (["{}/none"], 3, "There is no folder {}/none."),
        (["{}/file"], 3, "{}/file is a file, but a run is a folder."),
        (["{}/empty"], 3, "{}/empty is not the folder of a run"),
        (["{}/run", "--out", "{}/empty"], 2, "--out {}/empty is a folder."),
        (["{}/run", "--bundle", "{}/no/b.zip"], 2, "there is no folder {}/no."),
        (["{}/run", "--out", "{}/x", "--bundle", "{}/x"], 2, "are the same file"),
        (["{}/run", "--attach", "{}/file"], 2, "but none is written"),
        (["{}/run", "--bundle", "{}/b.zip", "--attach", "{}/no"], 3, "there is no such file"),
        (
            ["{}/run", "--bundle", "{}/b.zip", "--attach", "{}/file", "--attach", "{}/run/../file"],
            2,
            "two files have the name file",
        ),
        ([], 2, "Missing argument 'RUN_DIR'"),
    ],
)
def test_what_cannot_be_done_is_said_with_the_way_out(
    tmp_path: Path, invoke: Invoke, argv: list[str], code: int, said: str
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "run.toml").touch()
    done = invoke(["report", *(word.format(tmp_path) for word in argv)])
    assert done.code == code
    assert said.format(tmp_path) in done.err and "hint:" in done.err


def test_only_a_page_or_a_bundle_of_ttf_is_replaced(
    guard_dir: Path, tmp_path: Path, invoke: Invoke
) -> None:
    page, packed = tmp_path / "page.html", tmp_path / "b.zip"
    for flag, path in (("--out", page), ("--bundle", packed)):
        argv = ["report", str(guard_dir), flag, str(path)]
        assert [invoke(argv).code for _ in range(2)] == [0, 0]
        path.write_bytes(b"PK\x03\x04 mine")
        refused = invoke(argv)
        assert refused.code == 2
        assert f"{flag} {path} already exists" in refused.err and "--overwrite" in refused.err
        assert path.read_bytes() == b"PK\x03\x04 mine"
        assert invoke([*argv, "--overwrite"]).code == 0
    titled = b"<!DOCTYPE html>\n<title>base: ttf run</title>"  # by a version before this mark
    page.write_bytes(titled)
    assert invoke(["report", str(guard_dir), "--out", str(page)]).code == 0
    with zipfile.ZipFile(packed) as archive:
        assert archive.testzip() is None
