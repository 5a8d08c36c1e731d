"""`ttf doctor`: is this machine, this environment and this configuration safe?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ttf.commands import _options as options
from ttf.commands._signals import exit_on_signals
from ttf.errors import ConfigError, ExitCode
from ttf.host import distribution
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import Part, emit_json, next_command, say, show

if TYPE_CHECKING:
    from ttf.tools.doctor.check import Check
    from ttf.tools.doctor.peers.checks import Peers
    from ttf.tools.doctor.report import Result


def _ids() -> list[str]:
    from ttf.tools.doctor.registry import all_checks

    return [check.id for check in all_checks()]


@click.command(
    short_help="Check whether machine, environment and configuration are safe.",
    epilog="""\b
Examples:
  ttf doctor                              this machine and this environment
  ttf doctor run.toml                     also the data, the plan and three real steps of a run
  ttf doctor --check coload --check memory -v
  ttf doctor --python ~/other-env/bin/python    an environment that has no ttf
  ttf doctor --loader train.py --loader 'sample=100x768 dataset=11GB' -v
  ttf doctor run.toml --peers --nodes 2 --rendezvous node0:29400    on each node at the same time
  ttf doctor --json > doctor.json || echo unsafe

\b
Exit codes: 0 nothing failed (warnings are allowed); 2 the configuration is wrong;
6 the environment is unsafe; 3 the data is bad. If several checks fail, the first code of this
list counts.
""",
)
@click.argument("run_toml", type=options.PATH, required=False, metavar="[RUN.toml]")
@click.option(
    "--check",
    "wanted",
    multiple=True,
    shell_complete=lambda context, option, text: [i for i in _ids() if i.startswith(text)],
    metavar="ID",
    help="Run only this check; may be given several times. [default: all]",
)
@options.path(
    "--python",
    metavar="PATH",
    help="Examine another Python, or the folder of its environment. It needs no ttf: small scripts "
    "of its standard library look at versions, OpenMP runtimes, and load its libraries together.",
)
@click.option(
    "--loader",
    "loaders",
    multiple=True,
    metavar="SETTINGS|FILE",
    help="Predict the memory of a PyTorch DataLoader, and what will be killed: settings such as "
    "'num_workers=8 batch_size=512 sample=100x768 cache=1GB', a JSON file, or your script; may be "
    "given several times, later values win.",
)
@click.option(
    "--peers",
    is_flag=True,
    help="Compare the nodes of a run before it starts: versions, processors, files, clocks, network "
    "interfaces, and connections both ways. Start the same command on all of them.",
)
@click.option("--nodes", type=int, metavar="N", help="With --peers: the number of nodes.")
@click.option(
    "--rendezvous",
    metavar="HOST:PORT",
    help="With --peers: where the nodes meet, as in ttf train; node 0 is the host that has this "
    "address.",
)
@click.option("--list-checks", is_flag=True, help="List the checks, and run none of them.")
@click.option("-v", "--verbose", is_flag=True, help="Show the evidence of each result.")
@options.as_json
def command(
    run_toml: Path | None,
    wanted: tuple[str, ...],
    python: Path | None,
    loaders: tuple[str, ...],
    peers: bool,
    nodes: int | None,
    rendezvous: str | None,
    list_checks: bool,
    verbose: bool,
    as_json: bool,
) -> int:
    """Check whether this machine, this environment and this configuration are safe.

    Loads torch and each miner together in a test process. With RUN.toml, it also reads the data,
    predicts the memory, and trains three steps. Changes nothing.

    With --json: {"ok", "exit_code", "checks": [{"id", "title", "status": "ok"|"warn"|"fail"|"skip",
    "detail", "evidence", "remedy", "cause", "docs", "distribution", "seconds"}]}.
    """
    from ttf.tools.doctor.diagnosis import check_run_toml

    if python is not None and run_toml is not None:
        raise ConfigError(
            "--python examines another environment, which has no ttf, so it cannot be combined "
            "with RUN.toml.",
            hint=f"ttf doctor --python {quoted(python)}",
        )
    compared = _peers(peers, nodes, rendezvous, python, loaders)
    checks = compared.checks(wanted) if compared is not None else _chosen(wanted, python, loaders)
    if list_checks:
        _list(checks, as_json, alone=not peers)
        return int(ExitCode.DONE)
    check_run_toml(checks, wanted, run_toml)
    from ttf.tools.doctor import report

    results = list(_results(checks, run_toml, verbose=verbose, as_json=as_json))
    if as_json:
        beside = {} if compared is None else {"nodes": compared.to_json()}
        emit_json({**report.document(results), **beside})
    else:
        if compared is not None and (text := compared.table()):
            show()
            show(text)
        show()
        alone = not (wanted or loaders or peers)
        show(report.last_line(results, all_made=alone))
        if compared is not None:
            if run_toml is not None and report.exit_code(results) == ExitCode.DONE:
                where = f"--nodes {nodes} --rendezvous {quoted(str(rendezvous))}"
                next_command(f"ttf train {quoted(run_toml)} {where}   (on every node)")
        elif python is None and not loaders:
            _what_next(results, run_toml)
    return int(report.exit_code(results))


def _peers(
    peers: bool,
    nodes: int | None,
    rendezvous: str | None,
    python: Path | None,
    loaders: tuple[str, ...],
) -> Peers | None:
    """None without --peers. Raises ConfigError."""
    if not peers:
        if nodes is not None or rendezvous is not None:
            raise ConfigError(
                "--nodes and --rendezvous are for --peers.",
                hint="ttf doctor --peers --nodes 2 --rendezvous node0:29400",
            )
        return None
    if python is not None or loaders:
        raise ConfigError("--peers compares nodes; it does not go with --python or --loader.")
    if nodes is None or rendezvous is None:
        raise ConfigError(
            "--peers needs --nodes N and --rendezvous HOST:PORT, the same on every node.",
            hint="ttf doctor --peers --nodes 2 --rendezvous node0:29400",
        )
    from ttf.tools.doctor.peers.checks import Peers
    from ttf.tools.doctor.peers.meet import Rendezvous

    distribution.require_full("ttf doctor --peers")
    return Peers(Rendezvous.of(nodes, rendezvous))


def _chosen(wanted: tuple[str, ...], python: Path | None, loaders: tuple[str, ...]) -> list[Check]:
    from ttf.tools.doctor.loader_check import check_of
    from ttf.tools.doctor.registry import chosen

    if loaders:
        return [check_of(loaders)]
    return chosen(wanted) if python is None else _foreign_checks(python, wanted)


def _foreign_checks(python: Path, wanted: tuple[str, ...]) -> list[Check]:
    from ttf.process.interpreter import interpreter
    from ttf.tools.doctor.foreign import ForeignPython
    from ttf.tools.doctor.foreign_checks import checks_of

    try:
        found = ForeignPython(interpreter(str(python)))
    except ValueError as error:
        raise ConfigError(f"--python: {error}.") from None
    assert found.facts  # raises if it is no Python
    return checks_of(found, wanted)


def _list(checks: list[Check], as_json: bool, *, alone: bool) -> None:
    if as_json:
        fields = ("id", "title", "of_run", "distribution")
        emit_json([{name: getattr(check, name) for name in fields} for check in checks])
        return
    rows = [[c.id, "RUN.toml" if c.of_run else "", c.title] for c in checks]
    show(table(rows, ["check", "needs", "question"]))
    if alone:
        next_command(f"ttf doctor --check {checks[0].id if len(checks) == 1 else 'coload'} -v")


def _results(
    checks: list[Check], run_toml: Path | None, *, verbose: bool, as_json: bool
) -> Iterator[Result]:
    """Runs the checks; prints each result at once."""
    from ttf.tools.doctor import report
    from ttf.tools.doctor.context import Examination

    exam = Examination(run_toml, say=lambda text: say(Part(f"... {text}", "dim")))
    width = max(len(check.id) for check in checks)
    with exit_on_signals():
        for check in checks:
            result = report.examined(check, exam)
            if not as_json:
                for line in report.lines(result, width=width, verbose=verbose):
                    show(line)
            yield result


def _what_next(results: list[Result], run_toml: Path | None) -> None:
    failed = [r.check.id for r in results if r.verdict.status == "fail"]
    run = f" {quoted(run_toml)}" if run_toml is not None else ""
    if failed:
        next_command(f"ttf doctor{run} --check {quoted(failed[0])} -v")
    elif run_toml is not None:
        next_command(f"ttf train{run}")
    elif distribution.NAME == distribution.CRASH_SIDE:
        from ttf.tools.doctor.registry import OF_ANOTHER_PYTHON

        next_command(OF_ANOTHER_PYTHON)
    elif len(results) > 1:
        next_command("ttf doctor RUN.toml   (your data, its plan, three real steps)")
