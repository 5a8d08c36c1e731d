"""One rank of a run under somebody else's launcher: torchrun, Slurm, a PyTorchJob of Kubernetes.

    python -m torch.distributed.run --nproc-per-node 2 -m ttf.rank run.toml --out runs/two

The launcher starts, counts and restarts the ranks; this process supervises one trainer, explains its
death as an incident, and ends with it. A rank that finds a checkpoint of any other goes on from it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from ttf.cli import main
from ttf.commands import _options as options
from ttf.errors import ConfigError
from ttf.rundir.world_place import WorldPlace
from ttf.text.terminal import show_result

# Per launcher: rank, number of ranks, rank on this host, ranks on this host.
_TORCH = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
_SLURM = ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", "SLURM_NTASKS_PER_NODE")
_WHY = (
    "ttf.rank is started by a launcher, for example: python -m torch.distributed.run "
    "--nproc-per-node 2 -m ttf.rank run.toml. Without one: ttf train run.toml --ranks 2"
)


def place_of(environment: Mapping[str, str]) -> WorldPlace:
    """Raises ConfigError if no launcher has said which rank this is."""
    names = next((n for n in (_TORCH, _SLURM) if n[0] in environment), None)
    if names is None:
        raise ConfigError("No launcher has set RANK or SLURM_PROCID.", hint=_WHY)
    missing = [name for name in (names[1], "MASTER_ADDR", "MASTER_PORT") if name not in environment]
    if missing:
        raise ConfigError(f"The launcher has not set {', '.join(missing)}.", hint=_WHY)
    try:
        rank, size, local, beside = (
            int(environment.get(name, default))
            for name, default in zip(names, ("0", "1", "0", "1"), strict=True)
        )
        port = int(environment["MASTER_PORT"])
        # Of torchelastic: its store outlives an attempt.
        attempt = int(environment.get("TORCHELASTIC_RESTART_COUNT", "0"))
    except ValueError as error:
        raise ConfigError(f"A variable of the launcher is no number: {error}.", hint=_WHY) from None
    return WorldPlace(
        rank=rank,
        size=size,
        local_rank=local,
        local_size=beside,
        store=f"{environment['MASTER_ADDR']}:{port}",
        hosted=environment.get("TORCHELASTIC_USE_AGENT_STORE", "") == "True",
        attempt=attempt,
        interface=environment.get("GLOO_SOCKET_IFNAME", ""),
    )


@click.command()
@click.argument("run_toml", type=options.PATH, metavar="RUN.toml")
@options.path("--out", required=True, help="Folder of the run; rank N has OUT/ranks/N.")
@click.option("--set", "sets", multiple=True, metavar="KEY=VALUE", help="As of ttf train.")
@options.as_json
def command(run_toml: Path, out: Path, sets: tuple[str, ...], as_json: bool) -> None:
    """Train as one rank of a run that a launcher has started on this and other hosts."""
    from ttf import api
    from ttf.rundir.request import TrainRequest
    from ttf.rundir.run_folder import RunFolder

    place = place_of(os.environ)
    path = out / "ranks" / str(place.rank) if place.rank else out
    goes_on = (path / "run.toml").is_file()
    folder = RunFolder.existing(path) if goes_on else RunFolder.new(path)
    request = TrainRequest(
        run_dir=str(folder.path),
        resume=goes_on,
        config=None if goes_on else str(run_toml),
        # Restarts are the launcher's.
        sets=() if goes_on else (*sets, "supervise.max_restarts=0"),
        remedies=False,
        json=as_json,
        progress=place.rank == 0,
        world=place if place.size > 1 else None,
    )
    summary = api.run(request, folder, own_process=True)
    if place.rank == 0:
        from ttf.text.progress.ending import summary_rows
        from ttf.text.tables import screen_width, table

        show_result(summary, table(summary_rows(summary), width=screen_width()), as_json)


if __name__ == "__main__":
    main(command=command, name="python -m ttf.rank")
