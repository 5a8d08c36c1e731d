"""`ttf plugins new`: what it writes, what it refuses, and that it never writes half of it."""

from __future__ import annotations

import ast
import importlib.util
import re
import shlex
import shutil
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from ttf.tools.plugins.scaffold import package
from ttf.tools.plugins.scaffold.naming import LONGEST, Naming

if TYPE_CHECKING:
    from tests.conftest import FakeDistribution, Invoke

    from ttf.contracts import Kind

KINDS = package.kinds()
ON_EVERY_KIND = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(autouse=True)
def _in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "place"
    place.mkdir()
    monkeypatch.chdir(place)


def texts(folder: Path) -> dict[str, str]:
    return {
        path.relative_to(folder).as_posix(): path.read_text()
        for path in folder.rglob("*")
        if path.is_file()
    }


# --- what it writes --------------------------------------------------------------------------


def test_there_is_a_template_for_every_kind_that_authors_write() -> None:
    assert KINDS == ["device", "encoder", "exporter", "miner", "observer", "storage", "tower"]


@ON_EVERY_KIND
def test_a_package_is_complete(invoke: Invoke, kind: str) -> None:
    document = invoke(["plugins", "new", kind, "my-index", "--json"]).json()
    folder, module = Path(f"ttf-{kind}-my-index"), f"ttf_{kind}_my_index"
    found = texts(folder)
    assert document == {
        "kind": kind,
        "name": "my-index",
        "distribution": folder.name,
        "module": module,
        "path": str(folder),
        "files": sorted(found),
    }
    assert set(found) >= {
        ".github/workflows/ci.yml",
        ".gitignore",
        "README.md",
        "pyproject.toml",
        f"src/{module}/__init__.py",
        f"src/{module}/plugin.py",
        f"src/{module}/py.typed",
        "tests/test_observer.py" if kind == "observer" else "tests/test_conformance.py",
    }
    project = tomllib.loads(found["pyproject.toml"])
    assert {re.split("[<>=[]", one)[0] for one in project["dependency-groups"]["dev"]} == {
        "mypy", "pytest", "ruff", "twotower",
    }  # fmt: skip
    declared = project["project"]
    assert "twotower>=0.1" in declared["dependencies"]
    assert declared["name"] == folder.name
    hooks = f"{module}.plugin:observer" if kind == "observer" else f"{module}.plugin"
    assert declared["entry-points"]["ttf.v1"] == {f"{kind}.my-index": hooks}
    assert declared["requires-python"] == ">=3.11"


@ON_EVERY_KIND
@pytest.mark.parametrize("name", ["x", "my-index", "a1-2b-c3"])
def test_no_spelling_of_the_templates_name_is_left(kind: str, name: str) -> None:
    for path, text in package.rendered(Naming(kind=kind, name=name)).items():  # type: ignore[arg-type]
        assert "yourname" not in "".join(filter(str.isalnum, f"{path} {text}".lower())), path
        if path.endswith(".py"):
            ast.parse(text, path)


@pytest.mark.parametrize("file", [".gitignore", ".github/workflows/ci.yml"])
def test_what_no_kind_needs_otherwise_is_the_same_in_every_package(file: str) -> None:
    namings = [Naming(kind=cast("Kind", kind), name="my-index") for kind in KINDS]
    assert len({package.rendered(naming)[file] for naming in namings}) == 1


def test_what_tools_left_in_a_template_is_not_copied(
    invoke: Invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip compiles what it installs, templates as well."""
    templates = tmp_path / "templates"
    shutil.copytree(package.TEMPLATES, templates)
    module = templates / "miner" / "src" / "ttf_miner_your_name"
    for left in (
        module / "__pycache__" / "plugin.cpython-311.pyc",
        templates / "miner" / ".mypy_cache" / "x",
    ):
        left.parent.mkdir(exist_ok=True)
        left.write_bytes(b"\xff\xfe")
    monkeypatch.setattr(package, "TEMPLATES", templates)
    files = invoke(["plugins", "new", "miner", "x", "--json"]).json()["files"]
    assert not [file for file in files if "cache" in file]


def test_the_person_is_told_what_to_type_next_in_lines_that_can_be_pasted(
    invoke: Invoke, tmp_path: Path
) -> None:
    out = tmp_path / "a place" / "it's"
    result = invoke(["plugins", "new", "miner", "my-index", "--out", str(out)])
    assert result.code == 0
    said = [line.removeprefix("Next: ") for line in result.err.splitlines()]
    assert shlex.split(said[0]) == ["cd", str(out)]
    assert said[1:] == [
        'python -m pip install "pip>=25.1"',
        "python -m pip install -e . --group dev",
        "python -m pytest",
        "ttf plugins check miner.my-index",
        "ttf train --miner my-index",
    ]
    assert "distribution ttf-miner-my-index" in result.out and "README.md" in result.out


@pytest.mark.parametrize(
    ("kind", "last"),
    [
        ("tower", "ttf train --tower conv"),
        ("device", "ttf train --device conv"),
        ("encoder", "ttf data encode texts.csv --encoder conv --out data"),
        ("storage", "ttf train --pairs demo/pairs.npz --bank demo/bank.conv"),
        ("observer", "ttf train --set 'observers=[\"conv\"]'"),
    ],
)
def test_the_last_line_uses_the_plugin(invoke: Invoke, kind: str, last: str) -> None:
    assert invoke(["plugins", "new", kind, "conv"]).err.splitlines()[-1] == f"Next: {last}"


def test_a_name_that_is_a_librarys_as_well_gets_a_word_about_modules(invoke: Invoke) -> None:
    assert importlib.util.find_spec("zlib")
    result = invoke(["plugins", "new", "storage", "zlib"])
    assert result.code == 0
    assert "call no module of the package zlib.py" in result.err
    assert "note" not in invoke(["plugins", "new", "storage", "zlib-2"]).err


def test_an_empty_folder_is_taken(invoke: Invoke) -> None:
    Path("empty").mkdir()
    assert invoke(["plugins", "new", "tower", "x", "--out", "empty"]).code == 0
    assert (Path("empty") / "pyproject.toml").is_file()
    assert [p.name for p in Path().iterdir()] == ["empty"]


# --- what it refuses -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "name", "why"),
    [
        ("miner", "MyIndex", "Did you mean 'my-index'?"),
        ("miner", "my_index", "Did you mean 'my-index'?"),
        ("miner", "3d", "begins with a letter"),
        ("miner", "a--b", "Did you mean 'a-b'?"),
        ("miner", "-a", "No such option"),
        ("miner", "a-", "Did you mean 'a'?"),
        ("miner", "a/../b", "Did you mean 'a-b'?"),
        ("miner", "a\n", "Did you mean 'a'?"),
        ("miner", "", "begins with a letter"),
        ("miner", "é", "begins with a letter"),
        ("miner", "a" * (LONGEST + 1), f"at most {LONGEST} are allowed"),
        ("miner", "class", "is a keyword of Python"),
        ("device", "auto", "with --device auto, ttf chooses"),
        ("miner", "faiss", "already exists in the installed distribution twotower"),
        ("storage", "feather", "The storage 'parquet' already reads files that end in .feather"),
        ("minr", "x", "Did you mean 'miner'?"),
    ],
)
def test_a_name_that_will_not_do_is_refused_with_the_reason(
    invoke: Invoke, kind: str, name: str, why: str
) -> None:
    result = invoke(["plugins", "new", kind, name])
    assert result.code == 2
    assert why in result.err
    assert list(Path().iterdir()) == []


@pytest.mark.parametrize("disabled", ["", "ttf-other"])
def test_a_name_that_another_package_has_is_refused(
    invoke: Invoke,
    fake_plugins: FakeDistribution,
    monkeypatch: pytest.MonkeyPatch,
    disabled: str,
) -> None:
    fake_plugins.add("ttf-other", {"miner.fast": "ttf_other"}, version="2.5")
    monkeypatch.setenv("TTF_DISABLE_PLUGINS", disabled)
    refused = invoke(["plugins", "new", "miner", "fast"])
    assert refused.code == 2
    assert "in the installed distribution ttf-other 2.5" in refused.err
    assert invoke(["plugins", "new", "tower", "fast"]).code == 0


def test_nothing_is_overwritten(invoke: Invoke) -> None:
    full, file, link = Path("full"), Path("file"), Path("link")
    full.mkdir()
    (full / "mine.txt").write_text("mine")
    file.write_text("mine")
    link.symlink_to("nowhere")
    for out, why in (
        (full, "is not empty: it contains 'mine.txt'"),
        (file, "is a file"),
        (link, "is a symbolic link to"),
    ):
        result = invoke(["plugins", "new", "miner", "x", "--out", str(out)])
        assert result.code == 2
        assert why in result.err
    assert texts(Path()) == {"full/mine.txt": "mine", "file": "mine"}
    assert link.is_symlink()


def test_the_folder_one_is_in_is_not_replaced_under_ones_feet(invoke: Invoke) -> None:
    result = invoke(["plugins", "new", "miner", "x", "--out", "."])
    assert result.code == 2
    assert "is the current folder" in result.err
    assert list(Path().iterdir()) == []


def test_a_place_where_no_folder_can_be_made_is_a_storage_error(invoke: Invoke) -> None:
    Path("file").write_text("")
    result = invoke(["plugins", "new", "miner", "x", "--out", "file/below"])
    assert result.code == 8
    assert "Could not write file/below" in result.err


def test_what_comes_with_a_name_is_spelt_as_each_reader_needs_it() -> None:
    naming = Naming(kind="miner", name="my-3d-index")
    facts: dict[str, Any] = {
        "distribution": "ttf-miner-my-3d-index",
        "module": "ttf_miner_my_3d_index",
        "class_prefix": "My3dIndex",
        "reference": "miner.my-3d-index",
    }
    assert {key: getattr(naming, key) for key in facts} == facts
