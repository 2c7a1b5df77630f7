"""Reasons that are counted: instructions, operations, bytes, sectors, requests, conflicts, local memory."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from msgspec import Struct

from gpuprof.comparison.causes.reason import Reason
from gpuprof.comparison.causes.time_model import Parts
from gpuprof.comparison.contract import CountChange
from gpuprof.comparison.words import Values, both_text, count_name, count_text, known, value_text, values_of
from gpuprof.diagnose.needs import ISSUE
from gpuprof.model.path_names import path_name, work_unit
from gpuprof.model.session import KernelProfile
from gpuprof.units import ARROW, significant

Counts = Mapping[str, CountChange]
_MOVED = ("less", "more")
_RATE_MOVED = 0.03
"""Sectors per request that differ by less are those of the same accesses: edges of a grid make so much."""
_HITS_MOVED = 0.05
"""A hit rate that moved by five points or more is told."""
_PIPES = {"fp64": ("fp64",), "fp32": ("fma",), "fp16": ("fp16", "fma"), "int32": ("alu", "fma")}
"""Pipes that run the operations of a compute path; those of the tensor cores run in the pipe of that name."""


class _Kind(Struct, frozen=True):
    """A mechanism, the counts that tell it, of which the first that both sides have counts, and the unit it loads."""

    mechanism: str
    counts: tuple[str, ...]
    unit: str


_KINDS = (
    _Kind("dram-bytes", ("dram-bytes",), "dram"),
    _Kind("l2-bytes", ("l2-bytes", "l2-sectors"), "l2"),
    _Kind("l1-bytes", ("l1-bytes", "global-load-sectors"), "l1"),
    _Kind("shared-memory", ("shared-wavefronts",), "l1"),
    _Kind("bank-conflicts", ("bank-conflicts",), "l1"),
)
_ACCESSES = (
    ("global load", "global-load-sectors", "global-load-requests"),
    ("global store", "global-store-sectors", "global-store-requests"),
)


def counted_reasons(
    base: KernelProfile | None, new: KernelProfile | None, counts: Counts, parts: Parts
) -> Iterator[Reason]:
    """Yield what was counted and moved beyond its tolerance, each with what it makes of the time.

    The kernels tell hit rates; None where there are several on a side.
    """
    yield from _instructions(counts, parts)
    yield from _operations(counts, parts)
    for kind in _KINDS:
        change = next((counts[name] for name in kind.counts if known(counts.get(name)) is not None), None)
        values = moved(change)
        if change is not None and values is not None:
            effect, binds = parts.weight(kind.unit) * values.log_ratio, parts.bound and kind.unit == parts.unit
            if kind.mechanism == "bank-conflicts":
                effect = _conflicts(values, counts, parts)
            yield Reason(
                kind.mechanism,
                count_text(change),
                effect=effect if abs(effect) >= 0.5 * abs(values.log_ratio) or binds else 0.0,
                certainty="counted",
                first=binds,
            )
    yield from _coalescing(counts, parts)
    yield from _local_memory(counts, parts)
    if base is not None and new is not None:
        yield from _hit_rates(base, new, counts, parts)


def moved(change: CountChange | None) -> Values | None:
    """Return both values of a count that moved beyond its tolerance; None where it did not, or a side lacks it."""
    return known(change) if change is not None and change.word in _MOVED else None


def _instructions(counts: Counts, parts: Parts) -> Iterator[Reason]:
    """Where no unit binds, time follows the instructions; else as far as the issue slots are busy."""
    values = moved(counts.get("instructions"))
    if values is None:
        return
    weight = 1.0 if not parts.bound else parts.weight(ISSUE)
    yield Reason(
        "instructions",
        count_text(counts["instructions"]),
        effect=weight * values.log_ratio,
        certainty="counted",
        first=parts.bound and parts.unit == ISSUE,
    )


def _operations(counts: Counts, parts: Parts) -> Iterator[Reason]:
    """Yield the operations of each path that moved; the tensor cores first where they came into use or went out."""
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
        yield Reason(
            "flop",
            count_text(counts[f"flop.{path}"]),
            effect=weight * values.log_ratio if weight >= 0.5 else 0.0,
            certainty="counted",
            first=parts.bound and pipe is not None and pipe == parts.unit,
        )


def _other_type(gone: Mapping[str, Values], come: Mapping[str, Values], parts: Parts) -> Reason:
    """Judge work of the tensor cores that is of another type: operations of inputs half as wide take half the time."""
    time = Values(
        sum(values.base * _bits(path) for path, values in gone.items()),
        sum(values.new * _bits(path) for path, values in come.items()),
    )
    before = " and ".join(_amount(path, values.base) for path, values in gone.items())
    after = " and ".join(_amount(path, values.new) for path, values in come.items())
    return Reason(
        "tensor-cores",
        f"tensor cores: {before} {ARROW} {after}",
        effect=(parts.weight("tensor") if parts.bound else 1.0) * time.log_ratio,
        certainty="inferred",
        first=parts.bound and parts.unit == "tensor",
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


def _amount(path: str, value: float) -> str:
    """Write work of the tensor cores: "INT8 1.08 TOP"."""
    return f"{path_name(path).removeprefix('tensor ')} {value_text(value, work_unit(path, per_second=False))}"


def _tensor(change: CountChange, values: Values, scalar: Mapping[str, Values], parts: Parts) -> Reason:
    """Judge a path of the tensor cores: work that came or went, or work that moved there from other pipes or back."""
    path = change.name.removeprefix("flop.")
    if values.base > 0 and values.new > 0:
        weight = parts.weight("tensor") if parts.bound else 1.0
        return Reason("tensor-cores", count_text(change), effect=weight * values.log_ratio, certainty="counted")
    amount, rose = max(values), values.new > values.base
    partners = [
        other_path
        for other_path, other in scalar.items()
        if (other.new < other.base) == rose and abs(other.new - other.base) >= amount / 2
    ]
    word = "now" if rose else "no longer"
    text = f"tensor cores {word} used ({_amount(path, amount)})"
    if partners:
        text += f" for what {'ran' if rose else 'runs now'} in {path_name(partners[0])}"
    return Reason(
        "tensor-cores",
        text,
        effect=(-1.0 if rose == bool(partners) else 1.0) * math.log(2),
        certainty="inferred",
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
    """Yield sectors per request that moved, where the sectors moved with them."""
    for name, sectors_name, requests_name in _ACCESSES:
        sectors, requests = known(counts.get(sectors_name)), known(counts.get(requests_name))
        if sectors is None or requests is None or min(*requests, *sectors) <= 0:
            continue
        rates = Values(sectors.base / requests.base, sectors.new / requests.new)
        effect = rates.log_ratio
        if abs(effect) < math.log1p(_RATE_MOVED) or effect * sectors.log_ratio <= 0.5 * effect * effect:
            continue
        unit = max(("l1", "l2", "dram"), key=parts.weight)
        yield Reason(
            "coalescing",
            f"sectors per {name} request {significant(rates.base)} {ARROW} {significant(rates.new)}",
            effect=parts.weight(unit) * effect,
            certainty="counted",
            first=parts.bound and unit == parts.unit,
        )


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
        f"{count_name('spills')} {both_text(*spills)}",
        effect=sign * max(0.01, abs(change) * max(parts.weight("l1"), parts.weight("l2"))),
        certainty="counted",
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
    """Yield a hit rate that moved, where the level below moves more for a lower one, or less for a higher one."""
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
        yield Reason(
            "hit-rate",
            f"{traffic.level.upper()} hit rate {both_text(*values, 'fraction')}",
            effect=weight * bytes_below.log_ratio / 2 if weight >= 0.5 else 0.0,
            certainty="inferred",
        )
