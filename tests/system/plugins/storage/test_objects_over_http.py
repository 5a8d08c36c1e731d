"""Shards behind an address: read through obstore from a server that fails, and trained on."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.conftest import Invoke, RunTtf
from tests.kit.object_server import ObjectServer, serving
from tests.kit.widely import wide

from ttf.data.shards.fetched import Patience
from ttf.errors import BadData, DataChanged, DataMissing, StorageError
from ttf.host.plugins import open_store
from ttf_storage import _objects_writer

pytest.importorskip("obstore", reason="needs obstore: pip install twotower[objects]")

SYNTH = (
    *("--pairs", "400", "--val", "60", "--seq-len", "1", "--dim", "16", "--bank", "900"),
    *("--seed", "3"),
)
SMALL = (
    *("--tower", "linear", "--batch-size", "32", "--steps", "14", "--threads", "1"),
    *("--set", "miner.negatives=2", "--set", "miner.refresh=5"),
)
HERE = ("--isolation", "none", "--in-process")


@pytest.fixture
def server(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectServer]:
    """Of the folders pairs.objects and bank.objects; the files they were made of lie in `local`."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TTF_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(_objects_writer, "SHARD_BYTES", 1 << 14)
    monkeypatch.setattr(Patience, "pauses", lambda _: iter([0.01] * 8))
    assert invoke(["data", "synth", "--out", "local", *SYNTH]).code == 0
    for role in ("pairs", "bank"):
        done = invoke(["data", "convert", f"local/{role}.npz", f"served/{role}.objects"])
        assert done.code == 0, done.err
    with serving(tmp_path / "served") as running:
        yield running


def rows(role: str, name: str) -> Any:
    with np.load(f"local/{role}.npz") as file:
        return file[name]


def shards(server: ObjectServer) -> Counter[str]:
    return Counter(name for name in server.names() if name.endswith(".bin"))


def train(
    invoke: Invoke, where: str, out: str, *more: str, files: str = "objects"
) -> dict[str, Any]:
    given = ("--pairs", f"{where}/pairs.{files}", "--bank", f"{where}/bank.{files}")
    done = invoke(["train", *given, *SMALL, *HERE, "--out", out, *more])
    assert done.code == 0, done.err
    summary: dict[str, Any] = json.loads(Path(out, "summary.json").read_text())
    return summary


def data_of(out: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(Path(out, "manifest.json").read_text())["data"]
    return found


# --- reading --------------------------------------------------------------------------------------


@pytest.mark.parametrize("fault", ["503", "short", "cut"])
def test_rows_are_those_of_the_file_whatever_the_server_does(
    server: ObjectServer, fault: str
) -> None:
    server.fail("*", fault, times=2)  # also of the manifest
    server.fail("*/00001-*", fault, times=2)
    store = open_store(f"{server.url}/bank.objects")
    source = store.source("vectors")
    wanted = rows("bank", "vectors")
    ids = np.array([899, 0, 5, 5, -1])
    np.testing.assert_array_equal(source.gather(ids), wanted[ids])
    np.testing.assert_array_equal(source.read(0, 900), wanted)
    np.testing.assert_array_equal(source.gather(np.arange(900)), wanted)
    assert list(store.verify()) == []
    store.close()


@pytest.mark.parametrize("name", ["*/objects.json", "*/00001-*"])
def test_no_more_is_read_of_an_answer_than_was_asked_for(server: ObjectServer, name: str) -> None:
    server.fail(name, "long")
    with pytest.raises(
        BadData, match="the server sends more than the [\\d,]+ bytes that it was asked"
    ):
        open_store(f"{server.url}/bank.objects").source("vectors").read(0, 900)
    assert server.sent_in_vain < 64 << 20, "a few buffers of the network"


def test_a_look_fetches_one_shard_of_each_array(server: ObjectServer, invoke: Invoke) -> None:
    seen = invoke(["data", "inspect", f"{server.url}/bank.objects", "--json"])
    assert seen.code == 0, seen.err
    array = seen.json()["arrays"][0]
    assert array["shape"] == [900, 16] and array["mappable"] and 0 < array["rows_seen"] < 900
    assert list(shards(server).values()) == [1]
    checked = invoke(["data", "verify", f"{server.url}/bank.objects", "--json"])
    assert checked.code == 0 and checked.json()["arrays"][0]["rows_seen"] == 900
    assert len(shards(server)) == 4 and set(shards(server).values()) == {1}


def test_a_changed_object_is_refused_by_name_and_exit_code(
    server: ObjectServer, invoke: Invoke
) -> None:
    server.fail("*/00002-*", "changed")
    done = invoke(["data", "verify", f"{server.url}/bank.objects"])
    assert done.code == 3 and "/00002-" in done.err and "not the object" in done.err


def test_a_place_without_a_manifest_is_explained(server: ObjectServer) -> None:
    with pytest.raises(DataMissing, match=r"bank/objects\.json: there is no such object"):
        open_store(f"{server.url}/bank")


def test_a_pinned_address_asks_nobody_and_takes_no_other_data(server: ObjectServer) -> None:
    first: Any = open_store(f"{server.url}/bank.objects")
    first.source("vectors").read(0, 900)
    pinned = first.pinned
    first.close()
    server.asked.clear()
    again = open_store(pinned)
    np.testing.assert_array_equal(again.source("vectors").read(0, 900), rows("bank", "vectors"))
    again.close()
    assert server.asked == []
    with pytest.raises(DataChanged, match="has changed"):
        open_store(f"{server.url}/bank.objects#sha256={'0' * 64}")


def test_a_server_that_is_gone_is_a_storage_error_and_a_pinned_address_still_opens(
    server: ObjectServer,
) -> None:
    store: Any = open_store(f"{server.url}/bank.objects")
    pinned = store.pinned
    store.close()
    server.fail("*", "503")
    with pytest.raises(StorageError, match=r"objects\.json could not be fetched"):
        open_store(f"{server.url}/bank.objects")
    open_store(pinned).close()


# --- training -------------------------------------------------------------------------------------


def test_a_run_is_bit_for_bit_that_of_local_files_and_a_warm_one_asks_for_manifests_alone(
    server: ObjectServer, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    local = train(invoke, "local", "a", files="npz")
    server.fail("*.bin", "503", times=3)
    remote = train(invoke, server.url, "b")
    assert remote["weights_sha256"] == local["weights_sha256"]
    assert remote["metrics"] == local["metrics"] and remote["exact"]
    assert data_of("b")["fingerprint"] == data_of("a")["fingerprint"]
    assert set(Counter(server.names()).values()) <= {1, 2, 3, 4} and len(shards(server)) > 6
    server.asked.clear()
    warm = train(invoke, server.url, "c")
    assert warm["weights_sha256"] == local["weights_sha256"]
    assert set(server.names()) == {"pairs.objects/objects.json", "bank.objects/objects.json"}
    assert len(server.names()) == 2
    # The same rows in other shards are the same data, which is compared; others are not.
    monkeypatch.setattr(_objects_writer, "SHARD_BYTES", 1 << 13)
    again = ("local/bank.npz", "served/bank.objects", "--overwrite")
    assert invoke(["data", "convert", *again]).code == 0
    Path("c", "summary.json").unlink()
    resumed = invoke(["resume", "c", "--in-process", "--allow-remote"])
    assert resumed.code == 0 and "reads the whole file once" in resumed.err, resumed.err
    assert json.loads(Path("c", "summary.json").read_text())["exact"]
    _goes_on_with_the_same_data_alone(server, invoke)


def _goes_on_with_the_same_data_alone(server: ObjectServer, invoke: Invoke) -> None:
    """A folder from elsewhere opens no address by itself; a changed manifest is changed data."""
    assert invoke(["eval", "c"]).code == 2
    evaluated = invoke(["eval", "c", "--allow-remote", "--json"])
    assert evaluated.code == 0, evaluated.err
    other = invoke(["eval", "c", "--bank", f"{server.url}/bank.objects", "--json"])
    assert other.code == 2  # the pairs are still an address that only the folder names
    manifest = server.folder / "bank.objects" / "objects.json"
    about = json.loads(manifest.read_text())
    about["arrays"]["vectors"]["shards"][-1]["crc32"] ^= 1
    manifest.write_text(json.dumps(about))
    Path("c", "summary.json").unlink()
    resumed = invoke(["resume", "c", "--in-process", "--allow-remote"])
    assert resumed.code == 3 and "data has changed" in resumed.err


def test_a_plan_fetches_no_vectors(server: ObjectServer, invoke: Invoke) -> None:
    given = ("--pairs", f"{server.url}/pairs.objects", "--bank", f"{server.url}/bank.objects")
    planned = invoke(["train", *given, *SMALL, "--plan"])
    assert planned.code == 0, planned.err
    assert "are not on this machine" in planned.out + planned.err
    whole = sum(1 for _ in server.folder.glob("*/*.bin"))
    assert len(shards(server)) < whole


def test_a_limit_that_is_too_small_ends_the_run_with_the_key_to_raise(
    server: ObjectServer, invoke: Invoke
) -> None:
    given = ("--pairs", f"{server.url}/pairs.objects", "--bank", f"{server.url}/bank.objects")
    done = invoke(
        ["train", *given, *SMALL, *HERE, "--out", "x", "--set", "data.cache_limit='20kB'"]
    )
    assert done.code == 8 and "data.cache_limit allows 20 kB" in done.err


# --- Zarr -----------------------------------------------------------------------------------------


@wide
def test_zarr_behind_an_address_is_converted_but_not_trained_on(
    server: ObjectServer, invoke: Invoke
) -> None:
    pytest.importorskip("zarr")
    assert invoke(["data", "convert", "local/bank.npz", "served/bank.zarr"]).code == 0
    _consolidate(server.folder / "bank.zarr")
    given = ("--pairs", "local/pairs.npz", "--bank", f"{server.url}/bank.zarr")
    refused = invoke(["train", *given, *SMALL, *HERE, "--out", "x"])
    assert refused.code == 2 and "ttf data convert" in refused.err, refused.err
    done = invoke(["data", "convert", f"{server.url}/bank.zarr", "again.npz"])
    assert done.code == 0, done.err
    with np.load("again.npz") as file:
        np.testing.assert_array_equal(file["vectors"], rows("bank", "vectors"))


def _consolidate(folder: Path) -> None:
    """HTTP has no list of names."""
    import zarr

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it is not in the specification yet
        zarr.consolidate_metadata(str(folder))


# --- whole runs (TTF_CHAOS=1) ---------------------------------------------------------------------


@wide
def test_a_trainer_that_dies_while_it_fetches_starts_again_behind_what_it_left(
    server: ObjectServer, run_ttf: RunTtf, tmp_path: Path
) -> None:
    given = ("--pairs", f"{server.url}/pairs.objects", "--bank", f"{server.url}/bank.objects")
    local = ("--pairs", "local/pairs.npz", "--bank", "local/bank.npz")
    assert run_ttf("train", *local, *SMALL, "--out", "a").code == 0
    done = run_ttf(
        "train", *given, *SMALL, "--out", "b", env={"TTF_FAILPOINT": "objects.write:5:kill"}
    )
    assert done.code == 0, done.err
    one, other = (json.loads((tmp_path / n / "summary.json").read_text()) for n in "ab")
    assert other["restarts"] == 1 and other["weights_sha256"] == one["weights_sha256"]
    # Four were under way when it died; none that was whole is asked for again.
    counts = shards(server).values()
    assert max(counts) == 2 and sum(count == 2 for count in counts) <= 4


@pytest.mark.extras
def test_a_run_from_an_s3_server_is_that_of_local_files(
    server: ObjectServer, run_ttf: RunTtf, tmp_path: Path
) -> None:
    pytest.importorskip("boto3")
    moto = pytest.importorskip("moto.server", reason="needs moto[server]")
    import boto3

    running = moto.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    running.start()
    try:
        host, port = running.get_host_and_port()
        keys = {
            "AWS_ACCESS_KEY_ID": "testing-key",
            "AWS_SECRET_ACCESS_KEY": "testing-secret-4711",
            "AWS_REGION": "us-east-1",
            "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        }
        client = boto3.client(
            "s3",
            endpoint_url=keys["AWS_ENDPOINT_URL"],
            aws_access_key_id=keys["AWS_ACCESS_KEY_ID"],
            aws_secret_access_key=keys["AWS_SECRET_ACCESS_KEY"],
            region_name="us-east-1",
        )
        client.create_bucket(Bucket="vectors")
        for path in sorted(server.folder.glob("*/*")):
            client.upload_file(str(path), "vectors", f"set/{path.parent.name}/{path.name}")
        _as_local_files(run_ttf, tmp_path, keys)
    finally:
        running.stop()


def _as_local_files(run_ttf: RunTtf, tmp_path: Path, keys: dict[str, str]) -> None:
    given = (
        *("--pairs", "s3://vectors/set/pairs.objects"),
        *("--bank", "s3://vectors/set/bank.objects"),
    )
    local = ("--pairs", "local/pairs.npz", "--bank", "local/bank.npz")
    assert run_ttf("train", *local, *SMALL, "--out", "a").code == 0
    done = run_ttf("train", *given, *SMALL, "--out", "b", env=keys)
    assert done.code == 0, done.err
    one, other = (json.loads((tmp_path / n / "summary.json").read_text()) for n in "ab")
    assert other["weights_sha256"] == one["weights_sha256"]
    written = [p.read_bytes() for p in (tmp_path / "b").rglob("*") if p.is_file()]
    assert not any(b"testing-secret-4711" in data for data in written)
    refused = run_ttf("data", "inspect", "s3://vectors/none", env=keys)
    assert refused.code == 3 and "there is no such object" in refused.err
