"""Options shared by several commands, and option types with good error messages."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

import click

from ttf.text.numbers import parse_bytes, parse_duration

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

    from ttf.contracts import Kind

F = TypeVar("F", bound=Callable[..., Any])


class Suggesting(click.ParamType[str]):
    """A choice whose error names the closest value. Calls `values` only when needed."""

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


class _PluginName(Suggesting):
    """Explains why an installed plugin cannot be used: its name is claimed twice, it is made for
    another plugin API, or it is switched off."""

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


class Parsed(click.ParamType[Any]):
    """Converts with `parse`. The message of its ValueError becomes the error of the option."""

    def __init__(self, name: str, parse: Callable[[str], Any]) -> None:
        self.name = name
        self._parse = parse

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return self._parse(str(value).strip())
        except ValueError as error:
            self.fail(str(error), param, ctx)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return self.name


def _int_list(text: str) -> tuple[int, ...]:
    """Parses positive numbers separated by commas."""
    try:
        numbers = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise ValueError(f"{text!r} is not a list of numbers like 1,10,100.") from None
    if min(numbers) < 1:
        raise ValueError(f"{text!r}: every number must be 1 or more.")
    return tuple(sorted(set(numbers)))


def parsed_size(text: str, example: str) -> int:
    try:
        return parse_bytes(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a size; write {example}.") from None


class _DataPath(click.Path):
    """A path, or an address such as s3://..., which a Path would change."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if isinstance(value, str) and "://" in value:
            return value
        return super().convert(value, param, ctx)


INT_LIST = Parsed("N,N,...", _int_list)
POSITIVE = click.IntRange(min=1)
NATURAL = click.IntRange(min=0)
PATH = click.Path(path_type=Path)
_DATA = _DataPath(path_type=Path)


# --- options that are declared once ----------------------------------------------------------------


def duration(least_s: float = 0.001) -> Parsed:
    """A time in seconds, or with a unit: 6, 6s, 10m, 2h."""

    def parse(text: str) -> float:
        seconds = parse_duration(text)
        if seconds < least_s:
            raise ValueError(f"{text!r} is too short: at least {least_s:g} s.")
        return seconds

    return Parsed("TIME", parse)


def choice(what: str, *values: str) -> Suggesting:
    return Suggesting(what, lambda: values)


def one_of(flag: str, *values: str, **more: Any) -> Callable[[F], F]:
    more.setdefault("metavar", "|".join(values))
    return click.option(flag, type=choice(flag.lstrip("-"), *values), **more)


def count(*names: str, **more: Any) -> Callable[[F], F]:
    """An integer option; at least 1 if no other type is given."""
    more.setdefault("type", POSITIVE)
    more.setdefault("metavar", "N")
    return click.option(*names, **more)


def path(*names: str, **more: Any) -> Callable[[F], F]:
    return click.option(*names, type=PATH, **more)


def data(*names: str, **more: Any) -> Callable[[F], F]:
    """A file or folder with vectors, or an address; the value is a Path or a str."""
    return click.option(*names, type=_DATA, **more)


def dtype(**more: Any) -> Callable[[F], F]:
    values = ("f32", "f16", "bf16", "float32", "float16", "bfloat16")
    return one_of("--dtype", *values, metavar="f32|f16|bf16", **more)


def plugin_name(kind: Kind) -> click.ParamType[str]:
    """An installed plugin of this kind, as an argument."""

    def values() -> list[str]:
        from ttf.host import installed

        return installed.choices(kind)

    return _PluginName(kind, values)


def plugin(flag: str, kind: Kind, *also: str, **more: Any) -> Callable[[F], F]:
    """An installed plugin name of this kind (from metadata, without imports), or one of `also`."""

    def values() -> list[str]:
        from ttf.host import installed

        return [*also, *installed.choices(kind)]

    return click.option(flag, type=_PluginName(kind, values), metavar="NAME", **more)


storage = plugin(
    "--storage",
    "storage",
    "auto",
    default="auto",
    help="Storage plugin that reads the file; auto: by the file ending.",
)
overwrite = click.option("--overwrite", is_flag=True, help="Replace an output that already exists.")
as_json = click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write one JSON document to standard output and nothing else; errors are JSON too.",
)
sets = click.option(
    "--set",
    "sets",
    multiple=True,
    metavar="KEY.PATH=VALUE",
    help="Set any key of the configuration, e.g. miner.k=100. The value is TOML.",
)
in_process = click.option(
    "--in-process",
    is_flag=True,
    help="Train in this process, for a debugger; then a crash ends the run.",
)
isolation = one_of(
    "--isolation",
    "process",
    "none",
    help=(
        "Where the miner runs; process: in its own process; none: in this one. [default: process]"
    ),
)
allow_remote = click.option(
    "--allow-remote",
    is_flag=True,
    help="Also open data at network addresses that only the files of this folder name.",
)
_SCALE = (
    count(
        "--nodes",
        default=1,
        help="Machines that train together. Start the same command on each of them.",
    ),
    count(
        "--ranks",
        default=1,
        help="Training processes of this machine; may differ from machine to machine.",
    ),
    click.option(
        "--rendezvous",
        metavar="HOST:PORT",
        help="Where node 0 listens for the others: an address of it that they can reach, and a free "
        "port. The machine that has this address is node 0.",
    ),
    count(
        "--node",
        type=NATURAL,
        help="Which node this is, from 0. [default: by the address of --rendezvous]",
    ),
)
resume_study = path("--resume", metavar="DIR", help="Continue this study.")
hang_timeout = click.option(
    "--hang-timeout",
    "hang_timeout_s",
    type=duration(),
    help="A run hangs if it shows no sign of life for this time, e.g. 60s.",
)


def scale(command: F) -> F:
    """Adds the options for several machines and processes; see `given_scale`."""
    for option in reversed(_SCALE):
        command = option(command)
    return command


def given_scale(options: dict[str, Any]) -> tuple[int, int, str, int | None]:
    """Takes them out of a command's options: nodes, ranks, rendezvous, node."""
    nodes, ranks, rendezvous, node = map(options.pop, ("nodes", "ranks", "rendezvous", "node"))
    return nodes, ranks, rendezvous or "", node
