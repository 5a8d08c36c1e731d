"""Plugin options: a frozen dataclass declares them, this module validates and describes them.

@dataclass(frozen=True, kw_only=True)
class Options:
    hidden: int = option(256, "width of the hidden state", ge=1)
    pool: Literal["last", "mean"] = option("last", "how steps become one vector")
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast, get_args, get_type_hints

from ttf.errors import ConfigError, suggestion

if TYPE_CHECKING:
    import pydantic


def option(
    default: Any,
    help: str,
    *,
    unit: str = "",
    ge: float | None = None,
    gt: float | None = None,
    le: float | None = None,
    lt: float | None = None,
    was: str = "",
    deprecated: str = "",
) -> Any:
    """A dataclass field with a default, a line of help, the unit of a number, and bounds.

    `was` is an earlier name that is still read, with a note; `deprecated` says what to use instead
    of this option, to users who set it.
    """
    bounds = {k: v for k, v in {"ge": ge, "gt": gt, "le": le, "lt": lt}.items() if v is not None}
    told = {"help": help, "unit": unit, "bounds": bounds, "was": was, "deprecated": deprecated}
    return dataclasses.field(default=default, metadata=told)


@dataclass(frozen=True, kw_only=True)
class NoOptions:
    """For plugins without options."""


@dataclass(frozen=True, kw_only=True)
class OptionInfo:
    name: str
    type: str
    default: Any
    help: str
    bounds: Mapping[str, float]
    unit: str = ""


def describe(options_type: type[Any]) -> list[OptionInfo]:
    # In the order of declaration, for `ttf plugins show`.
    hints = get_type_hints(options_type)
    return [
        OptionInfo(
            name=f.name,
            type=_type_name(hints[f.name]),
            default=f.default,
            help=f.metadata.get("help", ""),
            bounds=f.metadata.get("bounds", {}),
            unit=f.metadata.get("unit", ""),
        )
        for f in dataclasses.fields(options_type)
    ]


def renamed(options_type: type[Any], values: Mapping[str, Any]) -> dict[str, str]:
    """Earlier names in `values`, with their current names; a name given under both is left out."""
    found = {f.metadata.get("was"): f.name for f in dataclasses.fields(options_type)}
    return {key: found[key] for key in values if key in found and found[key] not in values}


def deprecations(options_type: type[Any], values: Mapping[str, Any], where: str) -> list[str]:
    """Messages for a user who sets deprecated options."""
    told = [
        f"{where}.{old} is now called {where}.{new}. A later version will no longer accept the "
        "old name."
        for old, new in renamed(options_type, values).items()
    ]
    for field in dataclasses.fields(options_type):
        instead = field.metadata.get("deprecated")
        if instead and (field.name in values or field.metadata.get("was") in values):
            told.append(f"{where}.{field.name} is deprecated: {instead}.")
    return told


def model(options_type: type[Any]) -> type[pydantic.BaseModel]:
    """The pydantic model that checks these options; its JSON Schema describes them."""
    return _model(cast("Hashable", options_type))


@functools.cache
def _model(options_type: Any) -> type[pydantic.BaseModel]:
    # Once per plugin: making a model takes longer than all other checks of a configuration.
    import pydantic

    hints = get_type_hints(options_type)
    spec: dict[str, Any] = {}
    for field in dataclasses.fields(options_type):
        told = field.metadata
        spec[field.name] = (
            hints[field.name],
            pydantic.Field(
                default=field.default,
                description=told.get("help", ""),
                json_schema_extra={"unit": told["unit"]} if told.get("unit") else None,
                **told.get("bounds", {}),
            ),
        )
    found: type[pydantic.BaseModel] = pydantic.create_model("Options", **spec)
    return found


def validate(
    options_type: type[Any], values: Mapping[str, Any], where: str, beside: Sequence[str] = ()
) -> tuple[Any | None, list[str]]:
    """Returns an instance and no problems, or None and every problem, each naming `where.key`.

    `beside`: keys of the same table that are no options; one of them may have been meant."""
    import pydantic

    fields = {f.name: f for f in dataclasses.fields(options_type)}
    problems = [
        f"{where}.{key}: no such option.{suggestion(key, [*beside, *fields])}"
        for key in values
        if key not in fields
    ]
    hints = get_type_hints(options_type)
    given = {k: _or_none(v, hints[k]) for k, v in values.items() if k in fields}
    try:
        checked = model(options_type)(**given)
    except pydantic.ValidationError as error:
        return None, problems + [_problem_text(e, where) for e in error.errors()]
    if problems:
        return None, problems
    return options_type(**{name: getattr(checked, name) for name in fields}), []


def _or_none(value: Any, hint: Any) -> Any:
    # TOML has no null: the word none means None, unless text is allowed.
    types = get_args(hint)
    return None if value == "none" and type(None) in types and str not in types else value


def checked(options_type: type[Any], values: Mapping[str, Any], where: str) -> Any:
    """The instance; raises ConfigError with every problem."""
    options, problems = validate(options_type, values, where)
    if problems:
        raise ConfigError(f"The options of {where} are not valid:", problems=problems)
    return options


def _problem_text(error: Any, where: str) -> str:
    """One pydantic error as `section.key: what is wrong (got ...)`."""
    path = ".".join([where, *map(str, error["loc"])])
    message = str(error["msg"]).removeprefix("Value error, ")
    message = message[:1].lower() + message[1:]
    given = error.get("input")
    shown = f" (got {given!r})" if isinstance(given, str | int | float | bool) else ""
    return f"{path}: {message}{shown}"


def _type_name(hint: Any) -> str:
    from typing import Literal, get_origin

    if get_origin(hint) is Literal:
        return " | ".join(str(a) for a in get_args(hint))
    return getattr(hint, "__name__", str(hint)).replace("NoneType", "none")
