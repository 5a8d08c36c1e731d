"""`ttf data ...` as a person and a script meet it, on real files."""

from __future__ import annotations

import json
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import zarr
from click.testing import CliRunner, Result
from numpy.typing import NDArray

from ttf.commands.data import command
from ttf.data import convert as convert_module, synth
from ttf.data.vectors import from_float32, to_float32
from ttf.data.writing import writing
from ttf.errors import BadData, ConfigError, DataCompressed, StorageError
from ttf.host.plugins import open_store

ROWS: NDArray[np.float32] = np.random.default_rng(5).standard_normal((40, 4)).astype(np.float32)


def ttf_data(*args: str | Path) -> Result:
    return CliRunner().invoke(command, [str(a) for a in args], standalone_mode=False)


def document(*args: str | Path) -> Any:
    result = ttf_data(*args, "--json")
    if result.exception is not None:
        raise result.exception
    return json.loads(result.stdout)


def pairs_file(path: Path, **arrays: Any) -> Path:
    given: dict[str, Any] = {
        "X_train": np.repeat(ROWS[:30, None], 3, axis=1),
        "X_val": np.repeat(ROWS[30:, None], 3, axis=1),
        "pos_train": np.arange(30),
        "pos_val": np.arange(30, 40),
        **arrays,
    }
    np.savez(path, **given)
    return path


# -- inspect and verify


def test_inspect_describes_every_array(tmp_path: Path) -> None:
    path = pairs_file(tmp_path / "pairs.npz")
    seen = document("inspect", path)
    assert {"path", "container", "arrays", "problems"} <= seen.keys()
    assert seen["container"] == "npz" and seen["problems"] == []
    by_name = {a["name"]: a for a in seen["arrays"]}
    x = by_name["X_train"]
    assert x["shape"] == [30, 3, 4] and x["dtype"] == "float32" and x["stored"] == "stored"
    assert x["mappable"] is True and x["aligned"] is False and x["finite"] is True
    lengths = np.linalg.norm(ROWS[:30], axis=1)
    wanted = {"min": lengths.min(), "mean": lengths.mean(), "max": lengths.max()}
    assert x["norms"] == pytest.approx(wanted, rel=1e-5)
    assert by_name["pos_train"]["norms"] == {}


def test_inspect_prints_a_table_and_the_next_command(tmp_path: Path) -> None:
    path = pairs_file(tmp_path / "pairs.npz")
    result = ttf_data("inspect", path)
    assert "X_train" in result.stdout and "30x3x4" in result.stdout
    assert f"ttf train --pairs {path}" in result.stderr


def test_rows_of_zeros_are_said_and_nothing_but_zeros_is_a_problem(tmp_path: Path) -> None:
    some, path = ROWS.copy(), tmp_path / "bank.npz"
    some[[4, 9]] = 0
    np.savez(path, vectors=some)
    for form in ("inspect", "verify"):
        result = ttf_data(form, path)
        assert "vectors: 2 of the 40 checked rows are zero: 4, 9." in result.stderr
        assert "problem:" not in result.stdout
    np.savez(path, vectors=np.zeros_like(ROWS))
    result = ttf_data("verify", path)
    assert "40 of the 40 checked rows are zero: 0, 1, 2, ..." in result.stdout
    assert result.return_value == 3


def test_verify_ends_with_one_error_line_however_many_problems_there_are(tmp_path: Path) -> None:
    bad = np.full((30, 4), np.nan, np.float32)
    path = pairs_file(tmp_path / "pairs.npz", X_train=bad, X_val=bad[:10])
    result = ttf_data("verify", path)
    assert result.return_value == 3 and result.stdout.count("problem:") > 1
    lines = result.stderr.splitlines()
    assert [line for line in lines if line.startswith("error:")] == lines[-1:]
    assert "problems. The first: " in lines[-1]


def test_a_file_without_validation_is_no_problem(tmp_path: Path) -> None:
    np.savez(tmp_path / "pairs.npz", X_train=ROWS, Y_train=ROWS)
    result = ttf_data("inspect", tmp_path / "pairs.npz")
    assert "problem:" not in result.stdout
    assert f"ttf train --pairs {tmp_path}/pairs.npz --plan" in result.stderr


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (
            {"pos_train": np.arange(29)},
            "The arrays of train have different numbers of rows: X_train 30",
        ),
        (
            {"X_val": ROWS[30:]},
            "A row of X_train has the shape (3, 4), but a row of X_val has the shape (4,)",
        ),
        ({"X_val": np.full((10, 3, 4), np.nan, np.float32)}, "10 of the 10 checked rows are not"),
        ({"X_val": np.array([None])}, "pickled Python objects"),
    ],
    ids=["rows", "widths", "not finite", "pickle"],
)
def test_problems_are_named_and_verify_ends_with_3(
    arrays: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    path = pairs_file(tmp_path / "pairs.npz", **arrays)
    assert any(problem in p for p in document("inspect", path)["problems"])
    result = ttf_data("verify", path)
    assert result.return_value == 3
    assert problem in result.stdout


@pytest.mark.parametrize(
    ("arrays", "problem"),
    [
        (
            {"X_train": np.ones((30, 3, 4), np.int64)},
            "X_train in {} has the type int64. Vectors must be",
        ),
        ({"X_train": np.ones(30, np.float32)}, "X_train in {} has the shape (30,). It must have"),
        ({"X_train": np.ones((0, 3, 4), np.float32)}, "has the shape (0, 3, 4). It must have"),
        ({"pos_train": np.arange(30.0, dtype=np.float32)}, "pos_train in {} has the type float32"),
        ({"pos_train": np.full(30, -1)}, "None of the 30 train pairs of {} has a positive"),
        ({"pos_val": None}, "{} has neither pos_val nor Y_val"),
        ({"seq_train": np.ones((30, 3), np.int64)}, "{} has both X_train and seq_train"),
        ({"X_val": None}, "{} has neither X_val nor seq_val"),
        (
            {"Y_train": np.ones((30, 4), np.int32)},
            "Y_train in {} has the type int32. Vectors must be",
        ),
        (
            {"vectors": np.ones((3, 4), np.int64)},
            "vectors in {} has the type int64. Vectors must be",
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else None,
)
def test_what_train_refuses_is_a_problem_and_not_recommended(
    arrays: dict[str, Any], problem: str, tmp_path: Path
) -> None:
    given: dict[str, Any] = {
        "X_train": np.repeat(ROWS[:30, None], 3, axis=1),
        "X_val": np.repeat(ROWS[30:, None], 3, axis=1),
        "pos_train": np.arange(30),
        "pos_val": np.arange(30, 40),
    }
    path = tmp_path / "pairs.npz"
    np.savez(path, **{n: a for n, a in (given | arrays).items() if a is not None})
    for form in ("inspect", "verify"):
        result = ttf_data(form, path)
        assert problem.format(path) in result.stdout
        assert "Next: ttf train" not in result.stderr
    assert result.return_value == 3


def test_verify_counts_the_rows_of_each_array(tmp_path: Path) -> None:
    np.savez(tmp_path / "bank.npz", vectors=ROWS)
    assert (
        "1 array (rows: vectors 40), no problems"
        in ttf_data("verify", tmp_path / "bank.npz").stdout
    )
    result = ttf_data("verify", pairs_file(tmp_path / "pairs.npz"))
    assert "4 arrays (rows: X_train 30, X_val 10, pos_train 30, pos_val 10)" in result.stdout


def test_ids_that_occur_twice_are_a_problem(tmp_path: Path) -> None:
    np.savez(tmp_path / "bank.npz", vectors=ROWS, ids=np.arange(40) // 2)
    problems = document("inspect", tmp_path / "bank.npz")["problems"]
    assert problems == ["20 ids occur more than once, for example 0."]


def test_a_sample_finds_first_and_last_and_full_finds_every_row(tmp_path: Path) -> None:
    rows = np.ones((9000, 2), np.float32)
    rows[[0, 4000, -1]] = np.inf
    np.savez(tmp_path / "bank.npz", vectors=rows)
    sampled = document("inspect", tmp_path / "bank.npz")
    assert sampled["arrays"][0]["rows_seen"] == 4096
    assert "0, 8999" in sampled["problems"][0]
    assert "0, 4000, 8999" in document("inspect", tmp_path / "bank.npz", "--full")["problems"][0]


def test_a_compressed_file_is_described_and_converted(tmp_path: Path) -> None:
    packed, plain = tmp_path / "packed.npz", tmp_path / "packed-stored.npz"
    np.savez_compressed(packed, vectors=ROWS)
    seen = document("inspect", packed)
    assert seen["arrays"][0]["stored"] == "deflated" and not seen["arrays"][0]["mappable"]
    assert f"ttf data convert {packed} {plain}" in seen["hints"][0]
    assert document("convert", packed, plain)["arrays"][0]["shape"] == [40, 4]
    assert document("inspect", plain)["arrays"][0]["aligned"] is True
    np.testing.assert_array_equal(np.load(plain)["vectors"], ROWS)


def test_verify_finds_a_flipped_bit(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    np.savez(path, vectors=ROWS)
    assert document("verify", path)["ok"] is True
    raw = bytearray(path.read_bytes())
    raw[raw.index(ROWS.tobytes()[:64])] ^= 1
    path.write_bytes(raw)
    found = json.loads(ttf_data("verify", path, "--json").stdout)
    assert found["ok"] is False and "checksum" in found["problems"][0]
    assert not any("Checksums were not compared" in note for note in found["notes"])


def test_a_pickle_is_one_problem_and_not_also_a_damaged_array(tmp_path: Path) -> None:
    path = tmp_path / "bank.npz"
    np.savez(path, vectors=ROWS, extra=np.array([{"a": 1}, None]))
    found = json.loads(ttf_data("verify", path, "--json").stdout)
    assert len(found["problems"]) == 1 and "pickled Python objects" in found["problems"][0]


def test_the_list_of_commands_fits_a_narrow_terminal() -> None:
    result = CliRunner().invoke(command, ["--help"], terminal_width=80)
    listed = result.stdout.partition("Commands:")[2].partition("Examples:")[0]
    assert len(listed.split("\n")) >= 5 and "..." not in listed


# -- convert


@pytest.mark.parametrize("ending", ["npz", "zarr"])
@pytest.mark.parametrize("kind", ["f32", "f16", "bf16"])
def test_convert_changes_vectors_and_leaves_whole_numbers(
    ending: str, kind: str, tmp_path: Path
) -> None:
    source, target = pairs_file(tmp_path / "pairs.npz"), tmp_path / f"out.{ending}"
    done = document("convert", source, target, "--dtype", kind)
    long = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[kind]
    assert {a["name"]: a["dtype"] for a in done["arrays"]} == {
        "X_train": long,
        "X_val": long,
        "pos_train": "int64",
        "pos_val": "int64",
    }
    store = open_store(str(target))
    x = store.source("X_train")
    expected = to_float32(from_float32(np.repeat(ROWS[:30, None], 3, axis=1), x.dtype), x.dtype)
    np.testing.assert_array_equal(to_float32(x.read(0, 30), x.dtype), expected)
    np.testing.assert_array_equal(store.source("pos_train").read(0, 30), np.arange(30))
    store.close()


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_convert_reads_what_cannot_be_mapped(save: Any, tmp_path: Path) -> None:
    wide = np.arange(24.0).reshape(6, 4)
    save(tmp_path / "in.npz", a=wide, b=wide.astype(">f4"), c=np.arange(6, dtype=np.int16))
    if save is np.savez:
        save(tmp_path / "in.npz", a=np.asfortranarray(wide), b=wide.astype(">f4"))
    document("convert", tmp_path / "in.npz", tmp_path / "out.npz")
    out = np.load(tmp_path / "out.npz")
    assert out["a"].dtype == out["b"].dtype == np.dtype("<f4")
    np.testing.assert_array_equal(out["a"], wide)
    np.testing.assert_array_equal(out["b"], wide)
    out.close()


def test_vectors_of_whole_numbers_become_the_type_that_was_asked_for(tmp_path: Path) -> None:
    whole = np.arange(120, dtype=np.int64).reshape(30, 4)
    path = pairs_file(tmp_path / "in.npz", X_train=whole, Y_train=whole.astype(np.int32))
    document("convert", path, tmp_path / "same.npz")
    assert np.load(tmp_path / "same.npz")["X_train"].dtype == np.int64
    done = document("convert", path, tmp_path / "out.npz", "--dtype", "f32")
    types = {a["name"]: a["dtype"] for a in done["arrays"]}
    assert (types["X_train"], types["Y_train"], types["pos_train"]) == (
        "float32",
        "float32",
        "int64",
    )
    np.testing.assert_array_equal(np.load(tmp_path / "out.npz")["X_train"], whole)


def test_an_ending_that_nothing_writes_names_the_flag_that_helps(tmp_path: Path) -> None:
    path = pairs_file(tmp_path / "in.npz")
    with pytest.raises(ConfigError, match="no storage plugin writes files") as caught:
        document("convert", path, tmp_path / "p.foo")
    assert "--to-storage" in caught.value.hint
    result = ttf_data("convert", path, tmp_path / "p.foo", "--to-storage", "npz")
    assert f"ttf data inspect {tmp_path / 'p.foo'} --storage npz" in result.stderr
    assert document("inspect", tmp_path / "p.foo", "--storage", "npz")["arrays"]


def test_convert_refuses_pickles_and_leaves_no_output(tmp_path: Path) -> None:
    np.savez_compressed(tmp_path / "in.npz", vectors=ROWS, extra=np.array([{}]))
    with pytest.raises(BadData, match="'extra' contains pickled Python objects"):
        document("convert", tmp_path / "in.npz", tmp_path / "out.npz")
    assert [p.name for p in tmp_path.iterdir()] == ["in.npz"]
    document("convert", tmp_path / "in.npz", tmp_path / "out.npz", "--array", "vectors")


def test_convert_names_the_row_that_does_not_fit(tmp_path: Path) -> None:
    rows = ROWS.copy()
    rows[17, 1] = 1e6
    np.savez(tmp_path / "in.npz", vectors=rows)
    with pytest.raises(BadData, match="row 17 contains values that are too large for float16"):
        document("convert", tmp_path / "in.npz", tmp_path / "out.npz", "--dtype", "f16")
    assert not (tmp_path / "out.npz").exists()


def test_convert_says_what_it_left_out_and_overwrites_only_when_told(tmp_path: Path) -> None:
    np.savez(tmp_path / "in.npz", vectors=ROWS, note=np.array("hello"))
    args = ("convert", tmp_path / "in.npz", tmp_path / "out.npz")
    assert document(*args)["left_out"] == ["note"]
    with pytest.raises(ConfigError, match=r"out\.npz already exists"):
        document(*args)
    document(*args, "--overwrite")
    with pytest.raises(ConfigError, match="is the same file as the input"):
        document("convert", tmp_path / "in.npz", tmp_path / "in.npz", "--overwrite")


def test_a_damaged_compressed_member_leaves_no_output(tmp_path: Path) -> None:
    path = tmp_path / "in.npz"
    np.savez_compressed(path, vectors=ROWS)
    raw = bytearray(path.read_bytes())
    raw[400] ^= 255
    path.write_bytes(raw)
    with pytest.raises(BadData, match="'vectors' is damaged"):
        convert_module.convert(str(path), str(tmp_path / "out.npz"))
    assert [p.name for p in tmp_path.iterdir()] == ["in.npz"]


# -- synth


def _made(
    folder: Path, *, stored: Mapping[str, Any] | None = None, **changed: int
) -> dict[str, Path]:
    shape = {"pairs": 300, "val": 40, "seq_len": 6, "dim": 32, "bank": 500, "seed": 3}
    return synth.write_synth(folder, synth.SynthShape(**{**shape, **changed}), **stored or {})


def test_synth_writes_the_files_that_train_wants(tmp_path: Path) -> None:
    args = ("--pairs", 50, "--val", 10, "--seq-len", 3, "--dim", 8, "--bank", 40, "--seed", 1)
    done = document("synth", "--out", tmp_path / "d", *map(str, args), "--targets")
    pairs, bank = np.load(done["pairs"]), np.load(done["bank"])["vectors"]
    assert pairs["X_train"].shape == (50, 3, 8) and pairs["X_val"].shape == (10, 3, 8)
    np.testing.assert_array_equal(pairs["Y_train"], bank[pairs["pos_train"]])
    np.testing.assert_allclose(np.linalg.norm(bank, axis=1), 1, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(pairs["X_train"], axis=2), 1, atol=1e-5)
    pairs.close()


def test_synth_depends_on_the_seed_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synth, "_BLOCK_VALUES", 32 * 6 * 50)
    made = [_made(tmp_path / name, seed=seed) for name, seed in (("a", 3), ("b", 3), ("c", 4))]
    for name in ("pairs", "bank"):
        first, same, other = (m[name].read_bytes() for m in made)
        assert first == same != other
    longer = _made(tmp_path / "d", pairs=400)
    np.testing.assert_array_equal(
        np.load(longer["pairs"])["X_train"][:300], np.load(made[0]["pairs"])["X_train"]
    )


@pytest.mark.parametrize("kind", ["float16", "bfloat16"])
def test_synth_in_zarr_and_half_precision_is_the_same_set(kind: Any, tmp_path: Path) -> None:
    full = _made(tmp_path / "a")
    half = _made(tmp_path / "b", stored={"container": "zarr", "dtype": kind})
    store = open_store(str(half["pairs"]))
    x = store.source("X_train")
    assert x.dtype == kind
    np.testing.assert_allclose(
        to_float32(x.read(0, 300), kind), np.load(full["pairs"])["X_train"], atol=0.02
    )
    store.close()
    assert set(zarr.open_group(str(half["bank"]), mode="r").array_keys()) == {"vectors"}


def test_the_step_after_the_marker_is_the_target_and_no_fixed_step_is(tmp_path: Path) -> None:
    made = _made(tmp_path, pairs=2000, dim=64)
    pairs, bank = np.load(made["pairs"]), np.load(made["bank"])["vectors"]
    x, positive = pairs["X_train"], pairs["pos_train"]
    nearest = (x.reshape(-1, 64) @ bank.T).argmax(1).reshape(2000, 6)
    hits = nearest == positive[:, None]
    assert hits.any(1).mean() > 0.99
    assert hits.mean(0).max() < 0.3
    step = hits.argmax(1)
    marker = synth._marker(synth.SynthShape(
        pairs=1, val=0, seq_len=6, dim=64, bank=500, seed=3
    ))[0]  # fmt: skip
    assert ((x @ marker).argmax(1) + 1 == step).mean() > 0.9


def test_single_vectors_are_turned_so_that_only_a_learned_map_finds_them(tmp_path: Path) -> None:
    made = _made(tmp_path, pairs=2000, seq_len=1)
    pairs, bank = np.load(made["pairs"]), np.load(made["bank"])["vectors"]
    x, target = pairs["X_train"], bank[pairs["pos_train"]]
    assert x.shape == (2000, 32)
    assert abs((x * target).sum(1).mean()) < 0.05
    learned, *_ = np.linalg.lstsq(x, target, rcond=None)
    assert ((x @ learned @ bank.T).argmax(1) == pairs["pos_train"]).mean() > 0.9


def test_synth_asks_for_room_first_and_for_sensible_sizes(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"GB of free space, but 768\.0 TB are needed"):
        _made(tmp_path / "huge", pairs=10**12)
    with pytest.raises(ConfigError, match="bank is 1, but it must be at least 2"):
        _made(tmp_path, bank=1)
    _made(tmp_path / "d")
    with pytest.raises(ConfigError, match="already exists"):
        document("synth", "--out", tmp_path / "d")


@pytest.mark.parametrize("container", ["npz", "zarr"])
def test_synth_that_is_stopped_leaves_nothing(container: str, tmp_path: Path) -> None:
    """Stopped when the bank is whole and the pairs are being written."""
    folder = tmp_path / "new" / "d"

    def stop(done: int, total: int) -> None:
        if done > 500:
            assert (folder / f"bank.{container}").exists()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        _made(folder, stored={"container": container, "progress": stop})
    assert list(tmp_path.iterdir()) == []


# -- subset


def test_subset_keeps_rows_together(tmp_path: Path) -> None:
    path = pairs_file(tmp_path / "pairs.npz", len_train=np.arange(30, dtype=np.int32))
    first = document("subset", path, tmp_path / "a.npz", "--train", "7")
    assert first["rows"] == {"train": 7, "val": 10}
    document("subset", path, tmp_path / "b.npz", "--train", "7", "--seed", "1", "--val", "2")
    a, b = np.load(tmp_path / "a.npz"), np.load(tmp_path / "b.npz")
    np.testing.assert_array_equal(a["pos_train"], np.arange(7))
    kept = b["pos_train"]
    assert len(set(kept)) == 7 and not np.array_equal(kept, np.arange(7))
    np.testing.assert_array_equal(b["X_train"][:, 0], ROWS[kept])
    np.testing.assert_array_equal(b["len_train"], kept)
    assert b["X_val"].shape == (2, 3, 4)


@pytest.mark.parametrize("apart", [False, True], ids=["seq in bank", "seq in context"])
def test_a_cut_bank_holds_the_same_vectors_under_new_numbers(apart: bool, tmp_path: Path) -> None:
    pos = np.array([[5, -1], [3, 7], [39, -1]])
    seq = np.array([[1, 2], [-1, 3], [30, 30]], np.int32)
    np.savez(tmp_path / "pairs.npz", seq_train=seq, pos_train=pos)
    np.savez(tmp_path / "bank.npz", vectors=ROWS, ids=np.arange(40) * 10)
    np.savez(tmp_path / "context.npz", vectors=ROWS[:31])
    flags = ["--context", tmp_path / "context.npz"] if apart else ["--context-is-bank"]
    done = document(
        "subset", tmp_path / "pairs.npz", tmp_path / "a.npz", "--train", "2", "--bank",
        tmp_path / "bank.npz", "--bank-out", tmp_path / "b.npz", "--distractors", "4", *flags,
    )  # fmt: skip
    assert done["bank_rows"] == (3 if apart else 5) + 4
    pairs, bank = np.load(tmp_path / "a.npz"), np.load(tmp_path / "b.npz")
    new = pairs["pos_train"]
    assert (new[0, 1] == -1) and new.shape == (2, 2)
    known = pos[:2] >= 0
    np.testing.assert_array_equal(bank["vectors"][new[known]], ROWS[pos[:2][known]])
    np.testing.assert_array_equal(bank["ids"][new[known]], pos[:2][known] * 10)
    if apart:
        np.testing.assert_array_equal(pairs["seq_train"], seq[:2])
    else:
        valid = seq[:2] >= 0
        np.testing.assert_array_equal(
            bank["vectors"][pairs["seq_train"][valid]], ROWS[seq[:2][valid]]
        )
        assert pairs["seq_train"][1, 0] == -1


def test_what_seq_refers_to_is_never_guessed(tmp_path: Path) -> None:
    seq = np.array([[1, 2], [-1, 30]])
    np.savez(tmp_path / "pairs.npz", seq_train=seq, pos_train=np.array([5, 3]))
    np.savez(tmp_path / "bank.npz", vectors=ROWS)
    np.savez(tmp_path / "context.npz", vectors=ROWS[:30])
    args = ("subset", tmp_path / "pairs.npz", tmp_path / "a.npz")
    cut = ("--bank", tmp_path / "bank.npz", "--bank-out", tmp_path / "b.npz")
    with pytest.raises(
        ConfigError, match="must know to which file these row numbers belong"
    ) as unclear:
        document(*args, *cut)
    assert "--context FILE" in unclear.value.hint and "--context-is-bank" in unclear.value.hint
    with pytest.raises(ConfigError, match="not to both"):
        document(*args, *cut, "--context", tmp_path / "context.npz", "--context-is-bank")
    with pytest.raises(
        BadData, match="contains the row number 30, but the context .* has only 30 rows"
    ):
        document(*args, *cut, "--context", tmp_path / "context.npz")
    with pytest.raises(ConfigError, match="must not be the same file"):
        document(*args, "--context", tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists() and not (tmp_path / "b.npz").exists()
    document(*args)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["seq_train"], seq)
    document(*args, *cut, "--train", "1", "--context", tmp_path / "context.npz", "--overwrite")
    np.testing.assert_array_equal(np.load(tmp_path / "a.npz")["seq_train"], seq[:1])


def test_a_bank_that_does_not_fit_the_pairs_is_refused(tmp_path: Path) -> None:
    pairs_file(tmp_path / "pairs.npz")
    np.savez(tmp_path / "bank.npz", vectors=ROWS[:10])
    args = ("subset", tmp_path / "pairs.npz", tmp_path / "a.npz")
    cut = ("--bank", tmp_path / "bank.npz", "--bank-out", tmp_path / "b.npz")
    with pytest.raises(
        BadData, match=r"contains the row number 39, but the bank .*bank\.npz has only 10 rows"
    ):
        document(*args, *cut)
    with pytest.raises(ConfigError, match="give both options"):
        document(*args, *cut[:2])
    np.savez(tmp_path / "without.npz", X_train=ROWS)
    with pytest.raises(BadData, match="has no pos_train"):
        document("subset", tmp_path / "without.npz", tmp_path / "a.npz", *cut)
    np.savez_compressed(tmp_path / "packed.npz", X_train=ROWS)
    with pytest.raises(DataCompressed):
        document("subset", tmp_path / "packed.npz", tmp_path / "a.npz")
    assert not (tmp_path / "a.npz").exists() and not (tmp_path / "b.npz").exists()


def test_whoever_handles_sigterm_already_keeps_it(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        with writing(str(tmp_path / "a.npz")) as writer:
            assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
            writer.array("vectors", ROWS.shape, "float32").append(ROWS)
    finally:
        signal.signal(signal.SIGTERM, before)
    with writing(str(tmp_path / "b.npz")):
        assert signal.getsignal(signal.SIGTERM) not in (before, signal.SIG_IGN)
    assert signal.getsignal(signal.SIGTERM) is before
