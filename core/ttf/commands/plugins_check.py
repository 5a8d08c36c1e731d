"""`ttf plugins check`: runs the conformance suite on installed plugins. A crash is a finding."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.commands._signals import exit_on_signals
from ttf.errors import ConfigError, ExitCode, UnknownName
from ttf.text.shell import quoted
from ttf.text.terminal import Part, emit_json, line_of, next_command, say, show

if TYPE_CHECKING:
    from ttf.host.installed import PluginInfo
    from ttf.tools.plugins.check.run import Finding, Wanted

_MARKS = {"ok": ("ok  ", "green"), "fail": ("FAIL", "red"), "died": ("DIED", "red"),
          "skip": ("skip", "yellow")}  # fmt: skip


def _references() -> list[str]:
    from ttf.host import plugins as host

    return [f"{p.kind}.{host.choice_of(p)}" for p in host.installed()]


def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[str]:
    return [reference for reference in _references() if reference.startswith(incomplete)]


def find(reference: str) -> PluginInfo:
    """Finds a plugin by `kind.name`, or by a name that only one kind has."""
    from ttf.contracts import KINDS
    from ttf.host import plugins as host

    kind, _, name = reference.partition(".")
    known = {str(k): k for k in KINDS}
    if kind in known and name:
        return host.find(known[kind], name)
    bare = [p for p in host.installed() if reference in (p.name, host.choice_of(p))]
    if len(bare) == 1:
        return bare[0]
    raise UnknownName("plugin", reference, _references())


@click.command(
    "check",
    short_help="Run the conformance tests on an installed plugin.",
    epilog="""\b
Examples:
  ttf plugins check miner.usearch
  ttf plugins check ttf-miner-usearch                 every plugin of a distribution
  ttf plugins check miner.usearch --set connectivity=8 --only saved -v""",
)
@click.argument("name", shell_complete=complete, metavar="NAME")
@click.option(
    "--set", "sets", multiple=True, metavar="OPTION=VALUE", help="An option of the plugin."
)
@click.option(
    "--only",
    metavar="WORD",
    help="Run only checks with this word in their name (an expression of pytest -k).",
)
@click.option(
    "--deadline",
    "quiet_s",
    type=options.duration(1),
    default="2m",
    help="Time limit of a check; a longer check counts as a hang.",
)
@click.option("-v", "--verbose", is_flag=True, help="Show the evidence of each result.")
@options.as_json
def command(
    name: str, sets: tuple[str, ...], only: str | None, quiet_s: float, verbose: bool, as_json: bool
) -> int:
    """Load a plugin, run the conformance tests of its kind, and train a few steps with it.

    NAME is KIND.NAME or a distribution. Each check has a child process: if the plugin aborts,
    segfaults or hangs, the output names the check, and the other checks still run. Exit code 7 if
    a check failed or no check could run. Needs pytest: pip install "twotower[testing]".

    With --json: {"ok", "plugins": [{"kind", "name", "distribution", "version", "ok", "checks":
    [{"check", "status": "ok"|"fail"|"died"|"skip", "seconds", "detail", "evidence"}]}]}.
    """
    from ttf.tools.plugins.check.run import Wanted

    plugins = _plugins_named(name)
    if importlib.util.find_spec("pytest") is None:
        raise ConfigError(
            "The conformance tests need pytest, but pytest is not installed.",
            hint='pip install "twotower[testing]"',
        )
    settings = _settings(sets)
    every = []
    for info in plugins:
        wanted = Wanted(info=info, options=settings, only=only or "", quiet_s=quiet_s)
        every.append((wanted, _checked(wanted, verbose=verbose, as_json=as_json)))
    ok = all(_passed(findings) for _, findings in every)
    if as_json:
        emit_json({"ok": ok, "plugins": [_document(w, findings) for w, findings in every]})
    else:
        for wanted, findings in every:
            show(_last_line(wanted, findings))
        _what_next(every, verbose)
    return int(ExitCode.DONE if ok else ExitCode.GATE)


def _plugins_named(name: str) -> list[PluginInfo]:
    from ttf.host import plugins as host

    of_distribution = [p for p in host.installed() if p.owned_by(name)]
    return of_distribution or [find(name)]


def _settings(sets: Sequence[str]) -> dict[str, Any]:
    from ttf.config.resolve import parse_value

    settings = {}
    for text in sets:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ConfigError(f"--set {text}: write it as option=value, e.g. connectivity=8")
        settings[key.strip()] = parse_value(value)
    return settings


def _checked(wanted: Wanted, *, verbose: bool, as_json: bool) -> list[Finding]:
    """Runs the checks; prints each finding at once."""
    from ttf.tools.plugins.check.run import SUITES, check

    info = wanted.info
    suite = SUITES.get(info.kind)
    what = (
        f"with ttf.testing.{suite}"
        if suite
        else "by loading it, because there are no conformance tests for its kind"
    )
    say(f"Checking {info.reference} of {info.distribution} {info.version} {what}")
    findings = []
    with exit_on_signals():
        for finding in check(wanted):
            findings.append(finding)
            if not as_json:
                _show(finding, verbose=verbose)
    return findings


def _show(finding: Finding, *, verbose: bool) -> None:
    mark, color = _MARKS[finding.status]
    show(line_of("  ", Part(mark, color), f"  {finding.check}  ({finding.seconds:.1f} s)"))
    if finding.detail:
        show(f"        {finding.detail}")
    if verbose or finding.status == "died":
        for line in finding.evidence:
            show(f"        {line}")


def _passed(findings: Sequence[Finding]) -> bool:
    # A plugin that cannot run here was not checked, so at least one check must have passed.
    return any(f.status == "ok" for f in findings) and not any(f.bad for f in findings)


def _last_line(wanted: Wanted, findings: Sequence[Finding]) -> str:
    bad = [f for f in findings if f.bad]
    if not bad and not _passed(findings):
        return f"{wanted.info.reference}: no check could run, because the plugin cannot run here."
    passed = sum(f.status == "ok" for f in findings)
    left_out = sum(f.status == "skip" for f in findings)
    skipped = f", {left_out} skipped" if left_out else ""
    end = f"{len(bad)} failed" if bad else "no problems"
    return f"{wanted.info.reference}: {passed} passed{skipped}; {end}."


def _what_next(every: Sequence[tuple[Wanted, Sequence[Finding]]], verbose: bool) -> None:
    for wanted, findings in every:
        reference = quoted(f"{wanted.info.kind}.{wanted.name}")
        if not _passed(findings):
            if not verbose:
                next_command(f"ttf plugins check {reference} -v")
        elif wanted.info.kind in ("miner", "tower", "device"):
            next_command(f"ttf train --{wanted.info.kind} {quoted(wanted.name)}")


def _document(wanted: Wanted, findings: Sequence[Finding]) -> dict[str, Any]:
    named = ("kind", "name", "distribution", "version")
    return {
        **{key: getattr(wanted.info, key) for key in named},
        "ok": _passed(findings),
        "checks": findings,
    }
