"""What the commands share: where results and messages go, and option types with good errors."""

from __future__ import annotations

import contextlib
import math
import signal
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar, cast

import click

from ttf.cli import color
from ttf.text.tables import table

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ttf.contracts import Kind

_OF_A_SIGNAL: Final = 128
"""What a shell adds to its number."""

F = TypeVar("F", bound=Callable[..., Any])


def say(text: str = "") -> None:
    """A message for the person at the terminal, on standard error."""
    click.echo(text, err=True, color=color())


def show(text: str = "") -> None:
    """A line of the result, on standard output."""
    _out(text)


def _out(text: str) -> None:
    from ttf.errors import StorageError

    hint = "Send standard output to a place that takes it."
    if sys.stdout is None:
        raise StorageError("Standard output is closed: the result went nowhere.", hint=hint)
    try:
        click.echo(text, color=color())
    except BrokenPipeError:
        raise
    except OSError as error:
        _give_up_stdout()
        raise StorageError(
            f"The result could not be written to standard output: {error.strerror}.", hint=hint
        ) from error


def _give_up_stdout() -> None:
    """What is said about the failure, and Python's own flush at exit, must not fail there again."""
    import os

    null = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(null, sys.stdout.fileno())
    finally:
        os.close(null)


def next_command(text: str) -> None:
    """The command that is useful after this one, on standard error."""
    say(f"Next: {click.style(text, bold=True)}")


def quoted(value: str | Path) -> str:
    """A path or name as it must be typed in a shell."""
    import shlex

    return shlex.quote(str(value))


def emit_json(document: Any) -> None:
    """The one JSON document of a command, on standard output."""
    import json

    _out(json.dumps(plain(document), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """JSON's own types from dataclasses, models, paths, numpy and torch values; NaN is null."""
    import dataclasses
    import enum

    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(plain(k)): plain(v) for k, v in value.items()}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Path):
        return str(value)
    if hasattr(value, "tolist"):  # numpy and torch, scalars and arrays alike
        return plain(value.tolist())
    if hasattr(value, "model_dump"):
        return plain(value.model_dump())
    if isinstance(value, Iterable):
        return [plain(item) for item in value]
    raise TypeError(f"{type(value).__name__} has no JSON form")


def report_run(summary: Mapping[str, Any], as_json: bool) -> None:
    """The end of a run: its summary on standard output, and what to do next."""
    if as_json:
        emit_json(summary)
    else:
        show(table(list(_summary_rows(summary))))
    run_dir = quoted(summary["run_dir"])
    next_command(f"ttf eval {run_dir}")
    next_command(f"ttf search {run_dir} --queries FILE -k 10")


def resume_here(run_dir: Path, as_json: bool, in_process: bool) -> None:
    """`ttf resume` and `ttf train --resume`."""
    from ttf import api
    from ttf.rundir.run_folder import RunFolder

    folder = RunFolder.existing(run_dir)
    summary = api.resume_run(
        folder, json=as_json, supervised=not in_process, own_process=not in_process
    )
    report_run(summary, as_json)


_LABELS = {
    "status": ("status", ""),
    "steps": ("optimizer steps", ""),
    "epochs": ("epochs", ""),
    "samples": ("samples", ""),
    "wall_s": ("time", "s"),
    "samples_per_s": ("speed", "samples/s"),
    "peak_anon_mb": ("peak memory", "MB (anonymous + shared)"),
}


def _summary_rows(summary: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    after = summary.get("metrics") or {}
    before = summary.get("metrics_initial") or {}
    for name, (label, unit) in _LABELS.items():
        if summary.get(name) is not None:
            yield label, f"{number(summary[name])} {unit}".rstrip()
    for name, value in after.items():
        start = f"  (before training {before[name]:.4f})" if name in before else ""
        yield name, f"{value:.4f}{start}"
    from ttf.text.progress.ending import what_happened

    yield from what_happened(summary)
    for name, label in (("miner", "miner"), ("weights_sha256", "weights"), ("run_dir", "folder")):
        if summary.get(name):
            yield label, str(summary[name])


def number(value: Any) -> str:
    """Four significant digits of a float; everything else as it is."""
    if not isinstance(value, float):
        return str(value)
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def json_option(command: F) -> F:
    """`--json`; the command receives it as `as_json`."""
    text = "One JSON document on standard output, errors included, and nothing else there."
    return click.option("--json", "as_json", is_flag=True, help=text)(command)


def set_option(command: F) -> F:
    """`--set key.path=value`, repeatable; the command receives the tuple `sets`."""
    text = "Set any key of the configuration, e.g. miner.k=100. The value is read as TOML."
    option = click.option("--set", "sets", multiple=True, metavar="KEY.PATH=VALUE", help=text)
    return option(command)


class Suggesting(click.ParamType[str]):
    """A choice whose error names the closest value; `values` is asked only when it is needed."""

    def __init__(self, what: str, values: Callable[[], Iterable[str]]) -> None:
        self.name = what
        self._values = values

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        known = list(self._values())
        if value in known:
            return cast("str", value)
        from ttf.errors import suggestion

        self.fail(f"no {self.name} named {value!r}.{suggestion(str(value), known)}", param, ctx)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        from click.shell_completion import CompletionItem

        return [CompletionItem(v) for v in self._values() if v.startswith(incomplete)]


def plugin_name(kind: Kind, *also: str) -> Suggesting:
    """The installed names of a kind (from metadata, nothing is imported), and `also`."""

    def values() -> list[str]:
        from ttf.host import installed

        return [*also, *installed.choices(kind)]

    return _PluginName(kind, values)


class _PluginName(Suggesting):
    """One that is there and cannot be had is told why: claimed twice, made for another plugin API,
    switched off."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ttf.errors import TtfError, UnknownName
        from ttf.host import installed

        if value in self._values():
            return cast("str", value)
        try:
            installed.find(cast("Kind", self.name), str(value))
        except UnknownName:
            return super().convert(value, param, ctx)
        except TtfError as error:
            self.fail(f"{error} {error.hint}", param, ctx)
        return str(value)


def choice(what: str, *values: str) -> Suggesting:
    """One of `values`; a misspelt one is told the closest."""
    return Suggesting(what, lambda: values)


class IntList(click.ParamType[tuple[int, ...]]):
    """Positive numbers with commas between them, as in 1,10,100."""

    name = "N,N,..."

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, ...]:
        if isinstance(value, tuple):
            return value
        try:
            numbers = tuple(int(part) for part in str(value).split(","))
        except ValueError:
            self.fail(f"{value!r} is not a list of numbers like 1,10,100.", param, ctx)
        if min(numbers) < 1:
            self.fail(f"{value!r}: every number must be 1 or more.", param, ctx)
        return tuple(sorted(set(numbers)))


INT_LIST = IntList()
POSITIVE = click.IntRange(min=1)
NATURAL = click.IntRange(min=0)
PATH = click.Path(path_type=Path)


@contextlib.contextmanager
def ended_as_asked() -> Iterator[None]:
    """SIGTERM and a terminal that is closed end us by an exception, so that no process and no folder
    is left behind."""

    def leave(signum: int, frame: Any) -> NoReturn:
        raise SystemExit(_OF_A_SIGNAL + signum)

    wanted = [s for s in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(s) != signal.SIG_IGN]
    before = {signum: signal.signal(signum, leave) for signum in wanted}
    try:
        yield
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)
