"""What a person sees: a live line on a terminal, plain lines elsewhere."""

from __future__ import annotations

import doctest
import io
import re
import subprocess
import sys

import pytest

from ttf.contracts import EvalRecord, StepRecord
from ttf.reporting import ConsoleReporter, PlainReporter, Reporter, make_reporter, text


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
    closed = re.compile(r"( ms| s)(  [\d,]+)?$")
    assert drawn and max(len(f) for f in drawn if not closed.search(f)) < width


def test_eighty_columns_hold_all_that_matters() -> None:
    last = [f for f in frames(live(80)) if "train" in f and "loss" in f][-1]
    assert "epoch 3" in last and "mem 612 MB" in last


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


def test_an_evaluation_is_an_aligned_table_beside_the_first_one() -> None:
    shown = [line for line in frames(live(80)) if "recall@10" in line and "->" not in line]
    assert shown[0].split() == ["recall@10", "0.080"]
    assert shown[1].split() == ["recall@10", "0.080", "0.320", "+0.240", "(x4.0)"]
    head = next(line for line in frames(live(80)) if "step 40" in line)
    assert head.rindex("step 40") + len("step 40") == shown[1].index("0.320") + len("0.320")


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
    assert any(line.startswith("finished: 40 steps, in 1:52") for line in lines)


def test_stages_are_closed_with_their_duration() -> None:
    closed = [" ".join(line.split()) for line in frames(live(80))]
    assert "open data 300 ms" in closed
    assert "evaluate 1.0 s 10" in closed
    assert "train 20.0 s 40" in closed


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


def test_as_json_the_summary_is_left_to_standard_output() -> None:
    screen = Screen(tty=False)
    scripted_run(make_reporter(True, stream=screen, environ={}), Clock())
    assert "evaluated at step 40" in screen.getvalue()
    assert "finished:" not in screen.getvalue()


def test_an_ascii_terminal_gets_ascii() -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding="ascii")
    clock = Clock()
    scripted_run(ConsoleReporter(stream, clock=clock, width=lambda: 80), clock)
    stream.flush()
    assert b"====" in raw.getvalue() or b"----" in raw.getvalue()


def test_numbers_read_as_documented() -> None:
    result = doctest.testmod(text)
    assert result.attempted >= 4 and result.failed == 0


def test_importing_the_reporter_loads_nothing_heavy() -> None:
    code = (
        "import sys, ttf.reporting as r; r.make_reporter(False); "
        "assert not {'rich', 'torch', 'numpy', 'pydantic'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_a_thousand_steps_redraw_as_often_as_the_clock_allows_not_as_often_as_asked() -> None:
    screen, clock = Screen(), Clock()
    reporter = ConsoleReporter(screen, clock=clock, width=lambda: 80)
    reporter.stage("train", 1000)
    for step in range(1000):
        clock.now += 0.001
        reporter.step(record(step), 1000)
    assert screen.getvalue().count("\r") <= 7
