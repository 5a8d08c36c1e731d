"""The conformance suite of devices: plans, environment, precision, random state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, cast

import pytest

from ttf.contracts import Kind
from ttf.errors import ConfigError
from ttf.machine.thread_variables import THREAD_VARIABLES
from ttf.testing.plugin import PluginTests

if TYPE_CHECKING:
    from ttf.contracts import DevicePolicy


class DeviceTests(PluginTests):
    """Set `name` and `options`. Tests that need the device are skipped without it."""

    kind: ClassVar[Kind] = "device"

    @pytest.fixture
    def policy(self, factory: Any, chosen: Any) -> DevicePolicy:
        """Returns a created policy. It is not started, because that changes the process."""
        return cast("DevicePolicy", factory.create(chosen, 1))

    def test_its_preference_is_a_number(self, factory: Any) -> None:
        assert isinstance(factory.preference, int)

    def test_its_policy_has_every_attribute_of_the_contract(self, policy: DevicePolicy) -> None:
        from ttf.contracts import DevicePolicy as Contract

        declared = [n for n in vars(Contract) if not n.startswith("_")]
        missing = [n for n in (*declared, *Contract.__annotations__) if not hasattr(policy, n)]
        assert not missing
        assert policy.name == self.name.rpartition(":")[2]

    def test_the_environment_fixes_the_host_threads(self, policy: DevicePolicy) -> None:
        settings = policy.environment()
        assert policy.threads == 1
        assert {settings.get(v) for v in THREAD_VARIABLES} == {"1"}
        assert all(isinstance(v, str) for v in settings.values())

    def test_without_a_number_of_threads_it_chooses_one(self, factory: Any, chosen: Any) -> None:
        assert factory.create(chosen, None).threads >= 1

    @pytest.mark.parametrize(("batch", "accumulate"), [(1, 1), (32, 4), (7, 3), (32, 64)])
    def test_a_plan_is_what_was_asked_or_says_what_it_became(
        self, policy: DevicePolicy, batch: int, accumulate: int
    ) -> None:
        plan = policy.plan(batch, accumulate)
        assert plan.micro_batch >= 1 and plan.accumulate >= 1
        if plan.samples != batch * accumulate:
            assert plan.notes, (
                "the effective batch is not the requested one, and the plan has no note about it"
            )

    def test_its_options_on_auto_come_to_something_with_a_reason(
        self, policy: DevicePolicy, chosen: Any
    ) -> None:
        settled = policy.settled()
        assert set(settled) <= {*vars(chosen)}
        for name, value in settled.items():
            assert value.reason, name
            assert value.value != "auto", name
        assert dict(policy.settled()) == dict(settled), "two calls gave two different answers"

    @pytest.mark.parametrize("asked", ["fp32", "bf16", "auto"])
    def test_a_precision_comes_with_its_reason_or_is_refused_with_one(
        self, policy: DevicePolicy, asked: Any
    ) -> None:
        try:
            precision = policy.precision(asked)
        except ConfigError as refused:
            assert asked == "bf16" and str(refused)
            return
        assert precision.name in ("fp32", "bf16") and precision.reason
        assert asked == "auto" or precision.name == asked

    def test_fp32_is_computed_in_float32(self, policy: DevicePolicy) -> None:
        import torch

        with policy.autocast(policy.precision("fp32")):
            ones = policy.to_device(torch.ones(4, 4))
            product = ones @ ones
        policy.synchronize()
        assert product.dtype is torch.float32
        assert float(product.sum()) == 64.0

    def test_tensors_go_to_the_device_it_names(self, policy: DevicePolicy) -> None:
        import torch

        assert policy.to_device(torch.ones(2)).device.type == policy.torch_device().type

    def test_the_random_state_comes_back_whole(self, policy: DevicePolicy) -> None:
        import torch

        where = policy.torch_device()
        torch.manual_seed(1)
        saved = policy.rng_state()
        assert all(isinstance(v, torch.Tensor) for v in saved.values())
        expected = torch.rand(3), torch.rand(3, device=where)
        policy.set_rng_state(saved)
        assert torch.equal(torch.rand(3), expected[0])
        assert torch.equal(torch.rand(3, device=where), expected[1])

    def test_a_random_state_of_another_device_is_refused(self, policy: DevicePolicy) -> None:
        with pytest.raises(ConfigError):
            policy.set_rng_state({})

    def test_memory_is_in_bytes_and_caches_can_be_cleared(self, policy: DevicePolicy) -> None:
        policy.empty_cache()
        assert all(isinstance(v, int) and v >= 0 for v in policy.memory().values())

    def bitwise(self) -> bool:
        """True if the numbers are those of the CPU."""
        from ttf.host import plugins

        factory: Any = plugins.load("device", self.name)
        policy = factory.create(factory.options_type(), 1)
        return bool(policy.torch_device().type == "cpu")
