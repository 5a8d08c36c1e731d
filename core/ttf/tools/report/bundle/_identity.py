"""Names of the user and the machine that must not be found in a bundle."""

from __future__ import annotations

import contextlib
import functools
import os
import platform
import pwd
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from ttf.text.secrets import Secrets
from ttf.tools.report.bundle._patterns import HOME_OF, IN_HOME

_USER_VARIABLES: Final = ("USER", "LOGNAME", "SUDO_USER", "USERNAME")
_GENERIC: Final = frozenset(
    [
        "root",
        "admin",
        "administrator",
        "user",
        "users",
        "guest",
        "nobody",
        "daemon",
        "ubuntu",
        "debian",
        "fedora",
        "centos",
        "ec2-user",
        "azureuser",
        "vagrant",
        "docker",
        "runner",
        "jenkins",
        "jovyan",
        "jupyter",
        "python",
        "python3",
        "conda",
        "localhost",
        "localdomain",
        "local",
        "host",
        "home",
        "work",
        "data",
        "train",
        "model",
        "test",
        "default",
        "server",
        "node",
        "worker",
    ]
)
_SHORTEST: Final = 4
_INSIDE_FROM: Final = 6


@dataclass(kw_only=True)
class Identity:
    users: set[str] = field(default_factory=set)
    hosts: set[str] = field(default_factory=set)
    homes: set[str] = field(default_factory=set)
    # Folders and their names in the bundle: {"/data/runs/run-001": "<run>"}.
    places: dict[str, str] = field(default_factory=dict)
    secrets: Secrets = field(default_factory=lambda: Secrets({}, ()))

    def learn(self, texts: Iterable[str]) -> None:
        """Adds the owners of home folders in these texts (the run may come from another machine),
        and values that stand after secret names."""
        texts = list(texts)
        self.secrets.learn(texts)
        for text in texts:
            for match in IN_HOME.finditer(text):
                if (name := HOME_OF.search(match[0])) is not None:
                    self.users.add(name[1].strip("."))

    @property
    def common(self) -> list[str]:
        """Names that are also ordinary words: removed only where they are clearly names."""
        return sorted(n for n in self.users | self.hosts if not is_distinctive(n))


def identity_of(run_dir: Path, environment: Mapping[str, str] = os.environ) -> Identity:
    """The names of the current user, of the run's owner and of this machine."""
    found = Identity(secrets=Secrets(environment, ()))
    found.users.update(environment[name] for name in _USER_VARIABLES if environment.get(name))
    for uid in _uids(run_dir):
        with contextlib.suppress(KeyError):  # a container's user need not have a name
            entry = pwd.getpwuid(uid)
            found.users.add(entry.pw_name)
            found.homes.add(entry.pw_dir)
    found.homes.update(home for home in (environment.get("HOME"), str(Path.home())) if home)
    found.homes = {
        h.rstrip("/") for h in found.homes if h.count("/") >= 1 and len(h.strip("/")) > 1
    }
    found.users.update(Path(home).name for home in found.homes)
    found.hosts.update(_host_names(environment))
    found.users.discard("")
    found.hosts.discard("")
    package = Path(__file__).parents[3]
    for folder, name in (
        (run_dir, "<run>"),
        (run_dir.resolve(), "<run>"),
        (package, "<ttf>"),
        (Path(sys.prefix), "<python>"),
        (Path(sys.base_prefix), "<python>"),
    ):
        if len(folder.parts) > 2:  # "/usr" is no place of one's own
            found.places.setdefault(str(folder.absolute()), name)
    return found


def _uids(run_dir: Path) -> Iterator[int]:
    yield os.getuid()
    with contextlib.suppress(OSError):
        yield run_dir.stat().st_uid


def _host_names(environment: Mapping[str, str]) -> Iterator[str]:
    """Short and full names. Asks no name server, as this may take long."""
    names = {platform.node(), environment.get("HOSTNAME", ""), *_read(Path("/etc/hostname"))}
    for line in _read(Path("/etc/hosts")):
        words = line.partition("#")[0].split()[1:]
        if names & set(words) or line.startswith("127.0.1."):
            names.update(words)
    for line in _read(Path("/etc/resolv.conf")):
        if line.startswith(("search ", "domain ")):
            yield from (d for d in line.split()[1:] if "." in d.strip("."))
    for name in names - {""}:
        if not name.startswith(("localhost", "ip6-")):
            yield name
            yield name.partition(".")[0]


def _read(path: Path) -> list[str]:
    try:
        return [line.strip() for line in path.read_text(errors="replace").splitlines()]
    except OSError:
        return []


def is_distinctive(name: str) -> bool:
    """Whether a name can be removed everywhere without damage to the text: it is not short, no
    number and no word that ttf itself uses."""
    word = name.lower()
    return (
        len(word) >= _SHORTEST
        and not word.isdigit()
        and word not in _GENERIC
        and ("." in word or word not in our_words())
    )


def is_struck_inside(name: str) -> bool:
    """Whether a distinctive name is removed inside longer words too: it is long, and no part of a
    word of ours (a name may be the end of "reporter")."""
    word = name.lower()
    return len(word) >= _INSIDE_FROM and not any(word in ours for ours in our_words())


@functools.cache
def our_words() -> frozenset[str]:
    # Reports, incidents and configurations use the words of our own sources.
    words: set[str] = set()
    for path in Path(__file__).parents[3].rglob("*.py"):
        words.update(re.findall(r"[a-z0-9]+", path.read_text(encoding="utf-8").lower()))
    return frozenset(words)
