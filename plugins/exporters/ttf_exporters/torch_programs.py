"""Both towers as programs of torch.export: they run without ttf."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ttf import (
    Availability,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    NoOptions,
    hookimpl,
)
from ttf_exporters._common import needs, sidecar, write_sidecar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SUFFIX = ".pt2"


class TorchExporter:
    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        import torch

        from ttf_exporters._towers import about, programs

        def save(module: Any, example: Any, file: str) -> None:
            batch = {"x": {0: torch.export.Dim.DYNAMIC}}
            program = torch.export.export(module, (example,), dynamic_shapes=batch)
            torch.export.save(program, folder / file)

        told = programs(source, SUFFIX, save)
        write_sidecar(folder, sidecar(source.facts, **about(source.facts)))
        return told

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import torch

        from ttf_exporters._towers import answered

        def opened(file: Path) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
            module = torch.export.load(file).module()

            def run(x: NDArray[np.float32]) -> NDArray[np.float32]:
                with torch.no_grad():
                    found: NDArray[np.float32] = module(torch.from_numpy(x)).numpy()
                return found

            return run

        return answered(folder, probe, SUFFIX, opened, f"torch {torch.__version__}")


class TorchFactory:
    """Programs of torch.export (.pt2) of both towers"""

    name = "torch-export"
    options_type = NoOptions
    exports: Literal["encoder"] = "encoder"

    def availability(self) -> Availability:
        return needs("torch", "")

    def create(self, options: Any) -> TorchExporter:
        return TorchExporter()


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return TorchFactory() if name == "torch-export" else None
