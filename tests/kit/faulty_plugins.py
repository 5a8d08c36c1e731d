"""Plugins that make real faults happen in the processes of a run, at the moment a test names.

They are told by files in the folder of FAULTS (an environment variable): what is acted, and when.
"""

from __future__ import annotations

ENTRY_POINTS = {
    "miner.faulty": "faulty_plugins:miner",
    "observer.faulty": "faulty_plugins:observer",
    "device.standin": "standin_device",
}
MODULE = """
import ctypes, os, time
from dataclasses import dataclass
from pathlib import Path

from native_faults import ACTS, ExactMiner, MinerFactory
from ttf import hookimpl, option

HERE = Path(os.environ["FAULTS"])


# --- an observer: holds the run at a step, and brings a first OpenMP runtime, as torch may ---------


class Observer:
    @hookimpl
    def ttf_run_started(self, run_dir, config, resumed_from):
        self.flight = Path(run_dir) / "flight.bin"
        runtime = HERE / "trainer-runtime"
        if runtime.exists():
            ctypes.CDLL(runtime.read_text()).omp_get_max_threads()
        if (HERE / "hungry").exists():
            hungry(int((HERE / "hungry").read_text()))
        if (HERE / "wrong-from").exists():
            wrong_from(int((HERE / "wrong-from").read_text()))
        if (HERE / "cut-before-gather").exists():
            cut_before_gather(*(HERE / "cut-before-gather").read_text().split())

    @hookimpl
    def ttf_step(self, record):
        leak = HERE / "leak"
        if leak.exists():
            seen = self.seen_by_supervisor()
            hold(int(leak.read_text()))
            while self.seen_by_supervisor() == seen:  # it has not looked since
                time.sleep(0.005)
        while (HERE / "pause").exists():
            time.sleep(0.005)
        act = HERE / f"act-{record.step}"
        if act.exists():
            source = act.read_text()
            act.unlink()  # once
            exec(source, {"os": os, "ctypes": ctypes, "time": time})
        held_at = HERE / f"hold-{record.step}"
        if held_at.exists():
            held_at.rename(HERE / f"held-{record.step}")
            while not (HERE / f"go-{record.step}").exists():
                time.sleep(0.005)

    def seen_by_supervisor(self):
        from ttf.rundir.flight_record import _HELD, _HELD_AT

        return _HELD.unpack_from(self.flight.read_bytes(), _HELD_AT)[0]

    @hookimpl
    def ttf_incident(self, incident):
        with (HERE / "heard").open("a") as file:
            file.write(incident["class"] + "\\n")


def wrong_from(step):
    # The device computes rightly until then.
    import standin_device
    from ttf.training.device_probe import Probe

    right, real, wrong = standin_device.Policy.autocast, Probe.__call__, standin_device.wrong_linear

    def probed(self, now):
        if now >= step:
            from contextlib import ExitStack

            def autocast(policy, precision):
                both = ExitStack()
                both.enter_context(right(policy, precision))
                both.enter_context(wrong("scaled"))
                return both

            standin_device.Policy.autocast = autocast
        return real(self, now)

    Probe.__call__ = probed


def hungry(kilobytes):
    # A tower that asks for so much per row of a batch, all at once.
    import torch

    def allocate(module, inputs):
        if type(module).__name__ == "RecurrentTower" and module.training:
            torch.empty(len(inputs[0]) * kilobytes << 10, dtype=torch.uint8)

    torch.nn.modules.module.register_module_forward_pre_hook(allocate)


def cut_before_gather(step, path):
    # Between the check of the inputs and the reading of a step, as a person may do by chance.
    from ttf.data.dataset import Queries

    real, calls = Queries.batch, []

    def batch(self, rows, buffers=None):
        calls.append(1)
        if len(calls) == 2 * int(step):  # two micro-batches a step
            os.truncate(path, 4096)
        return real(self, rows, buffers)

    Queries.batch = batch


# --- a miner that is exact, except where it is told otherwise ---------------------------------------


ACTS |= {"": lambda: None, "allocate": lambda: hold(1 << 14)}
held = []


def hold(megabytes):
    held.extend(os.urandom(1) * (1 << 20) for _ in range(megabytes))


@dataclass(frozen=True, kw_only=True)
class Options:
    acts: tuple[str, ...] = option((), "one for each time that is asked for an answer; then none")
    runtimes: tuple[str, ...] = option((), "OpenMP runtimes it starts, in order")
    lies: bool = option(False, "ids that do not exist")
    holds_mb: int = option(0, "held by its process from the first answer on")


class Miner(ExactMiner):
    def __init__(self, options):
        super().__init__(options)
        for path in options.runtimes:
            ctypes.CDLL(path).omp_get_max_threads()

    def search(self, queries, k):
        ids, scores = super().search(queries, k)
        return ids + self.source.shape[0] * self.options.lies, scores

    def before(self, what):
        if what != "search":
            return
        (HERE / f"asked-{time.time_ns()}").write_text(str(os.getpid()))
        hold(self.options.holds_mb - len(held))
        done = len(list(HERE.glob("acted-*")))
        if done < len(self.options.acts):
            (HERE / f"acted-{done}").touch()
            ACTS[self.options.acts[done]]()


class Factory(MinerFactory):
    name = "faulty"
    options_type = Options
    miner = Miner


class MinerPlugin:
    @hookimpl
    def ttf_miner(self, name):
        return Factory() if name == "faulty" else None


observer, miner = Observer(), MinerPlugin()
"""
