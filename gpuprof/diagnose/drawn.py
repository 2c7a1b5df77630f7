"""What figures show of the diagnosis: points that stand for kernels, recommended paths, kernels of the headline."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprof.diagnose.verdict import computes_integers
from gpuprof.model.headline import main_point
from gpuprof.model.session import Ceiling, KernelProfile, RooflinePoint, Session

# The tensor cores that could do the work of a path. GPUs before Ampere have no TF32.
_TENSOR_PATHS = {"fp64": "tensor.fp64", "fp32": "tensor.tf32", "fp16": "tensor.fp16", "int32": "tensor.int8"}
_BEFORE_TF32 = "tensor.fp16"


def placed_point(kernel: KernelProfile, level: str, ceiling: str) -> RooflinePoint | None:
    """Return the point that represents a kernel at a level; None if only the arithmetic of its addresses would."""
    if computes_integers(kernel):
        return main_point(kernel, level, ceiling, "int32")
    main = main_point(kernel, level, ceiling)
    return main if main is not None and main.path != "int32" else None


def recommended_paths(kernels: Sequence[KernelProfile], ceilings: Sequence[Ceiling]) -> set[str]:
    """Return the tensor paths that a finding on these kernels recommends."""
    known = {item.path for item in ceilings}
    recommended = set()
    for kernel in kernels:
        main = main_point(kernel)
        if main is not None and "tensor-cores-idle" in [finding.rule for finding in kernel.findings]:
            path = _TENSOR_PATHS.get(main.path, main.path)
            recommended.add(_BEFORE_TF32 if main.path == "fp32" and path not in known else path)
    return recommended


def headline_kernels(session: Session) -> tuple[int, ...]:
    """Return the ids of the kernels of the verdict and of the first recommendation."""
    ids = []
    if session.verdict is not None and session.verdict.kernel is not None:
        ids.append(session.verdict.kernel)
    if session.recommendations:
        ids += session.recommendations[0].kernels[:1]
    return tuple(ids)
