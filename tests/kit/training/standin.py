"""A device plugin that computes on the CPU and gets some things wrong, as real ones have."""

from __future__ import annotations

SOURCE = '''
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Literal

from ttf import hookimpl, option
from ttf_devices.cpu import CpuOptions, CpuPolicy, CpuFactory


@dataclass(frozen=True, kw_only=True)
class Options(CpuOptions):
    fault: Literal["none", "scaled", "one", "nan", "loss"] = option("none", "what goes wrong")


def wrong_linear(fault):
    """Changes what goes through linear layers, or comes back through them."""
    import torch
    from torch.overrides import TorchFunctionMode

    class Wrong(TorchFunctionMode):
        first = True

        def __torch_function__(self, func, types, args=(), kwargs=None):
            if getattr(func, "__name__", "") != "linear":
                return func(*args, **(kwargs or {}))
            x, weight, *bias = args
            if fault == "one" and self.first:
                self.first, bias = False, [bias[0] * 1.0]
                if bias[0].requires_grad:
                    bias[0].register_hook(lambda g: g * 1.01)
            if fault == "nan":
                weight = weight * 1.0
                if weight.requires_grad:
                    weight.register_hook(lambda g: g * float("nan"))
            out = func(x, weight, *bias, **(kwargs or {}))
            if fault == "loss":
                out = out + out.detach().roll(1, 0)
            if fault == "scaled" and out.requires_grad:
                out.register_hook(lambda g: g * 1.01)
            return out

    return Wrong()


class Policy(CpuPolicy):
    name = "standin"
    probe_at_start = True

    def autocast(self, precision):
        both = ExitStack()
        both.enter_context(super().autocast(precision))
        if self.options.fault != "none":
            both.enter_context(wrong_linear(self.options.fault))
        return both


class Factory(CpuFactory):
    name = "standin"
    options_type = Options
    preference = 1

    def create(self, options, threads):
        return Policy(options, threads)


@hookimpl
def ttf_device(name):
    return Factory() if name == "standin" else None
'''
