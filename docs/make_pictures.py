"""Makes the pictures of the first tutorial from real runs, by hand: python docs/make_pictures.py FOLDER

FOLDER is where the commands of the tutorial were run (its `runs/` is read, and `ttf guard` is run once more).
Terminals become SVG with the fonts of the reader; the report is photographed by a headless Chromium, if
there is one. Needs rich, and the kit of the tests for Chromium.
"""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.terminal_theme import MONOKAI
from rich.text import Text

ROOT: Final = Path(__file__).resolve().parent.parent
PICTURES: Final = ROOT / "docs" / "tutorial" / "pictures"
_SVG: Final = """<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg">
<style>
.{unique_id}-matrix {{ font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace;
font-size: {char_height}px; line-height: {line_height}px; }}
{styles}
</style>
<defs>{lines}</defs>
<rect fill="#1e1e1e" width="{width}" height="{height}" rx="10"/>
<g transform="translate(14, 10)">{backgrounds}<g class="{unique_id}-matrix">{matrix}</g></g>
</svg>
"""


def terminal(name: str, command: str, folder: Path, last: int, columns: int = 104) -> None:
    """The last lines that a command prints, under its own line."""
    done = subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"FORCE_COLOR": "1", "COLUMNS": str(columns)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    shown(name, command, done.stdout.splitlines()[-last:], columns)


def shown(name: str, command: str, lines: list[str], columns: int = 104) -> None:
    """Draws lines, with colours, as a terminal shows them."""
    console = Console(record=True, width=columns, file=io.StringIO())
    console.print(Text(f"$ {command}", style="bold"), soft_wrap=False)
    for line in lines:
        console.print(Text.from_ansi(line))
    svg = console.export_svg(title="", theme=MONOKAI, code_format=_SVG, unique_id=f"t-{name}")
    PICTURES.joinpath(f"{name}.svg").write_text(svg)


def photograph(page: Path, name: str, title: str) -> None:
    """A screen of a page, from this heading on."""
    sys.path.insert(0, str(ROOT))
    from tests.kit.chromium import browser

    with browser() as one:
        one.open(page.resolve(), width=1000, dark=False)
        one.value(
            "[...document.querySelectorAll('h2')]"
            f".find(h => h.innerText == {title!r}).scrollIntoView()"
        )
        shot = one.call("Page.captureScreenshot", format="png")
        PICTURES.joinpath(f"{name}.png").write_bytes(base64.b64decode(shot["data"]))


def main(folder: Path) -> None:
    PICTURES.mkdir(exist_ok=True)
    train = "ttf train --pairs data/pairs.npz --bank data/bank.npz --epochs 4 --out runs/first"
    printed = folder.joinpath("first.txt").read_text().splitlines()
    shown("first-run", train, [line for line in printed if not line.startswith("train ")][-20:])
    terminal("runs", "ttf runs list", folder, 12)
    terminal("guard", 'ttf guard -- python -c "import os; os.abort()"', folder, 16)
    photograph(
        folder / "runs" / "first" / "report.html", "report", "Validation against the full bank"
    )


if __name__ == "__main__":
    main(Path(sys.argv[1]))
