"""The disk is full for a while, at random moments; the run waits it out, or ends and is resumed."""

from __future__ import annotations

from typing import Final

from chaos.campaign import RESUMED, Case, Fault
from chaos.running import Place, Running
from chaos.smalldisk import SmallDisk, small_disk, why_not
from chaos.verdict import STORAGE, Verdict, incidents, judge_end, last_words
from chaos.world import STEPS

SIZE_MB: Final = 24
TIMES: Final = 2
"""In each run."""
_MOST_ENDS: Final = 5


def run(case: Case) -> Verdict:
    with small_disk(case.folder / "disk", SIZE_MB) as disk:
        return _on(case, disk)


def _on(case: Case, disk: SmallDisk) -> Verdict:
    verdict = Verdict()
    inside = Place(root=disk.inside)
    place = Place(root=disk.outside, mark=inside.mark)
    reference = case.reference
    code = STORAGE
    for attempt in range(_MOST_ENDS):
        words = case.words(inside) if not attempt else _again(case, place, inside)
        with Running(place, words, prefix=disk.prefix) as running:
            if not attempt:
                _fill(case, running, disk, verdict)
            code = running.ended()
        if code != STORAGE:
            break
        verdict.phases[RESUMED] += 1
        verdict.require("space" in place.said(), f"it does not say why: {last_words(place)}")
    judge_end(verdict, place, code, reference)
    got = [i["class"] for i in incidents(place)]
    verdict.incidents_right = set(got) <= {"disk-full"}
    verdict.require(verdict.incidents_right, f"incidents {got}")
    return verdict


def _again(case: Case, place: Place, inside: Place) -> list[str]:
    begun = (place.run / "run.toml").exists()
    return ["resume", str(inside.run)] if begun else case.words(inside)


def _fill(case: Case, running: Running, disk: SmallDisk, verdict: Verdict) -> None:
    """For a while, some times."""
    for shot in range(TIMES):
        least = int(case.rng.uniform(shot, shot + 0.8) * STEPS / TIMES)
        flight = running.when(lambda f, least=least: f.step >= least)  # type: ignore[misc]
        if flight is None:
            return
        with disk.full():
            verdict.deaths += 1
            verdict.phases[flight.phase] += 1
            running.look_on(case.rng.uniform(0.05, 3.0))


FAULT: Final = Fault(
    name="disk-full",
    title="disk full (tmpfs) for up to 3 s at random moments: waited out, or exit 8 and resumed",
    runs=5,
    quick=2,
    run=run,
    why_not=why_not,
)
