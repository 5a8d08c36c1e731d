"""What a secret looks like: names of variables and options, and tokens with a known form.

Repetitions are bounded, and a search starts only where a word starts: a line of a megabyte without
a space must not take minutes.
"""

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


# --- a name and its value -------------------------------------------------------------------------

# NAME=VALUE, "name": "value", Header: value, --name=value; or --name VALUE, also as a list of words.
NAMED: Final = re.compile(
    r"(?<![\w.-])(?P<dashes>-{1,2})?(?P<name>[A-Za-z_][\w.-]{0,79})(?P<closed>(?:\\{0,3}[\"'`])?)"
    r"(?:(?P<sets>\s{0,12}(?:=>|:=|=|:)\s{0,12})|(?(dashes)(?P<apart>,?[ \t\n]{1,4})|(?!)))"
)
OPENING: Final = re.compile(r"\\{0,3}[\"'`]")
VALUE: Final = re.compile(r"[^\s\"'`,;)\]}<>&\\]+")
HEADERS: Final = frozenset(["authorization", "proxy-authorization", "cookie", "set-cookie"])
REST_OF_LINE: Final = re.compile(r"[^\"'`\n<>\\]+")
SCHEME: Final = re.compile(r"(?:bearer|basic|digest|token|apikey|negotiate)\s{1,4}", re.IGNORECASE)

# --- tokens that show what they are ---------------------------------------------------------------

KEY_BLOCK: Final = re.compile(
    r"-----BEGIN (?P<what>[A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?)-----"
    r".*?(?:-----END (?P=what)-----|\Z)",
    re.DOTALL,
)
TOKENS: Final = tuple(
    (name, re.compile(rf"(?<![A-Za-z0-9]){pattern}"))
    for name, pattern in (
        ("aws-key-id", r"(?:AKIA|ASIA|AROA|AIDA|AGPA|ANPA)[A-Z0-9]{12,}"),
        ("hugging-face-token", r"(?:hf|api_org)_[A-Za-z0-9]{16,}"),
        ("github-token", r"(?:gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,})"),
        ("gitlab-token", r"gl(?:pat|dt|rt|cbt|ptt|ft|soat)-[\w-]{16,}"),
        ("api-key", r"(?:sk|rk|pk|gsk|pplx|r8|xai|fw|nvapi|tgp|lsv2)[-_][A-Za-z0-9_-]{16,}"),
        ("slack-token", r"xox[a-z]-[\w-]{10,}"),
        ("slack-token", r"xapp-\d-[\w-]{10,}"),
        ("google-key", r"(?:AIza[\w-]{30,}|ya29\.[\w-]{16,}|GOCSPX-[\w-]{16,})"),
        ("npm-token", r"npm_\w{30,}"),
        ("pypi-token", r"pypi-[\w-]{30,}"),
        ("jwt", r"(?<![_-])eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"),
        ("sendgrid-key", r"SG\.[\w-]{16,}\.[\w-]{16,}"),
        ("twilio-key", r"(?:SK|AC)[0-9a-f]{32}(?![0-9a-f])"),
        ("mailgun-key", r"key-[0-9a-z]{32}"),
        ("digitalocean-token", r"do[opr]_v1_[0-9a-f]{32,}"),
        ("databricks-token", r"dapi[0-9a-f]{32}"),
        ("vault-token", r"hv[sbr]\.[\w-]{20,}"),
        ("shopify-token", r"shp(?:at|ca|pa|ss)_[0-9a-fA-F]{20,}"),
        ("square-token", r"sq0[a-z]{3}-[\w-]{20,}"),
        ("linear-key", r"lin_api_\w{20,}"),
        ("notion-token", r"ntn_\w{20,}"),
        ("docker-token", r"dckr_(?:pat|oat)_[\w-]{16,}"),
        ("age-key", r"AGE-SECRET-KEY-1[0-9A-Z]{20,}"),
        ("telegram-token", r"(?:bot)?\d{8,10}:AA[\w-]{30,}"),
        ("terraform-token", r"\w{14}\.atlasv1\.[\w-]{20,}"),
        ("planetscale-token", r"pscale_(?:tkn|pw|oauth)_[\w.-]{20,}"),
        ("grafana-token", r"gl(?:sa|c)_[\w=+/-]{20,}"),
        ("azure-key", r"[\w+/]{3}8Q~[\w.~-]{31,34}"),
    )
)

# The group `secret` is struck out.
PLACES: Final = (
    (
        "webhook",
        re.compile(
            r"https?://(?:hooks\.slack\.com/(?:services|workflows|triggers)/"
            r"|(?:\w{1,20}\.)?discord(?:app)?\.com/api/webhooks/"
            r"|[\w.-]{1,80}\.webhook\.office\.com/|chat\.googleapis\.com/v1/spaces/"
            r"|outlook\.office\.com/webhook/|api\.telegram\.org/bot)(?P<secret>[^\s\"'<>]+)"
        ),
    ),
    (
        "signature",
        re.compile(
            r"[?&](?:x-amz-[\w-]{1,40}|x-goog-[\w-]{1,40}|awsaccesskeyid|signature|sig|se|key|auth"
            r"|code|sv|st)=(?P<secret>[^&\s\"'<>]+)",
            re.IGNORECASE,
        ),
    ),
    ("authorization", re.compile(r"\b(?:[Bb]earer|BEARER|Basic)\s{1,4}(?P<secret>[\w.~+/=-]{8,})")),
    (
        "user-password",
        re.compile(
            r"(?<![\w-])(?:-u|-U|--user|--proxy-user|--http-user)[\s\"',=]{0,4}"
            r"[^\s:\"',/=]{1,64}:(?P<secret>(?!\d{1,6}(?:\W|$))[^\s\"',<>]+)"
        ),
    ),
    (
        "password",
        re.compile(
            r"\b(?:mysql\w{0,12}|mariadb\w{0,8}|sshpass)\b[^\n|;&]{0,200}?\s[\"']?-p[\"',]{0,2}\s?"
            r"[\"']?(?P<secret>[^\s\"',<>-][^\s\"',<>]{2,})"
        ),
    ),
    (
        "password",
        re.compile(
            r"\bredis-cli\b[^\n|;&]{0,200}?\s[\"']?-a[\"',]{0,2}\s[\"']?(?P<secret>[^\s\"',<>]{3,})"
        ),
    ),
    ("password", re.compile(r"(?<![\w:/-])pass:(?P<secret>[^\s\"',<>]{3,})")),
    ("password", re.compile(r"\blogin\s{1,4}\S{1,64}\s{1,4}password\s{1,4}(?P<secret>[^\s<>]+)")),
    ("password", re.compile(r"\b(?:IDENTIFIED BY|PASSWORD)\s{1,4}'(?P<secret>[^'\n<>]{1,200})'")),
    (
        "secret-variable",
        re.compile(
            r"(?<![\w-])(?:set\s{1,3}(?:-\w{1,3}\s{1,3})?|setenv\s{1,3})"
            r"(?P<name>[A-Za-z_]\w{0,79})\s{1,3}(?P<secret>[^\s\"'<>;]+)"
        ),
    ),
)

USERINFO: Final = re.compile(
    r"\b(?P<scheme>[a-z][a-z0-9+.-]{0,20}://)(?P<user>[^/\s@:\"'<>]{0,300})"
    r"(?P<password>:[^/\s@\"'<>]{1,300})?@",
    re.IGNORECASE,
)
