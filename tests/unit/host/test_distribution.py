"""`ttf` knows which of its two distributions it is, and what that one lacks."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from tests.conftest import ROOT

from ttf.errors import ConfigError
from ttf.host import distribution


def _declared(project: str) -> dict[str, Any]:
    text = (ROOT / project / "pyproject.toml").read_text()
    found: dict[str, Any] = tomllib.loads(text)["project"]
    return found


@pytest.mark.parametrize(
    "file, name",
    [
        ("/venv/lib/python3.11/site-packages/ttf/host/distribution.py", "twotower"),
        ("/venv/lib/site-packages/twotower_guard/ttf/host/distribution.py", "twotower-guard"),
        ("/home/me/twotower_guard/core/ttf/host/distribution.py", "twotower"),
    ],
)
def test_the_folder_of_the_files_tells_the_distribution(file: str, name: str) -> None:
    assert distribution.name_of(file) == name


def test_the_crash_side_needs_a_part_of_what_twotower_needs() -> None:
    light, full = _declared("twotower-guard"), _declared(".")
    assert set(light["dependencies"]) < set(full["dependencies"])
    assert {n for extra in light["optional-dependencies"].values() for n in extra} < set(
        full["dependencies"]
    )
    for same in ("scripts", "requires-python", "license"):
        assert light[same] == full[same]
    assert (light["name"], full["name"]) == (distribution.CRASH_SIDE, distribution.FULL)


def test_the_crash_side_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    distribution.require_full("ttf train")
    monkeypatch.setattr(distribution, "NAME", distribution.CRASH_SIDE)
    with pytest.raises(ConfigError, match="ttf train needs twotower") as raised:
        distribution.require_full("ttf train")
    assert raised.value.hint.startswith("pip install twotower ")


def test_a_dependency_that_is_missing_is_no_bug_of_ours() -> None:
    told = distribution.missing_library(ModuleNotFoundError("-", name="torch.nn"))
    assert told is not None and told.hint == "pip install torch"
    assert distribution.missing_library(ModuleNotFoundError("-", name="ttf.nothing")) is None
