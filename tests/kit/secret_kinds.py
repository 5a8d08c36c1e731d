"""Forty-odd kinds of secrets, all made up: variables, words of a command line, lines of output."""

from __future__ import annotations

from typing import Final

VARIABLES: Final = {
    "WANDB_KEY": "wnb-canary-0001",
    "GIT_PAT": "patcanary0002",
    "MYSQL_PWD": "mysqlcanary3",
    "MY_PIN": "480315",
    "SESSION_COOKIE": "sessioncanary=0005; path=/",
    "SLACK_WEBHOOK": "https://hooks.slack.example/T0/canary0006",
    "SHORT_PASSWORD": "zebrag",
    "DATABASE_URL": "postgres://bob:urlcanary0008@db.example/x",
    "NETRC_PASSPHRASE": "two words canary 9",
    "SENTRY_DSN": "dsncanary0010",
    "openAiKey": "camelcanary0011",
}
"""Printed by the child, as programs do that say what surrounds them."""

COMMAND: Final = {
    "optcanary0101": ["--token", "optcanary0101"],
    "optcanary0102": ["--password=optcanary0102"],
    "optcanary0103": ["--key", "optcanary0103"],
    "shortc": ["--pw-secret", "shortc"],
    "optcanary0105": ["-u", "bob:optcanary0105"],
    "optcanary0106": ["--api_key=optcanary0106"],
    "envcanary0107": ["DEPLOY_TOKEN=envcanary0107"],
    "hdrcanary0108": ["-H", "X-Api-Key: hdrcanary0108"],
    "hdrcanary0109": ["-H", "Authorization: Basic hdrcanary0109"],
    "urlcanary0110": ["--url", "https://alice:urlcanary0110@x.example/p"],
    "ckcanary0111": ["--cookie", "sid=ckcanary0111"],
    "shcanary0112": ["--then", "sshpass -p shcanary0112 ssh box"],
    "pincanary113": ["--otp", "pincanary113"],
}
"""Words that hold each."""

_LINES: Final = {
    "AKIAZQCANARY1234500X": "aws AKIAZQCANARY1234500X",
    "canary/secret+key0202": "aws_secret_access_key = canary/secret+key0202",
    "hf_CanaryCanaryCanary0203": "hub: hf_CanaryCanaryCanary0203",
    "ghp_CanaryCanaryCanaryCanary0204": "remote ghp_CanaryCanaryCanaryCanary0204",
    "glpat-CanaryCanary0205xx": "gitlab glpat-CanaryCanary0205xx",
    "sk-ant-CanaryCanaryCanary0206": "key sk-ant-CanaryCanaryCanary0206 refused",
    "xoxb-1234-Canary0207": "slack xoxb-1234-Canary0207",
    "T00/B00/Canary0208": "POST https://hooks.slack.com/services/T00/B00/Canary0208 404",
    "AIzaCanaryCanaryCanaryCanaryCanary0209": "AIzaCanaryCanaryCanaryCanaryCanary0209",
    "SG.CanaryCanary0210aa.CanaryCanary0210bb": "SG.CanaryCanary0210aa.CanaryCanary0210bb",
    "dapi0211canary0211canary0211canary0": "dapi" + "0211abcd" * 4,
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIwMjEyIn0.c2ln": (
        "jwt eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIwMjEyIn0.c2ln"
    ),
    "bearercanary0213": "> authorization: bearer bearercanary0213",
    "cookiecanary0214": "> Cookie: a=1; session=cookiecanary0214",
    "sigcanary0215": "GET https://b.example/k?X-Amz-Signature=sigcanary0215&x=1",
    "sascanary0216": "https://a.blob.example/c?sv=1&sig=sascanary0216",
    "acctcanary0217": "AccountName=x;AccountKey=acctcanary0217==;EndpointSuffix=y",
    "curlcanary0218": "+ curl -u bob:curlcanary0218 https://x.example",
    "mysqlcanary0219": "+ mysql -h db -u root -pmysqlcanary0219 shop",
    "netrccanary0220": "machine x login bob password netrccanary0220",
    "sqlcanary0221": "ALTER USER bob IDENTIFIED BY 'sqlcanary0221'",
    "jsoncanary0222": '{"client_secret": "jsoncanary0222", "n": 1}',
    "jsoncanary 0223": '{"password": "jsoncanary 0223"}',
    "yamlcanary0224": "db_password: yamlcanary0224",
    "reprcanary0225": "Namespace(lr=0.1, token='reprcanary0225')",
    "listcanary0226": "argv: ['t.py', '--auth-token', 'listcanary0226', '--n', '3']",
    "fishcanary0227": "set -x GITHUB_TOKEN fishcanary0227",
    "opensslcanary0228": "openssl -passin pass:opensslcanary0228",
    "kagglecanary0229": '{"username":"bob","key":"kagglecanary0229"}',
    "MIIEcanary0230": (
        "-----BEGIN RSA PRIVATE KEY-----\nMIIEcanary0230\n-----END RSA PRIVATE KEY-----"
    ),
    "telegr-am0231": "https://api.telegram.org/bot123456789:AAtelegr-am0231",
    "hvs.CanaryCanaryCanary0232": "vault hvs.CanaryCanaryCanary0232",
}

OUTPUT: Final = [
    *_LINES.values(),
    *(f"{name}={value}" for name, value in VARIABLES.items()),
    repr(VARIABLES),
    f"connected with {VARIABLES['WANDB_KEY']} and {VARIABLES['SHORT_PASSWORD']}",
]
WORDS: Final = [word for words in COMMAND.values() for word in words]
HIDDEN: Final = [
    *("urlcanary0008" if "://bob" in value else value for value in VARIABLES.values()),
    *COMMAND,
    *(canary for canary in _LINES if not canary.startswith("dapi")),
    "0211abcd",
]
"""What no file that is sent may hold."""
