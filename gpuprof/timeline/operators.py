"""What the operators of a kernel's launches ask for: FLOP of products, bytes of point-wise operators. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from gpuprof.hardware.specs import GpuSpec
from gpuprof.model.groups import by_key
from gpuprof.model.session import Ceiling, KernelProfile
from gpuprof.timeline.mfu import LaunchedProduct, launched_products, operator_bytes, operator_flop
from gpuprof.timeline.trace import KERNEL, Activity, Trace


def with_operator_flop(
    traces: Sequence[Trace],
    ids: Mapping[int, int],
    kernels: Sequence[KernelProfile],
    ceilings: Mapping[int, Sequence[Ceiling]],
    gpus: Mapping[int, GpuSpec | None],
) -> Iterator[KernelProfile]:
    """Yield kernels with the FLOP that the operators of their launches ask for, or with their part of that."""
    flop: dict[int, LaunchedProduct] = {}
    for trace in traces:
        flop.update(launched_products(trace))
    asked = by_key((ids[id(launch)], flop.get(id(launch))) for launch in _launches(traces))
    for kernel in kernels:
        limits, gpu = ceilings.get(kernel.device, ()), gpus.get(kernel.device)
        yield replace(kernel, operator_flop=operator_flop(asked[kernel.id], kernel, limits, gpu))


def with_operator_bytes(
    traces: Sequence[Trace],
    ids: Mapping[int, int],
    kernels: Sequence[KernelProfile],
    gpus: Mapping[int, GpuSpec | None],
) -> Iterator[KernelProfile]:
    """Yield kernels with the bytes that the point-wise operators of their launches move."""
    touched = by_key((ids[id(launch)], launch.operand_bytes) for launch in _launches(traces))
    for kernel in kernels:
        moved = operator_bytes(touched[kernel.id], kernel, gpus.get(kernel.device))
        yield replace(kernel, operator_bytes=moved)


def _launches(traces: Iterable[Trace]) -> Iterator[Activity]:
    return (activity for trace in traces for activity in trace.activities if activity.kind == KERNEL)
