"""`ttf report`: the page of a run, and a zip of it to send to others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.errors import ConfigError, DataMissing
from ttf.rundir.documents import DECISION
from ttf.text.numbers import size
from ttf.text.shell import quoted
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.report.bundle import Bundle

_LARGE_BYTES = 20 << 20  # larger metrics take noticeable time to read


@click.command(
    epilog="""\b
Examples:
  ttf report runs/run-001
  ttf report runs/run-001 --out /tmp/report.html
  ttf report runs/run-001 --bundle for-support.zip
  ttf report runs/run-001 --bundle for-support.zip --attach doctor.json
  ttf report guard-001 --json | jq -r .path
  ttf report runs/ab-001                        a study of ttf ab, also while it runs

\b
The page is one file and needs no internet. It also works for a run that is still running, or that
ended without a record. The bundle contains the page, the incidents, the configuration, and
scripts that try to reproduce the incidents, but no data. Home folders, user and host names,
addresses and tokens are removed; the README.txt of the bundle counts them."""
)
@click.argument("run_dir", type=options.PATH, metavar="RUN_DIR")
@options.path("--out", metavar="FILE", help="File for the page. [default: RUN_DIR/report.html]")
@options.path(
    "--bundle", metavar="FILE.zip", help="Also write a zip file that you can send to other people."
)
@options.path(
    "--attach",
    metavar="FILE",
    multiple=True,
    help="A text file that also goes into the bundle, as attached/NAME; may be given several times.",
)
@options.overwrite
@options.as_json
def command(
    run_dir: Path,
    out: Path | None,
    bundle: Path | None,
    attach: tuple[Path, ...],
    overwrite: bool,
    as_json: bool,
) -> None:
    """Write one HTML page about a run, a study of ttf ab, a decision of ttf train --else, or a
    command under ttf guard."""
    from ttf.tools.report import make

    make.check(run_dir, {"--out": out, "--bundle": bundle}, overwrite=overwrite)
    _check_attached(attach, bundle)
    _say_if_large(run_dir)
    page = make.write(run_dir, out)
    packed = None
    if bundle is not None:
        if not as_json:
            say(f"Packing {bundle} ...")
        from ttf.tools.report.bundle import write_bundle

        packed = write_bundle(run_dir, bundle, attach)
    page_bytes = page.stat().st_size
    if as_json:
        emit_json(_document(page, page_bytes, packed))
    else:
        show(f"{page}  ({size(page_bytes)})")
        if packed is not None:
            show(f"{packed.path}  ({size(packed.bytes)}, {len(packed.files)} files)")
            told = ", ".join(f"{kind} {count}" for kind, count in sorted(packed.redacted.items()))
            say(f"Removed: {told or 'nothing'}.")
            if packed.secrets:
                names = ", ".join(
                    f"{name} {count}" for name, count in sorted(packed.secrets.items())
                )
                say(f"Secrets that were replaced, and in how many places: {names}.")
            say("Look through it before you send it: a list of patterns cannot know every secret.")
    if packed is None:
        after = f"ttf report {quoted(run_dir)} --bundle bundle.zip"
    else:
        after = f"unzip -p {quoted(packed.path)} README.txt"
    decision = (run_dir / DECISION).is_file()
    if not as_json and not decision and not make.is_study(run_dir):
        next_command(after)


def _check_attached(attach: tuple[Path, ...], bundle: Path | None) -> None:
    if attach and bundle is None:
        raise ConfigError(
            "--attach puts files into a bundle, but none is written.", hint="Add --bundle FILE.zip."
        )
    for path in attach:
        if not path.is_file():
            raise DataMissing(
                f"--attach {path}: there is no such file.",
                hint="Check the name: a relative path starts at the current folder.",
            )
    names = [path.name for path in attach]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise ConfigError(
            f"--attach: two files have the name {twice}, and one would replace the other.",
            hint="Copy one of them to another name.",
        )


def _say_if_large(run_dir: Path) -> None:
    files = [run_dir / name for name in ("metrics.jsonl", "memory.jsonl")]
    count = sum(path.stat().st_size for path in files if path.is_file())
    if count > _LARGE_BYTES:
        say(f"Reading {size(count)} of metrics ...")


def _document(page: Path, size: int, packed: Bundle | None) -> dict[str, Any]:
    return {
        "path": str(page.absolute()),
        "bytes": size,
        "bundle": None if packed is None else str(packed.path.absolute()),
        "bundle_bytes": None if packed is None else packed.bytes,
        "redacted": 0 if packed is None else sum(packed.redacted.values()),
        "redacted_kinds": {} if packed is None else dict(packed.redacted),
        "secrets": {} if packed is None else dict(packed.secrets),
    }
