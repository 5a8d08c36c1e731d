"""What the `ttf data` commands share: their options, progress and the check of outputs."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands._common import choice, plugin_name, say

if TYPE_CHECKING:
    from ttf.contracts import Progress

DTYPE = choice("dtype", "f32", "f16", "bf16", "float32", "float16", "bfloat16")


def storage_option(command: Any) -> Any:
    """`--storage`, as everywhere."""
    return click.option(
        "--storage",
        type=plugin_name("storage", "auto"),
        default="auto",
        show_default=True,
        metavar="NAME",
        help="Reads the file; auto: by its ending.",
    )(command)


def overwrite_option(command: Any) -> Any:
    return click.option(
        "--overwrite", is_flag=True, help="Replace an output that is already there."
    )(command)


def check_outputs(paths: list[str], overwrite: bool) -> None:
    """ConfigError rather than an overwritten file."""
    from ttf.errors import ConfigError

    there = [path for path in paths if "://" not in path and Path(path).exists()]
    if there and not overwrite:
        raise ConfigError(
            f"{', '.join(there)}: already there.", hint="Add --overwrite, or name another output."
        )


def progress_lines(what: str) -> Progress:
    """Says how far a long command is, every few seconds; nothing for a short one."""
    began = last = time.monotonic()

    def report(done: int, total: int) -> None:
        nonlocal last
        now = time.monotonic()
        if now - last < 2.0:
            return
        last = now
        left = (now - began) * (total - done) / max(done, 1)
        text = f"{what}: {100 * done / max(total, 1):.0f} %, {left:.0f} s left"
        if sys.stderr.isatty():
            click.echo(f"\r{text}    ", err=True, nl=done == total)
        else:
            say(text)

    return report
