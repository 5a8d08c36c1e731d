"""The results of a study for people and for scripts: sentence, table, commands, JSON document."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from ttf.errors import TtfError
from ttf.text.shell import quoted
from ttf.tools.bisect.experiment import BisectRun
from ttf.tools.bisect.factors import Factor
from ttf.tools.bisect.planner import BisectVerdict, Tally, sums
from ttf.tools.bisect.study import BisectStudy

HEADER: Final = ("without", "runs", "crashes", "p", "result")
_MOST_PAIRS: Final = 3


@dataclass(frozen=True, kw_only=True)
class Findings:
    study: BisectStudy
    verdict: BisectVerdict
    bound: int | None = None  # no more runs than this were allowed

    # --- facts ----------------------------------------------------------------------------------

    @property
    def baseline(self) -> tuple[int, int]:
        return self.study.tally.get(frozenset(), (0, 0))

    @property
    def culprit(self) -> Factor | None:
        if self.verdict.kind != "culprit":
            return None
        return self.study.setup.chosen(self.verdict.culprit)[0]

    @property
    def classes(self) -> Counter[str]:
        """The number of runs by class of incident."""
        return Counter(name for o in self.study.runs for name in o.classes)

    @property
    def advice(self) -> dict[str, Any]:
        """The settings that avoid the crash; empty if unknown."""
        if self.verdict.kind not in ("culprit", "pair"):
            return {}
        return self.study.setup.edits(self.verdict.culprit, self.study.folder)

    def smallest(self) -> tuple[BisectRun, str] | None:
        """The crash with the most taken out, and its command; the first if several are equal."""
        crashes = [o for o in self.study.runs if o.result == "crash"]
        if not crashes:
            return None
        best = max(crashes, key=lambda o: (len(o.ablated), -o.run))
        try:
            edits = self.study.setup.edits(best.ablated, self.study.folder)
        except TtfError:  # the user's data is gone meanwhile
            return None
        return best, self.study.setup.again(edits, best.seed)

    def data_in_use(self) -> set[str]:
        """Folders of rewritten data that the advice or the smallest command needs."""
        named = " ".join(map(str, self.advice.values()))
        smallest = self.smallest()
        named += " " + (smallest[1] if smallest else "")
        places = (self.study.folder / "data").glob("*")
        return {p.name for p in places if f"{p.absolute()}/" in named}

    def counts(self, name: str) -> tuple[int, int]:
        """Runs and crashes of all runs without this ingredient."""
        return sums({k: counts for k, counts in self.study.tally.items() if name in k})

    # --- JSON -----------------------------------------------------------------------------------

    def document(self) -> dict[str, Any]:
        """CONTRACT: `baseline`, `factors`, `culprit`, `confidence`, `advice`, `runs_total`."""
        runs, crashes = self.baseline
        smallest, counted = self.smallest(), len(self.study.counted)
        culprit, grid = self.culprit, self.study.grid
        return {
            "baseline": {"runs": runs, "crashes": crashes},
            "factors": [self._factor(f) for f in self.study.setup.factors],
            "culprit": culprit.name if culprit else None,
            "confidence": round(self.verdict.confidence, 4),
            "advice": self.advice,
            "runs_total": counted,
            "most_runs": self.bound,
            "verdict": self.verdict.kind,
            "text": self.sentence(),
            "crash_rate": round(self.verdict.rate, 3),
            "also_avoids": list(self.verdict.also),
            "pairs": [list(pair) for pair in self.pairs()],
            "suspects": [
                {"names": list(names), "probability": round(p, 4)}
                for names, p in self.verdict.suspects
            ],
            "classes": dict(self.classes),
            "smallest_failing": None
            if smallest is None
            else {"without": list(smallest[0].ablated), "command": smallest[1]},
            "not_applicable": dict(self.study.setup.passed),
            "could_not_be_tried": self.study.refused,
            "grid": {"runs": grid, "used": round(counted / grid, 3)},
            "folder": str(self.study.folder),
        }

    def _factor(self, factor: Factor) -> dict[str, Any]:
        runs, crashes = self.counts(factor.name)
        p = p_value(self.study.tally, factor.name) if runs else None
        return {
            "name": factor.name,
            "runs": runs,
            "crashes": crashes,
            "p_value": p,
            "what": factor.what,
            "state": self._state(factor),
        }

    # --- text -----------------------------------------------------------------------------------

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows of the table, the culprit first."""
        runs, crashes = self.baseline
        yield "(nothing)", str(runs), str(crashes), "", "the unchanged configuration"
        named = self.verdict.culprit
        for factor in sorted(self.study.setup.factors, key=lambda f: f.name not in named):
            count, crashed = self.counts(factor.name)
            p = f"{p_value(self.study.tally, factor.name):.2g}" if count else ""
            state = f"{self._state(factor)}: {factor.what}"
            yield factor.name, str(count), str(crashed), p, state

    def _state(self, factor: Factor) -> str:
        name, verdict = factor.name, self.verdict
        if name in self.study.refused:
            return "could not be tried"
        if name in verdict.culprit:
            return "CULPRIT" if verdict.kind == "culprit" else "ONE OF TWO"
        runs, crashes = self.counts(name)
        if crashes:
            return "cleared"
        if name in verdict.also:
            return "avoids it too"
        return "open" if runs else "not tried"

    def sentence(self) -> str:
        text = {
            "culprit": self._culprit_sentence,
            "pair": self._pair_sentence,
            "unexplained": self._unexplained_sentence,
            "healthy": self._healthy_sentence,
            "unsure": self._unsure_sentence,
        }[self.verdict.kind]()
        return f"{text}{self._classes_sentence()}"

    def _culprit_sentence(self) -> str:
        assert self.culprit is not None
        name = self.culprit.name
        clean = self.study.tally.get(frozenset({name}), (0, 0))[0]
        also = ", ".join(self.verdict.also)
        more = (
            f" These ingredients avoid the crash too, but they change more: {also}." if also else ""
        )
        return (
            f"The culprit is {name} ({self.culprit.what}), with a probability of "
            f"{_percent(self.verdict.confidence)}: when only this ingredient was removed, "
            f"none of {clean} runs crashed. Of the other runs, about {_percent(self.verdict.rate)} "
            f"crash.{more}"
        )

    def _pair_sentence(self) -> str:
        a, b = self.verdict.culprit
        return (
            f"No single ingredient explains the crash. Without both {a} and {b}, the run does not "
            f"crash ({_percent(self.verdict.confidence)} probability). There are probably two "
            "causes."
        )

    def _unexplained_sentence(self) -> str:
        return (
            "No ingredient explains the crash: the run also crashed without each of them "
            f"({_percent(self.verdict.confidence)} probability). The cause is something that all "
            f"runs have in common: {self.study.setup.unexplained()}."
        )

    def _healthy_sentence(self) -> str:
        runs, _ = self.baseline
        most = 1 - (1 - self.study.setup.confidence) ** (1 / max(1, runs))
        return (
            f"There was no crash in {runs} {self.study.setup.about}, so there is no "
            f"culprit. With {_percent(self.study.setup.confidence)} confidence, fewer than "
            f"{_percent(most)} of such runs crash. If the crash comes later, "
            f"{self.study.setup.if_later()}."
        )

    def _unsure_sentence(self) -> str:
        runs, crashes = self.baseline
        if not self.classes:
            return (
                f"Not sure: there was no crash in {runs} runs so far. More runs are needed to "
                "say that there is no fault."
            )
        likely = "; ".join(
            f"{' with '.join(names) or 'a cause that bisect cannot remove'} {_percent(p)}"
            for names, p in self.verdict.suspects[:4]
        )
        pairs = ""
        if self.pairs():
            shown = ", ".join(" with ".join(pair) for pair in self.pairs())
            pairs = f" These pairs may be the cause together: {shown}."
        return (
            f"Not sure: {len(self.study.counted)} runs are not enough ({crashes} of {runs} "
            f"unchanged runs crashed). Suspects: {likely}.{pairs}"
        )

    def _classes_sentence(self) -> str:
        if len(self.classes) < 2:
            return ""
        classes = ", ".join(f"{name} ({count})" for name, count in self.classes.most_common())
        return (
            f" There were crashes of several classes: {classes}. There may be two faults. After "
            "you have avoided this one, run ttf bisect again for the other."
        )

    def pairs(self) -> list[tuple[str, ...]]:
        """Pairs of ingredients that may both have to go, likeliest first."""
        pairs = [names for names, _ in self.verdict.suspects if len(names) == 2]
        return list(pairs[:_MOST_PAIRS])

    def commands(self) -> Iterator[tuple[str, str]]:
        """Titles and commands to type now."""
        smallest = self.smallest()
        if smallest is not None:
            out = ", ".join(smallest[0].ablated)
            what = f"without {out}" if out else "with all ingredients"
            yield f"Smallest command that crashed ({what})", smallest[1]
        if self.advice:
            yield "Command that avoids the crash", self.study.setup.avoiding(self.advice)
        if self.verdict.kind == "unsure":
            yield (
                "To continue",
                f"ttf bisect --resume {quoted(self.study.folder)} --max-runs 500",
            )


def _percent(share: float) -> str:
    if 0.995 <= share < 1:
        return "over 99%"
    return f"{100 * share:.0f}%"


def p_value(tally: Tally, name: str) -> float:
    """One-sided, Fisher's exact test: do runs without the ingredient crash less often?"""
    without = sums({k: v for k, v in tally.items() if name in k})
    rest = sums({k: v for k, v in tally.items() if name not in k})
    return fisher(without[1], without[0] - without[1], rest[1], rest[0] - rest[1])


def fisher(a: int, b: int, c: int, d: int) -> float:
    """The chance of `a` or fewer in the table [[a, b], [c, d]], were rows and columns independent.

    >>> round(fisher(0, 4, 4, 0), 4)
    0.0143
    """
    row, column, total = a + b, a + c, a + b + c + d
    low = max(0, row + column - total)
    ways = math.comb(total, row)
    return sum(math.comb(column, k) * math.comb(total - column, row - k)
               for k in range(low, a + 1)) / ways  # fmt: skip
