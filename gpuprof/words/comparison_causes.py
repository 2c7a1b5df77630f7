"""The causes of a change of time in words: "registers 40 → 72, occupancy 75 % → 50 % (limited by registers)"."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from gpuprof.comparison.causes.opcodes import MEANINGS, STORES
from gpuprof.comparison.contract import ChangeCause, KernelChange, SideName, ValueChange
from gpuprof.diagnose.needs import ISSUE, pipe_name
from gpuprof.model.path_names import path_name
from gpuprof.model.stalls import stall_name
from gpuprof.units import ARROW, format_change, format_percent, format_si, format_waves, significant
from gpuprof.words.comparison_values import both_text, count_name, count_text, short, value_text

_UNITS = {"dram": "DRAM", "l2": "L2", "l1": "L1", "sm": "SM", ISSUE: "issue slots"}
_LINE_WORDS = {"instructions": "instructions", "local": "local loads and stores", "samples": "samples"}
_NOTHING = {
    "rest": "the rest is not explained by anything that was collected",
    "moved": "what moved does not explain it",
    "less-busy": "no unit has more to do, each is busy for less of the time",
    "more-busy": "no unit has less to do, each is busy for more of the time",
    "same-counts": "nothing that was counted changed",
    "no-counts": "the two sides share no counters that show why",
}
_ACCESSES = {"global-load-sectors-per-request": "global load", "global-store-sectors-per-request": "global store"}


def cause_text(cause: ChangeCause, change: KernelChange) -> str:
    """Write a cause of a kernel's change, without a full stop."""
    if cause.mechanism == "nothing":
        return _NOTHING[cause.kind]
    if cause.location is not None:
        return _line(cause, change)
    if not cause.values:
        return cause.mechanism
    return _TEXTS.get(cause.mechanism, _counts)(cause)


def names_its_file(change: KernelChange) -> bool:
    """Return whether the sentence on a line names its file: the lines that changed are of several files."""
    return len({line.file for line in change.lines}) > 1


def lost_effect_text(change: KernelChange) -> tuple[str, str] | None:
    """Write that one side of a kernel stores nothing, and what to do about it; None if both store or neither does."""
    cause = next((cause for cause in change.causes if cause.mechanism == STORES), None)
    return _lost_effect(cause) if cause is not None else None


def _lost_effect(cause: ChangeCause) -> tuple[str, str]:
    return stores_text("new" if cause.values[0].new == 0 else "base")


def stores_text(side: SideName) -> tuple[str, str]:
    """Write that a side stores nothing, and what to do about it."""
    return f"the {side} side stores nothing to global memory", "check what it computes"


def _line(cause: ChangeCause, change: KernelChange) -> str:
    place = cause.location
    assert place is not None
    value = cause.values[0]
    gained = (value.new or 0.0) - (value.base or 0.0)
    name = place.file.replace("\\", "/").rsplit("/", 1)[-1]
    line = f"{short(name)}:{place.line}" if names_its_file(change) else f"line {place.line}"
    base = " of the base" if cause.kind == "base-line" else ""
    word = "gained" if gained > 0 else "lost"
    return f"{line}{base} {word} {value_text(abs(gained))} {_LINE_WORDS.get(value.name, value.name)}"


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
    text = f"grid {both_text(blocks.base, blocks.new)} blocks ({number} {ARROW} {format_waves(waves.new or 0.0)})"
    return ", ".join((text, *map(_count, achieved)))


def _resources(cause: ChangeCause) -> str:
    return ", ".join(_resource_texts(cause))


def _resource_texts(cause: ChangeCause) -> Iterator[str]:
    """Yield registers, shared memory, block size and occupancies. Beside the theoretical one, "achieved" is enough."""
    limits = f" (limited by {' and '.join(cause.limiters)})" if cause.limiters else ""
    names = [value.name for value in cause.values]
    for value in cause.values:
        if value.name == "block-threads":
            yield f"block {both_text(value.base, value.new)} threads"
        elif value.name == "occupancy":
            yield "theoretical occupancy unchanged" if value.same else f"{count_text(value)}{limits}"
        elif value.name == "achieved-occupancy":
            beside = "occupancy" in names
            before = "achieved" if beside else "occupancy" if value.same else "achieved occupancy"
            change = "unchanged" if value.same else both_text(value.base, value.new, value.unit)
            yield f"{before} {change}"
        else:
            yield count_text(value)


def _opcodes(cause: ChangeCause) -> str:
    if cause.kind == "fp64-divisions":
        mufu = cause.values[0]
        fewer = (mufu.new or 0.0) < (mufu.base or 0.0)
        return f"{'fewer' if fewer else 'more'} FP64 divisions or roots (MUFU {both_text(mufu.base, mufu.new)})"
    texts = []
    for value in cause.values:
        opcode = value.name.removeprefix("opcode.")
        meaning = f" ({MEANINGS[opcode]})" if opcode in MEANINGS else ""
        texts.append(f"{opcode}{meaning} {both_text(value.base, value.new)}")
    return ", ".join(texts)


def _tensor_cores(cause: ChangeCause) -> str:
    first, *others = cause.values
    if cause.kind == "other-type":
        before = " and ".join(_operations(value, value.base) for value in cause.values if value.base)
        after = " and ".join(_operations(value, value.new) for value in cause.values if value.new)
        return f"tensor cores: {before} {ARROW} {after}"
    if not cause.kind:
        return _counts(cause)
    now = cause.kind == "came-into-use"
    text = f"tensor cores {'now' if now else 'no longer'} used ({_operations(first, first.new if now else first.base)})"
    if others:
        text += f" for what {'ran' if now else 'runs now'} in {path_name(others[0].name.removeprefix('flop.'))}"
    return text


def _operations(value: ValueChange, amount: float | None) -> str:
    """Write work of the tensor cores: "INT8 1.08 TOP"."""
    return f"{path_name(value.name.removeprefix('flop.tensor.'))} {value_text(amount, value.unit)}"


def _coalescing(cause: ChangeCause) -> str:
    value = cause.values[0]
    if cause.kind == "passes":
        requests = cause.values[1]
        rose = "more" if (value.new or 0.0) > (value.base or 0.0) else "fewer"
        busy = format_si(requests.new or 0.0, "s")
        return f"{rose} L1 passes for the same loads and stores (LSU pipe busy {busy} on both sides)"
    return f"sectors per {_ACCESSES[value.name]} request {_rates(value)}"


def _unit_time(cause: ChangeCause) -> str:
    """Write how long a unit was busy: "DRAM busy 9.00 → 18.0 µs (90 % → 90 % of the time)"."""
    times, shares, *others = cause.values
    text = f"{_unit(times.name)} busy {both_text(times.base, times.new, 's')}"
    text += f" ({both_text(shares.base, shares.new, 'fraction')} of the time)"
    for value in others:
        if value.name == "dram-bytes":
            text += f", about {significant(value.ratio or 1.0, 2)}x the bytes"
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
    return f"a warp takes {significant(max(ratio, 1 / ratio), 2)}x {'more' if ratio > 1 else 'fewer'} cycles"


def _rates(value: ValueChange, digits: int = 3) -> str:
    return f"{significant(value.base or 0.0, digits)} {ARROW} {significant(value.new or 0.0, digits)}"


def _bound(cause: ChangeCause) -> str:
    value = cause.values[0]
    return (
        f"{format_percent(value.new or 0.0)} of the time was gained, and the bound of {value.name} is "
        f"{format_percent(value.base or 0.0)}: more than that finding was changed, or the bound is wrong"
    )


_TEXTS: Mapping[str, Callable[[ChangeCause], str]] = {
    STORES: lambda cause: ": ".join(_lost_effect(cause)),
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
