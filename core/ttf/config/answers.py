"""What is said about a setting that does not exist here: the key or flag that it stands for, or why
there is none."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from ttf.config.resolve import FLAGS, Keys, leaves, parse_value
from ttf.config.synonyms import Meaning, Untranslatable, beside, meaning, value_here, words
from ttf.config.toml import render
from ttf.errors import suggestion
from ttf.text.shell import quoted


def answer(path: Keys, value: Any = None) -> str:
    """' Here it is train.batch_size (--batch-size).', or a reason; "" if the name is not known."""
    if isinstance(value, Mapping) and value:
        return ""  # a section: its keys are answered
    found = meaning(path)
    if found is None:
        return ""
    if found.reason:
        return f" Not needed: {found.reason}." if found.needless else f" {_sentence(found.reason)}"
    try:
        here = value_here(path[-1], found.key, value)
    except Untranslatable as error:
        return f" {_sentence(str(error))}"
    told = found.key if here == value else f"{found.key} = {render(here)}"
    flag = flag_of(found.key)
    return f" Here it is {told}{f' ({flag})' if flag else ''}."


def _sentence(reason: str) -> str:
    return f"{reason[:1].upper()}{reason[1:]}."


def within_unknown(path: Keys, value: Any) -> Iterator[tuple[Keys, str]]:
    """The keys of an unknown section that stand for a key here, each with what is said about it."""
    from ttf.config.reference import elsewhere, in_section, top_sections

    if not isinstance(value, Mapping):
        return
    near = difflib.get_close_matches(path[-1][:100], top_sections(), n=1) if len(path) == 1 else []
    for leaf, item in leaves(path, value):
        if leaf == path or (near and in_section(near[0], leaf[-1])):
            continue  # the section is only misspelt, which is said of the section
        meant = answer(leaf, item)
        if not meant and (found := one_of(elsewhere(leaf[-1]), leaf)):
            meant = f" Did you mean {found!r}?"
        if meant:
            yield leaf, f"no such key.{meant}"


def one_of(paths: Sequence[str], path: Keys) -> str:
    """The key that somebody means who names it without its section; "" if it may be several."""
    found = [key for key in paths if key in FLAGS.values()]
    found = found or [key for key in paths if not key.startswith("tower.doc.")]
    return beside(found[0], path) if len(found) == 1 else ""


def flag_of(key: str) -> str:
    return next((flag for flag, known in FLAGS.items() if known == key), "")


# --- options of the command line ----------------------------------------------------------------


def foreign_flags(argv: Sequence[str], known: Collection[str]) -> list[str]:
    """What is said about each option that the command does not know; empty if the name of none is
    known from elsewhere."""
    from ttf.config.reference import elsewhere

    said: list[str] = []
    answered = False
    for flag, text in _unknown(argv, known):
        path = (words(flag),)
        found = meaning(path)
        if found is None and (key := one_of(elsewhere(path[0]), path)):
            found = Meaning(key=key)
        answered |= found is not None
        said.append(f"{flag}: {_as_flag(flag, text, found, known)}")
    return said if answered else []


def _unknown(argv: Sequence[str], known: Collection[str]) -> Iterator[tuple[str, str | None]]:
    # With the value that follows, if any does.
    words_ = list(argv[: argv.index("--")] if "--" in argv else argv)
    for word, after in zip(words_, [*words_[1:], "-"], strict=True):
        flag, equals, text = word.partition("=")
        if flag.startswith("--") and flag not in known:
            yield flag, text if equals else None if after.startswith("-") else after


def _as_flag(flag: str, text: str | None, found: Meaning | None, known: Collection[str]) -> str:
    if found is None:
        return f"no such option.{suggestion(flag, known)}"
    if found.reason:
        return f"{'not needed: ' if found.needless else ''}{found.reason}"
    try:
        value = value_here(flag, found.key, True if text is None else parse_value(text))
    except Untranslatable as error:
        return str(error)
    here = "" if text is None and value is True else quoted(_as_text(value))
    if (ours := flag_of(found.key)) in known:
        return f"here it is {ours} {here}".rstrip()
    if "--set" in known:
        return f"here it is --set {found.key}={here or 'true'}"
    return f"here it is the key {found.key} of the configuration"


def _as_text(value: Any) -> str:
    return value if isinstance(value, str) else render(value)
