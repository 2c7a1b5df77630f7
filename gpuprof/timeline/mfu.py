"""Model FLOP of a trace, in all and in a step, and model FLOP utilisation (MFU): what of the GPUs' ceilings that is.

Also the FLOP and bytes that the operators of each kernel ask for. Pure.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from itertools import chain
from statistics import mode

from msgspec.structs import replace

from gpuprof.hardware.specs import PATHS, GpuSpec
from gpuprof.model.ceilings import ceiling_of, rated_bandwidth, rated_compute
from gpuprof.model.groups import by_key, summed
from gpuprof.model.labels import label_kernels, short_name
from gpuprof.model.product_names import multiplies_on_scalar_pipes, multiplies_on_tensor_cores
from gpuprof.model.recorded import Missing
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
from gpuprof.timeline.steps import JudgedLoop, threads_of
from gpuprof.timeline.torch_flop import ProductFlop, product_flop
from gpuprof.timeline.trace import Activity, Trace
from gpuprof.timeline.window import TracedGpu

MOST_UNCOUNTED = 0.1
"""The share of kernel time from which on uncounted operators leave too little to call the rest a utilisation."""
CEILINGS: dict[str, tuple[str, ...]] = {"fp32": ("fp32", "tensor.tf32"), "fp64": ("fp64", "tensor.fp64")}
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


def model_flop(
    loop: JudgedLoop, gpus: Iterable[TracedGpu], ceilings: Mapping[int, Sequence[Ceiling]]
) -> ModelFlop | None:
    """Return the model FLOP of a PyTorch trace and of a step of its loop; None if nothing multiplies matrices.

    `gpus` are those of all traces, `ceilings` those of devices.
    """
    trace = loop.trace
    if trace.kind != TORCH_TRACE:
        return None
    known: dict[int, ProductFlop] = {}
    gaps: dict[int | None, Missing] = {}
    for number, product in enumerate(trace.products):
        flop = product_flop(product)
        if isinstance(flop, Missing):
            gaps[number] = flop
        else:
            known[number] = flop
    uncounted = _uncounted(trace, gaps)
    if not known and not uncounted:
        return None
    total_s = sum(activity.duration_s or 0.0 for activity in trace.activities if activity.is_kernel)
    share = sum(row.time_s for row in uncounted) / total_s if total_s else None
    judged = [activity for gpu in gpus if gpu.source == loop.source for activity in gpu.activities]
    launched = {activity.product for activity in judged}
    counted = {number: product for number, product in known.items() if number in launched}
    gap = _gap(loop, counted)
    if not known:
        why, how = mode([(gap.why, gap.how) for gap in gaps.values()] or [(_OUTSIDE, _COUNT_ON_GPU)])
        gap = Missing("model FLOP", why, how)
    step = None
    if gap is None:
        used = {activity.device for activity in judged if activity.is_kernel}
        of_gpus = [ceilings[device.device] for device in loop.devices if device.ordinal in used]
        step = _step_flop(loop, counted, of_gpus, _paths_by_names(judged, counted))
        gap = _mfu_gap(trace, share, step)
        if gap is not None:
            step = replace(step, utilisation=())
    return ModelFlop(
        source=loop.source,
        total=by_path(known.values()) or None,
        step=step,
        uncounted=uncounted,
        uncounted_share=share,
        missing=(gap,) if gap else (),
    )


def with_operators(
    traces: Iterable[Trace],
    kernels: Iterable[KernelProfile],
    launches: Iterable[Sequence[Activity]],
    gpus: Mapping[int, GpuSpec | None],
    ceilings: Mapping[int, Sequence[Ceiling]],
) -> Iterator[KernelProfile]:
    """Yield kernels with what the operators of their launches ask for: FLOP of products, or a part of it, and bytes of
    point-wise operators.

    `launches` are those of each kernel, `gpus` the specs of devices, and `ceilings` what these promise.
    """
    flop = dict(chain.from_iterable(map(_launched_products, traces)))
    for kernel, own in zip(kernels, launches, strict=True):
        limits, gpu = ceilings[kernel.device], gpus[kernel.device]
        launched = [flop.get(id(launch), (None, 1.0)) for launch in own]
        yield replace(
            kernel,
            operator_flop=_operator_flop(launched, kernel, limits, gpu),
            operator_bytes=_operator_bytes((launch.operand_bytes for launch in own), kernel, gpu),
        )


def _operator_flop(
    launched: Sequence[tuple[ProductFlop | None, float]],
    kernel: KernelProfile,
    ceilings: Sequence[Ceiling],
    gpu: GpuSpec | None,
) -> OperatorFlop | None:
    """Return what the operators of a kernel's launches ask for; None unless all of them ask for the same.

    `launched` is that with the part that each launch does, `ceilings` are those of its GPU, `gpu` its spec.
    """
    products = {product for product, _ in launched}
    parts = [part for _, part in launched]
    product = products.pop() if len(products) == 1 else None
    if product is None or not kernel.duration_s:
        return None
    is_part, shares = min(parts) < 1.0, _shares_of_scores(product, kernel.demangled)
    named = _path_by_name(kernel.demangled, product.path)
    path = named or product.path
    whole = product.flop * sum(parts) / len(parts)
    possible = [PathFlop(path, share * whole, 1) for share in shares]
    fitting = [ceiling for ceiling in ceilings if named in (None, ceiling.path)]
    flop = max(shares, default=1.0) * whole
    operand_bytes = None if is_part else product.operand_bytes
    return OperatorFlop(
        path=path,
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


def _operator_bytes(touched: Iterable[int | None], kernel: KernelProfile, gpu: GpuSpec | None) -> OperatorBytes | None:
    """Return what the point-wise operators of a kernel's launches move; None unless all of them move the same."""
    sizes = set(touched)
    moved = sizes.pop() if len(sizes) == 1 else None
    if not moved or not kernel.duration_s:
        return None
    return OperatorBytes(
        bytes=float(moved),
        bytes_per_s=moved / kernel.duration_s,
        dram_fraction=_of_dram(moved, kernel.duration_s, gpu),
    )


def _of_dram(operand_bytes: float | None, duration_s: float, gpu: GpuSpec | None) -> float | None:
    """Return bytes ÷ time ÷ rated bandwidth; None if that is more than DRAM can do, or if L2 can have held the data."""
    rated = rated_bandwidth("dram", gpu)
    if operand_bytes is None or gpu is None or rated is None or operand_bytes <= (gpu.number("l2_size") or 0.0):
        return None
    fraction = operand_bytes / duration_s / rated.value
    return fraction if fraction <= 1.0 else None


def _launched_products(trace: Trace) -> Iterator[tuple[int, tuple[ProductFlop, float]]]:
    """Yield, by the identity of kernels, the products of the operators that launched them, and the part that each does.

    Those that multiply by their names do a product, in parts by their times; all of its kernels if no name says so.
    """
    launched = by_key(
        (activity.product, activity)
        for activity in trace.activities
        if activity.product is not None and activity.is_kernel
    )
    for number, kernels in launched.items():
        flop = product_flop(trace.products[number])
        if isinstance(flop, ProductFlop):
            main = [kernel for kernel in kernels if _multiplies(kernel.name)] or kernels
            total_s = sum(kernel.duration_s or 0.0 for kernel in main)
            for kernel in main:
                part = (kernel.duration_s or 0.0) / total_s if total_s else 1 / len(main)
                yield id(kernel), (flop, part)


def _path_by_name(kernel: str, path: str) -> str | None:
    """Return the path of a product in FP32 or FP64, on the tensor cores or not; that of the type for others.

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


def _paths_by_names(judged: Iterable[Activity], counted: Mapping[int, ProductFlop]) -> dict[str, tuple[str, ...]]:
    """Return the paths that each of CEILINGS can have run on: tensor cores if the names of all its kernels say so."""
    named: defaultdict[str, set[str | None]] = defaultdict(set)
    for own in judged:
        product = counted.get(own.product) if own.product is not None else None
        if product is not None and _multiplies(own.name):
            named[product.path].add(_path_by_name(own.name, product.path))
    return {path: (both[1],) if named[path] == {both[1]} else both for path, both in CEILINGS.items()}


def utilisation(
    flop: Sequence[PathFlop],
    time_s: float,
    ceilings: Sequence[Ceiling],
    paths: Mapping[str, Sequence[str]] = CEILINGS,
) -> tuple[Utilisation, ...]:
    """Return FLOP ÷ time ÷ ceiling for each path and each ceiling that its data type fits, by `paths`.

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
        for target in paths.get(row.path, (row.path,))
        for ceiling in ceilings
        if ceiling.path == target and row.flop / time_s <= ceiling.value
    )


def _uncounted(trace: Trace, gaps: Mapping[int | None, Missing]) -> tuple[Uncounted, ...]:
    """Return the operators that are not counted, by name and reason, longest first; `gaps` by the product's number."""
    names = Counter((gap.what, gap.why) for gap in gaps.values())
    times: defaultdict[tuple[str, str], float] = defaultdict(float)
    for activity in trace.activities:
        gap = gaps.get(activity.product)
        if gap is not None:
            what = gap.what, gap.why
        elif activity.product is None and activity.is_kernel and _multiplies(activity.name):
            operator, _, _ = (activity.operator or "").partition(" ")
            what = operator or short_name(activity.name), _OUTSIDE
            names[what] += 1
        else:
            continue
        times[what] += activity.duration_s or 0.0
    uncounted = [Uncounted(name=name, count=names[name, why], time_s=times[name, why], why=why) for name, why in names]
    return tuple(sorted(uncounted, key=lambda row: -row.time_s))


@lru_cache(maxsize=4096)
def _multiplies(kernel: str) -> bool:
    return _MULTIPLIES.search(kernel) is not None and _AROUND.search(kernel) is None


def _gap(loop: JudgedLoop, counted: Collection[object]) -> Missing | None:
    """Return why the FLOP of a step are not known, if they are not; `counted` are the products that ran in the loop."""
    if not loop.steps:
        why = "the trace has no steps"
    elif threads_of(loop.steps) > 1:
        why = "the steps of several threads overlap"
    elif not loop.step_s:
        why = "the GPU computes mostly outside of the steps"
    elif not counted:
        why = "no counted operator ran in a step"
    else:
        return None
    return Missing("model FLOP of a step", why, _MARK_STEPS)


def _mfu_gap(trace: Trace, uncounted_share: float | None, step: StepFlop) -> Missing | None:
    """Return why the FLOP of a step give no utilisation, if they give none."""
    if trace.incomplete:
        return Missing("MFU", "some kernels are missing in the trace", "record it again")
    if uncounted_share is not None and uncounted_share >= MOST_UNCOUNTED:
        return Missing("MFU", "too much of the kernels' time is not counted", _COUNT_ON_GPU)
    if not step.utilisation:
        return Missing("MFU", "no spec rates the GPU for these data types so high", "give one with --spec FILE")
    return None


def _step_flop(
    loop: JudgedLoop,
    counted: Mapping[int, ProductFlop],
    ceilings: Sequence[Sequence[Ceiling]],
    paths: Mapping[str, Sequence[str]],
) -> StepFlop:
    """Return the mean over the steps of a loop, which has a time.

    `counted` are the products whose kernels are judged, by number: each is of the last step that began before it.
    `ceilings` are those of each GPU that ran them, `paths` those of data types with several.
    """
    assert loop.step_s is not None
    count = len(loop.steps)
    starts_s = [step.start_s for step in loop.steps]
    of_steps = summed(
        (max(1, bisect_right(starts_s, loop.trace.products[number].start_s)), product.flop)
        for number, product in counted.items()
    )
    every = [of_steps.get(number, 0.0) for number in range(1, count + 1)]
    sums = by_path(counted.values())
    flop = tuple(PathFlop(row.path, row.flop / count, max(1, round(row.calls / count))) for row in sums)
    return StepFlop(
        count=count,
        time_s=loop.step_s,
        flop=flop,
        flop_per_s=sum(every) / count / loop.step_s,
        min_flop=min(every),
        max_flop=max(every),
        gpus=len(ceilings),
        utilisation=utilisation(flop, loop.step_s, _together(ceilings), paths),
    )


def _together(ceilings: Sequence[Sequence[Ceiling]]) -> list[Ceiling]:
    """Return the ceilings that all of these GPUs have, added up."""
    by_id = by_key((ceiling.id, ceiling) for ceiling in chain.from_iterable(ceilings))
    shared = [own for own in by_id.values() if len(own) == len(ceilings)]
    return [replace(own[0], value=sum(one.value for one in own)) for own in shared]
