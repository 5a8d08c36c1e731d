"""The ingredients of anybody's command: what `--vary` names, or what the command line and the
environment suggest.

An ingredient is taken out by an edit: "env:NAME" a variable (None: without it), "flag:NAME" a word
of the command (None: without it), "python" the interpreter.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError, suggestion
from ttf.machine.thread_variables import THREAD_VARIABLES, thread_environment
from ttf.process.interpreter import interpreter
from ttf.tools.bisect.factors import Factor
from ttf.tools.studies.guarded_run import PINNED

ENV, FLAG, PYTHON, REMEDY = "env", "flag", "python", "remedy"
THREADS: Final = "threads"
HOW_TO_VARY: Final = (
    "Write for example --vary env:OMP_NUM_THREADS=1, --vary flag:--batch-size=4 or "
    "--vary python:/path/to/python."
)
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_INTERPRETER: Final = re.compile(r"(?:python|pypy)[\d.]*t?")
_NUMBER: Final = re.compile(r"-[\d.]")
# Those that change least are named first.
_RANKS: Final = {REMEDY: 100, ENV: 200, FLAG: 300, PYTHON: 400}
# What the number of a flag means, by its name: the value that makes it harmless.
_NUMBERS: Final[Mapping[re.Pattern[str], int | None]] = {
    re.compile(r"accum"): 1,
    re.compile(r"threads?$"): 1,
    re.compile(r"workers?$"): 0,
    re.compile(r"(^|[-_])bs$|batch"): None,  # a quarter
}


def varied(texts: Sequence[str], words: Sequence[str]) -> tuple[Factor, ...]:
    """The ingredients that `--vary` names. Raises ConfigError with all problems."""
    factors, problems = [], []
    for text in texts:
        try:
            factors.append(_varied(text, words))
        except ValueError as error:
            problems.append(f"--vary {text}: {error}")
    names = [factor.name for factor in factors]
    problems += [f"--vary {name} is given twice" for name in set(names) if names.count(name) > 1]
    if problems:
        raise ConfigError(
            "ttf bisect cannot vary this command:", problems=problems, hint=HOW_TO_VARY
        )
    return _ranked(factors)


def proposed(words: Sequence[str], environment: Mapping[str, str]) -> tuple[Factor, ...]:
    """What is worth a try if nothing was named: one thread, the variables of native libraries, and
    the flags of the command whose names say what they do."""
    factors = []
    if any(environment.get(name) != "1" for name in THREAD_VARIABLES):
        factors.append(_varied(f"{REMEDY}:{THREADS}", words))
    for name in sorted(environment):
        if PINNED.fullmatch(name) and name not in THREAD_VARIABLES:
            factors.append(_unset(name, environment[name]))
    return _ranked([*factors, *_of_flags(words)])


def _ranked(factors: Sequence[Factor]) -> tuple[Factor, ...]:
    kinds = [factor.name.partition(":")[0] for factor in factors]
    return tuple(
        replace(factor, rank=_RANKS[kind] + place)
        for place, (factor, kind) in enumerate(zip(factors, kinds, strict=True))
    )


def _of_flags(words: Sequence[str]) -> Iterator[Factor]:
    for place, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if not flag.startswith("-") or word == "--":
            continue
        if not equals:
            value = words[place + 1] if place + 1 < len(words) else ""
        if value.isdecimal():
            harmless = _harmless(flag.lstrip("-").lower(), int(value))
            if harmless is not None and str(harmless) != value:
                yield _varied(f"{FLAG}:{flag}={harmless}", words)
        elif flag.startswith("--") and not equals and _taken(words, place) == 1:
            yield _varied(f"{FLAG}:{flag}", words)


def _harmless(name: str, now: int) -> int | None:
    for pattern, value in _NUMBERS.items():
        if pattern.search(name):
            return max(1, now // 4) if value is None else value
    return None


def _varied(text: str, words: Sequence[str]) -> Factor:
    """Raises ValueError."""
    kind, colon, rest = text.partition(":")
    kinds = {ENV: _environment, FLAG: _flag, PYTHON: _python, REMEDY: _remedy}
    if not colon or kind not in kinds:
        hint = suggestion(kind, kinds) if colon else ""
        raise ValueError(f"it does not begin with env:, flag:, python: or remedy:.{hint}")
    return kinds[kind](rest.strip(), words)


def _environment(text: str, _: Sequence[str]) -> Factor:
    name, equals, value = text.partition("=")
    if not _NAME.fullmatch(name):
        raise ValueError(f"{name!r} is not the name of a variable.")
    now = os.environ.get(name)
    then = value if equals else None
    if now == then:
        state = "not set" if now is None else f"already {now!r}"
        raise ValueError(f"it changes nothing: {name} is {state}.")
    if then is None:
        return _unset(name, str(now))
    what = f"{name} {'not set' if now is None else now} -> {then}"
    return Factor(name=f"{ENV}:{text}", what=what, edits={f"{ENV}:{name}": then})


def _unset(name: str, now: str) -> Factor:
    return Factor(
        name=f"{ENV}:{name}", what=f"{name} {now} -> not set", edits={f"{ENV}:{name}": None}
    )


def _remedy(name: str, _: Sequence[str]) -> Factor:
    if name != THREADS:
        raise ValueError(f"the only remedy that is a set of variables is remedy:{THREADS}.")
    edits = {f"{ENV}:{key}": value for key, value in thread_environment(1).items()}
    return Factor(name=f"{REMEDY}:{name}", what="one thread (OMP_NUM_THREADS=1, ...)", edits=edits)


def _flag(text: str, words: Sequence[str]) -> Factor:
    name, equals, value = text.partition("=")
    then = value if equals else None
    if not name or name == "--":
        raise ValueError("the flag has no name.")
    changed = with_flag(words, name, then)
    if changed == list(words):
        state = "not in the command" if then is None else f"already {then!r}"
        raise ValueError(f"it changes nothing: {name} is {state}.")
    if not name.startswith("-") and not any(w.startswith(f"{name}=") for w in words):
        raise ValueError(f"there is no word {name}=... in the command; an option begins with -.")
    what = f"{_shown(words, name)} -> {_shown(changed, name)}"
    return Factor(name=f"{FLAG}:{text}", what=what, edits={f"{FLAG}:{name}": then})


def _shown(words: Sequence[str], name: str) -> str:
    place = _place(words, name)
    return (
        f"without {name}"
        if place is None
        else " ".join(words[place : place + _taken(words, place)])
    )


def _python(text: str, words: Sequence[str]) -> Factor:
    if interpreter_place(words) is None:
        raise ValueError(
            "no word of the command is a Python interpreter, so there is none to replace."
        )
    path = interpreter(text)
    return Factor(
        name=f"{PYTHON}:{text}", what=f"interpreter {path}", edits={PYTHON: path}, component=True
    )


# --- edits of a command --------------------------------------------------------------------------


def edited(
    words: Sequence[str], edits: Mapping[str, Any]
) -> tuple[list[str], dict[str, str | None]]:
    """The words of the command and the changes of its environment."""
    out, environment = list(words), {}
    for key, value in edits.items():
        kind, _, name = key.partition(":")
        if kind == ENV:
            environment[name] = value
        elif kind == FLAG:
            out = with_flag(out, name, value)
        elif (place := interpreter_place(out)) is not None:
            out[place] = value
    return out, environment


def with_flag(words: Sequence[str], name: str, value: str | None) -> list[str]:
    """With another value of the flag; None: without it and its value.

    >>> with_flag(["run", "--bs", "64", "--amp"], "--bs", "4")
    ['run', '--bs', '4', '--amp']
    >>> with_flag(["run", "--bs=64", "--amp"], "--amp", None)
    ['run', '--bs=64']
    >>> with_flag(["run"], "--lr", "0.1")
    ['run', '--lr', '0.1']
    """
    place = _place(words, name)
    if place is None:
        return list(words) if value is None else [*words, name, value]
    before, after = list(words[:place]), list(words[place + _taken(words, place) :])
    if value is None:
        return before + after
    joined = "=" in words[place]
    return before + ([f"{name}={value}"] if joined else [name, value]) + after


def _place(words: Sequence[str], name: str) -> int | None:
    # The last one counts for most parsers.
    places = [i for i, w in enumerate(words) if w == name or w.startswith(f"{name}=")]
    return places[-1] if places else None


def _taken(words: Sequence[str], place: int) -> int:
    """How many words the flag there takes: 2 with a value after it."""
    if "=" in words[place] or place + 1 >= len(words):
        return 1
    follows = words[place + 1]
    return 1 if follows.startswith("-") and not _NUMBER.match(follows) else 2


def interpreter_place(words: Sequence[str]) -> int | None:
    places = (i for i, word in enumerate(words) if _INTERPRETER.fullmatch(Path(word).name))
    return next(places, None)
