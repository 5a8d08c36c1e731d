"""The three built-in policies: plans, environments, precision; GPUs through a stand-in backend."""

from __future__ import annotations

import platform
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from ttf.contracts import DevicePolicy
from ttf.errors import ConfigError, PluginUnavailable
from ttf.host import plugins
from ttf.machine import processor
from ttf.machine.thread_variables import THREAD_VARIABLES
from ttf_devices import _host, cpu, cuda, mps


class Backend:
    """Answers like torch.cuda / torch.mps on a machine that has such a device, and remembers."""

    def __init__(self, gpus: int = 2, capability: tuple[int, int] = (8, 6)) -> None:
        self.gpus = gpus
        self.capability = capability
        self.calls: list[tuple[Any, ...]] = []
        self.states = [torch.full((4,), i, dtype=torch.uint8) for i in range(max(gpus, 1))]

    def is_available(self) -> bool:
        return self.gpus > 0

    def device_count(self) -> int:
        return self.gpus

    def set_device(self, index: int) -> None:
        self.calls.append(("set_device", index))

    def get_device_capability(self, index: int) -> tuple[int, int]:
        return self.capability

    def synchronize(self, *index: int) -> None:
        self.calls.append(("synchronize", *index))

    def empty_cache(self) -> None:
        self.calls.append(("empty_cache",))

    def memory_allocated(self, index: int) -> int:
        return 100 + index

    def memory_reserved(self, index: int) -> int:
        return 200 + index

    def max_memory_allocated(self, index: int) -> int:
        return 300 + index

    def mem_get_info(self, index: int) -> tuple[int, int]:
        return 400, 500

    def current_allocated_memory(self) -> int:
        return 100

    def driver_allocated_memory(self) -> int:
        return 200

    def recommended_max_memory(self) -> int:
        return 300

    def get_rng_state(self) -> torch.Tensor:
        return self.states[0].clone()

    def set_rng_state(self, state: torch.Tensor) -> None:
        self.states[0] = state.clone()

    def get_rng_state_all(self) -> list[torch.Tensor]:
        return [s.clone() for s in self.states]

    def set_rng_state_all(self, states: list[torch.Tensor]) -> None:
        self.states = [s.clone() for s in states]


def cuda_policy(**options: Any) -> cuda.CudaPolicy:
    return cuda.CudaPolicy(cuda.CudaOptions(**options), 2, Backend())


def mps_policy(**options: Any) -> mps.MpsPolicy:
    return mps.MpsPolicy(mps.MpsOptions(**options), 2, Backend())


def cpu_policy(**options: Any) -> cpu.CpuPolicy:
    return cpu.CpuPolicy(cpu.CpuOptions(**options), 2)


POLICIES: dict[str, DevicePolicy] = {
    "cpu": cpu_policy(),
    "mps": mps_policy(),
    "cuda": cuda_policy(),
}
each_policy = pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES.keys())


@each_policy
def test_the_environment_fixes_the_host_threads(policy: DevicePolicy) -> None:
    settings = policy.environment()
    assert policy.threads == 2
    assert {settings[v] for v in THREAD_VARIABLES} == {"2"}


@each_policy
def test_a_shallow_plan_is_granted_as_asked(policy: DevicePolicy) -> None:
    plan = policy.plan(32, 4)
    assert (plan.micro_batch, plan.accumulate, plan.samples) == (32, 4, 128)


@each_policy
def test_the_random_state_comes_back_whole(policy: DevicePolicy) -> None:
    torch.manual_seed(1)
    saved = policy.rng_state()
    expected = torch.rand(3)
    policy.set_rng_state(saved)
    assert torch.equal(torch.rand(3), expected)
    assert "cpu" in saved


@each_policy
def test_memory_is_in_bytes(policy: DevicePolicy) -> None:
    assert all(isinstance(v, int) and v > 0 for v in policy.memory().values())


@each_policy
def test_fp32_needs_no_autocast(policy: DevicePolicy) -> None:
    precision = policy.precision("fp32")
    assert precision.name == "fp32" and precision.reason
    with policy.autocast(precision):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.float32


@each_policy
def test_steps_can_be_waited_for_and_caches_cleared(policy: DevicePolicy) -> None:
    policy.synchronize()
    policy.empty_cache()


def test_preferences_put_cuda_before_cpu_before_mps() -> None:
    order = sorted(
        (plugins.load("device", n) for n in ("cpu", "cuda", "mps")),
        key=lambda f: -f.preference,  # type: ignore[attr-defined]
    )
    assert [f.name for f in order] == ["cuda", "cpu", "mps"]


def test_only_mps_insists_on_constant_shapes() -> None:
    assert [name for name, policy in POLICIES.items() if policy.constant_shapes] == ["mps"]


def test_every_device_but_the_cpu_is_compared_with_it_before_it_is_trusted() -> None:
    asking = [name for name, policy in POLICIES.items() if policy.probe_at_start]
    assert asking == ["mps", "cuda"]


def test_cpu_moves_nothing_and_holds_nothing() -> None:
    tensor = torch.ones(2)
    assert cpu_policy().to_device(tensor) is tensor
    assert cpu_policy().memory() == {}


def test_cpu_computes_in_bf16_only_on_request() -> None:
    policy = cpu_policy()
    assert policy.precision("auto").name == "fp32"
    asked = policy.precision("bf16")
    with policy.autocast(asked):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype is torch.bfloat16


def quota_root(tmp_path: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path


def test_threads_follow_a_cgroup_v2_quota_of_an_ancestor(tmp_path: Path) -> None:
    root = quota_root(
        tmp_path,
        {
            "proc/self/cgroup": "0::/job/task\n",
            "sys/fs/cgroup/job/cpu.max": "150000 100000\n",
            "sys/fs/cgroup/job/task/cpu.max": "max 100000\n",
        },
    )
    assert processor.cgroup_quota(root) == 1.5
    assert _host.host_threads(None, root) == 1
    assert _host.host_threads(7, root) == 7


def test_threads_follow_a_cgroup_v1_quota(tmp_path: Path) -> None:
    root = quota_root(
        tmp_path,
        {
            "proc/self/cgroup": "3:cpu,cpuacct:/job\n2:memory:/job\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "100000\n",
            "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "50000\n",
        },
    )
    assert processor.cgroup_quota(root) == 2.0


def test_no_quota_means_the_processors_of_the_affinity_mask(tmp_path: Path) -> None:
    assert processor.cgroup_quota(tmp_path) is None
    assert _host.host_threads(None, tmp_path) == processor.usable_processors()


# --- mps -------------------------------------------------------------------------------------


def test_mps_caps_accumulation_and_says_what_the_step_becomes() -> None:
    plan = mps_policy().plan(32, 16)
    assert (plan.micro_batch, plan.accumulate, plan.samples) == (32, 4, 128)
    assert "32 x 16 = 512 samples per step, but a step now has 32 x 4 = 128" in plan.notes[0]
    assert "--batch-size 128 --accum 4" in plan.notes[0]


def test_the_cap_of_mps_is_an_option_and_the_plan_says_that_more_are_allowed() -> None:
    capped = mps_policy().plan(32, 16)
    assert "--set device.mps.max_accumulate=16" in capped.notes[0]
    allowed = mps_policy(max_accumulate=16).plan(32, 16)
    assert allowed.samples == 512
    assert "16 micro-batches, because device.mps.max_accumulate is 16" in allowed.notes[0]
    within = mps_policy(max_accumulate=16).plan(32, 4)
    assert "max_accumulate" not in " ".join(within.notes)


def test_mps_warns_of_recurrent_towers_even_when_asked_for_by_name() -> None:
    notes = " ".join(mps_policy().plan(32, 1).notes)
    assert "recurrent towers" in notes.lower() and "same shape" in notes


def test_mps_refuses_bf16() -> None:
    assert mps_policy().precision("auto").name == "fp32"
    with pytest.raises(ConfigError, match="must be fp32 on mps"):
        mps_policy().precision("bf16")


@pytest.mark.parametrize(("asked", "value"), [(False, "0"), (True, "1")])
def test_mps_states_whether_missing_operators_may_run_on_the_cpu(asked: bool, value: str) -> None:
    settings = mps_policy(cpu_fallback=asked).environment()
    assert settings["PYTORCH_ENABLE_MPS_FALLBACK"] == value


def test_mps_reports_saves_and_waits_through_its_backend() -> None:
    backend = Backend()
    policy = mps.MpsPolicy(mps.MpsOptions(), 1, backend)
    policy.synchronize()
    policy.empty_cache()
    assert backend.calls == [("synchronize",), ("empty_cache",)]
    assert policy.memory() == {"allocated": 100, "driver": 200, "recommended_max": 300}
    saved = policy.rng_state()
    backend.states[0] += 1
    policy.set_rng_state(saved)
    assert torch.equal(backend.states[0], saved["mps"])


def test_mps_needs_an_apple_silicon_mac(monkeypatch: pytest.MonkeyPatch) -> None:
    factory = mps.MpsFactory()
    monkeypatch.setattr(platform, "system", lambda: "Darwin")
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    state = factory.availability()
    assert state.ok and "recurrent towers" in state.reason
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    assert not factory.availability().ok


@pytest.mark.skipif(torch.mps.is_available(), reason="this machine has the device")
def test_mps_without_a_metal_device_says_so_at_the_start() -> None:
    with pytest.raises(PluginUnavailable, match="no Metal device"):
        mps.MpsPolicy(mps.MpsOptions(), 1).start()


# --- cuda ------------------------------------------------------------------------------------


def test_cuda_is_deterministic_through_its_environment() -> None:
    assert cuda_policy().environment()["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
    assert "CUBLAS_WORKSPACE_CONFIG" not in cuda_policy(deterministic=False).environment()


@pytest.mark.parametrize(
    ("capability", "requested", "name", "word"),
    [
        ((8, 6), "auto", "bf16", "8.6"),
        ((7, 5), "auto", "fp32", "7.5"),
        ((7, 5), "bf16", "bf16", "slower"),
        ((9, 0), "fp32", "fp32", "without tf32"),
    ],
)
def test_cuda_chooses_precision_by_capability(
    capability: tuple[int, int], requested: Any, name: str, word: str
) -> None:
    policy = cuda.CudaPolicy(cuda.CudaOptions(), 1, Backend(capability=capability))
    precision = policy.precision(requested)
    assert precision.name == name and word in precision.reason


def test_cuda_saves_the_generators_of_all_devices() -> None:
    backend = Backend(gpus=3)
    policy = cuda.CudaPolicy(cuda.CudaOptions(), 1, backend)
    saved = policy.rng_state()
    assert sorted(saved) == ["cpu", "cuda:0", "cuda:1", "cuda:2"]
    backend.states = [s + 9 for s in backend.states]
    policy.set_rng_state(saved)
    assert [int(s[0]) for s in backend.states] == [0, 1, 2]


def test_a_random_state_of_another_device_is_refused_by_name() -> None:
    with pytest.raises(ConfigError, match="saved on another device"):
        cuda_policy().set_rng_state(cpu_policy().rng_state())


def test_cuda_waits_for_and_measures_its_own_gpu() -> None:
    backend = Backend()
    policy = cuda.CudaPolicy(cuda.CudaOptions(index=1), 1, backend)
    policy.synchronize()
    assert backend.calls == [("synchronize", 1)]
    assert policy.memory()["allocated"] == 101
    assert str(policy.torch_device()) == "cuda:1"


def test_cuda_refuses_a_gpu_that_is_not_there() -> None:
    with pytest.raises(ConfigError, match=r"device\.cuda\.index is 7"):
        cuda_policy(index=7).start()


def test_cuda_without_a_gpu_says_so_at_the_start() -> None:
    policy = cuda.CudaPolicy(cuda.CudaOptions(), 1, Backend(gpus=0))
    with pytest.raises(PluginUnavailable, match="no working GPU"):
        policy.start()


def test_a_driver_is_found_where_the_loader_would_find_its_library(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LD_LIBRARY_PATH", f":{tmp_path}")
    found = cuda.has_driver()
    (tmp_path / "libcuda.so.1").touch()
    assert cuda.has_driver()
    monkeypatch.delenv("LD_LIBRARY_PATH")
    assert found == cuda.has_driver()


def test_a_driver_without_a_cuda_build_of_torch_is_told_apart(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(cuda, "has_driver", lambda: True)
    spec = SimpleNamespace(origin=str(tmp_path / "torch" / "__init__.py"))
    monkeypatch.setattr("importlib.util.find_spec", lambda name: spec)
    assert "built without CUDA" in cuda.CudaFactory().availability().reason
    library = tmp_path / "torch" / "lib" / "libtorch_cuda.so"
    library.parent.mkdir(parents=True)
    library.touch()
    assert cuda.CudaFactory().availability().ok
