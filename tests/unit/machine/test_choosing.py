"""`ttf.machine.devices`: which device "auto" means, and preparing the process for it."""

from __future__ import annotations

import os
import platform
import sys

import pytest

from ttf.errors import ConfigError, PluginUnavailable, UnknownName
from ttf.machine import devices
from ttf_devices import cuda
from ttf_devices.cpu import CpuOptions, CpuPolicy


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (devices.MARKER, *CpuPolicy(CpuOptions(), 1).environment()):
        # Set first, so that what the test leaves behind is undone in any case.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


def test_auto_takes_the_best_device_and_says_why_not_the_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda, "has_driver", lambda: False)
    policy = devices.choose("auto", {}, 2)
    assert policy.name == "cpu" and policy.threads == 2
    assert policy.reason.startswith("the best device of this machine, with 2 threads; ")
    assert "not cuda: no NVIDIA driver" in policy.reason and "mps" in policy.reason


def test_auto_prefers_a_gpu_where_there_is_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    monkeypatch.setattr(cuda, "torch_has_cuda", lambda: True)
    policy = devices.choose("auto", {}, 1)
    assert policy.name == "cuda" and "with 1 thread;" in policy.reason
    assert "cpu: usable" in policy.reason


def test_auto_passes_over_mps_and_says_that_recurrent_towers_are_the_reason(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda, "has_driver", lambda: False)
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    policy = devices.choose("auto", {}, 2)
    assert policy.name == "cpu"
    assert "not mps: usable, but recurrent towers" in policy.reason


def test_a_device_asked_for_by_name_needs_no_reason() -> None:
    assert devices.choose("cpu", {}, 1).reason == ""


def test_a_device_that_cannot_run_here_is_refused_with_the_fix(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cuda, "has_driver", lambda: False)
    with pytest.raises(PluginUnavailable, match="no NVIDIA driver") as caught:
        devices.choose("cuda", {}, 1)
    assert "--device cpu" in caught.value.hint


def test_a_misspelt_device_gets_the_closest_match() -> None:
    with pytest.raises(UnknownName, match="Did you mean 'cuda'"):
        devices.choose("cudda", {}, 1)


def test_raw_options_are_validated_and_ready_ones_taken() -> None:
    policy = devices.choose("cpu", {"cpu": {"float32_matmul": "medium"}}, 1)
    assert isinstance(policy, CpuPolicy) and policy.options.float32_matmul == "medium"
    ready = CpuOptions(deterministic=False)
    chosen = devices.choose("cpu", {"cpu": ready}, 1)
    assert isinstance(chosen, CpuPolicy) and chosen.options is ready
    with pytest.raises(ConfigError, match=r"device\.cpu\.determinstic: no such option"):
        devices.choose("cpu", {"cpu": {"determinstic": True}}, 1)


def test_threads_of_the_users_environment_count_as_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    assert devices.choose("cpu").threads == 3
    assert devices.choose("cpu", {}, 1).threads == 1


def test_prepare_sets_what_is_unset_keeps_what_is_the_users_and_replaces_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("MKL_NUM_THREADS", "9")
    first = devices.prepare(devices.choose("cpu", {}, 1))
    assert os.environ["OMP_NUM_THREADS"] == "1" == first.applied["OMP_NUM_THREADS"]
    assert os.environ["MKL_NUM_THREADS"] == "9"
    assert any("MKL_NUM_THREADS=9" in note for note in first.notes)
    second = devices.prepare(devices.choose("cpu", {}, 2))
    assert os.environ["OMP_NUM_THREADS"] == "2" == second.applied["OMP_NUM_THREADS"]
    assert devices.choose("cpu").threads == CpuPolicy(CpuOptions(), None).threads


def test_threads_that_cannot_help_are_refused_before_the_system_refuses_them() -> None:
    assert devices.choose("cpu", {}, 64).threads == 64
    most = max(64, 4 * (os.cpu_count() or 1))
    with pytest.raises(ConfigError, match=f"The limit is {most:,} threads here"):
        devices.choose("cpu", {}, most + 1)


def test_prepare_says_what_came_too_late(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    assert torch is sys.modules["torch"]
    late = devices.prepare(devices.choose("cpu", {}, 1)).notes
    assert any("was loaded before" in note and "OMP_NUM_THREADS=1" in note for note in late)
    assert devices.prepare(devices.choose("cpu", {}, 1)).notes == ()


def test_variables_that_make_torch_wrong_are_unset_before_it_is_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OMP_DYNAMIC", "true")
    monkeypatch.setenv("OMP_THREAD_LIMIT", "1")
    policy = devices.choose("cpu", {}, 2)
    with monkeypatch.context() as unloaded:
        unloaded.delitem(sys.modules, "torch")
        (said,) = devices.prepare(policy).notes
    assert "OMP_DYNAMIC=true, OMP_THREAD_LIMIT=1" in said and "results would be wrong" in said
    assert "OMP_DYNAMIC" not in os.environ and "OMP_THREAD_LIMIT" not in os.environ


@pytest.mark.parametrize(
    ("name", "harmful", "harmless"),
    [
        ("OMP_DYNAMIC", "TRUE", "false"),
        ("OMP_THREAD_LIMIT", "1", "2"),
        ("OMP_MAX_ACTIVE_LEVELS", "0", "1"),
    ],
)
def test_variables_that_make_torch_wrong_are_refused_once_it_is_loaded(
    name: str, harmful: str, harmless: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    import torch

    assert torch is sys.modules["torch"]
    monkeypatch.setenv(name, harmful)
    with pytest.raises(ConfigError, match=f"{name}={harmful} is set, and torch is already loaded"):
        devices.prepare(devices.choose("cpu", {}, 2))
    devices.prepare(devices.choose("cpu", {}, 1))
    monkeypatch.setenv(name, harmless)
    devices.prepare(devices.choose("cpu", {}, 2))
