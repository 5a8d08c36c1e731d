"""Whatever comes over the pipe, the trainer meets one kind of error, or none."""

from __future__ import annotations

import contextlib
from dataclasses import asdict
from typing import Any

from hypothesis import HealthCheck, given, settings, strategies as st
from tests.kit.sabotaged_miner import run

from ttf.errors import BadAnswer, TtfError
from ttf.mining.failures import error_in
from ttf.mining.job import MiningJob
from ttf.mining.miner_results import checked_report
from ttf.process import messages

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)
ON_ONE_JOB = settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
    max_examples=150,
)


@given(st.lists(st.binary(max_size=40)))
def test_any_bytes_are_messages_or_a_broken_frame(pieces: list[bytes]) -> None:
    reader = messages.Reader()
    with contextlib.suppress(messages.BrokenFrame):
        for piece in pieces:
            assert all(isinstance(message, dict) for message in reader.feed(piece))


@given(st.dictionaries(st.text(max_size=5), ANYTHING, max_size=3), st.integers(1, 60))
def test_messages_come_out_as_they_went_in_however_the_stream_is_cut(
    message: dict[str, Any], size: int
) -> None:
    data = messages.encode(message) * 2
    reader = messages.Reader()
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    found = [found for piece in pieces for found in reader.feed(piece)]
    assert repr(found) == repr([message, message])


def test_a_report_with_any_one_thing_wrong_is_a_bad_answer(job: MiningJob) -> None:
    """Or it is not wrong at all: how long it took, and what index it used, nobody can check."""
    told = asdict(run(job.with_miner(_faiss())))
    free = {"build_s", "search_s", "continued_from", "index", "deaths"}
    free |= {"certificate_rate", "rescanned"}

    @ON_ONE_JOB
    @given(st.sampled_from(sorted(told)), ANYTHING)
    def check(name: str, value: Any) -> None:
        try:
            checked_report(job.with_miner(_faiss()), {**told, name: value})
        except BadAnswer:
            return
        assert name in free or value == told[name]

    check()


def test_any_report_or_error_at_all_is_met_by_an_error_of_ours(job: MiningJob) -> None:
    keys = st.sampled_from(["known", "class", "message", "hint", "fields", "exit_code", "details"])
    documents = st.dictionaries(keys, ANYTHING | st.sampled_from(["BadData", "GaveUp", "Path"]))

    @ON_ONE_JOB
    @given(ANYTHING, documents)
    def check(report: Any, document: dict[str, Any]) -> None:
        with contextlib.suppress(BadAnswer):
            checked_report(job, report)
        assert isinstance(error_in(job, document), TtfError)

    check()


def _faiss() -> Any:
    from ttf.mining.job import MinerChoice

    return MinerChoice(name="faiss")
