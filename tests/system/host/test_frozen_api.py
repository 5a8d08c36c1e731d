"""What plugins of `ttf.v1` may rely on does not change unnoticed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]
FROZEN = ROOT / "docs" / "plugins" / "api-v1.txt"


def test_names_hooks_and_contracts_are_those_of_the_frozen_page() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import make_plugin_api; print(make_plugin_api.page(), end='')"],
        cwd=ROOT / "docs",
        env=os.environ | {"PYTHONPATH": str(ROOT / "docs")},
        capture_output=True,
        text=True,
        check=True,
    )
    frozen, now = FROZEN.read_text().splitlines(), done.stdout.splitlines()
    gone = [line for line in frozen if line not in now]
    assert not gone, (
        "plugins of strangers rely on these lines: keep the old way working, or raise "
        f"installed.API: {gone}"
    )
    assert frozen == now, "new lines are fine: run make docs, and say so in CHANGELOG.md"


def test_every_public_name_is_on_a_page_for_authors_or_users() -> None:
    import ttf

    pages = [*ROOT.glob("docs/**/*.md"), ROOT / "README.md", FROZEN]
    text = "\n".join(page.read_text() for page in pages)
    assert [name for name in ttf.__all__ if name not in text] == []
