"""Which names hold secrets, and which values can be one."""

from __future__ import annotations

import re
from typing import Final, Literal

Level = Literal["no", "weak", "likely", "strong"]

_WORDS: Final = re.compile(r"[A-Z]{1,60}(?![a-z])|[A-Z]?[a-z]{1,60}|\d{1,60}")
_STRONG: Final = re.compile(
    r"token(?!i[sz])|secret(?!ar)|passw|passphrase|passcode|passwort|credential|webhook|cookie|bearer"
    r"|authorization|(?:api|access|private|secret|account|shared|master|encryption|signing|storage"
    r"|client|auth|deploy|admin|service|license|session|pass|wandb)_?key"
)
# Words that are secret where a name ends with them: MYSQL_PWD, GIT_PAT, MY_PIN, WANDB_KEY.
_LIKELY: Final = frozenset(
    [
        "pin",
        "otp",
        "totp",
        "mfa",
        "pat",
        "pwd",
        "pass",
        "jwt",
        "dsn",
        "sas",
        "cred",
        "creds",
        "psk",
        "hmac",
    ]
)
_WEAK: Final = frozenset(["key", "auth", "sig", "signature", "sid", "sessionid", "salt"])
_AFTER_THE_WORD: Final = frozenset(
    ["id", "value", "b64", "base64", "str", "string", "env", "prod", "dev", "test", "old", "new"]
)
_OTHER_KEYS: Final = frozenset(
    [
        "sort",
        "primary",
        "foreign",
        "partition",
        "group",
        "column",
        "cache",
        "row",
        "join",
        "dict",
        "json",
        "shard",
        "public",
        "index",
        "query",
        "config",
        "candidate",
    ]
)
_DIRECTORIES: Final = frozenset(["pwd", "oldpwd"])
_NUMBER: Final = re.compile(r"[\d.,_]{1,30}[kKmMgG]?")
_CALL: Final = re.compile(r"[A-Za-z_][\w.]{0,80}[(\[]")  # of a line of source in a stack
_NO_VALUE: Final = frozenset(
    [
        "true",
        "false",
        "none",
        "null",
        "nil",
        "yes",
        "no",
        "on",
        "off",
        "auto",
        "default",
        "empty",
        "unset",
        "required",
        "missing",
        "undefined",
        "expected",
        "optional",
    ]
)


def level(name: str) -> Level:
    """How surely a variable, option or key of this name holds a secret.

    >>> [level(n) for n in ("HF_TOKEN", "wandbKey", "--api-key", "MYSQL_PWD", "PWD", "tokenizer")]
    ['strong', 'strong', 'strong', 'likely', 'no', 'no']
    """
    words = [word.lower() for word in _WORDS.findall(name[-200:])]
    if not words or "_".join(words) in _DIRECTORIES:
        return "no"
    if _STRONG.search("_".join(words)):
        return "strong"
    while len(words) > 1 and (words[-1] in _AFTER_THE_WORD or words[-1].isdigit()):
        words.pop()
    if words[-1] in _LIKELY:
        return "likely"
    if words[-1] not in _WEAK or (words[-1] == "key" and _OTHER_KEYS & set(words[:-1])):
        return "no"
    return "weak"


def is_value(name: str, value: str) -> bool:
    """Whether it can be a secret: counts of tokens and words like 'none' are not."""
    if not value or value.lower() in _NO_VALUE or value[0] in "<$%{*" or _CALL.match(value):
        return False
    counted = "token" in name.lower() or "key" in name.lower()
    return not (counted and _NUMBER.fullmatch(value))


def looks_random(value: str) -> bool:
    """Long, with letters and digits: no word of a sentence."""
    long = len(value) >= 8 and any(c.isdigit() for c in value) and any(c.isalpha() for c in value)
    return (long or len(value) >= 24) and "." not in value.strip(".")
