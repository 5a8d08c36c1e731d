"""A person, a machine and their secrets, all made up: none of it may be found in a bundle."""

from __future__ import annotations

import textwrap
from typing import Final

from tests.kit import secret_kinds

USER: Final = "quillfeather"
HOST: Final = "zanzibarbox"
DOMAIN: Final = "corp-canary.example"
PROJECT: Final = "moonshotproject"

ENVIRONMENT: Final = {
    "ACME_API_TOKEN": "tangerine-dream-7781",
    "DB_PASSWORD": "hunter2correcthorse",
    "WANDB_API_KEY": "0123456789abcdef0123456789abcdef01234567",
    **secret_kinds.VARIABLES,
}
"""Printed by the run on standard error, as programs do."""

PRINTED: Final = {
    "aws key": "AKIAZQCANARY1234567X",
    "hugging face": "hf_CanaryCanaryCanaryCanary0123",
    "github": "ghp_CanaryCanaryCanaryCanaryCanary012345",
    "openai": "sk-proj-CanaryCanaryCanaryCanary0123",
    "bearer": "canarybearer0123456789",
    "jwt": "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJjYW5hcnkifQ.c2lnbmF0dXJl",
    "password in a URL": "swordfishcanary",
    "S3 signature": "deadbeefcanarysignature",
    "S3 bucket": "canary-bucket-eu",
    "e-mail": "quill.f@canarymail.example",
    "IPv4": "10.77.66.55",
    "IPv6": "fd12:3456:789a::7e57",
    "another user": "otherperson",
    "their folder": "theirsecretfolder",
    "git remote": "canarycorp",
    "inner host": "minio.innercanary.example",
    "assignment": "open-sesame-canary",
}

NEVER: Final = [
    USER,
    HOST,
    DOMAIN,
    PROJECT,
    *("tangerine-dream-7781", "hunter2correcthorse", "0123456789abcdef"),
    *PRINTED.values(),
    *secret_kinds.HIDDEN,
    "/home/",
    "My Vectors",
]
"""What is searched for in every file of a bundle, whatever its case."""

SAID: Final = "\n".join(
    [
        f"login {USER}@{HOST}.{DOMAIN} from {PRINTED['IPv4']} port 22, {PRINTED['IPv6']}",
        f"{USER} runs on {HOST}",
        f"reading /home/{PRINTED['another user']}/{PRINTED['their folder']}/rows.npz",
        f"key {PRINTED['aws key']} token {PRINTED['hugging face']} {PRINTED['github']}",
        f"{PRINTED['openai']} Authorization: Bearer {PRINTED['bearer']} {PRINTED['jwt']}",
        f"postgres://bob:{PRINTED['password in a URL']}@db/x",
        f"GET https://{PRINTED['S3 bucket']}.s3.amazonaws.com/k/pairs.npz?"
        + f"X-Amz-Signature={PRINTED['S3 signature']}&x=1",
        f"s3://{PRINTED['S3 bucket']}/deep/pairs.npz https://{PRINTED['inner host']}:9000/b",
        f"origin git@git.{PRINTED['git remote']}.example:team/repo.git",
        f'mail {PRINTED["e-mail"]} my_secret = "{PRINTED["assignment"]}"',
        *(f"{name}={value}" for name, value in ENVIRONMENT.items()),
        *secret_kinds.OUTPUT,
    ]
)

PLUGIN: Final = textwrap.dedent(
    '''
    """Says what it should not, among bytes that are no text, and crashes once."""
    import os, signal
    from pathlib import Path

    from ttf import hookimpl


    class Observer:
        @hookimpl
        def ttf_run_started(self, run_dir, config, resumed_from):
            self.marker = Path(run_dir) / "incidents"
            self.paths = str(config["data"]["pairs"])
            if resumed_from == 0:
                said = os.environ["CANARIES"].encode()
                os.write(2, bytes(range(1, 256)) + said + b"\\xff\\x00" + said[:80] + b"\\n")
                os.write(2, ("training on " + self.paths + "\\n").encode())

        @hookimpl
        def ttf_step(self, record):
            if record.step in (25, 31) and len(list(self.marker.glob("0*"))) < record.step // 15:
                os.kill(os.getpid(), signal.SIGSEGV if record.step == 25 else signal.SIGKILL)


    observer = Observer()
    '''
)
