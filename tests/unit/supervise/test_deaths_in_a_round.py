"""A death in a mining round: more of the round on the disk is progress, the same again is not."""

from __future__ import annotations

from hypothesis import given, strategies as st
from tests.kit.supervision_story import HALVE, Run, spawn

from ttf.supervise.events import GiveUp, Life, Spawn

LIVED = Life(steps=20, seconds=3.0)


def dies_mining(run: Run, kept: int, *, step: int = 500, checkpoint: int = 480) -> bool:
    """Whether the run goes on."""
    actions = run.dies(
        "killed",
        step=step,
        phase="mining",
        checkpoint_step=checkpoint,
        lived=LIVED,
        kept_work=kept,
    )
    if isinstance(actions[-1], GiveUp):
        return False
    assert isinstance(spawn(actions), Spawn)
    run.trains()
    return True


def test_a_round_that_gains_one_block_in_each_life_is_never_given_up() -> None:
    run = Run().trains()
    assert all(dies_mining(run, kept) for kept in range(512, 512 * 300, 512))


def test_deaths_at_the_same_block_are_given_up_after_as_many_restarts_as_configured() -> None:
    run = Run(max_restarts=5).trains()
    assert all(dies_mining(run, kept) for kept in (512, 1024, 1536))
    assert [dies_mining(run, 1536) for _ in range(5)] == [True] * 4 + [False]


def test_less_than_was_kept_before_is_no_progress() -> None:
    """The miner's process has not told yet how much it found; or another miner began anew."""
    run = Run(max_restarts=5).trains()
    assert dies_mining(run, 4096)
    lives = [dies_mining(run, kept) for kept in (2048, 3072, 2048, 3072, 2048)]
    assert lives == [True] * 4 + [False]


def test_a_newer_checkpoint_and_a_block_are_progress_in_turn() -> None:
    run = Run(max_restarts=1).trains()
    for number in range(1, 40):
        assert dies_mining(run, 512 * number, step=500, checkpoint=480)
    assert dies_mining(run, 0, step=600, checkpoint=500)
    assert dies_mining(run, 512, step=1000, checkpoint=500)
    assert not dies_mining(run, 512, step=1000, checkpoint=500)


def test_a_crash_at_one_block_gets_its_remedy_after_three() -> None:
    run = Run().trains()

    def crash(kept: int) -> object:
        more = {"step": 500, "phase": "mining", "checkpoint_step": 480, "kept_work": kept}
        actions = run.dies("segfault", remedies=(HALVE,), **more)
        run.trains()
        return spawn(actions).overlay.keys()

    assert [crash(kept) for kept in (512, 1024, 1024)] == [set(), set(), set()]
    assert crash(1024) == {"train.batch_size"}


@given(st.lists(st.integers(0, 6), min_size=1, max_size=60))
def test_a_round_of_few_blocks_ends_in_few_deaths_or_is_given_up(kept: list[int]) -> None:
    """Whatever the order in which they die: each block is progress once."""
    run = Run(max_restarts=2).trains()
    deaths = 0
    for blocks in kept * 20:
        deaths += 1
        if not dies_mining(run, blocks):
            break
    assert deaths <= 2 + 7 * 3
