"""Progress events of a run, and one plain line for each of them.

The live line of a terminal is in `_live`.
"""

from __future__ import annotations

import io
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Self, TextIO, cast

from ttf.text import numbers as _text
from ttf.text.progress.ending import last_lines, last_notes
from ttf.text.progress.lasting_stream import LastingStream
from ttf.text.terminal import visible, wants_colour

if TYPE_CHECKING:
    from ttf.contracts import EvalRecord, StepRecord
    from ttf.text.secrets import Secrets

LINE_EVERY_S = 10.0
LOG_EVERY_S: Final = 30.0  # of a long run's log: it is read later, and must stay short
TRAIN = "train"  # The stage of the training steps; the first step after another stage begins it.
RECALL = "recall@"
SMOOTH = 0.95  # Share of the old value kept at each step: the loss of about the last 20 steps.


def make_reporter(
    json: bool,
    *,
    stream: TextIO | None = None,
    environ: Mapping[str, str] | None = None,
    live_width: int = 0,
) -> Reporter:
    """A live display on a terminal and in the cell of a notebook; plain lines elsewhere, or with
    NO_PROGRESS or TERM=dumb.

    `json`: the document on standard output has the run's folder, so `finished` prints only notes.
    Progress goes to standard error in any case. `live_width`: the stream is no terminal, but
    renews a line as one does.
    """
    env = os.environ if environ is None else environ
    out = stream if stream is not None else sys.stderr
    if stream is None:
        from ttf.text.progress import notebook

        if (cell := notebook.cell()) is not None:
            out, live_width = cast("TextIO", cell), notebook.WIDTH
    if out is None:  # closed before the process began, as by 2>&-
        return Reporter()
    if live_width and not env.get("NO_PROGRESS"):
        from ttf.text.progress._live import ConsoleReporter

        return ConsoleReporter(out, colour=False, summary=not json, width=lambda: live_width)
    if not out.isatty() or env.get("NO_PROGRESS") or env.get("TERM", "") in ("", "dumb"):
        return PlainReporter(out, summary=not json)
    from ttf.text.progress._live import ConsoleReporter

    return ConsoleReporter(out, colour=wants_colour(True, env), summary=not json)


def with_log(
    shown: Reporter, tell: Callable[[dict[str, str]], None], command: Sequence[str]
) -> Reporter:
    """Reports as `shown` does, and sends every line of a plain report as {"log": line}."""
    return Both(shown, Log(tell, command))


class Reporter:
    """All methods do nothing; a reporter overrides what it shows. Called from one thread.

    Use it as a context manager, or call `close`, so that the screen is left complete.
    """

    def watch_memory(self, held_bytes: Callable[[], int]) -> None:
        """Fires once, when the memory sampler runs. The callable returns the memory held now; it is
        cheap enough to call at every update."""

    def chosen_by(self, metric: str) -> None:
        """Fires once, before the first evaluation: what the best weights are chosen by."""

    def resumed(self, step: int, initial: Mapping[str, float]) -> None:
        """Fires once if a run is resumed: the step it continues from, and the metrics before its
        training, which later evaluations are compared with."""

    def stage(self, name: str, total: int | None) -> None:
        """Fires when a phase with a beginning and an end starts ("open data", "mine", "train",
        "evaluate"), and ends the one before; `total` is what `advance` counts to, if known."""

    def advance(self, done: int, total: int) -> None:
        """Fires within a stage as often as is cheap, with what is done so far. It has the shape of
        `ttf.contracts.Progress`, so it can be passed as one."""

    def note(self, text: str) -> None:
        """Fires for something the user must know: a cap, a fallback, rows that were left out."""

    def step(self, record: StepRecord, total_steps: int) -> None:
        """Fires after every optimizer step; must return within microseconds. Ends any other stage:
        steps are the stage "train", announced or not."""

    def evaluated(self, record: EvalRecord) -> None:
        """Fires after every evaluation, the one before training included."""

    def stopping(self, why: str) -> None:
        """Fires when the run was asked to stop and is about to save, with the signal's name."""

    def finished(self, summary: Mapping[str, Any]) -> None:
        """Fires once, after summary.json is written, for a run that finished; the summary has
        `run_dir` as well. The caller shows the summary; this ends the display."""

    def close(self) -> None:
        """Fires when nothing more will be reported, also after an exception; may fire twice."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Shown(Reporter):
    """Shared code of the reporters that write."""

    def __init__(self, stream: TextIO, summary: bool, clock: Callable[[], float]) -> None:
        self._out = LastingStream(stream)
        self._progress = Progress(clock)
        self._show_summary = summary

    def watch_memory(self, held_bytes: Callable[[], int]) -> None:
        self._progress.held_bytes = held_bytes

    def chosen_by(self, metric: str) -> None:
        self._progress.metric = metric


class PlainReporter(Shown):
    """One line per event, and one every `every_s` during long stages."""

    def __init__(
        self,
        stream: TextIO,
        *,
        summary: bool = True,
        clock: Callable[[], float] = time.monotonic,
        every_s: float = LINE_EVERY_S,
    ) -> None:
        super().__init__(stream, summary, clock)
        self._every_s = every_s
        self._next_line = 0.0

    def resumed(self, step: int, initial: Mapping[str, float]) -> None:
        self._progress.resumed(step, initial)
        self._say(f"resumed at step {step:,}")

    def stage(self, name: str, total: int | None) -> None:
        self._end_stage()
        self._progress.begin(name, total)
        self._wait()
        self._say(f"{name} ...")

    def advance(self, done: int, total: int) -> None:
        self._progress.done, self._progress.total = done, total
        self._maybe_line()

    def step(self, record: StepRecord, total_steps: int) -> None:
        if self._progress.stage != TRAIN:
            self.stage(TRAIN, total_steps)
        self._progress.stepped(record, total_steps)
        if self._progress.steps_here == 1:
            self._next_line = 0.0
        self._maybe_line()

    def note(self, text: str) -> None:
        self._say(f"note: {text}")

    def evaluated(self, record: EvalRecord) -> None:
        if self._progress.stage.startswith("eval"):
            self._progress.stage = ""  # the line below says how long it took
        shown = self._progress.all_metrics(record)
        took = _text.duration(record.seconds)
        self._say(f"evaluated at step {record.step:,} ({took}): {', '.join(shown)}")

    def stopping(self, why: str) -> None:
        self._end_stage()
        self._say(f"stopping ({why}): saving a checkpoint ...")

    def finished(self, summary: Mapping[str, Any]) -> None:
        self._end_stage()
        for note in last_notes(summary):
            self.note(note)
        if self._show_summary:
            for label, value in last_lines(summary):
                self._say(f"{label}: {value}")

    def close(self) -> None:
        self._out.flush()

    def _maybe_line(self) -> None:
        if self._progress.clock() < self._next_line:
            return
        self._wait()
        parts = [self._progress.counter(), *self._progress.parts()]
        self._say(f"{self._progress.stage} {'  '.join(p for p in parts if p)}".lstrip())

    def _wait(self) -> None:
        self._next_line = self._progress.clock() + self._every_s

    def _end_stage(self) -> None:
        if self._progress.stage:
            took = _text.duration(self._progress.seconds())
            self._say(f"{self._progress.stage} took {took}")
        self._progress.stage = ""

    def _say(self, text: str) -> None:
        self._out.write(visible(text) + "\n")
        self._out.flush()


class Log(PlainReporter):
    """The lines of a plain report without secrets, each in a message of its own."""

    def __init__(self, tell: Callable[[dict[str, str]], None], command: Sequence[str]) -> None:
        super().__init__(io.StringIO(), every_s=LOG_EVERY_S)
        self._tell = tell
        self._command = command
        self._secrets: Secrets | None = None

    def _say(self, text: str) -> None:
        from ttf.text.secrets import Secrets

        self._secrets = self._secrets or Secrets(command=self._command)
        self._tell({"log": self._secrets.text(visible(text))})


class Both(Reporter):
    """Every event goes to the display, then to the log."""

    def __init__(self, shown: Reporter, log: Reporter) -> None:
        self.each = (shown, log)


def _for_each(name: str) -> Callable[..., None]:
    def pass_on(both: Both, *args: Any) -> None:
        for reporter in both.each:
            getattr(reporter, name)(*args)

    return pass_on


for _name in [name for name in vars(Reporter) if not name.startswith("_")]:
    setattr(Both, _name, _for_each(_name))


# --- what is known of the run ------------------------------------------------------------------


class Progress:
    """State of the progress display: updated by events, writes nothing."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.stage = ""
        self.stage_began = clock()
        self.done = 0
        self.total: int | None = None
        self.held_bytes: Callable[[], int] | None = None
        self.record: StepRecord | None = None
        self.loss = 0.0
        self.samples_per_s = 0.0
        self.seconds_per_step = 0.0
        self.metric = ""
        self.first_metrics: Mapping[str, float] | None = None
        self.steps_here = 0
        self._last: StepRecord | None = None
        self._last_step = 0
        self._weight = 0.0

    def begin(self, stage: str, total: int | None) -> None:
        # Training continues its counters; every other stage starts at zero.
        training = stage == TRAIN
        self.stage, self.total = stage, total
        self.done = self._last_step if training else 0
        self.record = self._last if training else None
        self.steps_here = 0
        self.stage_began = self.clock()

    def resumed(self, step: int, initial: Mapping[str, float]) -> None:
        self._last_step = step
        self.first_metrics = dict(initial) or None

    def seconds(self) -> float:
        return self.clock() - self.stage_began

    def stepped(self, record: StepRecord, total_steps: int) -> None:
        # Averages give the past less weight while there are few steps.
        self.record, self.done, self.total = record, record.step, total_steps
        self._last, self._last_step = record, record.step
        self.steps_here += 1
        self._weight = SMOOTH * self._weight + 1
        share = 1 / self._weight
        self.loss += share * (record.loss - self.loss)
        self.samples_per_s += share * (record.samples_per_s - self.samples_per_s)
        self.seconds_per_step += share * (record.seconds - self.seconds_per_step)

    def seconds_left(self) -> float | None:
        """By the smoothed time of a step if there are steps, else by the stage's own speed."""
        if self.total is None or self.done >= self.total:
            return None
        if self.record is not None:
            return (self.total - self.done) * self.seconds_per_step
        if self.done == 0 or self.stage == TRAIN:
            return None
        return (self.total - self.done) * self.seconds() / self.done

    def parts(self) -> list[str]:
        """The figures after the counter, the most useful first; a narrow screen gets fewer."""
        found: list[str] = []
        if self.record is not None:
            found += [
                f"epoch {self.record.epoch}",
                f"loss {self.loss:.3f}",
                _text.rate(self.samples_per_s),
            ]
        elif self.stage == TRAIN:
            found.append("first step ...")
        left = self.seconds_left()
        if left is not None:
            found.append(f"ETA {_text.clock(left)}")
        if self.held_bytes is not None:
            found.append(f"mem {_text.size(self.held_bytes())}")
        if self.record is not None:
            found.append(f"lr {self.record.lr:.1e}")
        return found

    def counter(self) -> str:
        if self.total is None:
            return f"{self.done:,}" if self.done else ""
        width = len(f"{self.total:,}")
        return f"{self.done:>{width},}/{self.total:,}"

    def all_metrics(self, record: EvalRecord) -> list[str]:
        """Every metric, the chosen one first, each with its value before training."""
        before = self._before(record)
        names = sorted(record.metrics, key=lambda name: name != self._chosen(record))
        return [_text.moved(name, before.get(name), record.metrics[name]) for name in names]

    def headline(self, record: EvalRecord, room: int) -> str:
        """The chosen metric and the other recalls; less detail if there is less room."""
        before, chosen = self._before(record), self._chosen(record)
        others = [n for n in record.metrics if n.startswith(RECALL) and n != chosen]
        family = RECALL if chosen.startswith(RECALL) else ""
        shown: list[tuple[str, str]] = []
        for name in others:
            short = name.removeprefix("recall") if family else name
            family = RECALL
            shown.append((name, short))
        first = _text.moved(chosen, before.get(chosen), record.metrics[chosen])
        full = [_text.moved(short, before.get(n), record.metrics[n]) for n, short in shown]
        now = [_text.moved(short, None, record.metrics[n]) for n, short in shown]
        text = "  ".join([first, *full])
        if len(text) <= room:
            return text
        while now and len("  ".join([first, *now])) > room:
            now.pop()
        return "  ".join([first, *now])[:room]

    def _before(self, record: EvalRecord) -> Mapping[str, float]:
        # Metrics to compare with; the first evaluation has none.
        if self.first_metrics is None:
            self.first_metrics = dict(record.metrics)
            return {}
        return self.first_metrics

    def _chosen(self, record: EvalRecord) -> str:
        return self.metric if self.metric in record.metrics else next(iter(record.metrics))
