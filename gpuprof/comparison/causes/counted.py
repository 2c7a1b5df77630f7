"""Counted reasons: instructions, operations, bytes, sectors, requests, conflicts, local memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from gpuprof.comparison.causes.time_model import Counts, Reason, TimeFactors
from gpuprof.comparison.contract import CountChange, ValueChange
from gpuprof.comparison.values import Values, counted_value, known, values_of
from gpuprof.comparison.work.counts import FLOP
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.model.path_names import work_unit
from gpuprof.model.session import KernelProfile

_MOVED = ("less", "more")
_RATE_MOVED = 0.03
"""Sectors per request of the same accesses differ by less, because of the edges of a grid."""
_HITS_MOVED = 0.05
"""A hit rate that moved by five points or more is listed."""
_PIPES = {"fp64": ("fp64",), "fp32": ("fma",), "fp16": ("fp16", "fma"), "int32": ("alu", "fma")}
"""Pipes that run the operations of a compute path; those of the tensor cores run in the pipe of that name."""
_KINDS = (
    ("dram-bytes", ("dram-bytes",), "dram"),
    ("l2-bytes", ("l2-bytes", "l2-sectors"), "l2"),
    ("l1-bytes", ("l1-bytes", "global-load-sectors"), "l1"),
    ("shared-memory", ("shared-wavefronts",), "l1"),
    ("bank-conflicts", ("bank-conflicts",), "l1"),
)
"""A mechanism, its counts (the first that both sides have decides), and the unit that it loads."""
_ACCESSES = (
    ("global-load", "global-load-sectors", "global-load-requests"),
    ("global-store", "global-store-sectors", "global-store-requests"),
)


def counted_reasons(
    base: KernelProfile | None, new: KernelProfile | None, counts: Counts, factors: TimeFactors
) -> Iterator[Reason]:
    """Yield the counts that moved beyond their tolerance, each with its effect on the time.

    The kernels have the hit rates; None if there are several on a side.
    """
    yield from _instructions(counts, factors)
    yield from _operations(counts, factors)
    for mechanism, names, unit in _KINDS:
        change = next((counts[name] for name in names if known(counts.get(name)) is not None), None)
        values = moved(change)
        if change is None or values is None:
            continue
        effect = factors.weight(unit) * values.log_ratio
        if mechanism == "bank-conflicts":
            effect = _conflicts(values, counts, factors)
        binds = factors.binds(unit)
        is_large = binds or abs(effect) >= 0.5 * abs(values.log_ratio)
        yield Reason(mechanism, (counted_value(change),), effect if is_large else 0.0, first=binds)
    yield from _coalescing(counts, factors)
    yield from _local_memory(counts, factors)
    if base is not None and new is not None:
        yield from _hit_rates(base, new, counts, factors)


def moved(change: CountChange | None) -> Values | None:
    """Return both values of a count that moved beyond its tolerance; None for any other."""
    return known(change) if change is not None and change.word in _MOVED else None


def _instructions(counts: Counts, factors: TimeFactors) -> Iterator[Reason]:
    """Yield instructions: the time follows them, or the busy issue slots if a unit binds."""
    values = moved(counts.get("instructions"))
    if values is None:
        return
    value = counted_value(counts["instructions"])
    effect = _weight_if_bound(ISSUE, factors) * values.log_ratio
    yield Reason("instructions", (value,), effect, first=factors.binds(ISSUE))


def _weight_if_bound(unit: str, factors: TimeFactors) -> float:
    return factors.weight(unit) if factors.bound else 1.0


def _operations(counts: Counts, factors: TimeFactors) -> Iterator[Reason]:
    """Yield the operations of each path that moved, those of the tensor cores first."""
    tensor: dict[str, Values] = {}
    scalar: dict[str, Values] = {}
    for name, change in counts.items():
        values = moved(change)
        if name.startswith(FLOP) and values is not None:
            path = name.removeprefix(FLOP)
            (tensor if path.startswith("tensor.") else scalar)[path] = values
    gone = {path: values for path, values in tensor.items() if values.new == 0.0}
    come = {path: values for path, values in tensor.items() if values.base == 0.0}
    if gone and come:
        yield _other_type(gone, come, factors)
    for path, values in tensor.items():
        if not (gone and come and (path in gone or path in come)):
            yield _tensor(counts[FLOP + path], values, scalar, factors)
    for path, values in scalar.items():
        pipe = next((pipe for pipe in _PIPES.get(path, ()) if pipe in factors.utilization), None)
        weight = factors.weight(pipe) if pipe is not None else 0.0
        effect = weight * values.log_ratio if weight >= 0.5 else 0.0
        binds = pipe is not None and factors.binds(pipe)
        yield Reason("flop", (counted_value(counts[FLOP + path]),), effect, first=binds)


def _other_type(gone: Mapping[str, Values], come: Mapping[str, Values], factors: TimeFactors) -> Reason:
    """Judge work of the tensor cores that is of another type: operations of inputs half as wide take half the time."""
    time = Values(
        sum(values.base * _bits(path) for path, values in gone.items()),
        sum(values.new * _bits(path) for path, values in come.items()),
    )
    return Reason(
        "tensor-cores",
        tuple(_operations_of(path, values) for path, values in (*gone.items(), *come.items())),
        effect=_weight_if_bound("tensor", factors) * time.log_ratio,
        certainty="inferred",
        kind="other-type",
        first=factors.binds("tensor"),
        always=True,
    )


_BITS_OF_FP64 = 8 * 32


def _bits(path: str) -> int:
    """Return the input width that the time of a tensor-core path corresponds to: 32 bits for TF32.

    FP64 takes eight times as long as TF32, not twice (sm_80: 128 and 1024 FLOP per cycle and SM,
    sm_90: 256 and 2048).
    """
    if path == "tensor.fp64":
        return _BITS_OF_FP64
    digits = path[len(path.rstrip("0123456789")) :]
    return int(digits) if digits else 1


def _operations_of(path: str, values: Values) -> ValueChange:
    return values.named(FLOP + path, work_unit(path, per_second=False))


def _tensor(change: CountChange, values: Values, scalar: Mapping[str, Values], factors: TimeFactors) -> Reason:
    """Judge a path of the tensor cores: work that came or went, or work that moved there from other pipes or back."""
    if values.base > 0 and values.new > 0:
        effect = _weight_if_bound("tensor", factors) * values.log_ratio
        return Reason("tensor-cores", (counted_value(change),), effect)
    rose = values.new > values.base
    moves = [_operations_of(change.name.removeprefix(FLOP), values)]
    for path, other in scalar.items():
        if (other.new < other.base) == rose and abs(other.new - other.base) >= max(values) / 2:
            moves.append(_operations_of(path, other))
            break
    is_slower = rose == (len(moves) == 1)
    return Reason(
        "tensor-cores",
        tuple(moves),
        effect=math.log(2) if is_slower else -math.log(2),
        certainty="inferred",
        kind="came-into-use" if rose else "out-of-use",
        first=True,
        always=True,
    )


def _conflicts(values: Values, counts: Counts, factors: TimeFactors) -> float:
    """Return the effect of bank conflicts on the time: by their share of shared-memory passes and the load of L1."""
    passes = known(counts.get("shared-wavefronts"))
    if passes is None or min(passes) <= 0:
        return 0.0
    without = max(passes.base - values.base, 1.0)
    change = math.log(max(1e-9, without + values.new) / max(1e-9, without + values.base))
    return factors.weight("l1") * change


def _coalescing(counts: Counts, factors: TimeFactors) -> Iterator[Reason]:
    """Yield sectors per request that moved, if the sectors moved with them."""
    for access, sectors_name, requests_name in _ACCESSES:
        sectors = known(counts.get(sectors_name))
        requests = known(counts.get(requests_name))
        if sectors is None or requests is None or min(*requests, *sectors) <= 0:
            continue
        rates = Values(sectors.base / requests.base, sectors.new / requests.new)
        effect = rates.log_ratio
        if abs(effect) < math.log1p(_RATE_MOVED) or effect * sectors.log_ratio <= 0.5 * effect * effect:
            continue
        unit = max(("l1", "l2", "dram"), key=factors.weight)
        value = rates.named(f"{access}-sectors-per-request")
        yield Reason("coalescing", (value,), factors.weight(unit) * effect, first=factors.binds(unit))


def _local_memory(counts: Counts, factors: TimeFactors) -> Iterator[Reason]:
    """Yield spills and local arrays: as many sectors more or less for L1, and always listed."""
    spills = moved(counts.get("spills"))
    if spills is None or spills.base == spills.new:
        return
    loads = known(counts.get("global-load-sectors"))
    others = loads.base if loads is not None else 0.0
    change = Values(others + spills.base, others + spills.new).log_ratio
    sign = 1.0 if spills.new > spills.base else -1.0
    yield Reason(
        "local-memory",
        (spills.named("spills"),),
        effect=sign * max(0.01, abs(change) * max(factors.weight("l1"), factors.weight("l2"))),
        always=True,
        early=spills.base == 0.0,
    )


def _hit_rates(base: KernelProfile, new: KernelProfile, counts: Counts, factors: TimeFactors) -> Iterator[Reason]:
    """Yield a hit rate that moved, if the bytes of the level below moved accordingly."""
    before = {traffic.level: traffic.hit_rate for traffic in base.traffic}
    for traffic in new.traffic:
        below = {"l1": "l2", "l2": "dram"}.get(traffic.level)
        values = values_of(before.get(traffic.level), traffic.hit_rate)
        if values is None or below is None:
            continue
        bytes_below = moved(counts.get(f"{below}-bytes"))
        fall = values.base - values.new
        if abs(fall) < _HITS_MOVED or bytes_below is None or bytes_below.log_ratio * fall <= 0:
            continue
        weight = factors.weight(below)
        effect = weight * bytes_below.log_ratio / 2 if weight >= 0.5 else 0.0
        yield Reason("hit-rate", (values.named(f"{traffic.level}-hit-rate", "fraction"),), effect, "inferred")
