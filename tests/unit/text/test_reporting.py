"""What a person sees: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import doctest
import io
import os
import re
import sys
from pathlib import Path

import pytest

from ttf.contracts import EvalRecord, StepRecord
from ttf.text import numbers
from ttf.text.progress import ConsoleReporter, PlainReporter, Reporter, ending, make_reporter


class Screen(io.StringIO):
    """A stream that says whether it is a terminal, as standard error would."""

    def __init__(self, tty: bool = True) -> None:
        super().__init__()
        self.tty = tty

    def isatty(self) -> bool:
        return self.tty


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def record(step: int, epoch: int = 0, loss: float = 2.0) -> StepRecord:
    return StepRecord(
        step=step,
        epoch=epoch,
        loss=loss,
        lr=1e-3,
        grad_norm=1.0,
        samples_per_s=1240.0,
        seconds=0.5,
    )


def evaluation(step: int, recall: float) -> EvalRecord:
    return EvalRecord(step=step, epoch=0, metrics={"recall@10": recall}, seconds=1.5)


def scripted_run(reporter: Reporter, clock: Clock, steps: int = 40) -> None:
    with reporter:
        reporter.watch_memory(lambda: 612_300_000)
        reporter.chosen_by("recall@10")
        reporter.stage("open data", None)
        clock.now += 0.3
        reporter.note("3 of 500 pairs name no document: left out")
        reporter.stage("evaluate", 10)
        for done in range(10):
            clock.now += 0.1
            reporter.advance(done + 1, 10)
        reporter.evaluated(evaluation(0, 0.08))
        reporter.stage("train", 1000)
        for step in range(1, steps + 1):
            clock.now += 0.5
            reporter.step(record(step, epoch=3), 1000)
        reporter.evaluated(evaluation(steps, 0.32))
        reporter.finished(
            {
                "status": "finished",
                "run_dir": "runs/one",
                "kept_step": steps,
                "chosen_by": "recall@10",
                "steps": steps,
                "wall_s": 112.0,
                "samples_per_s": 1234.5,
                "peak_anon_mb": 812.3,
                "metrics": {"recall@10": 0.32},
                "metrics_initial": {"recall@10": 0.08},
                "exact": True,
            }
        )


CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def frames(text: str) -> list[str]:
    """What a line of the screen held, one entry for every time it was rewritten."""
    return [CODES.sub("", part) for part in re.split(r"[\r\n]", text)]


def live(width: int, colour: bool = False) -> str:
    screen, clock = Screen(), Clock()
    reporter = ConsoleReporter(screen, colour=colour, clock=clock, width=lambda: width)
    scripted_run(reporter, clock)
    return screen.getvalue()


def plain(summary: bool = True) -> str:
    screen, clock = Screen(tty=False), Clock()
    scripted_run(PlainReporter(screen, clock=clock, summary=summary), clock)
    return screen.getvalue()


def test_the_base_reporter_says_nothing_and_has_every_event(
    capsys: pytest.CaptureFixture[str],
) -> None:
    scripted_run(Reporter(), Clock())
    assert capsys.readouterr() == ("", "")
    events = [v for k, v in vars(Reporter).items() if not k.startswith("_") and callable(v)]
    assert all("Fires" in (event.__doc__ or "") for event in events)


def test_the_live_line_shows_step_epoch_loss_speed_time_left_and_memory() -> None:
    last = [f for f in frames(live(120)) if "train" in f and "loss" in f][-1]
    for part in ("40/1,000", "epoch 3", "loss 2.000", "1,240/s", "ETA 8:00", "mem 612 MB"):
        assert part in last


@pytest.mark.parametrize("width", [20, 40, 80, 120])
def test_the_live_line_never_reaches_the_edge(width: int) -> None:
    drawn = [f for f in frames(live(width)) if re.match(r"\s+(train|open data|evaluate)", f)]
    assert drawn and max(map(len, drawn)) < width


def test_eighty_columns_hold_all_that_matters() -> None:
    last = [f for f in frames(live(80)) if "train" in f and "loss" in f][-1]
    assert "epoch 3" in last and "mem 612 MB" in last
    assert last.count("-") >= 6


def test_the_line_is_cleared_before_anything_else_is_printed() -> None:
    text = live(80)
    for part in re.split(r"\r\x1b\[K", text):
        first_line = part.split("\n")[0]
        assert not ("loss" in first_line and "note" in first_line)
    assert text.rstrip().split("\n")[-1].count("ETA") == 0


def test_an_exception_leaves_the_screen_whole() -> None:
    screen = Screen()
    reporter = ConsoleReporter(screen, width=lambda: 80)
    with pytest.raises(RuntimeError), reporter:
        reporter.stage("train", 10)
        raise RuntimeError
    assert screen.getvalue().endswith("\r\x1b[K")


def test_an_evaluation_is_one_line_beside_the_one_before_training() -> None:
    shown = [" ".join(line.split()) for line in frames(live(80)) if "recall@10" in line]
    assert shown == ["before recall@10 0.080", "step 40 recall@10 0.080 -> 0.320"]


SEVERAL = {"recall@1": 0.1, "recall@10": 0.2, "recall@100": 0.3, "recall@500": 0.4, "mrr@10": 0.15}


def headline(width: int, metric: str = "recall@10") -> str:
    screen = Screen()
    reporter = ConsoleReporter(screen, colour=False, clock=Clock(), width=lambda: width)
    reporter.chosen_by(metric)
    reporter.resumed(5, dict.fromkeys(SEVERAL, 0.05))
    reporter.evaluated(EvalRecord(step=1120, epoch=0, metrics=SEVERAL, seconds=1.0))
    return frames(screen.getvalue())[-2]


def test_the_line_of_an_evaluation_has_the_chosen_metric_first_and_the_other_recalls() -> None:
    assert headline(120).split("  ")[1:] == [
        "step 1,120",
        "recall@10 0.050 -> 0.200",
        "@1 0.050 -> 0.100",
        "@100 0.050 -> 0.300",
        "@500 0.050 -> 0.400",
    ]
    assert "mrr@10 0.050 -> 0.150  recall@1 0.050 -> 0.100  @10 " in headline(140, "mrr@10")


def test_where_there_is_less_room_it_says_less() -> None:
    assert headline(80).endswith("recall@10 0.050 -> 0.200  @1 0.100  @100 0.300  @500 0.400")
    assert headline(50).endswith("recall@10 0.050 -> 0.200  @1 0.100")
    assert all(len(headline(width)) < width for width in (20, 30, 50, 80))


@pytest.mark.parametrize("kind", [ConsoleReporter, PlainReporter])
def test_after_a_restart_the_comparison_is_still_with_before_training(
    kind: type[ConsoleReporter | PlainReporter],
) -> None:
    screen = Screen()
    reporter = kind(screen, clock=Clock())
    reporter.resumed(40, {"recall@10": 0.08})
    reporter.evaluated(evaluation(50, 0.32))
    assert "resumed at step 40" in screen.getvalue()
    assert "recall@10 0.080 -> 0.320" in screen.getvalue()


@pytest.mark.parametrize("live", [True, False], ids=["live", "plain"])
def test_a_reader_who_left_does_not_end_the_run(live: bool) -> None:
    reading, writing = os.pipe()
    with os.fdopen(writing, "w", buffering=1) as stream:
        reporter: Reporter = ConsoleReporter(stream) if live else PlainReporter(stream)
        clock = Clock()
        reporter.stage("open data", None)
        os.close(reading)
        scripted_run(reporter, clock)
        scripted_run(reporter, clock)
        with pytest.raises(BrokenPipeError):
            stream.close()  # what its buffer still held


@pytest.mark.parametrize("live", [True, False], ids=["live", "plain"])
def test_a_closed_stream_or_a_full_disk_does_not_end_the_run(live: bool) -> None:
    closed, full = io.StringIO(), Path("/dev/full").open("w")  # noqa: SIM115
    closed.close()
    for stream in (closed, full):
        scripted_run(ConsoleReporter(stream) if live else PlainReporter(stream), Clock())
    with pytest.raises(OSError, match="No space"):
        full.close()


def test_without_a_standard_error_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    assert type(make_reporter(False)) is Reporter


@pytest.mark.parametrize("kind", [ConsoleReporter, PlainReporter])
def test_weights_of_before_training_are_not_passed_off_as_trained(
    kind: type[ConsoleReporter | PlainReporter],
) -> None:
    screen = Screen()
    summary = {"steps": 40, "kept_step": 0, "chosen_by": "recall@10", "run_dir": "runs/one"}
    kind(screen, clock=Clock(), summary=False).finished(summary)
    said = " ".join(CODES.sub("", screen.getvalue()).split())
    assert "training did not improve recall@10" in said
    assert "ttf keeps the weights from before the training" in said


def test_the_last_words_name_the_folder_the_report_and_the_weights() -> None:
    for said in (plain(), CODES.sub("", live(80))):
        assert re.search(r"run folder:? +runs/one\n", said)
        assert re.search(r"report:? +runs/one/report\.html\n", said)
        assert re.search(r"kept:? +step 40, the last one\n", said)
    rows = dict(ending.last_lines({"steps": 9, "kept_step": 6, "chosen_by": "mrr@10"}))
    assert rows["kept"] == "step 6 of 9, the best by mrr@10"


def test_a_stop_is_acknowledged_before_the_checkpoint_is_written() -> None:
    screen = Screen()
    reporter = PlainReporter(screen, clock=Clock())
    reporter.stage("train", 10)
    reporter.stopping("SIGINT")
    assert screen.getvalue().endswith("stopping (SIGINT): saving a checkpoint ...\n")


def test_the_train_line_says_something_from_its_first_moment() -> None:
    screen, clock = Screen(), Clock()
    reporter = ConsoleReporter(screen, colour=False, clock=clock, width=lambda: 80)
    reporter.watch_memory(lambda: 387_000_000)
    reporter.stage("train", 1000)
    assert re.search(r"train -+     0/1,000  first step \.\.\.  mem", screen.getvalue())
    reporter.step(record(250), 1000)
    reporter.stage("evaluate", 10)
    reporter.stage("train", 1000)
    assert "250/1,000  epoch 0  loss 2.000" in frames(screen.getvalue())[-1]


def test_without_colour_there_are_no_colours() -> None:
    sgr = re.compile(r"\x1b\[[0-9;]*m")
    assert sgr.search(live(80, colour=True))
    assert not re.search(r"\x1b\[(3|4|9)[0-9]", live(80, colour=False))


def test_plain_lines_hold_no_control_codes() -> None:
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", plain())


def test_plain_lines_come_every_ten_seconds_and_at_every_event() -> None:
    lines = plain().splitlines()
    steps = [line for line in lines if line.startswith("train ") and "loss" in line]
    assert len(steps) == 2  # 20 s of steps
    assert "note: 3 of 500 pairs name no document: left out" in lines
    assert "evaluated at step 40 (1.5 s): recall@10 0.080 -> 0.320" in lines
    assert "open data took 300 ms" in lines


def test_stages_are_closed_with_their_duration() -> None:
    closed = [" ".join(line.split()) for line in frames(live(80))]
    assert "open data 300 ms" in closed
    assert "train 20.0 s 40 steps" in closed


def test_steps_without_a_stage_are_training() -> None:
    screen, clock = Screen(tty=False), Clock()
    PlainReporter(screen, clock=clock).step(record(1), 10)
    assert "train  1/10" in screen.getvalue()


def test_a_step_ends_the_stage_before_it() -> None:
    screen, clock = Screen(tty=False), Clock()
    reporter = PlainReporter(screen, clock=clock)
    reporter.stage("mine with exact", 10)
    clock.now = 2.0
    reporter.step(record(1), 10)
    lines = screen.getvalue().splitlines()
    assert lines.index("mine with exact took 2.0 s") < lines.index("train ...")
    assert lines[-1].startswith("train  1/10")


def test_the_time_left_of_a_stage_without_steps_follows_its_own_pace() -> None:
    screen, clock = Screen(), Clock()
    reporter = ConsoleReporter(screen, clock=clock, width=lambda: 80)
    reporter.stage("mine", 100)
    clock.now = 10.0
    reporter.advance(25, 100)
    assert "ETA 0:30" in frames(screen.getvalue())[-1]


@pytest.mark.parametrize(
    ("tty", "environ", "live"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "dumb"}, False),
        (True, {"TERM": "xterm", "NO_PROGRESS": "1"}, False),
        (False, {"TERM": "xterm"}, False),
    ],
    ids=["terminal", "dumb terminal", "NO_PROGRESS", "pipe"],
)
def test_the_display_fits_where_it_goes(tty: bool, environ: dict[str, str], live: bool) -> None:
    made = make_reporter(False, stream=Screen(tty), environ=environ)
    assert isinstance(made, ConsoleReporter if live else PlainReporter)


def test_no_color_is_honoured() -> None:
    screen = Screen()
    reporter = make_reporter(False, stream=screen, environ={"TERM": "xterm", "NO_COLOR": "1"})
    scripted_run(reporter, Clock())
    assert not re.search(r"\x1b\[[0-9;]*m", screen.getvalue())


def test_as_json_the_folder_is_left_to_standard_output() -> None:
    screen = Screen(tty=False)
    scripted_run(make_reporter(True, stream=screen, environ={}), Clock())
    assert "evaluated at step 40" in screen.getvalue()
    assert "runs/one" not in screen.getvalue()


def test_an_ascii_terminal_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    clock = Clock()
    scripted_run(ConsoleReporter(stream, clock=clock, width=lambda: 80), clock)
    stream.flush()
    assert b"====" in raw.getvalue() or b"----" in raw.getvalue()


def test_numbers_read_as_documented() -> None:
    result = doctest.testmod(numbers)
    assert result.attempted >= 4 and result.failed == 0


def test_a_thousand_steps_redraw_as_often_as_the_clock_allows_not_as_often_as_asked() -> None:
    screen, clock = Screen(), Clock()
    reporter = ConsoleReporter(screen, clock=clock, width=lambda: 80)
    reporter.stage("train", 1000)
    for step in range(1000):
        clock.now += 0.001
        reporter.step(record(step), 1000)
    assert screen.getvalue().count("\r") <= 7
