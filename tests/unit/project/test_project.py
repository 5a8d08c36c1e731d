"""Guards over the project itself: what is declared, exported, documented and imported."""

from __future__ import annotations

import ast
import importlib.util
import inspect
import re
import tomllib
from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[3]
PYPROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())
SOURCES = sorted([*ROOT.glob("core/**/*.py"), *ROOT.glob("plugins/**/*.py")])
DECLARED: dict[str, str] = PYPROJECT["project"]["entry-points"]["ttf.v1"]


# --- plugins ---------------------------------------------------------------------------------


def test_declared_plugins_are_installed() -> None:
    ours = {
        e.name: e.value
        for e in entry_points(group="ttf.v1")
        if e.dist is not None and e.dist.name == "twotower"
    }
    assert ours == DECLARED, "metadata is stale: run pip install -e . again"


def test_devices_are_named_by_their_plugins_alone() -> None:
    """Outside plugins/devices the words cuda and mps occur in no logic; prose may name them."""
    offenders = [
        f"{path.relative_to(ROOT)}:{node.lineno}"
        for path in SOURCES
        if "plugins/devices" not in path.as_posix()
        for node in _logic(ast.parse(path.read_text()))
        if re.search(r"\b(cuda|mps)\b", _words(node))
    ]
    assert not offenders


def _logic(tree: ast.Module) -> Iterator[ast.expr]:
    """Names, attributes and strings, docstrings and bare strings left out."""
    prose = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.Constant) and id(node) not in prose:
            yield node


def _words(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


# --- names and documents ---------------------------------------------------------------------


def test_everything_that_is_exported_exists() -> None:
    import ttf

    assert set(ttf.__all__) <= set(dir(ttf))
    for name in ttf.__all__:
        assert getattr(ttf, name) is not None


def test_all_lists_are_honest() -> None:
    checked = 0
    for path in SOURCES:
        tree = ast.parse(path.read_text())
        listed = {name for node in tree.body for name in _all_list(node)}
        missing = listed - {name for node in ast.walk(tree) for name in _defines(node)}
        assert not missing, f"{path.relative_to(ROOT)} lists what it does not define: {missing}"
        checked += bool(listed)
    assert checked >= 5


def _all_list(node: ast.stmt) -> list[str]:
    """The names of `__all__ = ["written", "out"]`."""
    if not (isinstance(node, ast.Assign) and isinstance(node.value, ast.List)):
        return []
    named = any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
    plain = all(isinstance(item, ast.Constant) for item in node.value.elts)
    return ast.literal_eval(node.value) if named and plain else []


def _defines(node: ast.AST) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [alias.asname or alias.name for alias in node.names]
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        return [node.id]
    return []


def test_every_hook_says_when_it_is_called() -> None:
    from ttf import hookspecs

    hooks = {n: f for n, f in vars(hookspecs).items() if n.startswith("ttf_")}
    assert len(hooks) >= 10
    assert [n for n, f in hooks.items() if not inspect.getdoc(f)] == []


ROOMS = (
    "commands config data host incidents machine mining process rundir supervise testing text tools "
    "training world"
)
FILES = "__init__ __main__ api cli contracts errors hookspecs jobs loop rank"


def test_the_root_holds_these_names_and_no_other() -> None:
    """Something new has its place in a room; a new room is a decision (docs/architecture.md)."""
    root = ROOT / "core" / "ttf"
    found = {p.name for p in root.iterdir() if p.name != "__pycache__"}
    assert found == {*ROOMS.split(), *(f"{name}.py" for name in FILES.split()), "py.typed"}


def test_no_room_has_the_name_of_a_public_function() -> None:
    import ttf

    assert not set(ROOMS.split()) & set(ttf.__all__)


@pytest.mark.parametrize(
    ("most", "folders"), [(400, ("core", "plugins")), (600, ("tests", "benchmarks"))]
)
def test_no_file_is_too_long(most: int, folders: tuple[str, ...]) -> None:
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    lengths = {str(p.relative_to(ROOT)): len(p.read_text().splitlines()) for p in files}
    assert not {name: length for name, length in lengths.items() if length > most}


def test_every_module_says_what_it_is_responsible_for() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in SOURCES
        if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert silent == []


def test_the_defaults_in_help_are_the_schemas() -> None:
    from ttf.commands.train import command
    from ttf.config.resolve import FLAGS, resolve

    config = resolve(plugins=False).config
    for option in command.params:
        key = FLAGS.get(option.opts[0])
        said = re.search(r"\[default: (.+?)\]", getattr(option, "help", "") or "")
        if key is None:
            continue
        node: Any = config
        for part in key.split("."):
            node = getattr(node, part)
        assert said is not None, f"{option.opts[0]} does not say its default"
        if node is not None:
            shown = "off" if node is False else str(node)
            assert said[1] == shown, f"{option.opts[0]}: the default is {node}"


def test_every_relative_link_in_the_documents_leads_somewhere() -> None:
    pages = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")]
    broken = [
        f"{page.relative_to(ROOT)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text())
        if not (page.parent / target).exists()
    ]
    assert not broken


def test_direct_dependencies_are_pinned_in_the_constraints() -> None:
    pinned = {
        _normal(line.partition("==")[0])
        for line in (ROOT / "constraints.txt").read_text().splitlines()
        if "==" in line
    }
    project = PYPROJECT["project"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["all"]]
    for group in ("dev", "docs"):
        wanted += PYPROJECT["dependency-groups"][group]
    names = {_normal(re.split(r"[<>=\[ ]", spec)[0]) for spec in wanted}
    assert names <= pinned
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_page_of_keys_is_up_to_date() -> None:
    docs = ROOT / "docs"
    spec = importlib.util.spec_from_file_location("make_config", docs / "make_configuration.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert (docs / "configuration.md").read_text() == module.page(), "run: make docs"
