"""Secrets in variables, command lines and output: struck out, named, and nothing else with them."""

from __future__ import annotations

import doctest
import time

import pytest
from tests.kit.secret_kinds import COMMAND, HIDDEN, OUTPUT, VARIABLES, WORDS

from ttf.text import secrets
from ttf.text.secrets import Secrets, struck_out

NOBODY = Secrets({}, ())


def left(text: str) -> list[str]:
    return [secret for secret in HIDDEN if secret in text]


def test_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(secrets).failed == 0


def test_there_are_forty_kinds_and_more() -> None:
    assert len(HIDDEN) >= 50


def test_none_is_left_in_the_output_whoever_knows_the_environment() -> None:
    known = Secrets(VARIABLES, WORDS)
    assert not left(known.text("\n".join(OUTPUT)))
    named_alone = [secret for secret in HIDDEN if secret not in OUTPUT[-1]]
    shown = NOBODY.text("\n".join(OUTPUT[:-1]))
    assert not [secret for secret in named_alone if secret in shown]
    assert not left(known.bytes(("\n".join(OUTPUT)).encode() + b"\xff").decode(errors="replace"))


@pytest.mark.parametrize("secret", COMMAND)
def test_none_is_left_in_a_command_line_and_its_other_words_stay(secret: str) -> None:
    words = ["python", "train.py", *COMMAND[secret], "--epochs", "3"]
    shown = NOBODY.words(words)
    assert len(shown) == len(words) and secret not in " ".join(shown)
    assert shown[:2] == words[:2] and shown[-2:] == words[-2:]
    assert secret not in NOBODY.text(" ".join(words)), "as one line of a shell's trace"
    assert secret not in NOBODY.text(repr(words)), "as a list that a program prints"


def test_a_secret_of_the_command_line_goes_from_everything_else() -> None:
    secrets = Secrets({}, WORDS)
    assert secrets.text("using optcanary0101 now") == "using <secret-token> now"
    assert secrets.value({"a": ["optcanary0103", 3, None]}) == {"a": ["<secret-key>", 3, None]}


def test_values_of_secret_keys_of_json_go_and_commands_are_taken_as_words() -> None:
    found = NOBODY.value({"hf_token": "abc", "command": ["x", "--token", "abc"], "key": "tower"})
    assert found == {
        "hf_token": "<secret-hf_token>",
        "command": ["x", "--token", "<secret-token>"],
        "key": "tower",
    }


def test_what_one_text_names_goes_from_the_others() -> None:
    secrets = Secrets({}, ())
    secrets.learn(["token=abcd1234efgh, pwd=word"])
    assert secrets.text("abcd1234efgh and a word") == "<secret-token> and a word"


def test_what_was_struck_out_is_listed_by_name() -> None:
    secrets = Secrets({"WANDB_KEY": "abcdef1"}, ())
    text = secrets.text("abcdef1 abcdef1 --token x ghp_" + "a" * 20)
    assert secrets.struck == {"WANDB_KEY": 2, "token": 1, "github-token": 1}
    assert struck_out([text]) == secrets.struck


def test_striking_twice_changes_nothing() -> None:
    once = NOBODY.text("\n".join(OUTPUT))
    assert NOBODY.text(once) == once


@pytest.mark.parametrize(
    "text",
    [
        "recall@10 rose to 0.5 at step=120, tokens/s: 1200, max_tokens=4096 --num-tokens 300",
        "KeyError: 'foo' in sorted(rows, key=lambda row: row[0])",
        "tokenizer=bert-base, --tokenizer roberta, TOKENIZERS_PARALLELISM=false",
        "sort_key=length --sort-key length primary_key: id, public_key=ssh-ed25519",
        "PWD=/root/x OLDPWD=/tmp author=bob authority=local",
        'weights_sha256 = "d68ec6f5bd28dce392fc1d554ad4f2392df006b12b6872198c5a1be026d2842b"',
        "missing key(s) in state_dict: encoder.layer.0.weight",
        "key: encoder.layer.0.attention pass: 3 of 10, sig=11",
        "docker run -u 1000:1000 image; git@github.com:a/b.git; https://user@host/x",
        "token = self.tokenizer(text); password = getpass()",
        "secretary: Ann; the token is expected; cookies are on",
        "<secret-token> token=<secret-token> --token <secret-token>",
    ],
)
def test_what_is_no_secret_stays(text: str) -> None:
    assert NOBODY.text(text) == text


@pytest.mark.parametrize(
    "piece",
    [
        "a",
        "a-",
        "token",
        "a.b@",
        "1:",
        "_a",
        "sk-a_",
        "eyJ-",
        "mysql ",
        "-p ",
        "a=",
        "token=",
        " --a",
    ]
    + ["key: ", "SG.", "-u a:", '"a":', "://", "set a ", "-----BEGIN PRIVATE KEY-----", "a+b://"],
)
def test_the_time_grows_with_the_length_alone(piece: str) -> None:
    def seconds(length: int) -> float:
        text, began = piece * (length // len(piece)), time.process_time()
        NOBODY.text(text)
        return time.process_time() - began

    seconds(1000)
    assert seconds(40_000) < 1.0
