"""Studies of `ttf ab` made by hand: samples, analyses of them, and their pages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ttf.tools.ab.analysis import Analysis, ArmSummary, Comparison, Needs, PairVerdict
from ttf.tools.ab.measures import CRASH_RATE, PAIRED
from ttf.tools.ab.page import write_page
from ttf.tools.ab.sample import EvalPoint, RepeatIncident, RepeatOutcome, Sample

HOSTILE = "<script>alert('1')</script>|`*_\n| --- |"
LONG = "miner.name=hnswlib, miner.isolation=process, tower.query.name=transformer, train.lr=0.0003"


def sample(
    arm: str, block: int, *, outcome: RepeatOutcome = "clean", speed: float = 1200.0
) -> Sample:
    """A repeat of 100 steps; a crash comes at step 40."""
    ended, crashed = outcome != "lost", outcome in ("survived", "lost")
    metrics = {"recall@10": 0.4 + block / 1000, "mrr@10": 0.2, "recall@100": 0.7, "recall@1": 0.1}
    return Sample(
        arm=arm,
        block=block,
        position=0,
        seed=7 + block,
        outcome=outcome,
        exit_code=0 if ended else 5,
        reason="" if ended else "it crashed repeatedly, <b>really</b>",
        incidents=(RepeatIncident(name="segfault", process="trainer", step=40),) if crashed else (),
        steps=100 if ended else 40,
        wall_s=12.5,
        samples_per_s=speed + block if ended else None,
        peak_anon_mb=500.0 + block if ended else None,
        memory_slope_mb_per_1k_steps=0.5 if ended else None,
        metrics=metrics if ended else {},
        evaluated=tuple(
            EvalPoint(step=step, seconds=step / 10, metrics={"recall@10": step / 250})
            for step in (20, 60, 100)
            if ended or step <= 40
        ),
        loss=tuple((float(x), 5.0 - x / 40) for x in range(1, 101 if ended else 41, 3)),
        memory=tuple((x / 4, 300.0 + x) for x in range(40)),
        weights_sha256=f"{block:064x}" if ended else "",
        exact=outcome == "clean",
    )


def samples(names: list[str], repeats: int, lost: tuple[str, ...] = ()) -> list[Sample]:
    """Every third repeat of the first arm survives a crash; all of an arm in `lost` are lost."""
    return [
        sample(
            name,
            block,
            outcome="lost"
            if name in lost
            else "survived"
            if name == names[0] and block % 3 == 0
            else "clean",
            speed=1200.0 + 50 * place,
        )
        for block in range(repeats)
        for place, name in enumerate(names)
    ]


def analysis(names: list[str], found: list[Sample]) -> Analysis:
    """Summaries as they are of the samples; comparisons of one each of the four verdicts, in turn."""
    arms = tuple(_summary(name, [s for s in found if s.arm == name]) for name in names)
    verdicts: list[PairVerdict] = ["b", "a", "same", "inconclusive"]
    comparisons = [
        _comparison(a, b, place, verdicts[place % 4])
        for i, a in enumerate(names)
        for b in names[i + 1 :]
        for place in range(1 + len(PAIRED))
    ]
    return Analysis(
        arms=arms,
        comparisons=tuple(comparisons) if found else (),
        verdict=f"{names[-1]} crashes less than {names[0]}, and that is not luck.",
        confidence=0.95,
        alpha=0.05,
        power=0.8,
        blocks=len({s.block for s in found}),
    )


def _summary(name: str, found: list[Sample]) -> ArmSummary:
    crashed = [s for s in found if s.crashed]
    lost = sum(s.outcome == "lost" for s in found)
    ended = len(found) > lost
    share = len(crashed) / len(found) if found else None
    return ArmSummary(
        name=name,
        runs=len(found),
        crashes=len(crashed),
        survived=len(crashed) - lost,
        lost=lost,
        crash_rate=share,
        crash_rate_ci=(max(0.0, (share or 0) - 0.2), min(1.0, (share or 0) + 0.2)),
        incidents=len(crashed),
        steps=sum(s.steps for s in found),
        samples_per_s=1234.5 if ended else None,
        peak_anon_mb=512.25 if ended else None,
        memory_slope_mb_per_1k_steps=0.5 if ended else None,
        metrics={"recall@10": 0.412, "mrr@10": 0.2} if ended else {},
        survival=((0.0, 1.0, 1.0, 1.0), *([(40.0, 1 - share, 0.3, 0.9)] if share else [])),
    )


def _comparison(a: str, b: str, place: int, verdict: PairVerdict) -> Comparison:
    measure = (CRASH_RATE, *PAIRED)[place]
    needs = Needs(more=40, total=60, power=0.8, for_effect=0.05, reason="to tell")
    return Comparison(
        a=a,
        b=b,
        metric=measure.name,
        label=measure.label,
        scale=measure.scale,
        unit=measure.unit,
        higher_is_better=measure.higher_is_better,
        n=20,
        value_a=0.3,
        value_b=0.4,
        effect=0.054,
        ci=(-0.041, 0.067),
        p_value=0.01,
        p_adjusted=0.04,
        verdict=verdict,
        margin=measure.margin,
        needs=needs if verdict == "inconclusive" else None,
        note="after 10 s; 2 of 20 pairs missing" if "time" in measure.name else "",
    )


def study(names: list[str], repeats: int, **more: Any) -> tuple[Analysis, list[Sample]]:
    found = samples(names, repeats, **more)
    return analysis(names, found), found


TWO = ["in-process", "isolated"]


FACTS = {"command": "ttf ab base.toml --vary a=1,2", "machine": "two cores", "in-process": "a.toml"}
CASES = {
    "2 x 20": study(TWO, 20),
    "4 x 10": study(["accumulate 1", "accumulate 4", "accumulate 16", "accumulate 32"], 10),
    "long and hostile names": study([LONG, LONG + " x", HOSTILE], 6),
    "every repeat lost": study(["base", "doomed"], 12, lost=("doomed",)),
    "all lost": study(TWO, 4, lost=tuple(TWO)),
    "no crash": (
        analysis(TWO, calm := [sample(name, block) for block in range(9) for name in TWO]),
        calm,
    ),
    "one repeat": study(TWO, 1),
    "no repeat": study(TWO, 0),
}


def page_of(folder: Path, case: str) -> str:
    made, found = CASES[case]
    return write_page(folder, made, found, FACTS).read_text()
