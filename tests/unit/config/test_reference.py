"""Every key explains itself, and one finds it: by its path, its name, its option, its section."""

from __future__ import annotations

from typing import Any

import pytest

from ttf.config import reference
from ttf.config.json_schema import json_schema
from ttf.config.reference import Key
from ttf.config.resolve import FLAGS, NEGATIONS, flat, resolve, with_options
from ttf.host import installed

EVERY_SECTION = (*reference.sections(), *reference.plugin_sections())
EVERY_KEY = [key for section in EVERY_SECTION for key in section.keys]


def test_every_key_has_a_description_and_says_what_it_takes() -> None:
    assert len(EVERY_KEY) > 100
    assert [key.path for key in EVERY_KEY if len(key.description) < 10] == []
    assert [key.path for key in EVERY_KEY if not key.takes] == []


def test_every_number_has_a_unit() -> None:
    assert [key.path for key in EVERY_KEY if "number" in key.takes and not key.unit] == []


def test_every_key_has_a_default_but_those_of_a_gate() -> None:
    assert [key.path for key in EVERY_KEY if not key.default] == ["gates.at", "gates.need"]


def test_every_section_says_what_it_is_for() -> None:
    assert [section.path for section in EVERY_SECTION if not section.description] == []


def test_every_value_of_a_configuration_is_a_key_and_its_default_is_said() -> None:
    keys = {key.path: key for key in EVERY_KEY if not key.plugin}
    values = flat(resolve().config)
    assert set(values) <= set(keys)
    options = {key.path for key in EVERY_KEY if key.plugin}
    assert set(flat(with_options(resolve()).config)) <= set(keys) | options
    assert set(FLAGS.values()) | set(NEGATIONS.values()) <= set(keys)
    assert keys["train.lr"].default == "0.001"
    assert keys["tower.query.name"].default == '"auto"'
    assert keys["train.steps"].default == "none"


@pytest.mark.parametrize(
    ("what", "paths"),
    [
        ("train.lr", ["train.lr"]),
        ("lr", ["train.lr"]),
        ("--lr", ["train.lr"]),
        ("--no-remedies", ["supervise.remedies"]),
        ("min_yield", ["negatives.min_yield"]),
        ("threads", ["miner.threads", "device.threads"]),
        ("gates", ["gates.at", "gates.need"]),
        ("[probe]", ["probe.every", "probe.tolerance", "probe.on_mismatch"]),
        ("tower", ["tower.query.name", "tower.doc.name"]),
        ("tower.identity", ["tower.query.pool"]),
        ("tower.doc.bias", ["tower.doc.bias"]),
        ("miner.hnswlib.M", ["miner.hnswlib.M"]),
        ("M", ["miner.faiss.M", "miner.hnswlib.M"]),
    ],
)
def test_a_key_is_found_by_whatever_names_it(what: str, paths: list[str]) -> None:
    assert [key.path for section in reference.find(what) for key in section.keys] == paths


@pytest.mark.parametrize(
    ("what", "closest"), [("min_yeld", ("min_yield",)), ("train.lrr", ("train.lr",)), ("%", ())]
)
def test_an_unknown_key_gets_the_closest(what: str, closest: tuple[str, ...]) -> None:
    with pytest.raises(reference.UnknownKey) as caught:
        reference.find(what)
    assert caught.value.closest == closest


def key(path: str) -> Key:
    return next(key for key in EVERY_KEY if key.path == path)


def test_what_a_key_takes_is_said_in_words() -> None:
    assert (
        key("miner.refresh").takes == "'epoch' or 'auto', or a whole number from 1 to 1,000,000,000"
    )
    assert key("train.grad_cache").takes == "true or false, or 'auto'"
    as_text = "text like '90s', '10m' or '2h'"
    assert key("checkpoint.every_s").takes == (
        f"a number above 0 and at most 2,592,000, or {as_text}, or none"
    )
    assert key("miner.name").takes.startswith("'auto' or the name of a miner: exact, ")
    assert key("miner.fallback").takes.startswith("a list of miner names: exact, ")


# --- for editors ---------------------------------------------------------------------------------


def _property(document: Any, path: str) -> Any:
    node = document
    for part in path.split("."):
        node = node["properties"][part]
        if "$ref" in node:
            node = document["$defs"][node["$ref"].rpartition("/")[2]]
    return node


def _takes(about: Any, value: Any) -> bool:
    """The part of JSON Schema that a list of keys needs."""
    if "anyOf" in about:
        return any(_takes(one, value) for one in about["anyOf"])
    if "const" in about or "enum" in about:
        return value in about.get("enum", [about.get("const")])
    kinds: dict[str, Any] = {
        "string": str, "boolean": bool, "array": list, "object": dict, "number": (int, float),
        "integer": int,
    }  # fmt: skip
    return isinstance(value, kinds[about["type"]])


def test_the_schema_for_editors_takes_every_value_of_a_configuration() -> None:
    document = json_schema()
    sets = ["miner.name=hnswlib", "tower.query.name=transformer", "device.name=cpu"]
    for path, value in flat(with_options(resolve(sets=sets)).config).items():
        written = "none" if value is None else value
        assert _takes(_property(document, path), written), f"{path} = {written!r}"


def test_the_schema_names_plugins_and_refuses_unknown_keys() -> None:
    document = json_schema()
    towers = _property(document, "tower.query.name")["enum"]
    assert towers == ["auto", *installed.choices("tower")]
    assert _property(document, "miner.name")["enum"][0] == "auto"
    hidden = _property(document, "tower.query.hidden")["anyOf"]
    assert {about["default"] for about in hidden} == {256, 1024}
    assert _property(document, "miner.hnswlib")["additionalProperties"] is False
    open_tables = [
        name
        for name, about in {"": document, **document["$defs"]}.items()
        if about.get("additionalProperties") is not False
    ]
    assert open_tables == []
    assert "Unit: s." in _property(document, "checkpoint.every_s")["description"]
