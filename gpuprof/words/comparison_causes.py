"""The causes of a change of time in words: "registers 40 → 72, occupancy 75 % → 50 %"."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from gpuprof.comparison.causes.opcodes import MEANINGS, STORES
from gpuprof.comparison.contract import (
    ChangeCause,
    KernelChange,
    SideName,
    SourceLine,
    ValueChange,
)
from gpuprof.diagnose.facts.unit_names import ISSUE
from gpuprof.model.path_names import path_name
from gpuprof.model.stalls import stall_name
from gpuprof.units import (
    ARROW,
    factor,
    format_change,
    format_percent,
    format_si,
    format_waves,
    significant,
)
from gpuprof.words.comparison_values import both_text, count_name, count_text, short, value_text
from gpuprof.words.unit_names import pipe_name

CHECK_RESULT = "check what it computes"
"""What to do about a side that stores nothing."""
_UNITS = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "SM", ISSUE: "issue slots"}
_NOTHING = {
    "rest": "the rest is not explained by anything that was collected",
    "moved": "what moved does not explain it",
    "less-busy": "no unit has more to do, each is busy for less of the time",
    "more-busy": "no unit has less to do, each is busy for more of the time",
    "same-counts": "nothing that was counted changed",
    "no-counts": "the two sides share no counters that show why",
}
_ACCESSES = {
    "global-load-sectors-per-request": "global load",
    "global-store-sectors-per-request": "global store",
}


def cause_text(cause: ChangeCause, change: KernelChange) -> str:
    """Write a cause of a kernel's change, without a full stop."""
    if cause.mechanism == "nothing":
        return _NOTHING[cause.kind]
    if cause.location is not None:
        return _line(cause, cause.location, change)
    if not cause.values:
        return cause.mechanism
    return _TEXTS.get(cause.mechanism, _counts)(cause)


def names_its_file(change: KernelChange) -> bool:
    """Return whether a line is written with its file, because lines of several files changed."""
    return len({line.file for line in change.lines}) > 1


def lost_effect_text(change: KernelChange) -> str:
    """Write that one side of a kernel stores nothing; empty if both store or neither does."""
    return next((_lost_effect(cause) for cause in change.causes if cause.mechanism == STORES), "")


def _lost_effect(cause: ChangeCause) -> str:
    return stores_text("new" if cause.values[0].new == 0 else "base")


def stores_text(side: SideName) -> str:
    """Write that a side stores nothing."""
    return f"the {side} side stores nothing to global memory"


def _line(cause: ChangeCause, place: SourceLine, change: KernelChange) -> str:
    """Write the work that a line gained or lost: "line 12 gained 4.00 M instructions"."""
    line = f"line {place.line}"
    if names_its_file(change):
        name = place.file.replace("\\", "/").rsplit("/", 1)[-1]
        line = f"{short(name)}:{place.line}"
    if cause.kind == "base-line":
        line += " of the base"
    value = cause.values[0]
    gained = (value.new or 0.0) - (value.base or 0.0)
    verb = "gained" if gained > 0 else "lost"
    unit = "local loads and stores" if value.name == "local" else value.name
    return f"{line} {verb} {value_text(abs(gained))} {unit}"


def _counts(cause: ChangeCause) -> str:
    return ", ".join(map(_count, cause.values))


def _count(value: ValueChange) -> str:
    name = count_name(value.name)
    if value.same:
        return f"{name} unchanged"
    if value.base is None and value.new is None and value.ratio is not None:
        return f"{name} {format_change(value.ratio)}"
    return count_text(value)


def _clock(cause: ChangeCause) -> str:
    clock, cycles = cause.values
    change = "the same cycles" if cycles.same else f"cycles {format_change(cycles.ratio or 1.0)}"
    return f"{_count(clock)} ({change})"


def _grid(cause: ChangeCause) -> str:
    blocks, waves, *achieved = cause.values
    number = significant(waves.base or 0.0, strip=True)
    change = f"{number} {ARROW} {format_waves(waves.new or 0.0)}"
    text = f"grid {both_text(blocks.base, blocks.new)} blocks ({change})"
    return ", ".join((text, *map(_count, achieved)))


def _resources(cause: ChangeCause) -> str:
    """Write registers, shared memory, block size and occupancies."""
    has_theoretical = any(value.name == "occupancy" for value in cause.values)
    texts = []
    for value in cause.values:
        text = count_text(value)
        if value.name == "block-threads":
            text = f"block {both_text(value.base, value.new)} threads"
        elif value.name == "achieved-occupancy":
            text = _achieved_occupancy(value, has_theoretical)
        elif value.name == "occupancy" and value.same:
            text = "theoretical occupancy unchanged"
        elif value.name == "occupancy" and cause.limiters:
            text += f" (limited by {' and '.join(cause.limiters)})"
        texts.append(text)
    return ", ".join(texts)


def _achieved_occupancy(value: ValueChange, has_theoretical: bool) -> str:
    """Write the achieved occupancy; beside the theoretical one "achieved" is enough."""
    if value.same:
        return "achieved unchanged" if has_theoretical else "occupancy unchanged"
    name = "achieved" if has_theoretical else "achieved occupancy"
    return f"{name} {both_text(value.base, value.new, value.unit)}"


def _opcodes(cause: ChangeCause) -> str:
    if cause.kind == "fp64-divisions":
        mufu = cause.values[0]
        values = both_text(mufu.base, mufu.new)
        return f"{_more_or_fewer(mufu)} FP64 divisions or roots (MUFU {values})"
    texts = []
    for value in cause.values:
        name = value.name.removeprefix("opcode.")
        if name in MEANINGS:
            name += f" ({MEANINGS[name]})"
        texts.append(f"{name} {both_text(value.base, value.new)}")
    return ", ".join(texts)


def _more_or_fewer(value: ValueChange) -> str:
    return "more" if (value.new or 0.0) > (value.base or 0.0) else "fewer"


def _tensor_cores(cause: ChangeCause) -> str:
    if not cause.kind:
        return _counts(cause)
    if cause.kind == "other-type":
        values = cause.values
        before = " and ".join(_operations(value, value.base) for value in values if value.base)
        after = " and ".join(_operations(value, value.new) for value in values if value.new)
        return f"tensor cores: {before} {ARROW} {after}"
    first, *others = cause.values
    if cause.kind == "came-into-use":
        text = f"tensor cores now used ({_operations(first, first.new)})"
        runs = "ran"
    else:
        text = f"tensor cores no longer used ({_operations(first, first.base)})"
        runs = "runs now"
    if not others:
        return text
    path = others[0].name.removeprefix("flop.")
    return f"{text} for what {runs} in {path_name(path)}"


def _operations(value: ValueChange, amount: float | None) -> str:
    """Write work of the tensor cores: "INT8 1.08 TOP"."""
    path = value.name.removeprefix("flop.tensor.")
    return f"{path_name(path)} {value_text(amount, value.unit)}"


def _coalescing(cause: ChangeCause) -> str:
    value = cause.values[0]
    if cause.kind != "passes":
        return f"sectors per {_ACCESSES[value.name]} request {_rates(value)}"
    busy = format_si(cause.values[1].new or 0.0, "s")
    more = _more_or_fewer(value)
    return f"{more} L1 passes for the same loads and stores (LSU pipe busy {busy} on both sides)"


def _unit_time(cause: ChangeCause) -> str:
    """Write how long a unit was busy: "DRAM busy 9.00 µs → 18.0 µs (90 % → 90 % of the time)"."""
    times, shares, *others = cause.values
    text = f"{_unit(times.name)} busy {both_text(times.base, times.new, 's')}"
    text += f" ({both_text(shares.base, shares.new, 'fraction')} of the time)"
    for value in others:
        if value.name == "dram-bytes":
            text += f", about {factor(value.ratio or 1.0)} the bytes"
        else:
            text += f", now {_unit(value.name)} {format_percent(value.new or 0.0)}"
    return text


def _unit(unit: str) -> str:
    """Write a unit: "l1" → "L1", "fp64" → "FP64 pipe", "issue" → "issue slots"."""
    return _UNITS.get(unit) or f"{pipe_name(unit)} pipe"


def _stalls(cause: ChangeCause) -> str:
    stall, every = cause.values
    return f"{stall_name(stall.name)} {_rates(stall)} cycles per instruction (of {_rates(every)})"


def _latency(cause: ChangeCause) -> str:
    value = cause.values[0]
    if value.base is not None:
        return f"a warp takes {_rates(value, 2)} cycles per instruction"
    ratio = value.ratio or 1.0
    change = "more" if ratio > 1 else "fewer"
    return f"a warp takes {factor(max(ratio, 1 / ratio))} {change} cycles"


def _rates(value: ValueChange, digits: int = 3) -> str:
    return f"{significant(value.base or 0.0, digits)} {ARROW} {significant(value.new or 0.0, digits)}"


def _bound(cause: ChangeCause) -> str:
    value = cause.values[0]
    gained = format_percent(value.new or 0.0)
    bound = format_percent(value.base or 0.0)
    return (
        f"{gained} of the time was saved, more than the bound of {value.name} ({bound}): "
        "something else changed, too, or the bound is wrong"
    )


_TEXTS: Mapping[str, Callable[[ChangeCause], str]] = {
    STORES: lambda cause: f"{_lost_effect(cause)}: {CHECK_RESULT}",
    "bound": _bound,
    "clock": _clock,
    "coalescing": _coalescing,
    "latency": _latency,
    "launch-configuration": _grid,
    "occupancy": _resources,
    "opcodes": _opcodes,
    "registers": _resources,
    "stalls": _stalls,
    "tensor-cores": _tensor_cores,
    "unit-time": _unit_time,
}
