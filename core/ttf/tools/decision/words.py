"""A decision in sentences and rows, for the terminal and the page."""

from __future__ import annotations

from pathlib import Path

from ttf.tools.decision.record import Candidate, Decision


def fall_text(candidate: Candidate) -> str:
    """'a (A.toml) missed a gate. The gate at step 30 requires ...'"""
    return f"{candidate.title} {_how(candidate)}. {candidate.why}"


def outcome_text(decision: Decision, candidate: Candidate) -> str:
    """'missed a gate: ...', 'chosen', 'not needed', 'running'"""
    if candidate.fell:
        return f"{_how(candidate)}: {candidate.why}"
    if candidate.outcome == "finished":
        return "chosen"
    if decision.chosen is not None:
        return "not needed"
    if not decision.has_begun(candidate):
        return "not begun"
    return "running" if decision.owner is not None else "not at its end"


def rows(decision: Decision) -> list[tuple[str, str]]:
    """(label, text) pairs, one for each configuration."""
    return [
        (f"{c.name}: {Path(c.file).name}", outcome_text(decision, c)) for c in decision.candidates
    ]


def story(decision: Decision) -> str:
    """What came of it, in a few sentences."""
    sentences = [fall_text(candidate) for candidate in decision.candidates if candidate.fell]
    chosen, current = decision.chosen, decision.current
    if chosen is not None:
        sentences.append(f"{chosen.title} finished and was chosen.")
    elif current is None:
        sentences.append("No configuration is left.")
    elif decision.owner is not None:
        sentences.append(f"{current.title} is trained now.")
    else:
        sentences.append(f"{current.title} has not ended; ttf resume continues the decision.")
    return " ".join(sentences)


def beginning(candidates: tuple[Candidate, ...], num_gates: list[int]) -> str:
    """What is trained first, and when the next one is."""
    first, *others = candidates
    names = ", then ".join(candidate.title for candidate in others)
    gates = num_gates[0]
    missed = "misses its gate" if gates == 1 else f"misses one of its {gates} gates"
    if not gates:
        missed = "learns nothing (it has no gates of its own)"
    return f"{first.title} is trained first; {names} if it dies beyond its remedies or {missed}."


def _how(candidate: Candidate) -> str:
    return "missed a gate" if candidate.outcome == "gate" else "died beyond its remedies"
