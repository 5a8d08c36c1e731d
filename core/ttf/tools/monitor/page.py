"""Lays a view out for a screen of any size: the least important parts are left out first."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from ttf.machine.memory.tree import Device, Machine
from ttf.text.numbers import TIME, clock, duration, metric, moment, rate, size
from ttf.text.progress.ending import gate_text
from ttf.text.terminal import Line, Part, wrapped
from ttf.tools.monitor.cells import Paint, cut, fitted, flow
from ttf.tools.monitor.nearest_limit import NearestLimit
from ttf.tools.monitor.table import process_lines
from ttf.tools.monitor.trend import WINDOW_S
from ttf.tools.monitor.view import Ended, Evaluated, Governed, Happened, Run, View, warnings

_LABEL: Final = 9
_LEAST_PROCESSES: Final = 3  # Lines of the table even on a low screen: heading, one process, sum.
# Phases of a step change too fast to read; only longer ones show their duration.
_PHASE_S: Final = 2.0
_LEAST_CURVE, _MOST_CURVE = 5, 60
_MOST_INCIDENTS: Final = 3
_LEAST_SPAN: Final = 0.1
_GOOD: Final = ("finished", "running", "starting")


class Block(NamedTuple):
    rank: int  # the highest is dropped first if there is no room
    lines: list[Line]


def page(view: View, paint: Paint, width: int, height: int | None = None) -> list[Line]:
    """At most `width` columns and, if given, `height` lines."""
    lines = _fitting([*_blocks(view, paint, width)], process_lines(view, width), height)
    return [fitted(line, width) for line in lines]


def _fitting(blocks: list[Block], table: list[Line], height: int | None) -> list[Line]:
    if height is None:
        return [line for block in blocks for line in block.lines] + table
    least = min(len(table), _LEAST_PROCESSES)
    while len(blocks) > 1 and sum(len(b.lines) for b in blocks) + least > height:
        blocks.remove(max(blocks, key=lambda block: block.rank))
    lines = [line for block in blocks for line in block.lines]
    return (lines + _shortened(table, height - len(lines)))[:height]


def _shortened(table: list[Line], room: int) -> list[Line]:
    """The heading, the first processes, a line for the others, and the sum."""
    if len(table) <= room or room < _LEAST_PROCESSES:
        return table[: max(0, room)]
    if room == _LEAST_PROCESSES:
        return [*table[:2], table[-1]]
    kept = room - 3
    hidden = len(table) - 2 - kept
    more = (Part(f"... and {hidden} more", "dim"),)
    return [table[0], *table[1 : 1 + kept], more, table[-1]]


def _blocks(view: View, paint: Paint, width: int) -> Iterator[Block]:
    yield Block(0, [_title(view, width)])
    said = [_wrapped(text, "yellow", width) for text in warnings(view)]
    if said:
        yield Block(1, [line for lines in said for line in lines])
    run = view.run
    if run is not None:
        yield from _run_blocks(view, run, paint, width)
    yield from _memory_blocks(view, paint, width)
    if run is not None:
        yield from _incident_blocks(run, width)
    for remark in view.remarks:
        yield Block(7, _wrapped(remark, "dim", width))
    if view.processes:
        yield Block(10, [()])


def _ranked(rank: int, lines: list[Line], rest: int = 4) -> Iterator[Block]:
    # Lines after the first are less important.
    yield Block(rank, lines[:1])
    if lines[1:]:
        yield Block(max(rank, rest), lines[1:])


def _title(view: View, width: int) -> Line:
    clock_text = moment(view.time, TIME)
    style = "green" if view.status in _GOOD else "red"
    tail = f"  {view.status}  {clock_text}"
    return (Part(cut(view.name, max(8, width - len(tail))), "bold"), Part(tail, style))


# --- the run ---------------------------------------------------------------------------------------


def _run_blocks(view: View, run: Run, paint: Paint, width: int) -> Iterator[Block]:
    if run.ended is not None:
        yield Block(1, [*_ending(run.ended, width)])
    elif not view.alive:
        yield Block(1, _without_end(run, width))
    yield from _ranked(1, flow([_labelled("step", _steps(run)), *_phase(run)], width))
    if speed := [*_speed(run)]:
        yield from _ranked(3, flow(speed, width))
    if len(run.losses) >= _LEAST_CURVE and (room := _curve_room(width)):
        curve = paint.curve(run.losses, room)
        yield Block(8, [(*_label(""), Part(curve, "cyan"), _note(f" {len(run.losses):,} steps"))])
    if run.evaluated is not None:
        yield from _ranked(5, flow(_evaluated(run.evaluated), width))
        for gate in run.evaluated.gates:
            missed = gate.get("passed") is False
            yield Block(3, [(Part(gate_text(gate), "red" if missed else ""),)])
    if run.checkpoint is not None:
        text = f"step {run.checkpoint.step:,}, {_age(run.checkpoint.age_s)}"
        items = [_labelled("saved", text)]
        if run.saving_s is not None:
            items.append(
                (Part(f"the next checkpoint has been in progress for {duration(run.saving_s)}"),)
            )
        yield from _ranked(4, flow(items, width))


def _steps(run: Run) -> str:
    if not run.total_steps:
        return f"{run.step:,}"
    return f"{run.step:,} of {run.total_steps:,} ({run.step / run.total_steps:.0%})"


def _phase(run: Run) -> Iterator[Line]:
    if run.epoch is not None:
        yield (Part(f"epoch {run.epoch}"),)
    if run.phase is not None:
        text = run.phase
        if run.phase_s is not None and run.phase_s >= _PHASE_S:
            least = "at least " if run.since_before else ""
            text += f" for {least}{duration(run.phase_s)}"
        yield (Part(text, "bold"),)
    if run.seconds_left is not None:
        yield (Part(f"{clock(run.seconds_left)} left"),)


def _speed(run: Run) -> Iterator[Line]:
    if run.loss is not None and run.loss_smoothed is not None:
        yield _labelled("loss", f"{run.loss:.4g} (smoothed {run.loss_smoothed:.4g})")
    if run.samples_per_s is not None:
        text = f"{rate(run.samples_per_s).removesuffix('/s')} samples/s"
        yield _labelled("speed", text) if run.loss is None else (Part(text),)


def _evaluated(found: Evaluated) -> Iterator[Line]:
    names = [name for name in found.metrics if name in ("recall@10", "recall@100", "mrr@10")]
    shown = [f"{n} {metric(n, found.metrics[n])}" for n in names or list(found.metrics)[:3]]
    first, *rest = [*shown, f"at step {found.step:,}"]
    yield _labelled("eval", first)
    for text in rest:
        yield (Part(text),)


def _ending(ended: Ended, width: int) -> Iterator[Line]:
    took = f" after {duration(ended.wall_s)}" if ended.wall_s else ""
    code = "" if ended.exit_code is None else f", exit code {ended.exit_code}"
    good = ended.status == "finished"
    yield from flow(
        [_labelled("ended", f"{ended.status}{took}{code}", "" if good else "red")], width
    )
    for text in (ended.problem, ended.hint):
        if text:
            yield from _wrapped(text, "", width)
    shown = [f"{name} {metric(name, value)}" for name, value in ended.metrics.items()]
    if shown:
        yield from flow([_labelled("kept", shown[0]), *[(Part(t),) for t in shown[1:]]], width)
    if ended.peak_mb:
        yield _labelled("peak", f"{size(ended.peak_mb * 1e6)} anonymous and shared")


def _without_end(run: Run, width: int) -> list[Line]:
    seen = "" if run.last_sign_s is None else f" The last sign of life was {_age(run.last_sign_s)}."
    text = (
        "The processes of this run no longer exist, and the run has no record of its end. "
        f"Probably its supervisor was killed, or the machine went down.{seen} To continue: ttf "
        f"resume {run.folder}"
    )
    elsewhere = "If the run is on another machine or in a container, start ttf monitor there."
    return [*_wrapped(text, "red", width), *_wrapped(elsewhere, "dim", width)]


def _incident_blocks(run: Run, width: int) -> Iterator[Block]:
    if run.restarts or run.incidents:
        count = f"{_count(run.restarts, 'restart')}, {_count(len(run.incidents), 'incident')}"
        yield Block(3, [_labelled("deaths", count, "yellow")])
    recent = run.incidents[-_MOST_INCIDENTS:]
    if recent:
        yield Block(6, [line for each in recent for line in flow(_incident(each), width)])
    if run.free_disk is not None:
        yield Block(9, [_labelled("disk", f"{size(run.free_disk)} free")])


def _incident(found: Happened) -> Iterator[Line]:
    age = "" if found.age_s is None else f", {_age(found.age_s)}"
    yield (Part(f"{'':{_LABEL}}{found.id} "), Part(found.name, "yellow"), Part(age))
    done = f"now {found.remedy}" if found.remedy else "restarted unchanged"
    yield (Part(f"{found.process}, {done}", "dim"),)


# --- memory ----------------------------------------------------------------------------------------


def _memory_blocks(view: View, paint: Paint, width: int) -> Iterator[Block]:
    memory = view.memory
    if memory is None:
        return
    items = [
        _labelled("memory", f"{size(memory.anon)} anonymous"),
        (Part(f"{size(memory.shared)} shared"),),
        (Part(f"{size(memory.file)} file-backed", "dim"),),
    ]
    yield from _ranked(1, flow(items, width, indent=" " * _LABEL), rest=2)
    if view.limit is not None:
        yield from _ranked(1, flow(_limit(view.limit), width, indent=" " * _LABEL))
    if view.machine is not None:
        yield from _ranked(5, flow(_machine(view.machine), width, indent=" " * _LABEL))
    if view.run is not None and view.run.governed is not None:
        done = _governed(view.run.governed, view.time)
        yield from _ranked(4, flow(done, width, indent=" " * _LABEL))
    if view.run is not None:
        yield from _ranked(3, flow(_device(view.run.device), width, indent=" " * _LABEL))
    if len(view.history) >= _LEAST_CURVE and (room := _curve_room(width)):
        curve = paint.curve([held for _, held in view.history], room, _LEAST_SPAN)
        span = min(WINDOW_S, view.history[-1][0] - view.history[0][0])
        yield Block(8, [(*_label(""), Part(curve, "cyan"), _note(f" {duration(span)}"))])


def _governed(found: Governed, now: float) -> Iterator[Line]:
    text = {"shrink": "caches made smaller", "grow": "caches made larger again"}.get(
        found.what, "no cache left to make smaller"
    )
    yield _labelled("governor", f"{text}, {_age(max(0.0, now - found.time))}")
    for cache in found.caches:
        yield (Part(cache),)
    yield (Part(f"at {found.why}", "dim"),)


def _machine(machine: Machine) -> Iterator[Line]:
    yield _labelled("machine", f"{size(machine.available)} available")
    if machine.swap_used or machine.swap_free:
        whole = machine.swap_used + machine.swap_free
        yield (Part(f"swap {size(machine.swap_used)} of {size(whole)} used"),)


def _device(device: Device) -> Iterator[Line]:
    if device.allocated is not None:
        yield _labelled("device", f"{size(device.allocated)} allocated")
        yield (Part(f"{size(device.cached or 0)} taken by torch"),)


def _limit(limit: NearestLimit) -> Iterator[Line]:
    full = limit.share >= 0.9
    text = f"{limit.share:.0%} of {size(limit.bytes)}"
    yield _labelled("limit", text, "red" if full else "")
    yield from _slope(limit)
    whose = " (of all processes)" if limit.source.startswith("physical memory") else ""
    yield (Part(f"{limit.source}{whose}", "dim"),)


def _slope(limit: NearestLimit) -> Iterator[Line]:
    if limit.rising is None:
        yield (Part("slope: not yet known", "dim"),)
    elif not limit.rising:
        yield (Part("not rising"),)
    else:
        left = limit.seconds_left
        soon = "in more than a day" if left is None else f"in {duration(left)}"
        yield (Part(f"full {soon}", "" if left is None else "yellow"),)
        yield (Part(f"rising by {size(60 * limit.slope_per_s)}/min"),)


# --- pieces ----------------------------------------------------------------------------------------


def _label(name: str) -> Line:
    return (Part(f"{name:<{_LABEL}}", "dim"),)


def _labelled(name: str, text: str, style: str = "") -> Line:
    return (*_label(name), Part(text, style))


def _note(text: str) -> Part:
    return Part(text, "dim")


def _curve_room(width: int) -> int:
    # columns of a small curve between its label and its note
    return max(0, min(_MOST_CURVE, width - _LABEL - 12))


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _age(seconds: float) -> str:
    return f"{duration(seconds)} ago"


def _wrapped(text: str, style: str, width: int) -> list[Line]:
    return [(Part(line, style),) for line in wrapped(text, max(20, width), fold=True)]
