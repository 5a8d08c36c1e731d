"""The sentence: what a manager reads, and that it says no more than the verdicts do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from tests.kit import simulated_ab as simulated
from tests.unit.tools.ab.test_judging import AB, crash, sample, study

from ttf.tools.ab.judge import JudgeSettings, fewest_repeats, judge
from ttf.tools.ab.sample import Sample

CLAIMS = (
    "stabler",
    "faster",
    "slower",
    "less",
    "more memory",
    "finds",
    "lower",
    "higher",
    "no longer has",
)


def test_a_stabler_and_slower_arm() -> None:
    samples = [
        sample("hnswlib" if s.arm == "b" else "faiss", s.block, s.samples_per_s,
               **(crash(outcome="survived") if s.arm == "a" and s.block < 9 else {}))
        for s in study(20, lambda k: 0.96 + 0.004 * (k % 5 - 2))
    ]  # fmt: skip
    assert judge(samples, ("faiss", "hnswlib")).verdict == (
        "faiss crashed in 9 of 20 repeats, hnswlib in 0 of 20: hnswlib is more stable (p < 0.001); "
        "hnswlib is 4% slower (3.7 to 4.3%); hnswlib ran 20,000 steps without a crash, which is enough to say "
        "that it no longer has the crashes of faiss (95% confidence)."
    )


def test_one_configuration_against_itself() -> None:
    samples = study(60, lambda k: 1 + 0.01 * (-1) ** k)
    assert judge(samples, AB).verdict == (
        "No difference was found; neither crashed in 60 repeats; throughput is the same within 2%."
    )


def test_luck_is_called_luck_and_what_it_takes_is_said() -> None:
    samples = study(8, lambda k: 1 + 0.1 * (-1) ** k, lambda k: crash() if k == 3 else {})
    text = judge(samples, AB).verdict
    assert text.startswith("No difference was found; a crashed in 0 of 8 repeats and b in 1 of 8, "
                           "which may be chance. Inconclusive: crash rate (about ")  # fmt: skip
    assert "more repeats) and throughput (about " in text


def test_no_difference_is_claimed_where_none_could_have_been_found() -> None:
    """Six pairs, all one way: as clear as six pairs can be, and still too few."""
    few = judge(study(6, lambda k: 0.36 + 0.01 * k), AB)
    assert few.verdict.startswith(
        "Not decided yet: after so few repeats, a difference in throughput cannot be distinguished from chance; "
        "neither crashed in 6 repeats."
    )
    (speed,) = [c for c in few.comparisons if c.metric == "samples_per_s"]
    assert speed.p_value == 0.03125 and not speed.decidable
    assert speed.needs is not None and speed.needs.more >= 1
    fewest = fewest_repeats(2, JudgeSettings())
    assert fewest == 9
    many = judge(study(fewest, lambda k: 0.36 + 0.01 * k), AB).verdict
    assert many.startswith("Compared with a, b is ")


def test_a_study_of_three_arms_or_with_looks_needs_more_repeats() -> None:
    assert fewest_repeats(3, JudgeSettings()) > fewest_repeats(2, JudgeSettings())
    looks = JudgeSettings(planned=20, looks=(8, 12, 16, 20))
    assert fewest_repeats(2, looks) > fewest_repeats(2, JudgeSettings())


def test_a_comparison_of_survivors_says_so() -> None:
    samples = study(20, lambda k: 1.1 + 0.01 * (k % 3), lambda k: crash() if k % 3 else {})
    assert judge(samples, AB).verdict.count("does not include the 13 lost repeats of b.") == 1


def test_three_arms_are_ranked_where_every_place_was_shown() -> None:
    def arm(name: str, times: float) -> list[Sample]:
        return [sample(name, k, times * 900 * math.exp(0.01 * math.sin(k * times)))
                for k in range(16)]  # fmt: skip

    samples = arm("exact", 0.5) + arm("faiss", 1.2) + arm("hnswlib", 1.0)
    text = judge(samples, ("exact", "faiss", "hnswlib")).verdict
    assert text.startswith("Speed: faiss, then hnswlib, then exact.")
    near = arm("exact", 0.5) + arm("faiss", 1.2) + arm("hnswlib", 1.2)
    text = judge(near, ("exact", "faiss", "hnswlib")).verdict
    assert text.startswith("Speed: faiss and hnswlib beat exact.")


def test_arms_that_do_not_differ_are_not_ranked() -> None:
    samples = [sample(arm, k) for arm in "abc" for k in range(5)]
    assert judge(samples, "abc").verdict.startswith(
        "No difference between any two arms was found; none of 15 repeats crashed."
    )


@pytest.mark.parametrize("arms", [AB, ("a", "b", "c")])
def test_nothing_is_claimed_without_a_verdict_for_it(arms: tuple[str, ...]) -> None:
    pool = simulated.generated(80, seed=5, crash=0.2)
    for seed in range(25):
        samples = simulated.drawn(pool, arms, 10, np.random.default_rng(seed))
        analysis = judge(samples, arms)
        differs = any(c.verdict in ("a", "b") for c in analysis.comparisons)
        differs |= any(f.verdict == "fixed" for f in analysis.fixed)
        assert any(claim in analysis.verdict for claim in CLAIMS) <= differs
        nothing = ("No difference was", "No difference between", "Not decided yet: ")
        assert analysis.verdict.startswith(nothing) == (not differs)
        assert ("the same within" in analysis.verdict) <= any(
            c.verdict == "same" for c in analysis.comparisons
        )


def test_two_arms_take_about_sixty_words_at_most() -> None:
    pool = simulated.generated(80, seed=6, crash=0.3)
    for seed, change in enumerate((simulated.faster(0.1), simulated.better(0.05),
                                   simulated.crashing(0.9))):  # fmt: skip
        samples = simulated.drawn(pool, AB, 20, np.random.default_rng(seed), change)
        text = judge(samples, AB, JudgeSettings(planned=40, looks=(16, 20))).verdict
        assert len(text.split()) <= 62, text
