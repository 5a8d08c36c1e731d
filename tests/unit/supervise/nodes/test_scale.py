"""How many hosts and processes: wrong usage is refused with what to do, and [scale] is read early."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

from ttf.errors import ConfigError
from ttf.rundir.request import TrainRequest
from ttf.supervise.nodes.addresses import is_here, listening, parsed
from ttf.supervise.nodes.scale import Scale, with_settings

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"nodes": 2}, "needs --rendezvous HOST:PORT"),
    ({"nodes": 0}, "1 to 1024 nodes"),
    ({"ranks": 0}, "1 to 1024 ranks"),
    ({"ranks": 2, "rendezvous": "a:1"}, "for runs on several nodes"),
    ({"nodes": 2, "rendezvous": "a:1", "node": 2}, "are 0 to 1"),
    ({"nodes": 2, "rendezvous": "nowhere"}, "not HOST:PORT"),
    ({"nodes": 2, "rendezvous": "a:99999"}, "not HOST:PORT"),
    ({"nodes": 2, "rendezvous": "0.0.0.0:5"}, "every address"),
]


@pytest.mark.parametrize(("given", "text"), WRONG)
def test_wrong_usage_is_refused(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        Scale(**given).check()


def test_a_host_without_an_address_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match=r"'no-such-host.invalid' of --rendezvous has no address"):
        is_here("no-such-host.invalid", 5)


def test_node_0_is_the_machine_that_has_the_address() -> None:
    assert is_here("127.0.0.1", 29400)
    assert not is_here("203.0.113.9", 29400)  # of the documentation's network


def test_a_port_in_use_says_what_to_do() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(ConfigError, match=f"Port {port} of 127.0.0.1 is in use") as found:
            listening("127.0.0.1", port)
    assert "--node 1" in found.value.hint


def test_node_0_listens_at_its_one_address_only() -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    with listening("127.0.0.1", port) as listener:
        assert listener.getsockname() == ("127.0.0.1", port)


def test_an_address_of_version_6_is_written_in_brackets() -> None:
    assert parsed("[::1]:80") == ("::1", 80)


def test_the_section_is_read_from_file_options_and_values_in_this_order(tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[scale]\njoin_s = "2m"\npatience_s = 7\ninterface = "eth1"\n')
    request = TrainRequest(
        run_dir="", config=str(file), sets=("scale.patience_s=8",), flags={"scale.join_s": 9}
    )
    found = with_settings(Scale(nodes=2, rendezvous="a:1"), request)
    assert (found.join_s, found.patience_s, found.interface) == (9.0, 8.0, "eth1")
    assert found.exchange_timeout_s == 60.0


def test_what_is_wrong_in_the_section_is_left_to_the_trainer_which_names_its_place() -> None:
    request = TrainRequest(run_dir="", config={"scale": {"join_s": "soon", "patience_s": True}})
    found = with_settings(Scale(), request)
    assert (found.join_s, found.patience_s) == (600.0, 3600.0)


def test_a_run_that_goes_on_has_its_section_in_its_folder(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[scale]\nexchange_timeout_s = 12.0\n")
    request = TrainRequest(run_dir=str(tmp_path), resume=True)
    assert with_settings(Scale(), request).exchange_timeout_s == 12.0
