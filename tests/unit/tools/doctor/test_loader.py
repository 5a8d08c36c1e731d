"""What a DataLoader will hold: arithmetic that anybody can check, from what a user has."""

from __future__ import annotations

import doctest
import json
from dataclasses import replace
from pathlib import Path

import pytest

from ttf.errors import ConfigError
from ttf.machine.memory.limits import Limit
from ttf.tools.doctor import loader_settings
from ttf.tools.doctor.loader import TIGHT, Loader, judged, parts, total
from ttf.tools.doctor.loader_settings import read_loader

GB, MB = 10**9, 10**6
FOUNDING = Loader(num_workers=8, batch_size=512, prefetch_factor=2, sample=307_200, cache=1792 * MB)
FOUR = Limit(4 << 30, "cgroup /job (memory.max)")


def test_the_examples_hold() -> None:
    assert doctest.testmod(loader_settings).failed == 0


def test_the_parts_of_the_founding_loader_are_those_of_the_arithmetic() -> None:
    found = {part.what: part.bytes for part in parts(FOUNDING)}
    batch = 512 * 307_200
    assert found["batches that wait, in shared memory"] == 8 * 2 * batch
    assert found["caches"] == 8 * 1792 * MB
    assert found["batches being made"] == 8 * batch
    assert total(FOUNDING) == sum(found.values())


def test_it_says_what_will_be_killed_and_what_would_fit() -> None:
    verdict = judged(FOUNDING, FOUR, None)
    assert verdict.status == "fail"
    assert "This will be killed: " in verdict.detail
    assert "kill a worker first" in verdict.detail, "a worker has a cache of 1.8 GB, more than main"
    assert "With num_workers=1 " in verdict.remedy
    few = replace(FOUNDING, num_workers=1)
    assert total(few) <= TIGHT * FOUR.bytes < total(replace(FOUNDING, num_workers=2))


def test_what_fits_fits_and_what_is_tight_is_a_warning() -> None:
    assert judged(replace(FOUNDING, num_workers=1), FOUR, None).status == "ok"
    whole = total(FOUNDING)
    assert judged(FOUNDING, Limit(int(whole * 1.1), "x"), None).status == "warn"


def test_shared_memory_that_is_too_small_ends_a_worker_with_sigbus() -> None:
    verdict = judged(FOUNDING, Limit(1 << 40, "x"), Limit(64 << 20, "/dev/shm"))
    assert verdict.status == "fail"
    assert "SIGBUS" in verdict.detail
    assert "--shm-size" in verdict.remedy


@pytest.mark.parametrize(("spawn", "objects", "copies"), [(1, 0, 8), (0, 1, 8), (0, 0, 0)])
def test_a_dataset_is_copied_where_workers_touch_or_get_it(
    spawn: int, objects: int, copies: int
) -> None:
    held = replace(FOUNDING, dataset=GB, spawn=bool(spawn), objects=bool(objects))
    sizes = {part.what: part.bytes for part in parts(held)}
    assert sizes.get("copies of the dataset", 0) == copies * GB
    assert sizes["dataset in the main process"] == GB


def test_without_workers_nothing_waits_in_shared_memory() -> None:
    alone = replace(FOUNDING, num_workers=0)
    assert alone.waiting == 0
    assert {part.what for part in parts(alone)} == {
        "main process", "batches in the main process", "caches",
    }  # fmt: skip


def test_settings_are_read_from_words_and_later_ones_win() -> None:
    found, _ = read_loader(["workers=8 batch=512 sample=100x768", "num_workers=2,cache=1GB"])
    assert found == Loader(num_workers=2, batch_size=512, sample=307_200, cache=GB)


def test_a_script_is_read_with_its_constants_and_defaults(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "WORKERS = 8\n"
        "parser.add_argument('--batch-size', type=int, default=512)\n"
        "one = DataLoader(data, batch_size=args.batch_size, num_workers=WORKERS,\n"
        "                 prefetch_factor=depth(), persistent_workers=True)\n"
        "two = torch.utils.data.DataLoader(val, batch_size=64, num_workers=2,\n"
        "                                  persistent_workers=True)\n"
    )
    found, remarks = read_loader([str(script), "sample=1kB"])
    assert found == Loader(num_workers=8, batch_size=512, sample=1000, loaders=2)
    (remark,) = remarks
    assert "train.py:3: prefetch_factor = depth() is not a number in the script" in remark


def test_a_json_file_is_searched_at_any_depth(tmp_path: Path) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps({"model": {"hidden": 3}, "data": {"bs": 32, "num_workers": 4}}))
    found, _ = read_loader([str(file), "sample=10"])
    assert (found.batch_size, found.num_workers) == (32, 4)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (["num_workers=8"], "needs batch_size and sample"),
        (["batch=1 sample=1 wrokers=8"], "Did you mean 'num_workers'"),
        (["batch=many sample=1"], "batch"),
        (["missing.py"], "cannot be read"),
    ],
)
def test_what_cannot_be_predicted_is_said(given: list[str], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        read_loader(given)


@pytest.mark.parametrize(
    "deep",
    ["x = " + "-" * 200_000 + "1", "x = " + "+".join("1" * 100_000), "x = " + "a." * 50_000 + "b"],
    ids=["signs", "sums", "attributes"],
)
def test_a_script_that_is_too_deep_for_the_parser_is_refused(tmp_path: Path, deep: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(deep)
    with pytest.raises(ConfigError, match="not a Python script"):
        read_loader([str(script)])


def test_an_expression_that_is_too_deep_to_be_written_again_is_a_remark(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("DataLoader(d, batch_size=" + "+".join("b" * 900) + ")")
    with pytest.raises(ConfigError, match=r"train\.py:1: batch_size = \.\.\. is not a number"):
        read_loader([str(script)])


@pytest.mark.parametrize("value", ["9" * 4000, "1000001"], ids=["digits", "many"])
def test_a_number_of_a_script_has_the_bounds_of_a_setting(tmp_path: Path, value: str) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"B = {value}\nDataLoader(d, batch_size=B)")
    with pytest.raises(ConfigError, match=r"train\.py:2: batch_size: must be 0 to 1,000,000"):
        read_loader([str(script)])


@pytest.mark.parametrize("sample", ["99999999999x99999999999999", "-5"])
def test_a_size_beyond_every_machine_is_refused(sample: str) -> None:
    with pytest.raises(ConfigError, match="sample"):
        read_loader([f"batch_size=8 sample={sample}"])


def test_the_advice_for_a_million_workers_takes_no_time() -> None:
    many = replace(FOUNDING, num_workers=10**6)
    tried = 0

    def counted(loader: Loader) -> int:
        nonlocal tried
        tried += 1
        return total(loader)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ttf.tools.doctor.loader.total", counted)
        verdict = judged(many, FOUR, None)
    assert "With num_workers=1 " in verdict.remedy
    assert tried < 100
