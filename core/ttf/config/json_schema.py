"""The JSON Schema of a configuration file, with the plugins that are installed here: for editors,
which then complete keys and underline mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ttf.config.declare import DURATION_MARK
from ttf.config.reference import options_schema
from ttf.config.schema import RunConfig
from ttf.contracts import Kind
from ttf.host import installed
from ttf.text.numbers import DURATION

Json = dict[str, Any]


def json_schema() -> Json:
    """Draft 2020-12. TOML has no null: a key that may be none takes the word "none"."""
    document = RunConfig.model_json_schema()
    definitions = document["$defs"]
    _add_towers(document)
    for kind, section in (("miner", "MinerConfig"), ("device", "DeviceConfig")):
        _add_tables(definitions[section], cast("Kind", kind))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **cast("Json", _for_editors(document)),
        "title": "The configuration of a ttf run",
    }


def _add_towers(document: Json) -> None:
    definitions = document["$defs"]
    tower = definitions.pop("TowerConfig")
    merged = _merged({name: options_schema("tower", name) for name in installed.choices("tower")})
    for side in ("query", "doc"):
        title = f"{side.capitalize()}Tower"
        about = definitions["TowersConfig"]["properties"][side]
        about["$ref"] = f"#/$defs/{title}"
        definitions[title] = {
            **tower,
            "title": title,
            "required": [],  # a file may give options alone: of the default tower
            "properties": {**tower["properties"], **merged},
            "additionalProperties": False,
        }


def _merged(schemas: Mapping[str, Mapping[str, Any] | None]) -> Json:
    """One property per option name, although towers differ in what they take."""
    found: dict[str, dict[str, Json]] = {}
    for name, schema in schemas.items():
        for option, about in (schema or {}).get("properties", {}).items():
            found.setdefault(option, {})[name] = about
    return {option: _either(of_towers) for option, of_towers in found.items()}


def _either(of_towers: Mapping[str, Json]) -> Json:
    kinds: list[tuple[list[str], Json]] = []
    for name, about in of_towers.items():
        same = next((names for names, other in kinds if other == about), None)
        if same is None:
            kinds.append(([name], about))
        else:
            same.append(name)
    named = [
        {**about, "description": f"{', '.join(names)}: {about.get('description', '')}"}
        for names, about in kinds
    ]
    return named[0] if len(named) == 1 else {"anyOf": named}


def _add_tables(section: Json, kind: Kind) -> None:
    for name in installed.choices(kind):
        schema = options_schema(kind, name)
        if schema is not None:
            section["properties"][name] = {**schema, "title": name, "additionalProperties": False}
    section["additionalProperties"] = False


def _for_editors(node: Any) -> Any:
    """Names of plugins as choices, units in the description, "none" for null."""
    if isinstance(node, list):
        return [_for_editors(item) for item in node]
    if not isinstance(node, dict):
        return node
    if node.get("type") == "null":
        return {"const": "none"}
    node = dict(node)
    if node.pop(DURATION_MARK, False):
        bounds = ("type", "minimum", "maximum", "exclusiveMinimum")
        number = {name: node.pop(name) for name in bounds if name in node}
        node["anyOf"] = [number, {"type": "string", "pattern": f"^{DURATION}$"}]
    if (kind := node.pop("plugin", None)) is not None:
        _name_plugins(node, kind)
    if isinstance(node.get("unit"), str):
        unit = node.pop("unit")
        node["description"] = f"{node.get('description', '')}. Unit: {unit}."
    if "default" in node and node["default"] is None:
        node["default"] = "none"
    return {key: item if key == "default" else _for_editors(item) for key, item in node.items()}


def _name_plugins(node: Json, kind: Kind) -> None:
    names = installed.choices(kind)
    if node.get("type") == "array":
        node["items"] = {"enum": names}
    else:
        # The name of a tower has no default of its own: that of queries is auto.
        automatic = node.get("default") == "auto" or kind == "tower"
        node["enum"] = ["auto", *names] if automatic else names
