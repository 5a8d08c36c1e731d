"""Classifies a death: finds the first matching rule and lists the evidence."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from ttf.incidents.death import (
    UNNAMED,
    Backtrace,
    Death,
    Evidence,
    FileChange,
    Finding,
    ProcessorTime,
    Remedy,
)
from ttf.incidents.facts import DISK_LOW, Area, DeathFacts, signal_name
from ttf.incidents.notes import NOTES
from ttf.incidents.raised import raised_at
from ttf.incidents.remedies import remedies_for
from ttf.incidents.rule import Rule, When
from ttf.incidents.rules import RULES
from ttf.text.numbers import size
from ttf.text.terminal import one_short_line, without_colours

_LONGEST: Final = 300
# Classes of an end without a message.
_SAYS_NO_CAUSE: Final = ("unknown", "abort")
NATIVE_STACK: Final = "native stack"
LIMIT: Final = "limit of the process"
MEASURED: Final = "memory.csv"
_LONGEST_ERROR: Final = 1000
_NAMES: Final = {
    "trainer": "the trainer",
    "miner": "the miner's process",
    "supervisor": "the supervisor",
    "command": "the command",
}


@dataclass(frozen=True)
class Match:
    """Where the text of a rule was found, and its named groups. Empty for a rule without text."""

    area: Area | None = None
    line: int = 0
    text: str = ""
    groups: Mapping[str, str] = field(default_factory=dict)


def classify(death: Death) -> Finding:
    """Returns the class of a death, the explanation and evidence, and the remedies."""
    facts = DeathFacts(death)
    rule, match = first_match(facts)
    ends_with = _ends_with(rule, death)
    remedies = _told_by(rule, death) or remedies_for(
        rule.name,
        death.settings,
        process=death.process,
        phase=death.phase or "",
        frame=facts.top_frame,
        threads=bool(death.openmp),
    )
    return Finding(
        name=rule.name,
        # Any program may end with the exit code that a shell gives for a signal.
        certain=rule.certain and (rule.name == "oom-kill" or "through-a-shell" not in facts.names),
        at_once=rule.certain or rule.at_once,
        explanation=_explanation(rule, match, facts),
        evidence=tuple(_evidence(rule, match, facts)),
        # No setting mends what a restart would meet again; advice to a stranger stays.
        remedies=remedies if ends_with is None or death.process == "command" else (),
        ends_with=ends_with,
    )


def _told_by(rule: Rule, death: Death) -> tuple[Remedy, ...]:
    if death.process != "command" or rule.advice is None:
        return ()
    return tuple(Remedy(text=text) for text in rule.advice)


def first_match(facts: DeathFacts) -> tuple[Rule, Match]:
    found = _first(facts)
    if found[0].name in _SAYS_NO_CAUSE and found[1].area is None and facts.death.stdout:
        # Words on standard output are weaker: they count only where nothing else names a cause.
        told = _first(facts, on_stdout=True)
        if told[1].area == "stdout":
            return told
    return found


def _first(facts: DeathFacts, *, on_stdout: bool = False) -> tuple[Rule, Match]:
    for rule in RULES:
        match = matches(rule.when, facts, on_stdout=on_stdout)
        if match is not None:
            return rule, match
    raise AssertionError("the last row of the table fits everything")


def matches(when: When, facts: DeathFacts, *, on_stdout: bool = False) -> Match | None:
    """Returns None if the rule does not match. `on_stdout`: texts are searched there as well."""
    death = facts.death
    error = str((death.error or {}).get("class", ""))
    fits = (
        (not when.signals or facts.signal in when.signals)
        and (not when.exit_codes or death.exit_code in when.exit_codes)
        and (not when.errors or error in when.errors)
        and (not when.phases or death.phase in when.phases)
        and (not when.processes or death.process in when.processes)
        and (not when.killed_by_us or death.killed_by_us in when.killed_by_us)
        and facts.names.issuperset(when.facts)
        and facts.names.isdisjoint(when.without)
    )
    if not fits:
        return None
    if not when.text:
        return Match()
    words = not {"words", "stderr"}.isdisjoint(when.areas)
    return _find(when, facts, (*when.areas, "stdout") if on_stdout and words else when.areas)


def _find(when: When, facts: DeathFacts, areas: tuple[Area, ...]) -> Match | None:
    for area in areas:
        text = facts.areas[area]
        found = re.search(when.text, text, re.MULTILINE)
        if found is None:
            continue
        start = text.rfind("\n", 0, found.start()) + 1
        end = text.find("\n", found.end())
        groups = {k.rstrip("_"): v for k, v in found.groupdict().items() if v is not None}
        return Match(
            area=area,
            line=text.count("\n", 0, found.start()) + 1,
            text=text[start : end if end >= 0 else None],
            groups=groups,
        )
    return None


def _ends_with(rule: Rule, death: Death) -> int | None:
    if rule.ends_with is not None:
        return int(rule.ends_with)
    # An error that is not one of ours has no exit code of its own: a fresh process may not meet it.
    if rule.own_exit_code and death.error is not None and death.error.get("known", True):
        code = death.error.get("exit_code")
        return None if code is None else int(code)
    return None


# --- explanation -----------------------------------------------------------------------------------


def _explanation(rule: Rule, match: Match, facts: DeathFacts) -> str:
    notes = [n.text for n in NOTES if rule.name in n.names and matches(n.when, facts) is not None]
    said = {k: _short(v) for k, v in match.groups.items()}
    said["line"] = _sentence(_short(match.text))
    if "number" in said:
        said["signal"] = signal_name(int(said["number"]))
    if "why" in said:
        said["why"] = _sentence(said["why"])
    values = defaultdict(str, {**_values(facts), **said})
    text = " ".join([rule.explanation, *notes]).format_map(values)
    text = re.sub(r"\s+", " ", text).strip()
    return re.sub(r" +([.,:;])", r"\1", text)


def _values(facts: DeathFacts) -> dict[str, str]:
    death = facts.death
    who = _NAMES[death.process]
    change = first_change(death)
    line, is_last = facts.likely_reason
    low = [f"{folder}: {free}" for folder, free in _nearly_full_folders(facts)]
    return {
        "who": who[0].upper() + who[1:],
        "who_object": who,
        "signal": facts.signal or "no signal",
        "code": str(death.exit_code),
        "reason": death.reason.rstrip(".") or "no reason was recorded",
        "at": at(death),
        "native": _in_native(death),
        "error": _error_line(facts),
        "last": _sentence(_short(line)),
        "raised": f" It was raised at {_short(where)}."
        if (where := raised_at(facts.words[1]))
        else "",
        "held": size(max((point.held for point in death.memory), default=0)),
        "limit": _limit_text(death),
        "which": "The last line" if is_last else "One of the last lines",
        "newer": death.newer_code[0] if death.newer_code else "A file",
        "file": change.path if change else "an input file",
        "was": change.was if change else "unknown",
        "now": change.now if change else "unknown",
        "full": f" ({', '.join(low)})" if low else "",
    }


def _in_native(death: Death) -> str:
    frames = [] if death.backtrace is None else death.backtrace.frames[:1]
    for frame in frames:
        if frame.function != UNNAMED or frame.library:
            return f" in {_short(str(frame))}"
    return f" in {death.native}" if death.native else ""


def at(death: Death) -> str:
    """Returns for example 'in mining, after step 12'; '' without a flight recorder."""
    flight = death.flight
    if flight is None:
        return ""
    if flight.plugin is not None:
        return f"while it was {_short(str(flight.plugin))}"
    if flight.phase == "start":
        return "during start-up"
    return f"in {flight.phase}, after step {flight.step}" if flight.step else f"in {flight.phase}"


def first_change(death: Death) -> FileChange | None:
    """Returns the change to name: a truncated file explains most."""
    return min(death.changed_files, key=lambda change: not change.cut, default=None)


def _error_line(facts: DeathFacts) -> str:
    error = facts.death.error
    if error is not None:
        kind, message = (str(error.get(key) or "").strip() for key in ("class", "message"))
        # The names of our own classes say nothing to a reader.
        text = message or kind if error.get("known", True) else f"{kind}: {message}".strip(": ")
    else:
        text = facts.error_line
    return _sentence(_short(text, _LONGEST_ERROR))


def _limit_text(death: Death) -> str:
    bytes_ = death.memory[-1].limit if death.memory else 0
    return f"{size(bytes_)} ({death.limit_source})" if death.limit_source else size(bytes_)


def _sentence(text: str) -> str:
    return text if text.endswith((".", "!", "?")) else f"{text}."


def _nearly_full_folders(facts: DeathFacts) -> Iterator[tuple[str, str]]:
    death = facts.death
    yield from ((k, f"{size(v)} free") for k, v in death.free_disk.items() if v < DISK_LOW)
    yield from ((k, "all inodes are in use") for k in death.no_inodes)


# --- evidence --------------------------------------------------------------------------------------


def _evidence(rule: Rule, match: Match, facts: DeathFacts) -> Iterator[Evidence]:
    death = facts.death
    yield Evidence(source="exit status", text=_exit_text(facts))
    if death.command_ended:
        yield Evidence(source="exit status of the command", text=death.command_ended)
    if death.killed_by_us:
        yield Evidence(
            source="supervisor", text=f"ended by ttf: {death.reason or 'no reason was recorded'}"
        )
    if match.area is not None:
        yield Evidence(source=_text_source(match, facts), text=_short(match.text))
    elif death.error is not None:
        yield Evidence(source="error report", text=_short(_error_line(facts)))
    if facts.stacks.strip():
        yield from _stack_lines(facts)
    if death.native:
        yield Evidence(source="crash record", text=f"the crash was in {death.native}")
    if death.backtrace is not None:
        yield Evidence(source=NATIVE_STACK, text=_native_line(death.backtrace))
    yield from _memory_lines(facts)
    if (used := death.processor) is not None:
        yield Evidence(source="processor time", text=_processor_line(used))
    if death.flight is not None:
        yield Evidence(source="flight recorder", text=_flight_line(death))
    for change in death.changed_files:
        yield Evidence(source=change.path, text=f"was {change.was}; is {change.now}")
    for folder, free in _nearly_full_folders(facts):
        yield Evidence(source=folder, text=free)
    if len(death.openmp) > 1 or (death.openmp and rule.name == "omp-duplicate"):
        yield Evidence(source="mapped libraries", text=f"OpenMP: {', '.join(death.openmp)}")
    for line in death.kernel.splitlines()[:8]:
        yield Evidence(source="kernel", text=_short(line))


def _exit_text(facts: DeathFacts) -> str:
    death = facts.death
    if death.signal is None:
        return f"process {death.pid} ended with exit code {death.exit_code}"
    if death.exit_code is not None:
        return (
            f"process {death.pid} ended with exit code {death.exit_code}: this is how a shell "
            f"reports {signal_name(death.signal)} ({death.signal})"
        )
    return f"process {death.pid} was ended by {signal_name(death.signal)} ({death.signal})"


def _text_source(match: Match, facts: DeathFacts) -> str:
    if match.area == "words":
        first = facts.words[0]
        return f"stderr:{first + match.line - 1}" if first else "error report"
    return f"{match.area}:{match.line}"


def _stack_lines(facts: DeathFacts) -> Iterator[Evidence]:
    head = next((line for line in facts.stacks.splitlines() if line.strip()), "")
    if head.startswith("Fatal Python error"):
        yield Evidence(source="faulthandler:1", text=_short(head))
    if facts.top_frame:
        yield Evidence(source="faulthandler", text=f"Python was at {_short(facts.top_frame)}")


def _native_line(found: Backtrace) -> str:
    if not found.frames:
        return found.note
    innermost, *callers = map(str, found.frames)
    called = f", called from {', '.join(callers)}" if callers else ""
    return f"native code was at {_short(innermost + called)}"


def _memory_lines(facts: DeathFacts) -> Iterator[Evidence]:
    death = facts.death
    if death.oom_source:
        rose = f"increased by {death.oom_kills}" if death.oom_kills else "did not increase"
        yield Evidence(source=death.oom_source, text=f"the counter of OOM kills {rose}")
    if death.own_limit:
        yield Evidence(
            source=LIMIT, text=f"process {death.pid} could get at most {death.own_limit}"
        )
    if death.memory:
        last, most = death.memory[-1], max(point.held for point in death.memory)
        limited = last.limit and not death.own_limit  # that is the one that matters
        limit = f" of {size(last.limit)}" if limited else ""
        source = f" ({death.limit_source})" if limited and death.limit_source else ""
        yield Evidence(
            source=MEASURED,
            text=(
                f"memory at the last measurement: {size(last.held)}; maximum: "
                f"{size(most)}{limit}{source}"
            ),
        )


def _processor_line(used: ProcessorTime) -> str:
    limits = [f"{limit:g} s" for limit in dict.fromkeys((used.soft_s, used.hard_s))]
    return (
        f"{used.used_s:.1f} s at the last measurement; the limit (ulimit -t) is "
        f"{' and '.join(limits)}"
    )


def _flight_line(death: Death) -> str:
    flight = death.flight
    assert flight is not None
    ago = max(0.0, death.time - flight.time)
    torn = ", not written completely" if flight.torn else ""
    plugin = f"; {_short(str(flight.plugin))}" if flight.plugin is not None else ""
    return (
        f"last record: phase {flight.phase}, {flight.step} steps done, micro-batch "
        f"{flight.micro_batch}, {ago:.1f} s before the end{torn}{plugin}"
    )


def _short(text: str, longest: int = _LONGEST) -> str:
    """Returns one line without control characters, safe to print on a terminal."""
    return one_short_line(" ".join(without_colours(text).split()), longest)
