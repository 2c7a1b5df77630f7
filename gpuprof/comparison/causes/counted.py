"""Reasons that are counted: instructions, operations, bytes, sectors, requests, conflicts, local memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from gpuprof.comparison.causes.time_model import Counts, Parts, Reason
from gpuprof.comparison.contract import CountChange, ValueChange
from gpuprof.comparison.values import Values, counted_value, known, values_of
from gpuprof.diagnose.needs import ISSUE
from gpuprof.model.path_names import work_unit
from gpuprof.model.session import KernelProfile

_MOVED = ("less", "more")
_RATE_MOVED = 0.03
"""Sectors per request that differ by less are those of the same accesses: edges of a grid make so much."""
_HITS_MOVED = 0.05
"""A hit rate that moved by five points or more is told."""
_PIPES = {"fp64": ("fp64",), "fp32": ("fma",), "fp16": ("fp16", "fma"), "int32": ("alu", "fma")}
"""Pipes that run the operations of a compute path; those of the tensor cores run in the pipe of that name."""


_KINDS = (
    ("dram-bytes", ("dram-bytes",), "dram"),
    ("l2-bytes", ("l2-bytes", "l2-sectors"), "l2"),
    ("l1-bytes", ("l1-bytes", "global-load-sectors"), "l1"),
    ("shared-memory", ("shared-wavefronts",), "l1"),
    ("bank-conflicts", ("bank-conflicts",), "l1"),
)
"""A mechanism, its counts, of which the first that both sides have decides, and the unit that it loads."""
_ACCESSES = (
    ("global-load", "global-load-sectors", "global-load-requests"),
    ("global-store", "global-store-sectors", "global-store-requests"),
)


def counted_reasons(
    base: KernelProfile | None, new: KernelProfile | None, counts: Counts, parts: Parts
) -> Iterator[Reason]:
    """Yield what was counted and moved beyond its tolerance, each with what it makes of the time.

    The kernels have the hit rates; None if there are several on a side.
    """
    yield from _instructions(counts, parts)
    yield from _operations(counts, parts)
    for mechanism, names, unit in _KINDS:
        change = next((counts[name] for name in names if known(counts.get(name)) is not None), None)
        values = moved(change)
        if change is not None and values is not None:
            effect, binds = parts.weight(unit) * values.log_ratio, parts.binds(unit)
            if mechanism == "bank-conflicts":
                effect = _conflicts(values, counts, parts)
            large = abs(effect) >= 0.5 * abs(values.log_ratio) or binds
            yield Reason(mechanism, (counted_value(change),), effect if large else 0.0, first=binds)
    yield from _coalescing(counts, parts)
    yield from _local_memory(counts, parts)
    if base is not None and new is not None:
        yield from _hit_rates(base, new, counts, parts)


def moved(change: CountChange | None) -> Values | None:
    """Return both values of a count that moved beyond its tolerance; None if it did not, or a side lacks it."""
    return known(change) if change is not None and change.word in _MOVED else None


def _instructions(counts: Counts, parts: Parts) -> Iterator[Reason]:
    """Yield instructions: time follows them if no unit binds; else as far as the issue slots are busy."""
    values = moved(counts.get("instructions"))
    if values is None:
        return
    weight = 1.0 if not parts.bound else parts.weight(ISSUE)
    value = counted_value(counts["instructions"])
    yield Reason("instructions", (value,), weight * values.log_ratio, first=parts.binds(ISSUE))


def _operations(counts: Counts, parts: Parts) -> Iterator[Reason]:
    """Yield the operations of each path that moved; the tensor cores first if they came into use or went out."""
    changed = {
        name.removeprefix("flop."): values
        for name, change in counts.items()
        if name.startswith("flop.") and (values := moved(change)) is not None
    }
    tensor = {path: values for path, values in changed.items() if path.startswith("tensor.")}
    scalar = {path: values for path, values in changed.items() if not path.startswith("tensor.")}
    gone, come = ({path for path, values in tensor.items() if values[side] == 0.0} for side in (1, 0))
    if gone and come:
        yield _other_type({path: tensor[path] for path in gone}, {path: tensor[path] for path in come}, parts)
    for path, values in tensor.items():
        if not (gone and come and path in gone | come):
            yield _tensor(counts[f"flop.{path}"], values, scalar, parts)
    for path, values in scalar.items():
        pipe = next((pipe for pipe in _PIPES.get(path, ()) if pipe in parts.needs), None)
        weight = parts.weight(pipe) if pipe is not None else 0.0
        effect = weight * values.log_ratio if weight >= 0.5 else 0.0
        binds = pipe is not None and parts.binds(pipe)
        yield Reason("flop", (counted_value(counts[f"flop.{path}"]),), effect, first=binds)


def _other_type(gone: Mapping[str, Values], come: Mapping[str, Values], parts: Parts) -> Reason:
    """Judge work of the tensor cores that is of another type: operations of inputs half as wide take half the time."""
    time = Values(
        sum(values.base * _bits(path) for path, values in gone.items()),
        sum(values.new * _bits(path) for path, values in come.items()),
    )
    return Reason(
        "tensor-cores",
        tuple(_operations_of(path, values) for path, values in (*gone.items(), *come.items())),
        effect=(parts.weight("tensor") if parts.bound else 1.0) * time.log_ratio,
        certainty="inferred",
        kind="other-type",
        first=parts.binds("tensor"),
        always=True,
    )


_BITS_OF_FP64 = 8 * 32


def _bits(path: str) -> int:
    """Return how wide the inputs of a path of the tensor cores are, as its time goes: TF32 takes that of 32 bits.

    FP64 takes eight times as long as TF32, not twice (sm_80: 128 and 1024 FLOP per cycle and SM, sm_90: 256 and 2048).
    """
    if path == "tensor.fp64":
        return _BITS_OF_FP64
    digits = path[len(path.rstrip("0123456789")) :]
    return int(digits) if digits else 1


def _operations_of(path: str, values: Values) -> ValueChange:
    return values.named(f"flop.{path}", work_unit(path, per_second=False))


def _tensor(change: CountChange, values: Values, scalar: Mapping[str, Values], parts: Parts) -> Reason:
    """Judge a path of the tensor cores: work that came or went, or work that moved there from other pipes or back."""
    path = change.name.removeprefix("flop.")
    if values.base > 0 and values.new > 0:
        weight = parts.weight("tensor") if parts.bound else 1.0
        return Reason("tensor-cores", (counted_value(change),), weight * values.log_ratio)
    amount, rose = max(values), values.new > values.base
    partners = [
        other_path
        for other_path, other in scalar.items()
        if (other.new < other.base) == rose and abs(other.new - other.base) >= amount / 2
    ]
    paths = (path, *partners[:1])
    return Reason(
        "tensor-cores",
        tuple(_operations_of(name, {path: values, **scalar}[name]) for name in paths),
        effect=(-1.0 if rose == bool(partners) else 1.0) * math.log(2),
        certainty="inferred",
        kind="came-into-use" if rose else "out-of-use",
        first=True,
        always=True,
    )


def _conflicts(values: Values, counts: Counts, parts: Parts) -> float:
    """Return what conflicts make of the time: their share of the passes of shared memory, as far as L1 is busy."""
    passes = known(counts.get("shared-wavefronts"))
    if passes is None or min(passes) <= 0:
        return 0.0
    without = max(passes.base - values.base, 1.0)
    change = math.log(max(1e-9, without + values.new) / max(1e-9, without + values.base))
    return parts.weight("l1") * change


def _coalescing(counts: Counts, parts: Parts) -> Iterator[Reason]:
    """Yield sectors per request that moved, if the sectors moved with them."""
    for access, sectors_name, requests_name in _ACCESSES:
        sectors, requests = known(counts.get(sectors_name)), known(counts.get(requests_name))
        if sectors is None or requests is None or min(*requests, *sectors) <= 0:
            continue
        rates = Values(sectors.base / requests.base, sectors.new / requests.new)
        effect = rates.log_ratio
        if abs(effect) < math.log1p(_RATE_MOVED) or effect * sectors.log_ratio <= 0.5 * effect * effect:
            continue
        unit = max(("l1", "l2", "dram"), key=parts.weight)
        value = rates.named(f"{access}-sectors-per-request")
        yield Reason("coalescing", (value,), parts.weight(unit) * effect, first=parts.binds(unit))


def _local_memory(counts: Counts, parts: Parts) -> Iterator[Reason]:
    """Yield spills and local arrays: as many sectors more or less for L1, and always told."""
    spills = _spills(counts)
    if spills is None or spills.base == spills.new:
        return
    every = known(counts.get("global-load-sectors"))
    beside = every.base if every is not None else 0.0
    change = Values(beside + spills.base, beside + spills.new).log_ratio
    sign = 1.0 if spills.new > spills.base else -1.0
    yield Reason(
        "local-memory",
        (spills.named("spills"),),
        effect=sign * max(0.01, abs(change) * max(parts.weight("l1"), parts.weight("l2"))),
        always=True,
        early=spills.base == 0.0,
    )


def _spills(counts: Counts) -> Values | None:
    total = counts.get("spills")
    if total is not None:
        return moved(total)
    parts = [known(counts.get(f"local-{what}-sectors")) for what in ("load", "store")]
    if parts[0] is None or parts[1] is None:
        return None
    if not any(moved(counts.get(f"local-{what}-sectors")) for what in ("load", "store")):
        return None
    return Values(parts[0].base + parts[1].base, parts[0].new + parts[1].new)


def _hit_rates(base: KernelProfile, new: KernelProfile, counts: Counts, parts: Parts) -> Iterator[Reason]:
    """Yield a hit rate that moved, if the level below moves more for a lower one, or less for a higher one."""
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
        weight = parts.weight(below)
        effect = weight * bytes_below.log_ratio / 2 if weight >= 0.5 else 0.0
        yield Reason("hit-rate", (values.named(f"{traffic.level}-hit-rate", "fraction"),), effect, "inferred")
