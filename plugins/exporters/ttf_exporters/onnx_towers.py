"""Both towers in ONNX, for onnxruntime and others."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from ttf import (
    Availability,
    ExportAnswers,
    ExporterFactory,
    ExportProbe,
    ExportSource,
    hookimpl,
    option,
)
from ttf_exporters._common import needs, sidecar, write_sidecar

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SUFFIX = ".onnx"


@dataclass(frozen=True, kw_only=True)
class Options:
    opset: int = option(18, "version of the operators of ONNX", ge=18, le=30)


class OnnxExporter:
    def __init__(self, options: Options) -> None:
        self._options = options

    def write(self, source: ExportSource, folder: Path) -> Mapping[str, Any]:
        import torch

        from ttf_exporters._towers import about, programs

        def save(module: Any, example: Any, file: str) -> None:
            program = torch.onnx.export(
                module,
                (example,),
                dynamo=True,
                dynamic_shapes={"x": {0: torch.export.Dim.DYNAMIC}},
                input_names=["x"],
                output_names=["vector"],
                opset_version=self._options.opset,
                verbose=False,
            )
            if program is None:
                raise RuntimeError("torch.onnx.export returned nothing")
            program.save(folder / file, external_data=_is_large(module))

        told = programs(source, SUFFIX, save)
        more = {"opset": self._options.opset, **about(source.facts)}
        write_sidecar(folder, sidecar(source.facts, **more))
        return told

    def read_back(self, folder: Path, probe: ExportProbe) -> ExportAnswers:
        import onnxruntime

        from ttf_exporters._towers import answered

        def opened(file: Path) -> Callable[[NDArray[np.float32]], NDArray[np.float32]]:
            session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

            def run(x: NDArray[np.float32]) -> NDArray[np.float32]:
                found: NDArray[np.float32] = session.run(["vector"], {"x": x})[0]
                return found

            return run

        return answered(folder, probe, SUFFIX, opened, f"onnxruntime {onnxruntime.__version__}")


def _is_large(module: Any) -> bool:
    """A file of ONNX holds at most 2 GB."""
    return bool(sum(p.numel() * p.element_size() for p in module.parameters()) > 1 << 30)


class OnnxFactory:
    """ONNX files of both towers"""

    name = "onnx"
    options_type = Options
    exports: Literal["encoder"] = "encoder"

    def availability(self) -> Availability:
        for library in ("torch", "onnx", "onnxscript", "onnxruntime"):
            state = needs(library, "onnx")
            if not state.ok:
                return state
        return Availability(ok=True)

    def create(self, options: Options) -> OnnxExporter:
        return OnnxExporter(options)


@hookimpl
def ttf_exporter(name: str) -> ExporterFactory | None:
    return OnnxFactory() if name == "onnx" else None
