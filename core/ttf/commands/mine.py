"""`ttf mine`: a table of hard-negative candidates, within a memory budget, resumable."""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ttf.commands import _options as options
from ttf.errors import ConfigError
from ttf.text.numbers import number
from ttf.text.shell import quoted
from ttf.text.tables import table
from ttf.text.terminal import next_command, show_result

if TYPE_CHECKING:
    from ttf.tools.mine.offline import Mined


# Flags and their configuration keys.
_KEYS = {
    "k": "miner.k",
    "memory_budget": "memory.budget",
    "threads": "device.threads",
    "miner": "miner.name",
    "isolation": "miner.isolation",
}


class _Local(click.Path):
    """A local path. A URL would lose a slash in its conversion to a Path."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        if "://" in str(value):
            self.fail(f"{value}: the table must be a local file, not a URL.", param, ctx)
        return super().convert(value, param, ctx)


@click.command(
    epilog="""\b
Examples:
  ttf mine runs/run-001 --out candidates.npz                the run's training queries
  ttf mine --queries queries.npz --bank bank.npz --out candidates.npz
  ttf mine --queries q.npz --bank bank.npz --miner faiss --set miner.faiss.kind=ivf -k 100 \\
      --out candidates.npz

\b
The FILE of --queries needs an array `vectors` or X_* with two dimensions. The table contains `ids`
(Q, K) int64, the row numbers of the bank, and `scores` (Q, K) float32, best first. To continue an
interrupted command, run it again."""
)
@click.argument("run_dir", type=options.PATH, required=False, metavar="[RUN_DIR]")
@click.option("--queries", metavar="FILE", help="File with query vectors, instead of RUN_DIR.")
@click.option("--bank", metavar="FILE", help="The documents. [default: those of the run]")
@options.plugin(
    "--miner", "miner", "auto", help="Miner; auto: chosen by a cost model. [default: auto]"
)
@options.count("-k", "--k", "k", metavar="K", help="Candidates per query. [default: 200]")
@click.option(
    "--out", type=_Local(path_type=Path), required=True, metavar="FILE", help="File for the table."
)
@click.option(
    "--memory-budget",
    metavar="SIZE",
    help="Working memory, e.g. 512MiB. [default: a quarter of the memory limit]",
)
@options.count("--threads", help="CPU threads. [default: all cores]")
@options.isolation
@options.one_of(
    "--similarity", "cosine", "dot", help="Similarity, only with --queries. [default: cosine]"
)
@options.overwrite
@options.allow_remote
@options.sets
@options.as_json
def command(
    run_dir: Path | None,
    queries: str | None,
    bank: str | None,
    out: Path,
    similarity: str | None,
    overwrite: bool,
    allow_remote: bool,
    sets: tuple[str, ...],
    as_json: bool,
    **flags: Any,
) -> None:
    """Write the K best bank rows of each query to a table of hard-negative candidates."""
    _check(run_dir, queries, bank, similarity)
    from ttf.config.resolve import Resolved, resolve

    given = {_KEYS[name]: value for name, value in flags.items() if value is not None}
    config = resolve(None, sets, given).config
    from ttf.data.writing import sigterm_raised
    from ttf.text.progress import make_reporter
    from ttf.tools.mine.inputs import file_inputs, run_inputs
    from ttf.tools.mine.offline import mine
    from ttf.tools.mine.table_file import check_table

    check_table(out, [path for path in (queries, bank) if path], overwrite=overwrite)
    with ExitStack() as stack:
        stack.enter_context(
            sigterm_raised("Stopped by SIGTERM. To continue, run the same command again.")
        )
        reporter = stack.enter_context(make_reporter(json=as_json))
        from ttf.training.launch import prepared_policy

        policy = prepared_policy(Resolved(config=config, origins={}), reporter.note)
        unit = (similarity or config.loss.similarity) == "cosine"
        if run_dir is not None:
            found = run_inputs(run_dir, bank, out, say=reporter.note, allow_remote=allow_remote)
        else:
            assert queries is not None and bank is not None
            found = file_inputs(
                queries,
                bank,
                unit=unit,
                storage=config.data.storage,
                missing=config.data.missing,
                say=reporter.note,
            )
        mined = mine(
            stack.enter_context(found), out, config, policy.threads, reporter, overwrite=overwrite
        )
    show_result(mined, table(_rows(mined)), as_json)
    next_command(f"ttf data inspect {quoted(out)}")


def _check(
    run_dir: Path | None, queries: str | None, bank: str | None, similarity: str | None
) -> None:
    problems = []
    if (run_dir is None) == (queries is None):
        problems.append("give either RUN_DIR or --queries FILE")
    if queries is not None and bank is None:
        problems.append("--queries needs --bank FILE")
    if run_dir is not None and similarity is not None:
        problems.append(
            "--similarity needs --queries: a run always uses the similarity of its training"
        )
    if problems:
        raise ConfigError(
            "It is not clear what to mine:", problems=problems, hint="See ttf mine --help."
        )


def _rows(mined: Mined) -> list[tuple[str, str]]:
    low, high = mined.recall_interval
    recall = (
        "exact"
        if mined.certified
        else (
            f"{mined.recall_vs_exact:.3f} of the exact results, 95% interval {low:.3f} to "
            f"{high:.3f}"
        )
    )
    index = "reused" if mined.reused_index else f"{number(mined.build_s)} s"
    return [
        ("table", mined.out),
        ("queries", f"{mined.queries:,} x {mined.k}"),
        ("bank", f"{mined.bank:,} rows"),
        ("miner", f"{mined.miner} ({recall})"),
        ("index", index),
        ("search", f"{number(mined.search_s)} s"),
        ("in total", f"{number(mined.wall_s)} s"),
    ]
