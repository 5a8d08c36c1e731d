"""`ttf data`: make vectors of texts; look at, rewrite, make, cut and check vector files."""

from __future__ import annotations

import click

from ttf.commands.data_encode import encode_command
from ttf.commands.data_import import import_command
from ttf.commands.data_inspect import inspect_command, verify_command
from ttf.commands.data_make import synth_command
from ttf.commands.data_rewrite import convert_command, subset_command

_EPILOG = """\b
Examples:
  ttf data encode texts.csv --encoder hash --out data
  ttf data inspect pairs.npz                      shows its content and its problems
  ttf data convert packed.npz plain.npz           uncompressed, so that it can be mapped
  ttf data import docs.faiss --out data/docs      vectors from other containers
  ttf data synth --out data/demo                  a data set for tests
  ttf data subset pairs.npz small.npz --train 1000
  ttf data verify bank.zarr                       reads the whole file once"""


@click.group(
    epilog=_EPILOG,
    commands=[
        inspect_command,
        verify_command,
        convert_command,
        import_command,
        encode_command,
        synth_command,
        subset_command,
    ],
)
def command() -> None:
    """Encode texts; inspect, convert, import, create, cut and check vector files."""
