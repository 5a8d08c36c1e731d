"""Guards over the project itself: what is declared, exported, documented and imported."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from tests.unit.project.test_project import DECLARED, ROOT

HEAVY = (
    "torch",
    "numpy",
    "faiss",
    "hnswlib",
    "jinja2",
    "zarr",
    "pydantic",
    "rich",
    "scipy",
    "tensorboard",
    "sentence_transformers",
    "onnx",
    "onnxruntime",
    "lancedb",
    "qdrant_client",
)


def test_declared_plugins_exist_and_import_nothing_heavy() -> None:
    modules = sorted({value.partition(":")[0] for value in DECLARED.values()})
    code = f"""
import importlib, json, sys
print(json.dumps({{m: sorted({{*{HEAVY}}} & {{*sys.modules}})
                  for m in {modules} if importlib.import_module(m)}}))"""
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    heavy = json.loads(done.stdout)
    assert list(heavy) == modules
    assert not any(heavy.values()), f"not light from here on: {heavy}"


@pytest.mark.parametrize("reference", sorted(DECLARED))
def test_every_declared_plugin_answers_to_its_name(reference: str) -> None:
    from ttf.host import plugins

    kind, _, name = reference.partition(".")
    if kind == "observer":
        info, hooks, state = plugins.offered_observer(name)
        assert info.reference == reference
        assert hooks.ttf_step.get_hookimpls(), "it does not listen to steps"
        assert state.ok or (state.reason and state.fix)
        return
    factory = plugins.load(kind, name)
    assert factory.name == name
    state = factory.availability()
    assert state.ok or (state.reason and state.fix)


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
    plugins = {"ttf_towers", "ttf_miners", "ttf_storage", "ttf_devices", "ttf_exporters"}
    assert not loaded & {*HEAVY, *plugins}
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
