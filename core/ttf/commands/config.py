"""`ttf config`: what a run would use, what a key means, files of other programs, a schema."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ttf.commands import _configuration as configuration, _options as options
from ttf.errors import ConfigError
from ttf.text.shell import quoted
from ttf.text.terminal import emit_json, next_command, say, show

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ttf.config.convert import Converted
    from ttf.config.reference import Section
    from ttf.config.resolve import Resolved

_HEAD: Final = (
    "Every value of a run with this configuration. A comment shows where it comes from.",
)
_EPILOG = """\b
Examples:
  ttf config show                          every key with its default
  ttf config show run.toml --lr 3e-4       what that run would use, and where each value is from
  ttf config explain train.lr              one key: what it does, takes, and its default
  ttf config explain miner                 a section
  ttf config convert theirs.yaml           with the keys of ttf
  ttf config schema > ttf.schema.json      for editors that check TOML"""


@click.group(epilog=_EPILOG)
def command() -> None:
    """The configuration: what a run would use, what a key means."""


@command.command(
    "show",
    epilog="""\b
Examples:
  ttf config show                                   every key with its default
  ttf config show run.toml --lr 3e-4                a file with one change
  ttf config show runs/run-001                      the configuration of a run
  ttf config show --tower mlp > run.toml            a file to start with

\b
"auto" gets its value after the run has read the data: see ttf train --plan, or OUT/run.toml.""",
)
@click.argument("run_toml", type=options.PATH, required=False, metavar="[RUN.toml|RUN_DIR]")
@configuration.flags
@options.as_json
def show_(
    run_toml: Path | None, sets: tuple[str, ...], safe: bool, as_json: bool, **flags: Any
) -> None:
    """Every value of a configuration, and where it comes from; as TOML.

    Takes the options of ttf train, checks everything, and starts nothing.
    """
    from ttf.config.resolve import load_run_toml, resolve, with_options
    from ttf.config.toml import dump

    given = configuration.given(flags)
    written = run_toml / "run.toml" if run_toml is not None and run_toml.is_dir() else None
    if written is not None and not (sets or given or safe):
        resolved = load_run_toml(written)
    else:
        resolved = with_options(resolve(written or run_toml, sets, given, safe=safe))
    for note in resolved.notes:
        say(f"note: {note}")
    if as_json:
        emit_json({"values": _values(resolved)})
    else:
        show(dump(resolved, head=_HEAD).rstrip())
    next_command("ttf config explain KEY")


def _values(resolved: Resolved) -> dict[str, Any]:
    from ttf.config.resolve import flat

    return {
        key: {"value": value, "origin": resolved.origins.get(key, "default")}
        for key, value in flat(resolved.config).items()
    }


def _complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from click.shell_completion import CompletionItem

    from ttf.config.reference import sections

    found = [section.path for section in sections() if section.path]
    found += [key.path for section in sections() for key in section.keys]
    return [CompletionItem(name) for name in found if name.startswith(incomplete)]


@command.command(
    "explain",
    epilog="""\b
Examples:
  ttf config explain                    all sections
  ttf config explain negatives          the keys of one
  ttf config explain negatives.min_yield
  ttf config explain min_yield          the section is found
  ttf config explain --batch-size       also by the option of ttf train
  ttf config explain tower.gru          the options of a plugin""",
    context_settings={"ignore_unknown_options": True},
)
@click.argument("what", shell_complete=_complete, required=False, metavar="[KEY|SECTION]")
@options.as_json
def explain(what: str | None, as_json: bool) -> None:
    """What a key does, what it takes, its unit and its default."""
    from ttf.config import reference

    if what is None:
        _list(reference.sections(), as_json)
    else:
        print_sections(reference.find(what), as_json)


def _list(sections: tuple[Section, ...], as_json: bool) -> None:
    from ttf.text.tables import table

    if as_json:
        emit_json({"sections": sections})
        return
    rows = [
        (section.path or "(no section)", section.description.partition("\n")[0])
        for section in sections
    ]
    show(table(rows))
    next_command("ttf config explain train")


def print_sections(sections: list[Section], as_json: bool) -> None:
    """Keys with all that is known about them."""
    from ttf.config.explain_text import explained

    if as_json:
        emit_json({"sections": sections})
        return
    import shutil

    on_terminal = sys.stdout is not None and sys.stdout.isatty()
    width = shutil.get_terminal_size().columns - 1 if on_terminal else 99
    show("\n".join(explained(sections, width)))


@command.command(
    "schema",
    epilog="""\b
Examples:
  ttf config schema > ttf.schema.json

\b
An editor with a TOML language server then completes keys and underlines mistakes, if the first line
of run.toml is:
  #:schema ./ttf.schema.json""",
)
def schema() -> None:
    """The JSON Schema of a configuration file, with the plugins that are installed here."""
    from ttf.config.json_schema import json_schema

    emit_json(json_schema())


@command.command(
    "convert",
    epilog="""\b
Examples:
  ttf config convert config.yaml                     print it as a run.toml
  ttf config convert config.yaml --out run.toml

\b
Exit codes: 0 everything is translated, or needs no counterpart; 2 something could not be translated,
or a key does not take its value: the file is written all the same, and both are listed.""",
)
@click.argument("file", type=options.PATH)
@options.path("--out", metavar="FILE", help="File to write. [default: standard output]")
@options.overwrite
@options.as_json
def convert(file: Path, out: Path | None, overwrite: bool, as_json: bool) -> None:
    """Write a YAML or TOML file with other names (bs, accum_steps, hidden_dim) as a run.toml.

    What has no counterpart is listed with the reason, and stays in the file as a comment.
    """
    from ttf.commands._data_common import check_outputs
    from ttf.config.convert import convert as converted_from

    check_outputs([str(out)] if out else [], overwrite)
    folder = Path.cwd() if out is None else out.absolute().parent
    converted = converted_from(file, folder)
    if out is not None:
        from ttf.rundir.durable import write_atomically

        write_atomically(out, converted.text().encode())
    for left in converted.needless:
        say(f"note: not needed: {left}")
    document = {
        "written": None if out is None else str(out),
        "values": converted.tree(),
        "not_needed": [str(left) for left in converted.needless],
        "not_translated": [str(left) for left in converted.missing],
    }
    if out is None and not as_json:
        show(converted.text().rstrip())
    if converted.missing or converted.problems:
        raise _incomplete(converted, document)
    if as_json:
        emit_json(document)
    if out is not None:
        next_command(f"ttf train {quoted(out)} --plan")


def _incomplete(converted: Converted, document: dict[str, Any]) -> ConfigError:
    problems = [f"not translated: {left}" for left in converted.missing]
    error = ConfigError(
        "Not everything could be translated:" if problems else "Some values do not fit their keys:",
        problems=[*problems, *converted.problems],
        hint="All else is translated. To see what a key takes: ttf config explain KEY",
    )
    error.details = document
    return error
