"""Model FLOP of a trace, in all and in a step, and model FLOP utilisation (MFU): what of the GPUs' ceilings that is.

Also the FLOP that counters saw, to stand beside them. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from functools import lru_cache
from itertools import chain
from statistics import mode
from typing import NamedTuple, TypeVar

from msgspec.structs import replace

from gpuprof.hardware.specs import PATHS, GpuSpec
from gpuprof.model.ceilings import ceiling_of, rated_bandwidth, rated_compute
from gpuprof.model.groups import by_key, middle
from gpuprof.model.labels import label_kernels, short_name
from gpuprof.model.product_names import multiplies_on_scalar_pipes, multiplies_on_tensor_cores
from gpuprof.model.recorded import Missing
from gpuprof.model.roofline import is_possible
from gpuprof.model.session import (
    Ceiling,
    KernelProfile,
    ModelFlop,
    OperatorBytes,
    OperatorFlop,
    PathFlop,
    StepFlop,
    Uncounted,
    Utilisation,
)
from gpuprof.model.sources import TORCH_TRACE
from gpuprof.timeline.intervals import length, merged
from gpuprof.timeline.torch_flop import ProductFlop, product_flop
from gpuprof.timeline.trace import KERNEL, Activity, ProgramStep, Trace

MOST_UNCOUNTED = 0.1
"""The share of kernel time from which on uncounted operators leave too little to call the rest a utilisation."""
CEILINGS = {"fp32": ("fp32", "tensor.tf32"), "fp64": ("fp64", "tensor.fp64")}
"""The ceilings of those data types that can run on more than one path; the others have that of their own path."""
_MULTIPLIES = re.compile(
    r"gemm(?!v)|xmma|cutlass|nvjet|scudnn|winograd|convolve|conv[123]d|conv_depthwise|[dw]grad_(?:alg|engine)|"
    r"flash_?(?:fwd|bwd|attn|attention)|fmha|attention_kernel|attn_(?:fwd|bwd)|triton_(?:tem|mm)",
    re.IGNORECASE,
)
"""Kernels that multiply matrices, by the words of cuBLAS, cuDNN, CUTLASS, Triton and libraries of attention."""
_AROUND = re.compile(r"dot_do_o|convert_d[qkv]|bwd(?:pre|post)process|splitkv_combine|fwdcombine", re.IGNORECASE)
"""What libraries of attention launch before and after the kernel that multiplies."""
_TRANSFORMS = re.compile(r"winograd|fft|gcgemm", re.IGNORECASE)
"""Convolutions and products that need fewer multiplications than their shapes ask for."""
_OUTSIDE = "PyTorch counts no FLOP for what launched the kernels"
_COUNT_ON_GPU = "count what the GPU does: gpuprof run -- PROGRAM"
_MARK_STEPS = "call the profiler's step() once per iteration"

_ALL, _CAUSAL_SHARE = (1.0,), (0.5,)
"""A causal mask hides half of the scores, of as many keys as queries, from kernels that skip what is hidden."""
_NAMES_MASK = re.compile(r"flash_\w+ hdim")
"""The labels of kernels whose names say whether they are causal."""
_CAUSAL = re.compile(r"(?<![a-z])causal(?![a-z])", re.IGNORECASE)
CountedProducts = Sequence[ProductFlop | Missing]
Asked = TypeVar("Asked", int, ProductFlop)


class LaunchedProduct(NamedTuple):
    """What the operator of a launch asks for, and the part of that which the launch does: 1 if no other does any."""

    product: ProductFlop
    part: float


def model_flop(
    source: int, trace: Trace, loop: Sequence[ProgramStep], ceilings: Sequence[Sequence[Ceiling]]
) -> ModelFlop | None:
    """Return the model FLOP of a PyTorch trace and of a step of its loop; None where nothing multiplies matrices.

    `ceilings` are those of the trace's devices, in their order.
    """
    if trace.kind != TORCH_TRACE:
        return None
    counted = [product_flop(product) for product in trace.products]
    uncounted = _uncounted(trace, counted)
    if not counted and not uncounted:
        return None
    known = [product for product in counted if isinstance(product, ProductFlop)]
    total_s = sum(activity.duration_s or 0.0 for activity in trace.activities if activity.kind == KERNEL)
    share = sum(row.time_s for row in uncounted) / total_s if total_s else None
    steps = _with_flop(loop, trace, counted)
    gap = _gap(counted, loop, steps)
    step = None
    if gap is None:
        step = _step_flop(steps, trace, ceilings)
        if share is not None and share >= MOST_UNCOUNTED:
            step = replace(step, utilisation=())
            gap = Missing("MFU", "too much of the kernels' time is not counted", _COUNT_ON_GPU)
        elif not step.utilisation:
            gap = Missing("MFU", "no spec rates the GPU for these data types so high", "give one with --spec FILE")
    return ModelFlop(
        source=source,
        total=by_path(known) if known else None,
        step=step,
        uncounted=uncounted,
        uncounted_share=share,
        missing=(gap,) if gap else (),
    )


def operator_flop(
    launched: Sequence[LaunchedProduct | None], kernel: KernelProfile, ceilings: Sequence[Ceiling], gpu: GpuSpec | None
) -> OperatorFlop | None:
    """Return what the operators of a kernel's launches ask for; None unless all of them ask for the same.

    `ceilings` are those of its GPU, `gpu` its spec.
    """
    parts = [one.part for one in launched if one is not None]
    product = _only(one and one.product for one in launched)
    if product is None or not kernel.duration_s:
        return None
    is_part, shares = min(parts) < 1.0, _shares_of_scores(product, kernel.demangled)
    path = _path_by_name(kernel.demangled, product.path)
    whole = product.flop * sum(parts) / len(parts)
    possible = [PathFlop(path or product.path, share * whole, 1) for share in shares]
    fitting = [ceiling for ceiling in ceilings if path in (None, ceiling.path)]
    flop = max(shares, default=1.0) * whole
    operand_bytes = None if is_part else product.operand_bytes
    return OperatorFlop(
        path=path or product.path,
        flop=flop,
        flop_per_s=flop / kernel.duration_s,
        exact=product.exact and not is_part and _TRANSFORMS.search(kernel.demangled) is None,
        utilisation=utilisation(possible, kernel.duration_s, fitting),
        operand_bytes=operand_bytes,
        dram_fraction=_of_dram(operand_bytes, kernel.duration_s, gpu),
        causal=shares == _CAUSAL_SHARE,
        is_part=is_part,
    )


def _shares_of_scores(product: ProductFlop, kernel: str) -> tuple[float, ...]:
    """Return which shares of the scores a kernel of attention may compute: half under a causal mask, and all without.

    Empty if it may be causal with fewer or more keys than queries, because masks differ in how they align them.
    """
    causal = _is_causal(kernel) if product.causal is None else product.causal
    if causal is False:
        return _ALL
    if not product.as_many_keys:
        return ()
    return _CAUSAL_SHARE if causal else _ALL + _CAUSAL_SHARE


@lru_cache(maxsize=4096)
def _is_causal(kernel: str) -> bool | None:
    """Return whether a kernel's name says that it is causal, or not; None if it says nothing."""
    (label,) = label_kernels([kernel])
    if _CAUSAL.search(label):
        return True
    return False if _NAMES_MASK.match(label) else None


def operator_bytes(touched: Iterable[int | None], kernel: KernelProfile, gpu: GpuSpec | None) -> OperatorBytes | None:
    """Return what the point-wise operators of a kernel's launches move; None unless all of them move the same."""
    moved = _only(touched)
    if not moved or not kernel.duration_s:
        return None
    return OperatorBytes(
        bytes=float(moved),
        bytes_per_s=moved / kernel.duration_s,
        dram_fraction=_of_dram(moved, kernel.duration_s, gpu),
    )


def _only(values: Iterable[Asked | None]) -> Asked | None:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else None


def _of_dram(operand_bytes: float | None, duration_s: float, gpu: GpuSpec | None) -> float | None:
    """Return bytes ÷ time ÷ rated bandwidth; None of what is faster than DRAM, or what L2 can have held all along."""
    rated = rated_bandwidth("dram", gpu)
    if operand_bytes is None or gpu is None or rated is None or operand_bytes <= (gpu.number("l2_size") or 0.0):
        return None
    fraction = operand_bytes / duration_s / rated.value
    return fraction if fraction <= 1.0 else None


def launched_products(trace: Trace) -> dict[int, LaunchedProduct]:
    """Return what the kernels of a trace do of their operators' products, by the kernels' identity.

    Those that multiply by their names do a product, in parts by their times; all of its kernels if no name says so.
    """
    launched = by_key(
        (activity.product, activity)
        for activity in trace.activities
        if activity.product is not None and activity.kind == KERNEL
    )
    known: dict[int, LaunchedProduct] = {}
    for number, kernels in launched.items():
        flop = product_flop(trace.products[number])
        if isinstance(flop, ProductFlop):
            main = [kernel for kernel in kernels if _multiplies(kernel.name)] or kernels
            known |= {id(kernel): LaunchedProduct(flop, part) for kernel, part in zip(main, _parts(main), strict=True)}
    return known


def _parts(kernels: Sequence[Activity]) -> list[float]:
    times = [kernel.duration_s or 0.0 for kernel in kernels]
    if not any(times):
        times = [1.0] * len(times)
    return [time_s / sum(times) for time_s in times]


def _path_by_name(kernel: str, path: str) -> str | None:
    """Return where FP32 or FP64 is multiplied, on the tensor cores or not; of other types their path.

    None if the name does not say.
    """
    if path not in CEILINGS:
        return path
    plain, tensor = CEILINGS[path]
    if multiplies_on_tensor_cores(kernel):
        return tensor
    return plain if multiplies_on_scalar_pipes(kernel) else None


def by_path(flop: Iterable[ProductFlop]) -> tuple[PathFlop, ...]:
    """Return the sums of the paths, the largest first."""
    of_path = by_key((product.path, product.flop) for product in flop)
    sums = [PathFlop(path, sum(counts), len(counts)) for path, counts in of_path.items()]
    return tuple(sorted(sums, key=lambda row: -row.flop))


def rated_ceilings(device: int, gpu: GpuSpec | None) -> tuple[Ceiling, ...]:
    """Return what the datasheet of a GPU promises of each path of work."""
    limits = ((path, rated_compute(path, None, gpu)) for path in PATHS)
    return tuple(ceiling_of(device, "rated", path, limit) for path, limit in limits if limit is not None)


def utilisation(flop: Sequence[PathFlop], time_s: float, ceilings: Sequence[Ceiling]) -> tuple[Utilisation, ...]:
    """Return FLOP ÷ time ÷ ceiling for each path and each ceiling that its data type fits.

    What is above its ceiling did not run on that path.
    """
    return tuple(
        Utilisation(
            path=row.path,
            fraction=row.flop / time_s / ceiling.value,
            ceiling_path=target,
            ceiling_flop_per_s=ceiling.value,
            clock_hz=ceiling.clock_hz,
            origin=ceiling.origin,
            source=ceiling.source,
        )
        for row in flop
        for target in CEILINGS.get(row.path, (row.path,))
        for ceiling in ceilings
        if ceiling.path == target and is_possible(row.flop / time_s / ceiling.value)
    )


def _uncounted(trace: Trace, counted: CountedProducts) -> tuple[Uncounted, ...]:
    """Return what is not counted, by name and reason, those that take most time first."""
    names = Counter((gap.what, gap.why) for gap in counted if isinstance(gap, Missing))
    times: defaultdict[tuple[str, str], float] = defaultdict(float)
    for activity in trace.activities:
        gap = counted[activity.product] if activity.product is not None else None
        if isinstance(gap, Missing):
            times[gap.what, gap.why] += activity.duration_s or 0.0
        elif gap is None and activity.kind == KERNEL and _multiplies(activity.name):
            operator, _, _ = (activity.operator or "").partition(" ")
            what = operator or short_name(activity.name), _OUTSIDE
            names[what] += 1
            times[what] += activity.duration_s or 0.0
    uncounted = [Uncounted(name=name, count=names[name, why], time_s=times[name, why], why=why) for name, why in names]
    return tuple(sorted(uncounted, key=lambda row: -row.time_s))


@lru_cache(maxsize=4096)
def _multiplies(kernel: str) -> bool:
    return _MULTIPLIES.search(kernel) is not None and _AROUND.search(kernel) is None


def _with_flop(
    loop: Sequence[ProgramStep], trace: Trace, counted: CountedProducts
) -> list[tuple[ProgramStep, list[ProductFlop]]]:
    """Return those steps of a loop in which counted operators began, with what they ask for."""
    flop = by_key(
        (_step_at(loop, product.start_s), known)
        for product, known in zip(trace.products, counted, strict=True)
        if isinstance(known, ProductFlop)
    )
    return [(step, flop[at]) for at, step in enumerate(loop) if at in flop]


def _step_at(steps: Sequence[ProgramStep], moment_s: float) -> int | None:
    """Return the place of the step that a moment is in; a step ends before the moment at which the next one begins."""
    at = bisect_right(steps, moment_s, key=lambda step: step.start_s) - 1
    return at if at >= 0 and moment_s < steps[at].interval[1] else None


def _gap(counted: CountedProducts, loop: Sequence[ProgramStep], steps: Sequence[object]) -> Missing | None:
    """Return why the FLOP of a step are not known, if they are not."""
    reasons = [(gap.why, gap.how) for gap in counted if isinstance(gap, Missing)]
    if len(counted) == len(reasons):
        why, how = mode(reasons or [(_OUTSIDE, _COUNT_ON_GPU)])
        return Missing("model FLOP", why, how)
    if not loop:
        why = "the trace has no steps"
    elif len({step.thread for step in loop}) > 1:
        why = "the steps of several threads overlap"
    elif not steps:
        why = "no counted operator ran in a step"
    else:
        return None
    return Missing("model FLOP of a step", why, _MARK_STEPS)


def _step_flop(
    steps: Sequence[tuple[ProgramStep, list[ProductFlop]]], trace: Trace, ceilings: Sequence[Sequence[Ceiling]]
) -> StepFlop:
    """Let the step of median time speak for all."""
    times = _times_s([step for step, _ in steps], trace.activities)
    every = [sum(product.flop for product in products) for _, products in steps]
    at = middle(times)
    flop = by_path(steps[at][1])
    used = sorted({activity.device for activity in trace.activities if activity.kind == KERNEL})
    return StepFlop(
        count=len(steps),
        time_s=times[at],
        flop=flop,
        flop_per_s=every[at] / times[at],
        min_flop=min(every),
        max_flop=max(every),
        gpus=len(used),
        utilisation=utilisation(flop, times[at], _together([ceilings[device] for device in used])),
    )


def _times_s(steps: Sequence[ProgramStep], activities: Iterable[Activity]) -> list[float]:
    """Return how long each step takes, or the busiest GPU for what it launched, if that is longer.

    Launching can run ahead of the GPU: then the program's step is shorter than the GPU's.
    """
    work = by_key(
        ((_step_at(steps, activity.launched_s), activity.device), activity.interval)
        for activity in activities
        if activity.launched_s is not None
    )
    times = [step.duration_s for step in steps]
    for (at, _), intervals in work.items():
        if at is not None:
            times[at] = max(times[at], length(merged(intervals)))
    return times


def _together(ceilings: Sequence[Sequence[Ceiling]]) -> list[Ceiling]:
    """Return the ceilings that all of these GPUs have, added up."""
    by_id = by_key((ceiling.id, ceiling) for ceiling in chain.from_iterable(ceilings))
    shared = [own for own in by_id.values() if len(own) == len(ceilings)]
    return [replace(own[0], value=sum(one.value for one in own)) for own in shared]
