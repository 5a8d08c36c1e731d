"""Checks every configuration of a decision before the first is trained."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from ttf.errors import ConfigError, Told
from ttf.process.error_document import from_document
from ttf.tools.decision.record import Candidate, Terms
from ttf.tools.studies.child import ask

_PLAN_ALL: Final = "ttf.tools.decision.check_task:plan_all"


def num_gates(candidates: Sequence[Candidate], terms: Terms, *, remote: bool) -> list[int]:
    """Of each. Raises what `ttf train --plan` would raise, with the name of the file, and ConfigError
    if two configurations are the same."""
    files = [candidate.file for candidate in candidates]
    request = {**asdict(terms), "files": files, "remote": remote}
    found = ask(_PLAN_ALL, request, to="check the configurations")["found"]
    refused = [
        (candidate, from_document(answer["error"]))
        for candidate, answer in zip(candidates, found, strict=True)
        if "error" in answer
    ]
    if refused:
        raise _one_of(refused)
    for (one, first), (other, second) in itertools.combinations(
        zip(candidates, found, strict=True), 2
    ):
        if first["flat"] == second["flat"]:
            raise _same(one, other, terms)
    return [answer["gates"] for answer in found]


def _one_of(refused: Sequence[tuple[Candidate, Told]]) -> Told:
    # The first with its class and exit code, and the texts of all.
    error = refused[0][1]
    texts = [f"{candidate.title} would be refused. {told}" for candidate, told in refused]
    error.args = ("\n".join(texts),)
    error.hint = f"Nothing was trained. {error.hint}".rstrip()
    return error


def _same(one: Candidate, other: Candidate, terms: Terms) -> ConfigError:
    names = f"{Path(one.file).name} and {Path(other.file).name}"
    told = ", ".join([*terms.flags, *(f"--set {text}" for text in terms.sets)])
    also = f" Options count for all of them, here {told}." if told else ""
    return ConfigError(
        f"{names} are the same configuration: what ends the one would end the other.",
        hint=f"Change a value in the second file.{also}",
    )
