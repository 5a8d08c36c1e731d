"""Removes names and places: one redactor for everything in a bundle.

The same text always gets the same placeholder, so that a reader can follow it. Removals are counted
by kind.
"""

from __future__ import annotations

import ipaddress
import posixpath
import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, Final

from ttf.text.secret_patterns import USERINFO
from ttf.text.secrets import variants
from ttf.tools.report.bundle import _patterns as patterns
from ttf.tools.report.bundle._identity import Identity, is_distinctive, is_struck_inside

KINDS: Final = {
    "secret": "values of secret variables, tokens, keys, passwords, signatures",
    "home": "home folders",
    "path": "folders of files (the file name stays)",
    "user": "user names",
    "host": "host names and domains",
    "email": "e-mail addresses",
    "address": "IP and hardware addresses",
    "url": "URLs and git remotes",
}
_USER_BEFORE: Final = (
    r"(?i)(\b(?:user(?:name)?|login|logname|owner|uid=\d+)\b[\"']?[\s=:('\"]{1,4})"
)
_HOST_BEFORE: Final = r"(?i)(@|//|\b(?:host(?:name)?|nodename|node)\b[\"']?[\s=:('\"]{1,4})"


class Redactor:
    # `paths`: known paths that no pattern finds, because they are relative or have spaces.
    def __init__(self, identity: Identity, paths: Iterable[str] = ()) -> None:
        self._identity = identity
        self.counts: Counter[str] = Counter()
        self.url_passwords = 0
        self._folders: dict[str, str] = {}
        self._urls: dict[str, str] = {}
        self._seen: dict[str, tuple[str, Counter[str]]] = {}
        self._known = [
            (_standing_alone(variant), path)
            for path in sorted({p for p in paths if _is_hard(p)}, key=lambda p: -len(p))
            for variant in variants(path)
        ]
        hosts, users = ((identity.hosts, "host"), (identity.users, "user"))
        self._names = [*self._name_rules(*hosts), *self._name_rules(*users)]

    def text(self, text: str) -> str:
        text = self._secrets(text)
        text = self._addresses(text)
        text = self._paths(text)
        return self.names(text)

    def value(self, value: Any) -> Any:
        """The JSON value with every string redacted, keys included."""
        if isinstance(value, str):
            return self._again(value)
        if isinstance(value, dict):
            return {self._again(str(k)): self.entry(str(k), inner) for k, inner in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list | tuple) else value

    def _again(self, text: str) -> str:
        """Cached, for strings that are in every line of a file: keys, names of kinds."""
        if text not in self._seen:
            before = self.counts.copy()
            self._seen[text] = (self.text(text), self.counts - before)
            return self._seen[text][0]
        found, counted = self._seen[text]
        self.counts += counted
        return found

    def entry(self, key: str, value: Any) -> Any:
        """The value of a key of JSON or of a configuration."""
        secrets = self._identity.secrets
        before = secrets.struck.total()
        if isinstance(value, str) or key == "command":
            value = secrets.entry(key, value)
        self._count("secret", secrets.struck.total() - before)
        return self.value(value)

    def names(self, text: str) -> str:
        # Only known secrets, users and hosts: for text made of redacted parts.
        text = self._secretly(self._identity.secrets.known, text)
        for pattern, kind, replacement in self._names:
            text, count = pattern.subn(replacement, text)
            self._count(kind, count)
        return text

    # --- secrets and addresses ------------------------------------------------------------------

    def _secrets(self, text: str) -> str:
        text = self._secretly(self._identity.secrets.known, text)
        text = USERINFO.sub(self._userinfo, text)  # the rest of the URL is an address
        return self._secretly(self._identity.secrets.text, text)

    def _secretly(self, strike: Callable[[str], str], text: str) -> str:
        struck = self._identity.secrets.struck
        before = struck.total()
        text = strike(text)
        self._count("secret", struck.total() - before)
        return text

    def _userinfo(self, match: re.Match[str]) -> str:
        self._count("secret", 1)
        self.url_passwords += bool(match["password"])
        return match["scheme"]

    def _addresses(self, text: str) -> str:
        text = self._all(patterns.GIT_REMOTE, text, "url", lambda _: "<git remote>")
        text = patterns.URL.sub(self._url, text)
        for pattern in (patterns.KEY_COMMENT, patterns.LOGIN):
            text = self._all(pattern, text, "user", _login)
        text = self._all(patterns.EMAIL, text, "email", lambda _: "<email>")
        text = self._all(patterns.MAC, text, "address", lambda _: "<address>")
        for pattern in (patterns.IPV4, patterns.IPV6):
            text = pattern.sub(self._address, text)
        return text

    def _url(self, match: re.Match[str]) -> str:
        url = match[0].rstrip(".,;:")
        rest = match[0][len(url) :]
        if patterns.PUBLIC.match(url):
            return match[0]
        if url.startswith("file:///"):
            return f"file://{self._token(url.removeprefix('file://'))}{rest}"
        scheme, _, place = url.partition("://")
        self._count("url", 1)
        folder, _, base = place.partition("?")[0].rstrip("/").rpartition("/")
        known = self._urls.setdefault(folder or place, f"<url-{len(self._urls) + 1}>")
        return f"{scheme}://{known}{f'/{base}' if folder else ''}{rest}"

    def _address(self, match: re.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified or not re.search(r"\d", match[0]):
            return match[0]
        return self._counted("address", "<address>")

    # --- paths ----------------------------------------------------------------------------------

    def _paths(self, text: str) -> str:
        for pattern, path in self._known:
            if pattern.search(text) is not None:
                text = self._replaced(pattern, path, text)
        text = patterns.PATH.sub(lambda m: self._token(m[0]), text)
        text = patterns.IN_HOME.sub(lambda m: self._token(m[0]), text)
        return self._all(patterns.WINDOWS_HOME, text, "home", lambda m: f"{m[1]}<user>")

    def _replaced(self, pattern: re.Pattern[str], path: str, text: str) -> str:
        return pattern.sub(lambda _: self._shown(path), text)

    def _token(self, path: str) -> str:
        # A full stop at the end belongs to the sentence.
        bare = path.rstrip(".")
        slash = "/" if bare.endswith("/") and len(bare) > 1 else ""
        if not bare.strip("/"):
            return path
        return f"{self._shown(bare.rstrip('/'))}{slash}{path[len(bare) :]}"

    def _shown(self, path: str) -> str:
        for place, name in self._identity.places.items():
            if path == place or path.startswith(f"{place}/"):
                self._count("path", 1)
                if name == "<python>" and (short := _library(path)):
                    return short
                return f"{name}{path[len(place) :]}"
        if patterns.SYSTEM.match(path) or (path.startswith("/") and path.count("/") == 1):
            return "<home>" if self._is_home(path) else path
        if short := _library(path):
            self._count("path", 1)
            return short
        return self._private(path)

    def _private(self, path: str) -> str:
        home = self._home(path)
        if home:
            self._count("home", 1)
            rest = path[len(home) :].strip("/")
            if not rest:
                return "<home>"
            folder, base = posixpath.split(rest)
            return (
                f"<home>/{self._folder(f'{home}/{folder}')}/{base}" if folder else f"<home>/{base}"
            )
        self._count("path", 1)
        folder, base = posixpath.split(path)
        return f"{self._folder(folder)}/{base}"

    def _folder(self, folder: str) -> str:
        return self._folders.setdefault(folder, f"<dir-{len(self._folders) + 1}>")

    def _is_home(self, path: str) -> bool:
        if path == "/root" or path in self._identity.homes:
            self._count("home", 1)
            return True
        return False

    def _home(self, path: str) -> str:
        """The home folder that the path is in; '' if none."""
        for home in sorted(self._identity.homes, key=len, reverse=True):
            if path == home or path.startswith(f"{home}/"):
                return home
        if path.startswith(("~", "/root/")) or path == "/root":
            return path.partition("/")[0] if path.startswith("~") else "/root"
        found = patterns.HOME_OF.search(path)
        return path[: found.end()] if found is not None else ""

    # --- names ----------------------------------------------------------------------------------

    def _name_rules(self, names: set[str], kind: str) -> list[tuple[re.Pattern[str], str, str]]:
        """(pattern, kind, replacement), longer names first."""
        rules: list[tuple[re.Pattern[str], str, str]] = []
        for name in sorted(names, key=lambda n: (-len(n), n)):
            literal = re.escape(name)
            if is_distinctive(name):
                inside = is_struck_inside(name)
                before, after = ("", "") if inside else ("(?<![A-Za-z0-9])", "(?![A-Za-z0-9])")
                tail = r"(?:\.[a-z][a-z0-9-]*)*" if kind == "host" and "." not in name else ""
                rules.append((re.compile(f"(?i){before}{literal}{after}{tail}"), kind, f"<{kind}>"))
            elif kind == "user":
                mark = rf"\1<{kind}>"
                rules.append((re.compile(rf"{_USER_BEFORE}{literal}(?![\w-])"), kind, mark))
                rules.append((re.compile(rf"(?<![\w.-]){literal}(?=@[\w-])"), kind, f"<{kind}>"))
            else:
                mark = rf"\1<{kind}>"
                rules.append((re.compile(rf"{_HOST_BEFORE}{literal}(?![\w-])"), kind, mark))
        return rules

    # --- counting -------------------------------------------------------------------------------

    def _all(
        self, pattern: re.Pattern[str], text: str, kind: str, new: Callable[[re.Match[str]], str]
    ) -> str:
        text, count = pattern.subn(new, text)
        self._count(kind, count)
        return text

    def _counted(self, kind: str, placeholder: str) -> str:
        self._count(kind, 1)
        return placeholder

    def _count(self, kind: str, times: int) -> None:
        if times:
            self.counts[kind] += times


def _login(match: re.Match[str]) -> str:
    return f"{match['before'] or ''}<user>@<host>"


def _library(path: str) -> str:
    """The part of a path of Python or an installed package that is the same on every machine."""
    if found := patterns.SITE.match(path):
        return f"<site-packages>/{path[found.end() :]}"
    if found := patterns.STDLIB.match(path):
        return f"<python>/{path[found.end() :]}"
    return ""


def _is_hard(path: str) -> bool:
    """Whether the pattern for paths does not match all of it."""
    whole = patterns.PATH.fullmatch(path) is not None
    return len(path) > 3 and "/" in path.strip("/") and not whole


def _standing_alone(text: str) -> re.Pattern[str]:
    end = r"(?![\w-])" if text[-1].isalnum() else ""
    return re.compile(rf"(?<![\w./-]){re.escape(text)}{end}")
