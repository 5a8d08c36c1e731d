"""What a Mac can tell about the founding reports, in one command and one file to send.

    python examples/founding/mac_kit.py                on MPS where torch has it, else on the CPU
    python examples/founding/mac_kit.py --quick        a minute, to see that it works

It runs the doctor, 100 steps of the founding shape with the parity probe, and the accumulation
experiment. A step that fails is a finding: the others run all the same. At the end there is
OUT/kit.zip, redacted, with the data left out.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
TTF = (sys.executable, "-m", "ttf")
ARMS = ("96x1", "24x4", "6x16")
PACES = {"sync": "step,micro-batch,none", "empty_cache": "never,step"}  # options of the device
NOT_METAL = (
    "torch finds no Metal device here, so everything ran on the CPU: this says nothing about MPS."
)


@dataclass(frozen=True, kw_only=True)
class Size:
    pairs: int = 52_000
    steps: int = 100
    repeats: int = 10
    arms: tuple[str, ...] = ARMS
    checks: tuple[str, ...] = ()


QUICK = Size(pairs=2_000, steps=2, repeats=1, arms=ARMS[:2], checks=("python", "versions"))


@dataclass(kw_only=True)
class Kit:
    out: Path
    device: str
    size: Size
    done: list[dict[str, Any]] = field(default_factory=list)
    attached: list[Path] = field(default_factory=list)

    def step(self, name: str, *words: str, keep: str = "") -> int:
        """Runs a command of ttf; its standard output goes into the file `keep`."""
        print(f"== {name}: ttf {' '.join(words)}", flush=True)
        began = time.monotonic()
        ran = subprocess.run(
            [*TTF, *words], stdout=subprocess.PIPE if keep else None, text=True, check=False
        )
        seconds = round(time.monotonic() - began, 1)
        self.done.append({"step": name, "exit_code": ran.returncode, "seconds": seconds})
        if keep:
            self.attached.append(self.out / keep)
            self.attached[-1].write_text(ran.stdout)
        return ran.returncode

    def run(self) -> int:
        size, data, run = self.size, self.out / "data", self.out / "run"
        checks = [word for check in size.checks for word in ("--check", check)]
        self.step("doctor", "doctor", "--json", *checks, keep="doctor.json")
        made = ("--out", str(data), "--pairs", str(size.pairs), "--val", "500", "--bank", "52000")
        if self.step("data", "data", "synth", *made, "--seq-len", "8", "--dim", "48"):
            return 1
        here = [
            f"data.pairs={data / 'pairs.npz'}",
            f"data.bank={data / 'bank.npz'}",
            f"device.name={self.device}",
        ]
        same = [word for value in here for word in ("--set", value)]
        probe = ("--set", f"probe.every={max(1, size.steps // 2)}")
        steps = ("--steps", str(size.steps))
        # Without remedies: one of them is to go on on the CPU.
        shape = ("train", str(HERE / "crashes.toml"), *same, *probe, *steps, "--no-remedies")
        self.step("100 steps", *shape, "--out", str(run))
        files = [str(HERE / "mps" / f"{arm}.toml") for arm in size.arms]
        self.compare("accumulation", *files, *same)
        if self.device != "cpu":
            for option, values in PACES.items():
                vary = ("--vary", f"device.{self.device}.{option}={values}")
                self.compare(option, str(HERE / "mps" / "24x4.toml"), *same, *vary)
        return self.pack(run)

    def compare(self, name: str, *words: str) -> None:
        folder, report = self.out / name, self.out / f"{name}.md"
        how = ("--steps", str(self.size.steps), "--repeats", str(self.size.repeats))
        self.step(name, "ab", *words, *how, "--out", str(folder), "--markdown", str(report))
        if report.is_file():
            self.attached.append(report)

    def pack(self, run: Path) -> int:
        """Returns the exit code: 0 if the file to send exists, whatever the steps found."""
        told = {
            "machine": platform.platform(),
            "device": self.device,
            "notice": NOT_METAL if self.device == "cpu" else "",
            "steps": self.done,
        }
        kit = self.out / "kit.json"
        kit.write_text(json.dumps(told, indent=2) + "\n")
        bundle = self.out / "kit.zip"
        attach = [word for path in (kit, *self.attached) for word in ("--attach", str(path))]
        failed = self.step("bundle", "report", str(run), "--bundle", str(bundle), *attach)
        for each in self.done:
            print(f"{each['step']:<14} exit code {each['exit_code']:<4} {each['seconds']:>7.1f} s")
        if told["notice"]:
            print(told["notice"])
        if failed:
            loose = ", ".join(str(path) for path in (kit, *self.attached))
            print(f"The run left nothing to pack. Send these files and what was printed: {loose}")
        else:
            print(f"To send: {bundle}. Look through it first: unzip -p {bundle} README.txt")
        return failed


def has_metal() -> bool:
    # In a process of its own: the kit itself must not need a torch that works.
    asked = "import torch; print(torch.backends.mps.is_available())"
    found = subprocess.run(
        [sys.executable, "-c", asked], capture_output=True, text=True, check=False
    )
    return found.stdout.strip() == "True"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else "")
    parser.add_argument("--out", type=Path, default=Path("runs/mac-kit"))
    parser.add_argument("--device", choices=("mps", "cpu"), help="default: mps where it works")
    parser.add_argument("--quick", action="store_true", help="a few steps only")
    given = parser.parse_args()
    if given.out.exists():
        parser.error(f"{given.out} exists already: choose another folder with --out")
    given.out.mkdir(parents=True)
    device = given.device or ("mps" if has_metal() else "cpu")
    if device == "cpu":
        print(NOT_METAL, flush=True)
    code = Kit(out=given.out.resolve(), device=device, size=QUICK if given.quick else Size()).run()
    shutil.rmtree(given.out / "data", ignore_errors=True)
    return code


if __name__ == "__main__":
    sys.exit(main())
