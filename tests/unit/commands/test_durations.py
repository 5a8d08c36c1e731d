"""A time is written alike wherever a person writes one: 6, 6s, 10m, 2h."""

from __future__ import annotations

import json

import pytest
from tests.conftest import Invoke

from ttf.config.resolve import resolve
from ttf.text.numbers import parse_duration


@pytest.mark.parametrize(
    "words",
    [
        ["guard", "--hang-timeout", "{}", "--", "true"],
        ["ab", "--hang-timeout", "{}"],
        ["ab", "--budget", "{}"],
        ["bisect", "--hang-timeout", "{}", "nowhere.toml"],
        ["bisect", "--budget", "{}", "nowhere.toml"],
        ["monitor", "--interval", "{}", "nowhere"],
        ["plugins", "check", "--deadline", "{}", "miner.nothing"],
    ],
    ids=lambda words: " ".join(words[:3]),
)
def test_every_option_of_time_is_written_alike(
    invoke: Invoke, words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ttf.tools.guard.run.guard", lambda options: pytest.fail("it ran"))
    if words[0] != "guard":
        for good in ("6", "6s", "1.5m", "2h"):
            err = invoke([word.format(good) for word in words]).err
            assert "Invalid value" not in err, good
    done = invoke([word.format("soon") for word in words])
    assert done.code == 2
    assert "'soon' is not a time; write for example 90s, 10m or 2h." in done.err
    assert "too short" in invoke([word.format("0") for word in words]).err


@pytest.mark.parametrize(
    "key",
    ["supervise.hang_timeout_s", "checkpoint.every_s", "checkpoint.retry_s", "miner.deadline_s"],
)
def test_so_is_every_key_of_time(invoke: Invoke, key: str) -> None:
    section, _, name = key.partition(".")
    for text, seconds in (("90", 90.0), ("90s", 90.0), ("10m", 600.0)):
        found = resolve(None, sets=[f"{key}={text}"]).config
        assert getattr(getattr(found, section), name) == seconds
    told = invoke(["config", "explain", key]).out
    assert "or text like '90s', '10m' or '2h'" in " ".join(told.split())
    schema = json.dumps(json.loads(invoke(["config", "schema"]).out))
    assert "duration" not in schema.replace('"description"', ""), "a mark of ours"


def test_units_of_time() -> None:
    assert [parse_duration(text) for text in ("500ms", " 2 h ", "1d")] == [0.5, 7200.0, 86400.0]
    for wrong in ("", "6 x", "-1s", "1:30", "nan"):
        with pytest.raises(ValueError, match="is not a time"):
            parse_duration(wrong)
