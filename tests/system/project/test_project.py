"""Guards over the project itself: what is declared, exported, documented and imported."""

from __future__ import annotations

import ast
import inspect
import json
import os
import re
import subprocess
import sys
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
HEAVY = ("torch", "numpy", "faiss", "hnswlib", "zarr", "pydantic", "rich", "scipy", "tensorboard")


# --- plugins ---------------------------------------------------------------------------------


def test_declared_plugins_are_installed() -> None:
    ours = {
        e.name: e.value
        for e in entry_points(group="ttf.v1")
        if e.dist is not None and e.dist.name == "twotower"
    }
    assert ours == DECLARED, "metadata is stale: run pip install -e . again"


@pytest.mark.parametrize("module", sorted(set(DECLARED.values())))
def test_declared_plugins_exist_and_import_nothing_heavy(module: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys, {module}; print(sorted(sys.modules))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(ast.literal_eval(done.stdout))
    assert not loaded & set(HEAVY), f"{module} is not light: it imports {loaded & set(HEAVY)}"


@pytest.mark.parametrize("reference", sorted(DECLARED))
def test_every_declared_plugin_answers_to_its_name(reference: str) -> None:
    from ttf.host import plugins

    kind, _, name = reference.partition(".")
    if kind == "observer":
        info, hooks = plugins.observer(name)
        assert info.reference == reference
        assert hooks.ttf_step.get_hookimpls(), "it does not listen to steps"
        return
    factory = plugins.load(kind, name)
    assert factory.name == name
    state = factory.availability()
    assert state.ok or (state.reason and state.fix)


def test_the_layers_hold() -> None:
    command = Path(sys.executable).with_name("lint-imports")
    done = subprocess.run(
        [command, "--no-cache"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stdout


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


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(ROOT)))
def test_all_lists_are_honest(path: Path) -> None:
    tree = ast.parse(path.read_text())
    listed = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign)
        and any(isinstance(t, ast.Name) and t.id == "__all__" for t in node.targets)
        and isinstance(node.value, ast.List)
        and all(isinstance(item, ast.Constant) for item in node.value.elts)
    ]
    defined = {name for node in ast.walk(tree) for name in _defines(node)}
    assert {name for names in listed for name in names} <= defined


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
    "training"
)
FILES = "__init__ __main__ api cli contracts errors hookspecs loop"


def test_the_root_holds_these_names_and_no_other() -> None:
    """Something new has its place in a room; a new room is a decision (docs/architecture.md)."""
    root = ROOT / "core" / "ttf"
    found = {p.name for p in root.iterdir() if p.name != "__pycache__"}
    assert found == {*ROOMS.split(), *(f"{name}.py" for name in FILES.split()), "py.typed"}


def test_no_room_has_the_name_of_a_public_function() -> None:
    import ttf

    assert not set(ROOMS.split()) & set(ttf.__all__)


def test_no_file_is_longer_than_600_lines() -> None:
    files = [*SOURCES, *ROOT.glob("tests/**/*.py"), *ROOT.glob("benchmarks/**/*.py")]
    long = {
        str(p.relative_to(ROOT)): n for p in files if (n := len(p.read_text().splitlines())) > 600
    }
    assert not long


def test_every_module_says_what_it_is_responsible_for() -> None:
    silent = [
        str(p.relative_to(ROOT))
        for p in SOURCES
        if p.read_text().strip() and not ast.get_docstring(ast.parse(p.read_text()))
    ]
    assert silent == []


def test_the_page_of_commands_is_up_to_date() -> None:
    # A fresh interpreter: click keeps the help option of whoever asked a command for help first.
    done = subprocess.run(
        [sys.executable, "-c", "import make_cli; print(make_cli.page(), end='')"],
        cwd=ROOT / "docs",
        env=os.environ | {"PYTHONPATH": str(ROOT / "docs")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert (ROOT / "docs" / "cli.md").read_text() == done.stdout, "run: make docs"


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
            assert said[1] == str(node), f"{option.opts[0]}: the default is {node}"


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
    wanted += PYPROJECT["dependency-groups"]["dev"]
    names = {_normal(re.split(r"[<>=\[ ]", spec)[0]) for spec in wanted}
    assert names <= pinned
    assert "torch==2.13.0" in (ROOT / "constraints.txt").read_text().splitlines()


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


# --- import budget ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    "argv",
    [
        ["--help"],
        ["--version"],
        ["plugins", "list"],
        ["plugins", "list", "--json"],
        ["train", "--help"],
        ["train", "--tower", "gruu"],
        ["completion", "bash"],
    ],
    ids=" ".join,
)
def test_light_commands_load_nothing_heavy(argv: list[str]) -> None:
    code = (
        "import sys, json\nfrom ttf import cli\n"
        f"cli.run({argv!r})\n"
        "print('\\n' + json.dumps(sorted(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    loaded = set(json.loads(done.stdout.splitlines()[-1]))
    assert not loaded & {*HEAVY, "ttf_towers", "ttf_miners", "ttf_storage", "ttf_devices"}
    if argv == ["--help"]:
        assert not loaded & {"pluggy", "importlib.metadata", "ttf.host.plugins"}


def test_importing_ttf_loads_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import ttf, sys, json; print(json.dumps(sorted(sys.modules)))"],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    loaded = set(json.loads(done.stdout))
    assert not loaded & {*HEAVY, "click", "pluggy"}
