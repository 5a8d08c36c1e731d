"""`ttf init`: a run.toml for what lies in a folder."""

from __future__ import annotations

from pathlib import Path

import click

from ttf.commands import _options as options
from ttf.errors import BadData, ConfigError, DataMissing
from ttf.text.shell import quoted
from ttf.text.terminal import next_command, say, show_result

_FILE = "run.toml"


@click.command(
    epilog="""\b
Examples:
  ttf init                 for the current folder
  ttf init my-data

\b
Vectors become a run.toml. For texts, the output names the command that encodes them first."""
)
@click.argument("folder", type=options.PATH, default=".", metavar="[DIR]")
@options.overwrite
@options.as_json
def command(folder: Path, overwrite: bool, as_json: bool) -> None:
    """Write a commented run.toml for what lies in DIR. Asks nothing.

    Looks for pairs and bank (.npz, .zarr, .parquet, folders of .npy, ...), texts (CSV, JSONL, Parquet,
    BEIR) and a model, in DIR and one level below. The file that is written was read again, and the data were opened.

    With --json: {"run_toml": path or null, "found", "next"}.
    """
    from ttf.machine.memory.reading import limited_reading
    from ttf.tools.init.look import look

    if not folder.is_dir():
        raise DataMissing(f"{folder} is no folder.", hint="Give the folder with your data.")
    target = folder / _FILE
    if target.exists() and not overwrite:
        raise ConfigError(
            f"{target} already exists.", hint=f"Train with it: ttf train {quoted(target)}"
        )
    with limited_reading(folder):
        found = look(folder)
    if found.training is not None:
        _write(target, found.training, folder)
        following = f"ttf train {quoted(target)}"
        document = {"run_toml": target, "found": found.training.facts, "next": following}
        show_result(document, f"{target}: {found.training.facts}", as_json)
    elif found.texts is not None:
        following = found.texts.command
        told = f"{found.texts.path} has texts, which are encoded first"
        document = {"run_toml": None, "found": told, "next": following}
        show_result(document, f"{told}; then run ttf init again.", as_json)
        if "--encoder hash" in following:
            say(
                "note: The encoder hash knows words, but no meaning. For a better one, put the folder of "
                "a model of sentence-transformers there, or see: ttf data encode --help"
            )
    elif found.problems:
        raise BadData(
            "\n".join(found.problems), hint="ttf data inspect FILE shows what a file has."
        )
    else:
        raise DataMissing(
            f"{folder} has no pairs of vectors (.npz, .zarr, .parquet, folders of .npy, ...) and no texts "
            "(.csv, .tsv, .jsonl, .parquet, BEIR).",
            hint="To see how it works without data: ttf train",
        )
    next_command(following)


def _write(target: Path, training: object, folder: Path) -> None:
    from ttf.config.resolve import resolve
    from ttf.rundir.outputs import write_output
    from ttf.tools.init.look import Training
    from ttf.tools.init.run_toml import text

    assert isinstance(training, Training)
    write_output(target, text(training, folder).encode())
    resolve(target)
