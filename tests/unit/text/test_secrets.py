"""Secrets in variables, command lines and output: struck out, named, and nothing else with them."""

from __future__ import annotations

import doctest
import time

import pytest
from tests.kit.secret_kinds import COMMAND, HIDDEN, OUTPUT, VARIABLES, WORDS

from ttf.text import secret_names
from ttf.text.secrets import Secrets, struck_out

NOBODY = Secrets({}, ())


def left(text: str) -> list[str]:
    return [secret for secret in HIDDEN if secret in text]


def test_examples_in_the_docstrings_are_true() -> None:
    assert doctest.testmod(secret_names).failed == 0


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


KEY = [f"MIIEpAIBAAKCAQEA{line:03d}QWERTYUIOPASDFGHJKLZXCVBNMqwertyuiopasdfg" for line in range(9)]


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\\n", "\n  "])
def test_nothing_is_left_of_a_private_key_whose_beginning_was_cut(newline: str) -> None:
    for cut in range(len(KEY)):
        rest = newline.join([*KEY[cut:], "-----END RSA PRIVATE KEY-----"])[cut:]
        text = f"a line of the log\n[90 bytes left out]\n{rest}\nand the next line"
        assert NOBODY.text(text) == (
            "a line of the log\n[90 bytes left out]\n<secret-private-key>\nand the next line"
        )


def test_nothing_is_left_of_a_private_key_whose_middle_or_end_was_cut() -> None:
    begin, end = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"
    assert NOBODY.text("\n".join(["x", begin, *KEY[:4]])) == "x\n<secret-private-key>"
    cut = [begin, *KEY[:3], "[9 bytes left out]", *KEY[5:], end, "x"]
    assert NOBODY.text("\n".join(cut)) == "<secret-private-key>\nx"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("--token=ghp\\_abcdefghij", "--token=<secret-token>"),
        ("| x ghp\\_abcdefghijABCDEFGHIJ12345 |", "| x <secret-github-token> |"),
        ("hf_abcd\u200befghijklmnop1234", "<secret-hugging-face-token>"),
        ("pass\u200bword=hunter2", "password=<secret-password>"),
        ("Driver=x;Uid=sa;PWD=hunter2;", "Driver=x;Uid=sa;PWD=<secret-password>;"),
        ("pwd=hunter2;", "pwd=<secret-password>;"),
        ('db_pass : "word"', 'db_pass : "<secret-db_pass>"'),
        ('password = """hunter2"""', 'password = """<secret-password>"""'),
        ("<password>x y</password>", "<password><secret-password></password>"),
        ("<add key='ApiKey' value='x y' />", "<add key='ApiKey' value='<secret-ApiKey>' />"),
        ("?q=1%26password%3Dhunter2", "?q=1%26password%3D<secret-password>"),
        (r"TOKEN\x3dhunter2", r"TOKEN\x3d<secret-TOKEN>"),
        (f"wandb login {'0a' * 20}", "wandb login <secret-wandb-key>"),
        ("docker login -u u -p hunter2 x", "docker login -u u -p <secret-password> x"),
        (
            "Private-Lines: 2\nAAABAQ==\nputty123\nPrivate-MAC: 0123",
            "Private-Lines: 2\n<secret-private-key>Private-MAC: 0123",
        ),
        ("postgres://b:p@ss:w0rd@db/x", "postgres://b:<secret-url-password>@db/x"),
        (
            "s3://AKIAIOSFODNN7EXAMPLE:pw@bucket",
            "s3://<secret-aws-key-id>:<secret-url-password>@bucket",
        ),
    ],
)
def test_a_disguised_secret_goes_too(text: str, expected: str) -> None:
    assert NOBODY.text(text) == expected


def test_a_known_value_goes_from_markdown_and_from_beside_a_password() -> None:
    known = Secrets({"MY_TOKEN": "some_value_1", "OTHER_TOKEN": "AKIAX-1234"}, ())
    assert known.text("| some\\_value\\_1 |") == "| <secret-MY_TOKEN> |"
    shown = known.text("s3://AKIAX-1234:hidden@bucket/key")
    assert shown == "s3://<secret-OTHER_TOKEN>:<secret-url-password>@bucket/key"


def test_thousands_of_learned_values_are_struck_in_one_pass() -> None:
    values = [f"k{number:05d}xyz" for number in range(9_000)]
    secrets = Secrets({"MY_TOKEN": "xyz some words"}, ())
    secrets.learn(f"key={value}" for value in values)
    text = " ".join(values)
    began = time.process_time()
    assert secrets.text(text) == " ".join(["<secret-key>"] * len(values))
    assert time.process_time() - began < 2.0
    assert secrets.text("a k00001xyz some words b") == "a <secret-key> b", "two that overlap"


@pytest.mark.parametrize(
    "text",
    [
        r"a\_b \*c\* [x\] C:\_x <name>Bob</name> <key>Label</key> name='n' value='v'",
        "docker login -u bob; wandb login; PWD=/a;OLDPWD=/b;pwd=~/c; 50%25 a%3Db",
        "-----END CERTIFICATE----- -----END PRIVATE KEY-----",
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
    + ["key: ", "SG.", "-u a:", '"a":', "://", "set a ", "-----BEGIN PRIVATE KEY-----", "a+b://"]
    + ["a://b:@", "\\_", "a\\_\n", "<a>", "A\n", "-----END PRIVATE KEY-----", "; pwd=", "%3d"]
    + ["docker login ", "wandb login ", "key='a' value='", "Private-Lines: 1\na"],
)
def test_the_time_grows_with_the_length_alone(piece: str) -> None:
    def seconds(length: int) -> float:
        text, began = piece * (length // len(piece)), time.process_time()
        NOBODY.text(text)
        return time.process_time() - began

    seconds(1000)
    assert seconds(40_000) < 1.0
