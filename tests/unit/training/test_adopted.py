"""A run.toml that another node sent opens no address that nobody here has named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from ttf.errors import ConfigError
from ttf.rundir.rank_folders import inner_folder
from ttf.rundir.request import TrainRequest
from ttf.training.launch import _configuration
from ttf.training.supervisor_link import Link

SENT = '[data]\npairs = "https://example.org/pairs#sha256={}"\nbank = "/data/bank.npz"\n'


def test_an_address_of_another_nodes_run_is_opened_if_the_own_command_names_it(
    tmp_path: Path,
) -> None:
    folder = inner_folder(tmp_path / "run")
    folder.config.write_text(SENT.format("0" * 64))
    bare = TrainRequest(run_dir=str(folder.path), resume=True, adopted=True)
    named = replace(bare, flags={"--pairs": "https://example.org/pairs"})
    (tmp_path / "own.toml").write_text('[data]\npairs = "https://example.org/pairs"\n')
    by_file = replace(bare, config=str(tmp_path / "own.toml"))
    for request in (named, by_file, replace(bare, adopted=False)):
        assert _configuration(request, folder, Link()).config.data.pairs is not None
    other = replace(bare, flags={"--pairs": "https://example.org/others"})
    gone = replace(bare, config=str(tmp_path / "gone.toml"))
    for request in (bare, other, gone, replace(named, remote=False)):
        with pytest.raises(ConfigError, match=r"example\.org/pairs"):
            _configuration(request, folder, Link())
