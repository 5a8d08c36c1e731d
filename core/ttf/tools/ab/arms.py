"""Arms from files and variations: named, and checked before anything runs."""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from ttf.errors import ConfigError
from ttf.tools.ab.setup import Arm
from ttf.tools.studies.child import ask
from ttf.tools.studies.same_data import data_of
from ttf.tools.studies.study import sha256_of

EVALUATIONS: Final = 6  # Evaluations during a repeat, by default: enough for recall against time.
# Keys that the study sets itself.
_SET_BY_STUDY: Final = {
    "train.seed": "ttf ab sets the seed of each block (--seed)",
    "supervise.remedies": "in ttf ab, a repeat must not change its configuration (--no-remedies)",
    "evaluate.patience": "ttf ab compares arms after the same number of steps",
    "evaluate.keep_best": "ttf ab compares arms after the same number of steps",
    "gates": "ttf ab compares arms after the same number of steps",
}
_RESOLVE: Final = "ttf.tools.ab.resolve_task:resolve_arms"
_CLOSES: Final = {"[": "]", "{": "}", "(": ")"}


def arms_from(files: Sequence[Path], vary: Sequence[str] = ()) -> tuple[Arm, ...]:
    """Every file with every combination of variations. Raises ConfigError with all problems."""
    problems: list[str] = []
    paths = [path / "run.toml" if path.is_dir() else path for path in files]
    problems += [f"{path} does not exist" for path in paths if not path.is_file()]
    varied = list(_varied(vary, problems))
    whole = [path.absolute() for path in paths]
    for path in dict.fromkeys(p for p in whole if whole.count(p) > 1):
        problems.append(
            f"{path} is given twice; to compare a configuration with itself, use a copy of the file"
        )
    if problems:
        raise ConfigError("ttf ab cannot compare these arms:", problems=problems)
    combinations = list(itertools.product(*varied))
    arms = [
        _arm(path, label, sets, single=len(paths) == 1)
        for path, label in zip(whole, labels(whole), strict=True)
        for sets in combinations
    ]
    if len(arms) < 2:
        raise ConfigError(
            "A comparison needs at least two arms, but only one was given.",
            hint=(
                "Use for example ttf ab a.toml b.toml, or ttf ab a.toml --vary "
                "miner.name=faiss,hnswlib"
            ),
        )
    return _with_slugs(arms)


def _varied(texts: Sequence[str], problems: list[str]) -> Iterator[list[str]]:
    """For each `--vary`, the texts for `--set`."""
    keys: set[str] = set()
    for text in texts:
        key, equals, values = text.partition("=")
        key, parts = key.strip(), split_values(values)
        if not equals or not key or not all(parts):
            problems.append(f"--vary {text}: write it as key.path=value,value")
        elif key in keys:
            problems.append(f"--vary {key} is given twice; write all values in one --vary")
        elif len(set(parts)) < len(parts):
            problems.append(f"--vary {text}: one of the values is given twice")
        elif key in _SET_BY_STUDY:
            problems.append(f"--vary {key}: {_SET_BY_STUDY[key]}")
        else:
            yield [f"{key}={part}" for part in parts]
        keys.add(key)


def split_values(text: str) -> list[str]:
    """Splits at commas outside of quotes and brackets.

    >>> split_values("faiss, hnswlib")
    ['faiss', 'hnswlib']
    >>> split_values('[1, 10], "a,b"')
    ['[1, 10]', '"a,b"']
    """
    parts, closing, quote = [""], "", ""
    for character in text:
        if quote:
            quote = "" if character == quote else quote
        elif character in "\"'":
            quote = character
        elif character in _CLOSES:
            closing = _CLOSES[character] + closing
        elif closing and character == closing[0]:
            closing = closing[1:]
        elif character == "," and not closing:
            parts.append("")
            continue
        parts[-1] += character
    return [part.strip() for part in parts]


def labels(paths: Sequence[Path]) -> list[str]:
    """File stems, with as many folders as needed to be unique; a run has the name of its folder."""
    parts = [_parts(path) for path in paths]
    for count in range(1, max(map(len, parts), default=1) + 1):
        names = ["/".join(each[-count:]) for each in parts]
        if len(set(names)) == len(names):
            return names
    return [str(path) for path in paths]  # a.toml beside a folder a that holds a run


def _parts(path: Path) -> tuple[str, ...]:
    folders = path.parent.parts[1:]
    is_run = path.name == "run.toml" and (path.parent / "manifest.json").is_file()
    return folders if is_run else (*folders, path.stem)


def _arm(path: Path, label: str, sets: tuple[str, ...], *, single: bool) -> Arm:
    words = [text.replace('"', "").replace("'", "") for text in sets]
    name = ", ".join(words if single and words else [label, *words])
    return Arm(name=name, toml=str(path), toml_sha256=sha256_of(path), sets=sets, slug="")


def _with_slugs(arms: Sequence[Arm]) -> tuple[Arm, ...]:
    # Numbered if names differ only in characters that are replaced.
    slugs = [re.sub(r"[^\w.=-]+", "-", arm.name).strip("-.")[:60] or "arm" for arm in arms]
    return tuple(
        replace(arm, slug=slug if slugs.count(slug) == 1 else f"{slug}-{number}")
        for number, (arm, slug) in enumerate(zip(arms, slugs, strict=True), start=1)
    )


def check_arms(
    arms: Sequence[Arm], sets: Sequence[str], steps: int | None
) -> tuple[tuple[Arm, ...], list[str], list[str]]:
    """The arms with their defaults filled in, notes about them, and the paths of their data.

    Resolves all configurations in one child process. Raises ConfigError with all problems.
    """
    _refuse_study_keys(sets, steps, arms)
    request = [{"toml": arm.toml, "sets": [*sets, *arm.sets]} for arm in arms]
    resolved = ask(_RESOLVE, {"arms": request}, to="read the configurations")["arms"]
    problems = list(_problems(arms, resolved))
    if problems:
        raise ConfigError(f"{_count(len(problems), 'problem')} in the arms:", problems=problems)
    out = [
        replace(arm, evaluate_every=_evaluate_every(values, steps))
        for arm, values in zip(arms, resolved, strict=True)
    ]
    data = {uri for values in resolved for uri in data_of(values["flat"], Path.cwd())}
    return tuple(out), list(_notes(out, resolved)), sorted(data)


def _problems(arms: Sequence[Arm], resolved: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    # Each problem once, with its arms.
    whose: dict[str, list[str]] = {}
    for arm, values in zip(arms, resolved, strict=True):
        for problem in values["problems"]:
            whose.setdefault(problem, []).append(arm.name)
    for problem, names in whose.items():
        yield f"{'every arm' if len(names) == len(arms) else '; '.join(names)}: {problem}"


def _refuse_study_keys(sets: Sequence[str], steps: int | None, arms: Sequence[Arm]) -> None:
    refused = dict(_SET_BY_STUDY)
    if steps is not None:
        refused["train.steps"] = "use --steps, which applies to all arms"
    texts = [*sets, *(text for arm in arms for text in arm.sets)]
    keys = dict.fromkeys(text.partition("=")[0].strip() for text in texts)
    problems = [f"{key}: {refused[key]}" for key in keys if key in refused]
    if problems:
        raise ConfigError(
            "The arms must not set these keys, because ttf ab sets them:", problems=problems
        )


def _evaluate_every(values: Mapping[str, Any], steps: int | None) -> int | None:
    # About `EVALUATIONS` in all; a run measured in epochs keeps its own setting.
    total = steps or values["steps"]
    if values["says_when"] or total is None:
        return None
    return max(1, math.ceil(total / EVALUATIONS))


def _notes(arms: Sequence[Arm], resolved: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    # Equal arms are allowed, as a test of the study itself.
    for (arm, values), (other, others) in itertools.combinations(
        zip(arms, resolved, strict=True), 2
    ):
        if values["flat"] == others["flat"]:
            yield (
                f"{arm.name} and {other.name} are the same configuration: every difference "
                "between them is chance."
            )


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
