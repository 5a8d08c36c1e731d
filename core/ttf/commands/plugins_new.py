"""`ttf plugins new`: a package for a plugin of your own, with its checks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from ttf.commands import _options as options
from ttf.text.shell import quoted
from ttf.text.terminal import next_command, say, show_result

if TYPE_CHECKING:
    from ttf.contracts import Kind
    from ttf.tools.plugins.scaffold.naming import Naming


def _kinds() -> list[str]:
    from ttf.tools.plugins.scaffold import package

    return package.kinds()


@click.command(
    "new",
    short_help="Create a package for your own plugin.",
    epilog="""\b
Examples:
  ttf plugins new miner my-index
  ttf plugins new storage parquet --out ~/src/ttf-storage-parquet
  ttf plugins new tower conv --json""",
)
@click.argument("kind", type=options.Suggesting("kind", _kinds), metavar="KIND")
@click.argument("name", metavar="NAME")
@options.path("--out", metavar="DIR", help="New folder of the package. [default: ttf-KIND-NAME]")
@options.as_json
def command(kind: str, name: str, out: Path | None, as_json: bool) -> None:
    """Create a package with a plugin of the kind KIND and the name NAME.

    It contains a small working implementation, which you replace by your own, and its tests
    (ttf.testing), README, types and CI. KIND is tower, miner, storage, device, encoder, exporter or
    observer. NAME has lower-case letters and digits, with dashes between words. The name of a
    storage is the ending of its files.

    With --json: {"kind", "name", "distribution", "module", "path", "files"}.
    """
    from ttf.tools.plugins.scaffold import naming as names, package

    naming = names.checked_naming(cast("Kind", kind), name)
    folder = Path(naming.distribution) if out is None else out
    files = package.rendered(naming)
    package.write(files, folder)
    document = {
        "kind": kind,
        "name": name,
        "distribution": naming.distribution,
        "module": naming.module,
        "path": folder,
        "files": list(files),
    }
    lines = [
        f"{folder}: the distribution {naming.distribution}, {len(files)} files",
        *(f"  {file}" for file in files),
        "README.md explains what to change.",
    ]
    show_result(document, "\n".join(lines), as_json)
    if library := naming.library():
        say(
            f"note: {library} is also a library here: call no module of the package {library}.py, "
            "which would import itself in its place."
        )
    for line in _next_lines(naming, folder):
        next_command(line)


def _next_lines(naming: Naming, folder: Path) -> list[str]:
    kind, name = naming.kind, naming.name
    checked = [] if kind == "observer" else [f"ttf plugins check {naming.reference}"]
    used = [f"ttf train --{kind} {name}"]
    if kind == "observer":
        used = [f"ttf train --set 'observers=[\"{name}\"]'"]
    elif kind == "encoder":
        used = [f"ttf data encode texts.csv --encoder {name} --out data"]
    elif kind == "exporter":
        used = ["ttf train --out demo", f"ttf export demo {name} --out exported"]
    elif kind == "storage":
        used = [
            "ttf data synth --out demo",
            f"ttf data convert demo/bank.npz demo/bank.{name}",
            f"ttf train --pairs demo/pairs.npz --bank demo/bank.{name}",
        ]
    return [
        f"cd {quoted(folder)}",
        'python -m pip install "pip>=25.1"',
        "python -m pip install -e . --group dev",
        "python -m pytest",
        *checked,
        *used,
    ]
