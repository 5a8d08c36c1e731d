"""What a secret looks like: how values stand after names, and tokens with a known form.

Repetitions are bounded, and a search starts only where a word starts: a line of a megabyte without
a space must not take minutes.
"""

from __future__ import annotations

import re
from typing import Final

# --- a name and its value -------------------------------------------------------------------------

# NAME=VALUE, "name": "value", Header: value, --name=value; or --name VALUE, also as a list of words.
NAMED: Final = re.compile(
    r"(?:(?<![\w.-])|(?<=%[0-9A-Fa-f]{2}))(?P<dashes>-{1,2})?(?P<name>[A-Za-z_][\w.-]{0,79})(?P<closed>(?:\\{0,3}[\"'`])?)"
    r"(?:(?P<sets>\s{0,12}(?:=>|:=|=|:|%3[Dd]|\\x3[Dd])\s{0,12})|(?(dashes)(?P<apart>,?[ \t\n]{1,4})|(?!)))"
)
OPENING: Final = re.compile(r"\\{0,3}(?:\"\"\"|'''|[\"'`])")
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
# Of a key without its beginning, which a cut took: the mark of its end, and the lines before.
KEY_END: Final = re.compile(r"-----END [A-Z ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
NEWLINE: Final = re.compile(r"\r?\n|(?:\\r)?\\n")
KEY_LINE: Final = re.compile(
    r"[ \t\"'+,]{0,40}[A-Za-z0-9+/=]*?[ \t\"'+,]{0,40}(?:\r?\n|(?:\\r)?\\n)?"
)
# What Markdown escapes in a word, and characters that nobody sees.
MARKUP: Final = re.compile(r"[\\`*_|\[\]<>#~]")
DISGUISE: Final = re.compile(
    r"\\(?P<kept>[`*_|\[\]<>#~])|[\xad\u180e\u200b-\u200f\u2060-\u2064\ufeff]"
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
    (
        "password",
        re.compile(
            r"\b(?:docker|podman|nerdctl|skopeo|helm|az|oc)\b[^\n|;&]{0,80}?\blogin\b[^\n|;&]{0,200}?"
            r"\s[\"']?-p[\"',]{0,2}\s?[\"']?(?P<secret>[^\s\"',<>-][^\s\"',<>]{2,})"
        ),
    ),
    (
        "wandb-key",
        re.compile(r"\bwandb\W{1,4}login\b[^\n|;&]{0,200}?[\s\"'](?P<secret>[0-9a-f]{40,})"),
    ),
    # PWD is a folder, except in the connection strings of databases.
    (
        "password",
        re.compile(r"(?i)(?:(?<=;)|(?<=; ))pwd=(?P<secret>[^;/.~\s\"'<>][^;\s\"'<>]{0,200})"),
    ),
    ("password", re.compile(r"(?<![\w.-])pwd=(?P<secret>[^;/.~\s\"'<>][^;\s\"'<>]{0,200})(?=;)")),
    (
        "private-key",
        re.compile(
            r"Private-Lines: \d{1,4}\s{1,4}(?P<secret>(?:[A-Za-z0-9+/=]{1,80}(?:\r?\n|\Z)){1,300})"
        ),
    ),
    (
        "element",
        re.compile(r"<(?P<name>[A-Za-z_][\w.:-]{0,79})>(?P<secret>[^<>\n]{1,300})</(?P=name)>"),
    ),
    (
        "attribute",
        re.compile(
            r"\b(?:key|name)=[\"'](?P<name>[A-Za-z_][\w.:-]{0,79})[\"']\s{1,4}"
            r"value=[\"'](?P<secret>[^\"'<>\n]{1,300})(?=[\"'])"
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
    r"\b(?P<scheme>[a-z][a-z0-9+.-]{0,20}://)"
    r"(?P<user>(?:<secret-[\w.-]{1,80}>|[^/\s@:\"'<>]){0,300})"
    r"(?P<password>:(?:<secret-[\w.-]{1,80}>|[^/\s\"'<>]){1,300})?@",
    re.IGNORECASE,
)
