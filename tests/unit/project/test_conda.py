"""The environment files for conda say what pyproject.toml says. conda itself is not run here."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[3]
PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
# The names that differ on conda-forge.
CONDA = {"torch": "pytorch"}


@pytest.mark.parametrize(
    ("name", "without"),
    [("environment.yml", ()), ("environment-no-faiss.yml", ("faiss-cpu",))],
)
def test_an_environment_holds_what_the_project_needs_with_its_floors(
    name: str, without: tuple[str, ...]
) -> None:
    document = yaml.safe_load((ROOT / name).read_text())
    assert document["channels"] == ["conda-forge", "nodefaults"], "one OpenMP runtime"
    *packages, pip = document["dependencies"]
    assert pip == {"pip": ["-e ."]}, "no native library from pip"
    wanted = {"python": PROJECT["requires-python"], "pip": ""}
    for spec in (*PROJECT["dependencies"], *PROJECT["optional-dependencies"]["all"]):
        package, floor = _split(spec)
        if package not in without:
            wanted[CONDA.get(package, package)] = floor
    assert dict(map(_split, packages)) == wanted
    assert len(packages) == len(wanted), "no package twice"
    assert f"conda env create -f {name}" in (ROOT / name).read_text()


def _split(spec: str) -> tuple[str, str]:
    found = re.fullmatch(r"([\w-]+)(.*)", spec)
    assert found is not None
    return found[1], found[2]
