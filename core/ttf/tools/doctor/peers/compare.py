"""The verdicts about the nodes of a run: pure functions of what a meeting found."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from ttf.hookspecs import Verdict
from ttf.machine.interfaces import is_loopback
from ttf.text.numbers import duration, fine_duration
from ttf.tools.doctor.check import fail, ok, warn
from ttf.tools.doctor.peers.facts import Facts
from ttf.tools.doctor.peers.found import Found, Link

# Logs of different hosts are compared by their times; more than this, and they lie.
CLOCKS_WARN_S: Final = 1.0
CLOCKS_FAIL_S: Final = 15.0
_TO_ROUNDING: Final = (
    "The run works, but its numbers are equal only to rounding, also after a restart with the nodes "
    "in another order"
)


def judge_versions(found: Found) -> Verdict:
    """ttf, torch, Python and the libraries of the miners."""
    first, *others = found.nodes
    for about, of in (
        ("ttf", lambda node: node.ttf),
        ("torch", lambda node: node.torch),
    ):
        differing = _differing(found, of)
        if differing:
            return fail(
                f"The nodes have different versions of {about}: {differing}.",
                *_versions(found),
                remedy=f"Install the same version of {about} on every node.",
            )
    names = sorted({name for node in found.nodes for name in node.libraries})
    problems = [
        f"{name}: {differing}" for name in names if (differing := _differing(found, _library(name)))
    ]
    if python := _differing(found, lambda node: node.python.rpartition(".")[0]):
        problems.insert(0, f"Python: {python}")
    if problems:
        return warn(
            f"The nodes have different libraries: {'; '.join(problems)}. {_TO_ROUNDING}.",
            *_versions(found),
            remedy="Install the same versions on every node, or give all the same image.",
        )
    shown = f"ttf {first.ttf}, torch {first.torch}, Python {first.python}"
    return ok(f"{shown} on {_all(len(others) + 1)}", *_versions(found))


def _versions(found: Found) -> Iterator[str]:
    for number, node in enumerate(found.nodes):
        libraries = ", ".join(f"{name} {version}" for name, version in node.libraries.items())
        yield (
            f"{found.name(number)}: ttf {node.ttf}, torch {node.torch}, Python {node.python}, "
            f"{libraries}"
        )


def judge_numbers(found: Found) -> Verdict:
    """Whether equal work gives equal bits on all nodes."""
    for number, node in enumerate(found.nodes):
        if node.problem:
            return fail(
                f"torch does not work on {found.name(number)}: {node.problem}.",
                remedy=f"Run ttf doctor --check torch --check device -v on {node.host}.",
            )
    evidence = [
        f"{found.name(n)}: {node.architecture}, {node.capability}, {_threads(node.threads)}, "
        f"instructions: {node.instructions}"
        for n, node in enumerate(found.nodes)
    ]
    if architectures := _differing(found, lambda node: node.architecture):
        return fail(
            f"The nodes have different processors: {architectures}.",
            *evidence,
            remedy="Use nodes of one architecture.",
        )
    problems, remedies = [], []
    if capability := _differing(found, lambda node: node.capability):
        problems.append(f"instruction set: {capability}")
        remedies.append(
            "Use nodes with the same processors, or set ATEN_CPU_CAPABILITY to the smaller one on all "
            "of them"
        )
    if threads := _differing(found, lambda node: _threads(node.threads)):
        least = min(node.threads for node in found.nodes)
        problems.append(f"threads: {threads}")
        remedies.append(f"Give all of them the same number: --threads {least}")
    if variables := _differing(found, lambda node: _shown_variables(node)):
        problems.append(f"variables: {variables}")
        remedies.append("Set the same variables on every node")
    bits = [
        f"{name}: {differing}"
        for name in sorted({name for node in found.nodes for name in node.bits})
        if (differing := _differing(found, _bits(name)))
    ]
    evidence += [f"results of fixed calculations, {line}" for line in bits]
    if bits and not problems:
        problems.append("the same calculations give different bits")
        remedies.append("Use nodes with the same processors and the same libraries")
    if problems:
        return warn(
            f"The nodes compute differently: {'; '.join(problems)}. {_TO_ROUNDING}.",
            *evidence,
            remedy=f"{'. '.join(remedies)}.",
        )
    first = found.nodes[0]
    return ok(
        f"equal bits on {_all(len(found.nodes))}: {first.capability or first.architecture}, "
        f"{_threads(first.threads)}",
        *evidence,
    )


def _shown_variables(node: Facts) -> str:
    return " ".join(f"{name}={value}" for name, value in sorted(node.variables.items())) or "none"


def judge_data(found: Found) -> Verdict:
    """The configuration, by digests, and the files, by sizes and samples of their content."""
    without = [found.name(n) for n, node in enumerate(found.nodes) if node.settings is None]
    if without:
        if len(without) == len(found.nodes):
            return ok("no RUN.toml was given, so files and settings were not compared")
        return fail(
            f"{_listed(without)} got no RUN.toml, others did.",
            remedy="Give every node the same file: ttf doctor RUN.toml --peers ...",
        )
    keys = sorted({key for node in found.nodes for key in node.settings or ()})
    differing = [key for key in keys if _differing(found, _setting(key))]
    if differing:
        return fail(
            f"The configurations differ in {', '.join(differing[:8])}"
            f"{' and more' if len(differing) > 8 else ''}: "
            f"{_who(found, lambda node: str([(node.settings or {}).get(k) for k in differing]))}.",
            remedy="Copy the same RUN.toml to every node.",
        )
    return _judge_files(found)


def _judge_files(found: Found) -> Verdict:
    roles = sorted({role for node in found.nodes for role in node.data})
    evidence = []
    for role in roles:
        for number, node in enumerate(found.nodes):
            file = node.data.get(role)
            if file is None or file.problem:
                why = file.problem if file is not None else "it is not named there"
                return fail(
                    f"{found.name(number)} cannot read the file of {role}: {why}.",
                    remedy=f"Copy the file to {node.host}, or put it on a disk that all nodes share.",
                )
            evidence.append(
                f"{role} on {found.name(number)}: {file.bytes:,} bytes, {file.fingerprint}"
            )
        if differing := _differing(
            found,
            _content(role),
        ):
            return fail(
                f"The file of {role} is not the same on all nodes: {differing}.",
                *evidence,
                remedy="Copy the same file to every node, or put it on a disk that all nodes share.",
            )
    if not roles:
        return ok("the same settings; no data files (the demo data set)", *evidence)
    return ok(
        f"the same settings, and the same {_listed(roles)} on {_all(len(found.nodes))} (sizes and "
        "samples of the content)",
        *evidence,
    )


def judge_clocks(found: Found) -> Verdict:
    evidence = [
        f"{found.name(n)}: {skew.offset_s:+.3f} s, known to {fine_duration(skew.error_s)}"
        for n, skew in enumerate(found.clocks)
    ]
    offsets = [skew.offset_s for skew in found.clocks]
    early, late = min(offsets), max(offsets)
    apart = late - early
    most = max(range(len(offsets)), key=lambda n: abs(offsets[n]))
    text = f"The clocks are up to {apart:.1f} s apart"
    direction = "ahead of" if offsets[most] > 0 else "behind"
    text += f": {found.name(most)} is {abs(offsets[most]):.1f} s {direction} {found.name(0)}."
    remedy = (
        f"Set the clock of {found.nodes[most].host}, for example with chrony or systemd-timesyncd."
    )
    if apart > CLOCKS_FAIL_S:
        return fail(f"{text} Times in logs and incidents would be wrong.", *evidence, remedy=remedy)
    if apart > CLOCKS_WARN_S:
        return warn(f"{text} No decision of ttf depends on it.", *evidence, remedy=remedy)
    return ok(f"clocks are at most {duration(max(apart, 0.001))} apart", *evidence)


def judge_interfaces(found: Found) -> Verdict:
    """The address that the exchange of gradients would use."""
    evidence = [
        f"{found.name(n)}: {node.interface or 'no interface'} {node.address or 'no address'}; it has "
        f"{', '.join(node.interfaces) or 'none'}"
        for n, node in enumerate(found.nodes)
    ]
    for number, node in enumerate(found.nodes):
        if not node.address or not node.interface:
            return fail(
                f"{found.name(number)} has no network interface {node.interface!r} with an address.",
                *evidence,
                remedy=_choose(node),
            )
        if is_loopback(node.address) and not found.on_one_machine:
            return fail(
                f"{found.name(number)} would use {node.interface} ({node.address}), which other hosts "
                "cannot reach.",
                *evidence,
                remedy=f"{_choose(node)} Perhaps the name in --rendezvous resolves to a loopback "
                "address there: see /etc/hosts.",
            )
    for a, node in enumerate(found.nodes):
        for b, other in enumerate(found.nodes[:a]):
            if node.address == other.address and node.machine != other.machine:
                return fail(
                    f"{found.name(b)} and {found.name(a)} have the same address, {node.address}.",
                    *evidence,
                    remedy=_choose(node),
                )
    shown = ", ".join(f"{node.host} {node.interface} {node.address}" for node in found.nodes)
    return ok(shown, *evidence)


def _choose(node: Facts) -> str:
    names = ", ".join(
        dict.fromkeys(
            line.partition(" ")[0]
            for line in node.interfaces
            if not is_loopback(line.partition(" ")[2])
        )
    )
    return (
        f"Name the interface that reaches the other nodes on {node.host}: --set "
        f"scale.interface=NAME (it has: {names or 'none but the loopback'})."
    )


def judge_links(found: Found) -> Verdict:
    """Connections on fresh ports, each way between any two nodes, as the ranks open them."""
    evidence = [_link_line(found, link) for link in found.links]
    broken = [link for link in found.links if link.error]
    if broken:
        pairs = [f"{found.name(link.a)} to {found.name(link.b)}" for link in broken]
        one = broken[0]
        target = found.nodes[one.b]
        return fail(
            f"{len(broken)} of {len(found.links)} connections cannot be opened: "
            f"{_listed(pairs[:4])}{' and more' if len(pairs) > 4 else ''} ({one.error}).",
            *(_link_line(found, link) for link in broken),
            remedy=f"Ranks listen on ports that the system chooses: in the firewall of {target.host}, "
            f"allow all TCP ports from the other nodes to {target.address}. "
            f"If {target.address} is the wrong address: {_choose(target)}",
        )
    rates = [link.bytes_per_s for link in found.links if link.bytes_per_s is not None]
    trips = [link.rtt_s for link in found.links if link.rtt_s is not None]
    rate = f", {min(rates) * 8 / 1e9:.3g} Gb/s at least" if rates else ""
    trip = f"; round trip {max(trips) * 1e3:.3g} ms at most" if trips else ""
    return ok(f"{len(found.links)} connections work{rate}{trip}", *evidence)


def _link_line(found: Found, link: Link) -> str:
    names = f"{found.name(link.a)} to {found.name(link.b)}"
    if link.error:
        return f"{names}: {link.error}"
    rate = "" if link.bytes_per_s is None else f", {link.bytes_per_s * 8 / 1e9:.3g} Gb/s"
    return f"{names}: round trip {(link.rtt_s or 0.0) * 1e3:.3g} ms{rate}"


# --- what is compared ---------------------------------------------------------------------------------


def _library(name: str) -> Callable[[Facts], str]:
    return lambda node: node.libraries.get(name, "none")


def _bits(name: str) -> Callable[[Facts], str]:
    return lambda node: node.bits.get(name, "none")


def _setting(key: str) -> Callable[[Facts], str]:
    return lambda node: (node.settings or {}).get(key, "")


def _content(role: str) -> Callable[[Facts], str]:
    return lambda node: f"{node.data[role].bytes:,} B {node.data[role].fingerprint}"


# --- words ------------------------------------------------------------------------------------------


def _differing(found: Found, of: Callable[[Facts], str]) -> str:
    """'2.13.0 on a (node 0), 2.12.0 on b (node 1)'; '' if all have the same."""
    values = [of(node) for node in found.nodes]
    return "" if len(set(values)) == 1 else _by_value(found, values)


def _by_value(found: Found, values: list[str]) -> str:
    groups: dict[str, list[str]] = {}
    for number, value in enumerate(values):
        groups.setdefault(value, []).append(found.name(number))
    return ", ".join(f"{value} on {_listed(names)}" for value, names in groups.items())


def _who(found: Found, of: Callable[[Facts], str]) -> str:
    """'a (node 0) and b (node 1) against c (node 2)'"""
    groups: dict[str, list[str]] = {}
    for number, node in enumerate(found.nodes):
        groups.setdefault(of(node), []).append(found.name(number))
    return " against ".join(_listed(names) for names in groups.values())


def _listed(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} and {last}" if most else last


def _threads(count: int) -> str:
    return "1 thread" if count == 1 else f"{count} threads"


def _all(count: int) -> str:
    return "both nodes" if count == 2 else f"all {count} nodes"
