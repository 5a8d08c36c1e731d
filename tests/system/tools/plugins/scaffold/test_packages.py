"""What `ttf plugins new` writes is a folder to work in. That it is built, installed, passes its own
tests unedited and trains is shown with the pages for authors: tests/system/packages/test_pages.py.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import Outcome
    from tests.system.packages.fresh import FreshEnvironment

NAME = "my-index"


def done(outcome: Outcome) -> Outcome:
    assert outcome.code == 0, f"{outcome.out[-6000:]}\n{outcome.err[-3000:]}"
    return outcome


@pytest.mark.timeout(600)
@pytest.mark.skipif(not os.environ.get("TTF_CHAOS"), reason="one of many: TTF_CHAOS=1 runs it")
def test_a_folder_to_work_in_has_every_tool_its_readme_names(
    fresh_environment: FreshEnvironment, tmp_path: Path
) -> None:
    """As `pip install -e . --group dev` does it; then what CI runs, but for the long suite."""
    folder = tmp_path / "package"
    made = ("-m", "ttf", "plugins", "new", "observer", NAME, "--out", folder)
    done(fresh_environment.run(*made))
    fresh_environment.install(f"--editable={folder}", f"--group={folder / 'pyproject.toml'}:dev")
    for tool in (("ruff", "check"), ("ruff", "format", "--check"), ("mypy",), ("pytest", "-q")):
        done(fresh_environment.run("-m", *tool, cwd=folder))
