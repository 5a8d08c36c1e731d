"""Strikes out secrets: one module for every file that a user may send to others.

Values of secret variables and options go wherever they stand; other secrets by the names before
them and by their own form (`secret_patterns`). Each leaves `<secret-NAME>`, so that a reader can
follow it and a list can say what was struck out.
"""

from __future__ import annotations

import html
import json
import os
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from urllib.parse import quote

from ttf.text import secret_patterns as patterns
from ttf.text.secret_names import is_value, level, looks_random

_SHORTEST: Final = 6  # Shorter values are parts of common words; they go only after their names.
_PLACEHOLDER: Final = re.compile(r"<secret-([\w.-]{1,80})>")
_NAME: Final = re.compile(r"[^\w.-]")
_KEYS: Final = frozenset(["key", "keys"])  # JSON of ttf has them for keys of dictionaries
_FEW: Final = 64  # So many known values are sought one by one; that is faster.
_LONGEST_KEY: Final = 16_384  # characters; an RSA key of 16,384 bits has 12,600


def placeholder(name: str) -> str:
    return f"<secret-{_NAME.sub('', name).strip('-')[:80] or 'value'}>"


def struck_out(texts: Iterable[str]) -> Counter[str]:
    """The names in the placeholders of these texts."""
    return Counter(name for text in texts for name in _PLACEHOLDER.findall(text))


class Secrets:
    """Knows the values of secret variables of an environment, and of secret options of a command
    line; by default those of this process."""

    def __init__(
        self,
        environment: Mapping[str, str] | None = None,
        command: Sequence[str] | None = None,
    ) -> None:
        self.struck: Counter[str] = Counter()
        self._values: dict[str, str] = {}  # value: name
        self._known: list[tuple[str, str]] = []
        self._starts: dict[str, list[tuple[str, str]]] = {}  # the same, if they are many
        self._learning = True
        self._learn_environment(os.environ if environment is None else environment)
        self.words(sys.argv if command is None else command)
        self._ready()

    def learn(self, texts: Iterable[str]) -> None:
        """What stands after a name in one text goes from the others too, if it is no word."""
        before, self._values = self._values, {}
        self._learning = True
        for text in texts:
            self.text(text)
        random = {v: name for v, name in self._values.items() if looks_random(v)}
        self._values = {**random, **before}
        self._ready()

    def _ready(self) -> None:
        longest = sorted(self._values.items(), key=lambda known: (-len(known[0]), known))
        self._known = [(v, name) for value, name in longest for v in variants(value)]
        self._starts = {}
        for value, name in self._known if len(self._known) > _FEW else ():
            self._starts.setdefault(value[:_SHORTEST], []).append((value, name))
        self._learning = False
        self.struck.clear()

    def text(self, text: str) -> str:
        if patterns.DISGUISE.search(text) is not None:
            text = "".join(map(self._disguised, text.splitlines(keepends=True)))
        return self._struck(text)

    def _disguised(self, line: str) -> str:
        """A line with a secret goes without the backslashes of Markdown and what nobody sees: they
        may stand inside the secret. Any other line stays as it is."""
        bare = patterns.DISGUISE.sub(r"\g<kept>", line)
        struck = bare if bare == line else self._struck(bare)
        return line if struck == bare else struck

    def _struck(self, text: str) -> str:
        text = self.known(text)
        text = patterns.KEY_BLOCK.sub(lambda m: self._strike("private-key", m[0]), text)
        text = self._ends_of_keys(text)
        text = patterns.USERINFO.sub(self._userinfo, text)
        for name, token in patterns.TOKENS:
            text = token.sub(lambda m, name=name: self._strike(name, m[0]), text)  # type: ignore[misc]
        for name, place in patterns.PLACES:
            text = place.sub(lambda m, name=name: self._place(name, m), text)  # type: ignore[misc]
        return self._named(text)

    def known(self, text: str) -> str:
        """Only the values that are known: for a text made of parts that were struck."""
        if self._starts:
            return self._known_of_many(text)
        for value, name in self._known:
            if value in text:
                self.struck[_label(name)] += text.count(value)
                text = text.replace(value, placeholder(name))
        return text

    def _known_of_many(self, text: str) -> str:
        # A file that somebody else made can teach thousands: all are sought in one pass.
        pieces, copied = [], 0
        for at in range(len(text) - _SHORTEST + 1):
            for value, name in self._starts.get(text[at : at + _SHORTEST], ()):
                if text.startswith(value, at):
                    if at >= copied:
                        self.struck[_label(name)] += 1
                        pieces += [text[copied:at], placeholder(name)]
                    copied = max(copied, at + len(value))  # of two that overlap nothing is left
                    break
        return "".join([*pieces, text[copied:]])

    def words(self, words: Sequence[str]) -> list[str]:
        """A command line, word by word."""
        found: list[str] = []
        for word in words:
            before = found[-1] if found else ""
            found.append(self._word(before, str(word)))
        return found

    def value(self, value: Any) -> Any:
        """The same JSON value with its strings struck; a list under `command` as words."""
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, Mapping):
            return {self.text(str(key)): self.entry(str(key), v) for key, v in value.items()}
        return [self.value(inner) for inner in value] if isinstance(value, list | tuple) else value

    def bytes(self, data: bytes) -> bytes:
        """The same bytes without secrets, also where they are no UTF-8."""
        text = data.decode("utf-8", "surrogateescape")
        return self.text(text).encode("utf-8", "surrogateescape")

    def entry(self, key: str, value: Any) -> Any:
        """The value of a key of JSON or of a configuration."""
        if key == "command" and isinstance(value, list | tuple):
            return self.words([str(word) for word in value])
        secret = level(key) != "no" and key.lower() not in _KEYS
        if isinstance(value, str) and secret and is_value(key, value):
            return self._strike(key, value)
        return self.value(value)

    # --- learning -------------------------------------------------------------------------------

    def _learn_environment(self, environment: Mapping[str, str]) -> None:
        for name, value in environment.items():
            if level(name) != "no" and is_value(name, value):
                self._learn(name, value)
            elif "://" in value:
                patterns.USERINFO.sub(self._userinfo, value)

    def _learn(self, name: str, value: str) -> None:
        if len(value) >= _SHORTEST and not value.isspace() and not _PLACEHOLDER.search(value):
            self._values.setdefault(value, name)

    # --- striking -------------------------------------------------------------------------------

    def _strike(self, name: str, value: str) -> str:
        if self._learning:
            self._learn(name, value)
        self.struck[_label(name)] += 1
        return placeholder(name)

    def _ends_of_keys(self, text: str) -> str:
        """Without keys whose beginning is not there, because the text was cut."""
        pieces, copied, after = [], 0, 0
        for end in patterns.KEY_END.finditer(text):
            start = _start_of_key(text, max(after, end.start() - _LONGEST_KEY), end.start())
            after = end.end()
            if start < end.start():
                pieces += [text[copied:start], self._strike("private-key", text[start : end.end()])]
                copied = end.end()
        return "".join([*pieces, text[copied:]])

    def _userinfo(self, match: re.Match[str]) -> str:
        user, password = match["user"], match["password"]
        if password:
            if _PLACEHOLDER.fullmatch(password, 1):
                return match[0]
            return f"{match['scheme']}{user}:{self._strike('url-password', password[1:])}@"
        if looks_random(user) and not _PLACEHOLDER.search(user):
            return f"{match['scheme']}{self._strike('url-password', user)}@"
        return match[0]

    def _place(self, label: str, match: re.Match[str]) -> str:
        secret, name = match["secret"], match.groupdict().get("name") or label
        if not is_value(label, secret):
            return match[0]
        if "name" in match.groupdict():
            sure = level(name)
            if sure == "no" or (sure == "weak" and not looks_random(secret)):
                return match[0]
        start = match.start("secret") - match.start()
        return match[0][:start] + self._strike(name, secret) + match[0][start + len(secret) :]

    def _word(self, before: str, word: str) -> str:
        name = before.lstrip("-")
        if before.startswith("-") and "=" not in before and not word.startswith("-"):
            if level(name) != "no" and is_value(name, word):
                return self._strike(name, word)
            joined = self.text(f"{before} {word}")
            if joined.startswith(f"{before} "):
                return joined.removeprefix(f"{before} ")
        return self.text(word)

    def _named(self, text: str) -> str:
        """Values after secret names. Other values are searched again: they may hold such pairs."""
        pieces, copied, at = [], 0, 0
        while (match := patterns.NAMED.search(text, at)) is not None:
            at = match.end()
            opened = patterns.OPENING.match(text, at)
            start = opened.end() if opened else at
            found = self._value_after(match, text, start, quoted=bool(opened))
            if found:
                pieces += [text[copied:start], self._strike(match["name"], text[start:found])]
                copied = at = found
        return "".join([*pieces, text[copied:]])

    def _value_after(self, match: re.Match[str], text: str, start: int, *, quoted: bool) -> int:
        """Where the secret that starts at `start` ends; 0 if there is none."""
        name = match["name"].rstrip(".-")
        sure = level(name)
        if sure == "no":
            return 0
        value = _value(name, text, start, quoted=quoted)
        if value is None or not is_value(name, value):
            return 0
        if match["apart"] is not None:
            option = not match["closed"] or "," in match["apart"] or quoted
            return start + len(value) if option and not value.startswith("-") else 0
        spaced = ":" in match["sets"] and match["sets"].endswith(" ")
        prose = spaced and not match["closed"] and not quoted
        if prose and not (match["dashes"] or name.isupper() or "-" in name):
            certain = len(value) >= _SHORTEST if sure == "strong" else looks_random(value)
        elif sure == "strong" or match["dashes"] or name.isupper():
            certain = True
        else:
            short = sure == "likely" and len(value) >= 4 and value[0] not in "/."
            certain = short or looks_random(value)
        return start + len(value) if certain else 0


def _start_of_key(text: str, first: int, end: int) -> int:
    """Where the lines of a key that end before `end` begin; `end` if there are none."""
    edges = [first, *(found.end() for found in patterns.NEWLINE.finditer(text, first, end))]
    start = end
    for edge in reversed(edges):
        if patterns.KEY_LINE.fullmatch(text, edge, start) is None:
            break
        start = edge
    return start


def _value(name: str, text: str, start: int, *, quoted: bool) -> str | None:
    scheme = patterns.SCHEME.match(text, start)
    if name.lower() in patterns.HEADERS:
        rest = patterns.REST_OF_LINE.match(text, scheme.end() if scheme else start)
        return text[start : rest.end()] if rest else None
    if quoted:
        quote_mark = text[start - 1]
        end = text.find(quote_mark, start, start + 4096)
        inside = text[start:end] if end > start else ""
        if inside and "\n" not in inside and "<secret-" not in inside:
            return inside.rstrip("\\")
    value = patterns.VALUE.match(text, scheme.end() if scheme else start)
    return text[start : value.end()] if value else None


def _label(name: str) -> str:
    return placeholder(name)[len("<secret-") : -1]


def variants(text: str) -> list[str]:
    """The text as in plain text, JSON (with and without \\u), HTML, Markdown, repr and URLs; longest
    first."""
    found = {
        text,
        json.dumps(text)[1:-1],
        json.dumps(text, ensure_ascii=False)[1:-1],
        html.escape(text),
        patterns.MARKUP.sub(r"\\\g<0>", text),
        repr(text)[1:-1],
        quote(text, safe="", errors="surrogateescape"),
        quote(text, errors="surrogateescape"),
    }
    return sorted(found, key=lambda v: (-len(v), v))
